"""Files that are whole or absent."""

import errno
import hashlib
import json
import os
import stat
import sys

import pytest

from neophyte.core.files import (
    atomic_write,
    environment,
    processor_name,
    read_json,
    sha256_file,
    write_json,
    write_text,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_written_file_is_whole_and_alone(tmp_path):
    path = tmp_path / "new" / "folder" / "file.bin"
    with atomic_write(path) as file:
        file.write(b"\x00\xff")
        file.flush()
        assert not path.exists()
    assert path.read_bytes() == b"\x00\xff"
    assert names(path.parent) == ["file.bin"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_others_may_read_a_written_file(tmp_path):
    write_text(tmp_path / "file", "text")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644


@pytest.mark.parametrize("error", [RuntimeError("bad"), KeyboardInterrupt(), OSError(errno.ENOSPC, "disk full")])
@pytest.mark.parametrize("old", [None, b"old"])
def test_an_error_leaves_the_old_file_and_no_other(tmp_path, error, old):
    path = tmp_path / "file"
    if old:
        path.write_bytes(old)

    def interrupted():
        with atomic_write(path) as file:
            file.write(b"half of the new")
            raise error

    with pytest.raises(type(error)):
        interrupted()
    assert names(tmp_path) == (["file"] if old else [])
    if old:
        assert path.read_bytes() == old


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_disk_that_is_full_at_the_end_leaves_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path / "file"
    write_text(path, "old")

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space left"):
        write_text(path, "new")
    assert names(tmp_path) == ["file"]
    assert path.read_text() == "old"


def test_text_is_utf8_with_plain_newlines(tmp_path):
    write_text(tmp_path / "file", "Émile\n—\n")
    assert (tmp_path / "file").read_bytes() == "Émile\n—\n".encode()


def test_json_comes_back_and_its_bytes_do_not_depend_on_the_order_of_keys(tmp_path):
    write_json(tmp_path / "one", {"b": [1, 2.5, None], "a": "é"})
    write_json(tmp_path / "two", {"a": "é", "b": [1, 2.5, None]})
    assert read_json(tmp_path / "one") == {"a": "é", "b": [1, 2.5, None]}
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("content", [None, b"", b'{"a": ', b"\xff\xfe{}"])
def test_a_bad_json_file_is_named(tmp_path, content):
    path = tmp_path / "manifest.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"manifest\.json: (no such file|not a JSON file)"):
        read_json(path)


def test_hashes_are_those_of_all_bytes(tmp_path):
    content = bytes(range(256)) * 5000
    (tmp_path / "file").write_bytes(content)
    expected = hashlib.sha256(content).hexdigest()
    assert sha256_file(tmp_path / "file") == expected


def test_the_environment_says_what_and_where():
    found = json.loads(json.dumps(environment()))
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"numpy", "numba"} <= found["packages"].keys()
    assert found["cores"] == os.cpu_count()
    assert found["processor"] == processor_name() != ""
