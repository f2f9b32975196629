"""The same bytes in another process, and on another processor."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from neophyte.core import jit

from . import draw_samples


@pytest.fixture(scope="module")
def here():
    return draw_samples.samples()


def draw_elsewhere(path, **changes):
    """Return the samples that another process draws, and the processor that it compiled for."""
    environment = {**os.environ, "PYTHONPATH": str(jit.PACKAGE.parent), **changes}
    subprocess.run([sys.executable, draw_samples.__file__, str(path)], env=environment, check=True, timeout=600)
    arrays = dict(np.load(path))
    return arrays, str(arrays.pop("processor"))


def assert_same_bytes(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.dtype == other[name].dtype
        assert array.tobytes() == other[name].tobytes(), f"{name} differs"


def test_another_process_draws_the_same_bytes(here, tmp_path):
    there, processor = draw_elsewhere(tmp_path / "samples.npz", PYTHONHASHSEED="12345")
    assert processor == draw_samples.processor()
    assert_same_bytes(here, there)


def test_the_plainest_processor_draws_the_same_bytes(here, tmp_path):
    # Compiles every kernel anew (up to a minute or two), without fused multiply-add and wide vectors.
    cache = tmp_path / "cache"
    there, processor = draw_elsewhere(
        tmp_path / "samples.npz", NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="", NEOPHYTE_CACHE_DIR=str(cache)
    )
    assert processor != draw_samples.processor()
    assert "generic" in processor
    assert "+avx" not in processor
    assert_same_bytes(here, there)
    # And the kernels were cached where the environment said.
    assert list(Path(cache).glob("kernels-*/**/*.nbc"))
