"""Numba's njit as every kernel here uses it: strict IEEE arithmetic, no GIL, and a cache that notices changes.

Numba's own cache looks at a function's own file only, and a kernel calls helpers in other files. Our cache folder is
therefore named by a hash of all kernel sources: a change in any of them starts a fresh folder.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import config

Function = TypeVar("Function", bound=Callable[..., Any])

_log = logging.getLogger("neophyte")

PACKAGE = Path(__file__).resolve().parent.parent


def sources_hash() -> str:
    """Return a short hash of the sources of all kernels and of the Numba version."""
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for path in sorted([Path(__file__), *PACKAGE.glob("*/*kernels.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def cache_folder() -> str:
    """Return the folder of the compiled kernels; NEOPHYTE_CACHE_DIR, if set, says where it lies."""
    if root := os.environ.get("NEOPHYTE_CACHE_DIR"):
        base = Path(root)
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", tempfile.gettempdir())) / "neophyte"
    elif sys.platform == "darwin":
        base = Path("~/Library/Caches/neophyte").expanduser()
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "neophyte"
    folder = base / f"kernels-{sources_hash()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return str(folder)
    except OSError:
        pass
    # A home that cannot be written, as on some clusters: compile once per boot instead.
    folder = Path(tempfile.gettempdir()) / f"neophyte-{os.getuid() if hasattr(os, 'getuid') else 'user'}" / folder.name
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if hasattr(os, "getuid") and folder.parent.stat().st_uid != os.getuid():
        return tempfile.mkdtemp(prefix="neophyte-")  # somebody else's: what lies there is code
    folder.mkdir(exist_ok=True)
    return str(folder)


_CACHE_FOLDER = cache_folder()


@contextmanager
def tell_of_compiling(*kernels: Any) -> Iterator[None]:
    """Log how long the block took if it compiled one of the kernels: once on a machine, later runs read the cache."""

    def compiled() -> int:
        return sum(sum(one.stats.cache_misses.values()) for one in kernels)

    before, begun = compiled(), time.perf_counter()
    yield
    if compiled() > before:
        seconds = time.perf_counter() - begun
        _log.warning("compiled %s in %.1f s; the next start reads them from %s",
                     ", ".join(one.__name__ for one in kernels), seconds, _CACHE_FOLDER)  # fmt: skip


def kernel(function: Function) -> Function:
    """Compile `function` on first call, without the GIL and without fast-math, and cache the machine code on disk."""
    return _compile(function)


def inlined(function: Function) -> Function:
    """The same for a small helper of a hot loop, which LLVM must inline: only then does it see what cannot alias."""
    return _compile(function, forceinline=True)


def _compile(function: Function, **options: Any) -> Function:
    # Read when the dispatcher is made; other users' functions keep their setting.
    before = config.CACHE_DIR  # type: ignore[attr-defined]
    config.CACHE_DIR = _CACHE_FOLDER  # type: ignore[attr-defined]
    try:
        return numba.njit(function, cache=True, nogil=True, fastmath=False, error_model="numpy", **options)
    finally:
        config.CACHE_DIR = before  # type: ignore[attr-defined]
