"""Help costs nothing, and missing extras are named."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import neophyte
import neophyte.core

SOURCES = Path(neophyte.core.__file__).parents[2]
HEAVY = ("torch", "torchvision", "sklearn", "numba", "matplotlib", "scipy", "datasets", "pandas", "safetensors",
         "huggingface_hub", "neophyte.metalang", "neophyte.pvr", "neophyte.models", "neophyte.experiments",
         "neophyte.running")  # fmt: skip


def python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SOURCES), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "code",
    [
        "import neophyte",
        "import neophyte.cli, contextlib\nwith contextlib.suppress(SystemExit): neophyte.cli.main(['--help'])",
        "import neophyte.cli, contextlib\nwith contextlib.suppress(SystemExit): neophyte.cli.main(['--version'])",
        "import neophyte.cli, contextlib\nwith contextlib.suppress(SystemExit): neophyte.cli.main(['train', '--help'])",
    ],
)
def test_nothing_heavy_is_loaded(code):
    loaded = python(f"{code}\nimport sys\nprint('loaded:', *sys.modules)").rpartition("loaded: ")[2].split()
    assert "neophyte" in loaded
    assert [name for name in HEAVY if name in loaded] == []


def test_the_worlds_load_where_they_are_used():
    assert "True True" in python("import neophyte, sys; neophyte.metalang; print('numba' in sys.modules, True)")
    assert "False" in python("import neophyte.metalang, sys; print('torch' in sys.modules)")


def test_help_lists_the_commands(cli):
    result = cli("--help")
    assert result.code == 0
    for command in ("list", "sample", "generate", "verify", "certify", "train", "evaluate", "run", "bench", "data"):
        assert f" {command} " in result.out


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["sample", "metalang"], ["--vocab-size", "Number of tokens N", "--order", "--json"]),
        (["train", "metalang"], ["--learning-rate", "Peak rate.", "--model-args", "--entropy-band"]),
        (["sample", "pvr"], ["--window", "Window size w", "--holdout-count", "--twins", "--json"]),
        (["train", "pvr"], ["--learning-rate", "Peak rate.", "--model-args", "--epochs", "--hops"]),
        (["run"], ["--scale", "laptop"]),
    ],
)
def test_help_of_a_command_shows_its_fields(cli, command, words):
    result = cli(*command, "--help")
    assert result.code == 0
    for word in words:
        assert word in result.out


def test_what_needs_no_network_needs_no_torch():
    shown = python(
        "import sys; sys.modules['torch'] = None\n"
        "from neophyte.evaluation.language import official_score\n"
        "from neophyte.cli import main\n"
        "try: main(['list', '--json'])\n"
        "except SystemExit as end: print('status', end.code)"
    )
    assert '"gpicl-fig3"' in shown
    assert shown.endswith("status 0\n")


def test_version(cli):
    assert cli("--version").out.strip() == neophyte.__version__


@pytest.mark.parametrize(
    ("missing", "command", "extra"),
    [
        ("cyclopts", "list", "cli"),
        ("torch", "evaluate metalang x", "train"),
        ("safetensors", "evaluate metalang x", "train"),
        ("matplotlib", "run gpicl-fig12a", "plots"),
        ("datasets", "data fetch pg19", "text"),
        ("torch", "evaluate pvr x", "train"),
        ("torchvision", "train pvr --out r --preset digits-iid-train --model resnet18", "vision"),
        ("matplotlib", "sample pvr --preset digits-iid-train", "plots"),
        ("matplotlib", "run pvr-fig5", "plots"),
    ],
)
def test_a_missing_extra_is_named(missing, command, extra, tmp_path):
    code = (
        f"import sys, os; os.chdir({str(tmp_path)!r}); sys.modules[{missing!r}] = None\n"
        "from neophyte.cli import main\n"
        f"try: main({command.split()!r})\n"
        "except SystemExit as end: print('status', end.code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.endswith("status 2\n"), done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith(f"pip install 'neophyte[{extra}]'\n")
