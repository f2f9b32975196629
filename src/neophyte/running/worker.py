"""The process that runs one trial: `python -m neophyte.running.worker FOLDER`.

It reads the call from the folder's trial.json, so any trial can also be run by hand, under a debugger or a profiler.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import platform
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from neophyte.core.files import environment, locked, read_json, write_json
from neophyte.running.trials import LOCK_FILE, MANIFEST_FILE, ROWS_FILE, TRIAL_FILE, check_rows

if sys.platform != "win32":
    import resource

PARENT_VARIABLE = "NEOPHYTE_PARENT"
THREADS_VARIABLE = "NEOPHYTE_THREADS"

PR_SET_PDEATHSIG = 1
POLL_SECONDS = 1.0


def run_trial(folder: Path) -> None:
    """Call the trial's function and write its manifest and its rows into `folder`.

    Waits while another process runs the same trial, and does nothing where that one finishes it.
    """
    with locked(folder / LOCK_FILE, wait=True) as lock:
        if (folder / ROWS_FILE).exists():
            return
        attempt = _count_attempt(lock)
        call = read_json(folder / TRIAL_FILE)
        needs = {name: folder.parent / key for name, key in call["needs"].items()}
        started, clock = _now(), time.monotonic()
        rows = check_rows(_imported(call["function"])(folder, needs, **call["params"]))
        costs = {"wall_seconds": time.monotonic() - clock, "cpu_seconds": sum(os.times()[:4])}
        manifest = {**call, **_circumstances(), **costs, "attempts": attempt, "started": started}
        write_json(folder / MANIFEST_FILE, manifest)
        write_json(folder / ROWS_FILE, rows)


def _count_attempt(lock: IO[str]) -> int:
    """Add a line about this attempt to the lock file and return how many there are, of all drivers."""
    lock.seek(0)
    attempt = len(lock.readlines()) + 1
    lock.write(f"{_now()} {platform.node()} {os.getpid()}\n")
    lock.flush()
    return attempt


def _imported(function: str) -> Callable[..., Any]:
    """Return the function that "package.module:function" names."""
    module, name = function.split(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def _circumstances() -> dict[str, Any]:
    """Return what the manifest says about the software, the machine and this process, now that the call has ended."""
    described = environment()
    return {
        "version": described["packages"].get("neophyte"),
        "environment": described,
        "threads": int(os.environ[THREADS_VARIABLE]) if THREADS_VARIABLE in os.environ else None,
        "peak_memory_mb": _peak_memory_mb(),
        "finished": _now(),
    }


def _peak_memory_mb() -> float | None:
    """Return the most memory that this process has held, in 10^6 bytes, or None where the system does not tell."""
    if sys.platform == "win32":
        return None
    if sys.platform == "linux":
        # Not getrusage: there the peak of the process that started this one counts too.
        status = Path("/proc/self/status").read_text().splitlines()
        peaks = [int(line.split()[1]) * 1024 / 1e6 for line in status if line.startswith("VmHWM:")]
        return peaks[0] if peaks else None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def _now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def die_with_parent() -> None:
    """Make this process end when the driver that started it does, however that ends; by hand there is no driver."""
    # Taken out of the environment: a process that the trial starts has another parent.
    parent = os.environ.pop(PARENT_VARIABLE, None)
    if parent is None or sys.platform == "win32":  # Windows does not tell when a parent has died.
        return
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_end_without, args=(int(parent),), daemon=True).start()
    # The driver may have died before this process asked to be told.
    if os.getppid() != int(parent):
        os._exit(1)


def _end_without(parent: int) -> None:
    """Wait until the parent has died, then end this process at once."""
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os._exit(1)


def main() -> None:
    """Run the trial whose folder is the one argument, and end with status 0, or 1 after printing a traceback."""
    die_with_parent()
    status = 0
    try:
        run_trial(Path(sys.argv[1]).absolute())
    except BaseException:  # noqa: BLE001 (SystemExit too: a function that leaves this way has returned no rows)
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # Libraries can hang or abort in their own clean-up at exit, long after the rows are safe on disk.
    os._exit(status)


if __name__ == "__main__":
    main()
