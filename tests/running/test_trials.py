"""Trials: keys, folders, rows and tables, without running anything."""

import dataclasses
import json
import math

import numpy as np
import pytest

from neophyte.core.files import write_json
from neophyte.running.trials import Trial, check_rows, collect, is_finished, load_rows, prepare, write_table


def finish(trial, root, rows):
    """Make the trial's folder look finished."""
    prepare(trial, root)
    write_json(trial.folder(root) / "manifest.json", trial.call())
    write_json(trial.folder(root) / "rows.json", rows)
    return trial.folder(root)


def test_key_follows_function_params_and_needs():
    train = Trial("train", "package.module:train", {"size": 1})
    same = Trial("train", "package.module:train", {"size": 1})
    assert train == same
    assert train.key == same.key
    assert len({train, same}) == 1
    assert train.key.startswith("train-")
    others = [
        Trial("train", "package.module:other", {"size": 1}),
        Trial("train", "package.module:train", {"size": 2}),
        Trial("train", "package.module:train", {"size": 1.0}),
        Trial("train", "package.module:train", {"size": True}),
        Trial("train", "package.module:train", {"size": 1}, needs=(Trial("data", "package.module:data"),)),
        Trial("train", "package.module:train", {"size": 1}, needs=(Trial("data", "package.module:data", {"n": 2}),)),
    ]
    assert len({train.key, *(trial.key for trial in others)}) == 1 + len(others)
    assert len({train, *others}) == 1 + len(others)


def test_key_is_pinned():
    """A change of the key orphans the results of every user."""
    need = Trial("train", "package.module:train", {"sizes": (1, 2)})
    assert Trial("evaluate", "package.module:evaluate", {"b": 1, "a": math.inf}, (need,)).key == "evaluate-6553ddd90105"


def test_key_ignores_order():
    a, b = Trial("a", "m:f"), Trial("b", "m:f", {"x": 1})
    assert Trial("c", "m:f", {"x": 1, "y": 2}, (a, b)).key == Trial("c", "m:f", {"y": 2, "x": 1}, (b, a)).key


def test_trial_keeps_its_own_plain_params():
    params = {"sizes": (1, 2), "nested": {"rate": 0.1}}
    trial = Trial("train", "m:f", params)
    params["nested"]["rate"] = 0.2
    assert trial.params == {"sizes": [1, 2], "nested": {"rate": 0.1}}
    with pytest.raises(dataclasses.FrozenInstanceError):
        trial.name = "other"


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"name": ""}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": "../a"}, "name"),
        ({"function": "module.function"}, "function"),
        ({"function": "__main__:f"}, "function"),
        ({"params": {"array": np.zeros(2)}}, "params"),
        ({"needs": (Trial("a", "m:f"), Trial("a", "m:g"))}, "needs"),
    ],
)
def test_bad_trials_are_refused(fields, word):
    with pytest.raises(ValueError, match=word):
        Trial(**{"name": "good", "function": "module:function", **fields})


def test_rows_round_trip(tmp_path):
    trial = Trial("a", "m:f", {"nan": math.nan})
    rows = [{"x": 0.1, "n": 3, "name": "é", "good": True, "none": None}, {"y": 1}]
    assert not is_finished(trial, tmp_path)
    folder = finish(trial, tmp_path, rows)
    assert is_finished(trial, tmp_path)
    assert load_rows(folder) == rows


def test_rows_become_plain_values():
    rows = check_rows([{"a": np.float32(0.5), "b": np.int64(3), "c": np.bool_(True), "d": np.array(2.0)}])
    assert json.dumps(rows) == '[{"a": 0.5, "b": 3, "c": true, "d": 2.0}]'


@pytest.mark.parametrize("rows", [None, {}, [1], [{"x": [1]}], [{"x": np.zeros(2)}], [{1: 2}], [{"trial": "a"}]])
def test_bad_rows_are_refused(rows):
    with pytest.raises(ValueError, match="row"):
        check_rows(rows)


def test_unfinished_rows_say_so(tmp_path):
    with pytest.raises(ValueError, match=r"rows\.json.*not finished"):
        load_rows(tmp_path)


@pytest.mark.parametrize("content", ["", '[{"x": 1}', "{}", '[{"x": [1]}]', "\xff"])
def test_corrupt_rows_are_named_and_kept(tmp_path, content):
    trial = Trial("a", "m:f")
    path = finish(trial, tmp_path, []) / "rows.json"
    path.write_text(content, encoding="latin-1")
    for read in (
        lambda: load_rows(path.parent),
        lambda: is_finished(trial, tmp_path),
        lambda: collect(tmp_path, [trial]),
    ):
        with pytest.raises(ValueError, match=r"rows\.json.*remove it") as error:
            read()
        assert str(path) in str(error.value)
    assert path.read_text(encoding="latin-1") == content


@pytest.mark.parametrize("name", ["trial.json", "manifest.json"])
@pytest.mark.parametrize("change", [{"function": "m:other"}, {"params": {"x": 2}}, {"needs": {"b": "b-0"}}])
def test_foreign_folders_are_named_and_kept(tmp_path, name, change):
    trial = Trial("a", "m:f", {"x": 1})
    path = finish(trial, tmp_path, []) / name
    write_json(path, {**trial.call(), **change})
    before = path.read_bytes()
    with pytest.raises(ValueError, match="another trial") as error:
        is_finished(trial, tmp_path)
    assert str(path) in str(error.value)
    assert path.read_bytes() == before


def test_rows_without_a_manifest_are_not_trusted(tmp_path):
    trial = Trial("a", "m:f")
    (finish(trial, tmp_path, []) / "manifest.json").unlink()
    with pytest.raises(ValueError, match=r"manifest\.json: missing"):
        is_finished(trial, tmp_path)


def test_collect_labels_rows_in_order(tmp_path):
    a, b = Trial("a", "m:f"), Trial("b", "m:f")
    finish(a, tmp_path, [{"x": 1}, {"x": 2}])
    finish(b, tmp_path, [{"y": 3}])
    expected = [{"trial": "b", "y": 3}, {"trial": "a", "x": 1}, {"trial": "a", "x": 2}]
    assert collect(tmp_path, [b, a]) == expected
    with pytest.raises(ValueError, match="not finished"):
        collect(tmp_path, [a, Trial("c", "m:f")])


def test_table(tmp_path):
    path = tmp_path / "tables" / "t.csv"
    write_table(path, [{"b": 0.1 + 0.2, "a": "x,\ny"}, {"a": None, "c": True, "b": 1e300}, {"c": math.nan}])
    assert path.read_bytes() == b'b,a,c\n0.30000000000000004,"x,\ny",\n1e+300,,True\n,,nan\n'
    write_table(path, [])
    assert path.read_bytes() == b"\n"


def test_table_is_whole_or_untouched(tmp_path):
    path = tmp_path / "t.csv"
    write_table(path, [{"a": 1}])

    class Unprintable:
        def __str__(self):
            raise OSError("no")

    with pytest.raises(OSError, match="no"):
        write_table(path, [{"a": 2}, {"a": Unprintable()}])
    assert path.read_text() == "a\n1\n"
    assert list(tmp_path.iterdir()) == [path]
