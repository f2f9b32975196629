"""Files that are whole or absent, and manifests that say what wrote them."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import IO, Any

if sys.platform != "win32":
    import fcntl


@contextmanager
def atomic_write(path: str | Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary sibling of `path` and move it into place when the block ends without an error.

    Args:
        path: The file to write; missing parent folders are made.
        mode: "wb" for bytes or "w" for UTF-8 text.

    Raises:
        OSError: The disk is full or the folder is not writable; `path` is then untouched.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        text = "b" not in mode
        with os.fdopen(descriptor, mode, encoding="utf-8" if text else None, newline="\n" if text else None) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            # A full disk does not say which file; NumPy does not even say that it is the disk.
            raise OSError(error.errno or errno.EIO, error.strerror or str(error), str(path)) from error
        raise


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 text file, whole or not at all."""
    with atomic_write(path, "w") as file:
        file.write(text)


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` as indented JSON with sorted keys, whole or not at all."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def read_json(path: str | Path) -> Any:
    """Read a JSON file.

    Raises:
        ValueError: The file is missing or is not JSON; the message names it.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a JSON file ({error}); remove it or restore it") from None


@contextmanager
def locked(path: str | Path, *, wait: bool) -> Iterator[IO[str]]:
    """Open a lock file, made if it is missing, and hold it; the system lets go when this process dies. Not on Windows.

    Args:
        path: The lock file, in a folder that exists.
        wait: Whether to wait while another process holds it.

    Raises:
        ValueError: Another process holds it, and `wait` is false.
    """
    path = Path(path)
    with open(path, "a+", encoding="utf-8") as file:
        if sys.platform != "win32":
            # Not flock: processes forked from this one would share that lock, and could keep it after a kill -9.
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except (BlockingIOError, PermissionError):
                raise ValueError(
                    f"{path.parent}: another process is at work in it; wait, or use another folder"
                ) from None
        yield file


def sha256_file(path: str | Path) -> str:
    """Return the hex sha256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def environment() -> dict[str, Any]:
    """Describe the software and hardware that a result was made on, for its manifest."""
    packages = {}
    for name in ("neophyte", "numpy", "numba", "torch"):
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "packages": packages,
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "gpus": _gpus(),
    }


def _gpus() -> list[str]:
    """Return the names of the GPUs, where a caller has loaded torch already; others do not use any."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return [cuda.get_device_name(i) for i in range(cuda.device_count())] if cuda and cuda.is_available() else []


def processor_name() -> str:
    """Return the processor's marketing name, or the architecture where the system does not tell."""
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found.group(1).strip() if found else (platform.processor() or platform.machine())
