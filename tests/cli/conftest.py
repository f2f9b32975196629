"""Run the command line in this process, in a folder of its own."""

from dataclasses import dataclass

import pytest
import torch

from neophyte.cli import main

torch.set_num_threads(1)


@dataclass
class Result:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(tmp_path, monkeypatch, capsys):
    """Return a function that runs `neophyte` with the arguments, in an empty current folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Result(end.value.code or 0, printed.out, printed.err)

    return run


def contents(folder):
    """The bytes of every file below the folder, by path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_refused(result, *words):
    """The command said one line that holds the words, nothing else, and ended with status 2."""
    assert result.code == 2, result
    assert result.out == ""
    assert result.err.startswith("neophyte: ")
    assert result.err.endswith("\n")
    assert result.err.count("\n") == 1, result.err
    for word in words:
        assert word in result.err, result.err
