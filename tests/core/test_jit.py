"""The compiled kernels' cache, and what importing them leaves untouched."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from neophyte.core import jit, kernels
from neophyte.metalang import kernels as language_kernels

SOURCES = jit.PACKAGE.parent

# Imports and draws in a process of its own, and tells which of its global settings changed meanwhile.
IMPORTER = """
import json, os, random, threading
import numba, numpy as np
from numba.core import config

def state():
    words = np.random.get_state()
    return {
        "numpy": [words[0], words[1].tolist(), words[2]], "random": repr(random.getstate()),
        "environment": dict(os.environ), "cache": config.CACHE_DIR,
        "threads": numba.get_num_threads(), "alive": threading.active_count(),
        "errors": np.geterr(), "folder": os.getcwd(),
    }

before = state()
from neophyte import metalang
metalang.corpus("tiny-train", seed=3).batch([0, 1])
after = state()
print(json.dumps([name for name in before if before[name] != after[name]]))
"""


def test_importing_and_drawing_change_no_global_state():
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    done = subprocess.run([sys.executable, "-c", IMPORTER], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the kernel sources in place of the package's own."""
    for source in [Path(jit.__file__), *jit.PACKAGE.glob("*/*kernels.py")]:
        copy = tmp_path / source.relative_to(jit.PACKAGE)
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(source, copy)
    monkeypatch.setattr(jit, "PACKAGE", tmp_path)
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "core" / "jit.py"))
    return tmp_path


def test_the_hash_is_of_the_sources_and_not_of_where_they_lie(package, monkeypatch):
    copied = jit.sources_hash()
    monkeypatch.undo()
    assert copied == jit.sources_hash()


@pytest.mark.parametrize(
    "name", ["core/jit.py", "core/kernels.py", "metalang/kernels.py", "metalang/control_kernels.py"]
)
def test_the_hash_sees_a_change_in_any_kernel_file(package, name):
    before = jit.sources_hash()
    with open(package / name, "a") as file:
        file.write("# changed\n")
    assert jit.sources_hash() != before


def test_the_hash_sees_another_numba(monkeypatch):
    before = jit.sources_hash()
    monkeypatch.setattr(numba, "__version__", "0.0.1")
    assert jit.sources_hash() != before


def test_the_cache_lies_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("NEOPHYTE_CACHE_DIR", str(tmp_path / "new"))
    folder = Path(jit.cache_folder())
    assert folder == tmp_path / "new" / f"kernels-{jit.sources_hash()}"
    assert folder.is_dir()


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="XDG folders")
def test_the_cache_lies_in_the_users_cache_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("NEOPHYTE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Path(jit.cache_folder()).parent == tmp_path / "neophyte"


def test_a_cache_folder_that_cannot_be_made_is_replaced_by_a_temporary_one(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("NEOPHYTE_CACHE_DIR", str(tmp_path / "file" / "folder"))
    monkeypatch.setattr(jit.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    folder = Path(jit.cache_folder())
    assert (tmp_path / "temporary") in folder.parents
    assert folder.is_dir()


def test_a_kernel_does_not_move_other_peoples_cache():
    before = numba.config.CACHE_DIR
    jit.kernel(lambda x: x)
    after = numba.config.CACHE_DIR
    assert after == before


def test_kernels_are_strict_and_release_the_lock():
    for function in (kernels.log64, kernels.exp32, language_kernels.generate):
        assert function.targetoptions["fastmath"] is False
        assert function.targetoptions["nogil"] is True
        assert not function.targetoptions.get("parallel", False)


def test_division_by_zero_follows_ieee():
    divide = jit.kernel(lambda x, y: x / y)
    assert divide(1.0, 0.0) == np.inf
