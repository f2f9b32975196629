"""Data sets on disk: whole, resumable, verified."""

import errno
import json
import os

import numpy as np
import pytest

from neophyte.core import shards
from neophyte.core.files import read_json, sha256_file, write_json
from neophyte.core.shards import StoredArrays, read_manifest, verify_shards, write_shards

RECIPE = {"task": "test@1", "spec": {"size": 3, "band": [0.5, 1.0]}, "split": "train", "seed": 0}
COUNT, SHARD_SIZE = 25, 8


def draw(indices):
    return (indices[:, None] * 7 + np.arange(3)).astype(np.uint16)


class Draw:
    """`draw` that counts what it drew, and fails on the call `fail_on`."""

    def __init__(self, fail_on=None, error=KeyboardInterrupt):
        self.calls, self.fail_on, self.error = [], fail_on, error

    def __call__(self, indices):
        if len(self.calls) == self.fail_on:
            raise self.error
        self.calls.append(indices.tolist())
        return draw(indices)


def write(folder, draw=draw, recipe=RECIPE, count=COUNT, **changes):
    return write_shards(folder, recipe, draw, count, **{"shard_size": SHARD_SIZE, **changes})


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path):
    """A finished data set."""
    write(tmp_path / "data")
    return tmp_path / "data"


def test_shards_hold_the_samples_in_order(folder):
    names = ["manifest.json", *[f"shard-0000{number}.npy" for number in range(4)]]
    assert sorted(contents(folder)) == names
    rows = [np.load(folder / name) for name in names[1:]]
    assert [len(shard) for shard in rows] == [8, 8, 8, 1]
    np.testing.assert_array_equal(np.concatenate(rows), draw(np.arange(COUNT)))
    assert rows[0].dtype == np.uint16


def test_the_manifest_says_what_they_are(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["recipe"] == RECIPE
    assert (manifest["count"], manifest["shard_size"], manifest["complete"]) == (COUNT, SHARD_SIZE, True)
    assert manifest["shards"][3] == {
        "file": "shard-00003.npy",
        "rows": 1,
        "sha256": sha256_file(folder / "shard-00003.npy"),
    }
    assert read_manifest(folder) == manifest


@pytest.mark.parametrize(("rows", "compared"), [(16, 25), (2, 7), (1, 4), (0, 25)])
def test_a_good_data_set_is_verified(folder, rows, compared):
    steps = []
    assert verify_shards(folder, draw, rows=rows, progress=steps.append) == compared
    assert steps == [8, 8, 8, 1]
    assert verify_shards(folder) == 0


@pytest.mark.parametrize("fail_on", [0, 1, 3])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.EIO, "bad disk")])
def test_an_interrupted_run_goes_on_where_it_stopped(folder, tmp_path, fail_on, error):
    broken = tmp_path / "broken"
    with pytest.raises(error if isinstance(error, type) else type(error)):
        write(broken, Draw(fail_on, error))
    assert sorted(contents(broken)) == ["manifest.json", *[f"shard-0000{n}.npy" for n in range(fail_on)]]
    with pytest.raises(ValueError, match=rf"broken: is unfinished \({fail_on} shards\); run the same"):
        verify_shards(broken)
    with pytest.raises(ValueError, match="broken: is unfinished; run the same"):
        StoredArrays(broken)
    rest, steps = Draw(), []
    write(broken, rest, progress=steps.append)
    assert len(rest.calls) == 4 - fail_on
    assert steps == [8, 8, 8, 1]
    assert contents(broken) == contents(folder)


def test_samples_are_drawn_in_blocks_and_the_progress_shows_it(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "BLOCK", 3)
    blocks, steps = Draw(), []
    write(tmp_path / "blocks", blocks, progress=steps.append)
    assert steps == [3, 3, 2] * 3 + [1]
    assert len(blocks.calls) == len(steps)
    monkeypatch.undo()
    write(tmp_path / "whole", Draw())
    assert contents(tmp_path / "blocks") == contents(tmp_path / "whole")


def test_a_finished_run_draws_nothing_again(folder):
    before, again = contents(folder), Draw()
    write(folder, again)
    assert again.calls == []
    assert contents(folder) == before


def test_a_shard_that_the_manifest_does_not_know_yet_is_drawn_again(folder, tmp_path):
    # A kill between the shard and the manifest leaves such a file, which may be anything.
    broken = tmp_path / "broken"
    with pytest.raises(KeyboardInterrupt):
        write(broken, Draw(1))
    (broken / "shard-00001.npy").write_bytes(b"rest of a killed run")
    write(broken)
    assert contents(broken) == contents(folder)


@pytest.mark.parametrize("target", [(os, "fsync"), (np, "save")])
@pytest.mark.parametrize("call", [0, 1, 4])
def test_a_full_disk_leaves_whole_shards_alone(folder, tmp_path, monkeypatch, target, call):
    broken, calls, real = tmp_path / "broken", [], getattr(*target)

    def full(*arguments, **options):
        calls.append(arguments)
        if len(calls) == call + 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(*target, full)
        if target[1] == "save" and call == 4:
            write(broken)  # there are only four shards
        else:
            with pytest.raises(OSError, match="No space left"):
                write(broken)
    left = contents(broken) if broken.exists() else {}
    assert not [name for name in left if name.startswith(".") or "tmp" in name]
    assert all(left[name] == contents(folder)[name] for name in left if name != "manifest.json")
    write(broken)
    assert contents(broken) == contents(folder)


def test_a_folder_of_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("ten years of work")
    with pytest.raises(ValueError, match=r"holds files but no manifest\.json; allowed: an empty folder"):
        write(tmp_path)
    assert contents(tmp_path) == {"thesis.txt": b"ten years of work"}


def test_an_empty_folder_is_used(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    write(tmp_path / "empty")
    assert contents(tmp_path / "empty") == contents(folder)


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"recipe": {**RECIPE, "seed": 1}}, "recipe"), ({"count": 26}, "count"), ({"shard_size": 9}, "shard_size")],
)
def test_another_data_set_is_left_alone(folder, changes, name):
    before = contents(folder)
    with pytest.raises(ValueError, match=rf"data: holds another data set \({name} differs\)"):
        write(folder, **changes)
    assert contents(folder) == before


@pytest.mark.parametrize(("field", "value"), [("count", 0), ("count", -1), ("shard_size", 0), ("shard_size", 1.5)])
def test_bad_sizes_are_refused(tmp_path, field, value):
    with pytest.raises(ValueError, match=f"{field} is {value}"):
        write(tmp_path / "data", **{field: value})
    assert not (tmp_path / "data").exists()


def test_a_truncated_shard_is_named(folder):
    path = folder / "shard-00001.npy"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"shard-00001\.npy: its sha256 is not the manifest's"):
        verify_shards(folder)
    with pytest.raises(ValueError, match=r"shard-00001\.npy: cannot be read"):
        StoredArrays(folder)


def test_an_empty_shard_is_named(folder):
    (folder / "shard-00001.npy").write_bytes(b"")
    with pytest.raises(ValueError, match=r"shard-00001\.npy: cannot be read"):
        StoredArrays(folder)


@pytest.mark.parametrize("place", [0, 100, -1])
def test_a_changed_byte_is_found(folder, place):
    path = folder / "shard-00002.npy"
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"shard-00002\.npy: its sha256 is not the manifest's"):
        verify_shards(folder, draw)


def test_a_shard_of_another_data_set_is_found(folder):
    # With a manifest that vouches for it, only the recipe tells.
    np.save(folder / "shard-00001.npy", draw(np.arange(100, 108)))
    manifest = read_json(folder / "manifest.json")
    manifest["shards"][1]["sha256"] = sha256_file(folder / "shard-00001.npy")
    write_json(folder / "manifest.json", manifest)
    assert verify_shards(folder) == 0
    with pytest.raises(ValueError, match=r"shard-00001\.npy: differs from what its recipe draws"):
        verify_shards(folder, draw, rows=1)


def test_a_shard_with_other_rows_than_the_manifest_says_is_found(folder):
    np.save(folder / "shard-00001.npy", draw(np.arange(8, 15)))
    with pytest.raises(ValueError, match=r"shard-00001\.npy: has shape \(7, 3\), the manifest says 8 rows"):
        StoredArrays(folder)


def test_a_missing_shard_is_named(folder):
    (folder / "shard-00003.npy").unlink()
    for check in (verify_shards, StoredArrays):
        with pytest.raises(ValueError, match=r"shard-00003\.npy: is missing"):
            check(folder)


def test_an_extra_shard_is_named(folder):
    np.save(folder / "shard-00004.npy", draw(np.arange(3)))
    with pytest.raises(ValueError, match=r"shard-00004\.npy: is not in the manifest"):
        verify_shards(folder)


def test_a_shard_taken_out_of_folder_and_manifest_is_missed(folder):
    (folder / "shard-00003.npy").unlink()
    manifest = read_json(folder / "manifest.json")
    manifest["shards"].pop()
    write_json(folder / "manifest.json", manifest)
    with pytest.raises(ValueError, match=r"manifest\.json: lists 24 samples of 25"):
        verify_shards(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        ("{", "not a JSON file"),
        ("[]", "is not the manifest"),
        ('{"format": "x"}', "is not the manifest"),
    ],
)
def test_a_bad_manifest_is_named(folder, content, message):
    (folder / "manifest.json").unlink()
    if content is not None:
        (folder / "manifest.json").write_text(content)
    for check in (verify_shards, StoredArrays, read_manifest):
        with pytest.raises(ValueError, match=rf"manifest\.json: {message}"):
            check(folder)


def test_stored_arrays_are_the_samples(folder):
    stored = StoredArrays(folder)
    assert len(stored) == COUNT
    expected = draw(np.arange(COUNT))
    np.testing.assert_array_equal(np.stack([stored[index] for index in range(COUNT)]), expected)
    np.testing.assert_array_equal(stored[-1], expected[-1])
    np.testing.assert_array_equal(stored.batch([24, 0, 8, 7, 24]), expected[[24, 0, 8, 7, 24]])
    assert stored.batch(np.array([3])).dtype == np.uint16


@pytest.mark.parametrize("index", [COUNT, -COUNT - 1])
def test_stored_arrays_end(folder, index):
    with pytest.raises(IndexError, match=rf"index is {index}; allowed: \[0, 25\)"):
        StoredArrays(folder)[index]


def test_a_stored_sample_is_a_copy(folder):
    stored = StoredArrays(folder)
    stored[0][:] = 9
    np.testing.assert_array_equal(stored[0], draw(np.arange(1))[0])
