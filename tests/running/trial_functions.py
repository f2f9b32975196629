"""Trivial trial functions for the tests; workers import this module through the driver's module path."""

import os
import signal
import time
from pathlib import Path

DEADLINE_SECONDS = 120.0


def echo(folder, needs, **params):
    """Return the parameters as the one row."""
    return [params]


def count(folder, needs):
    """Return how often this was called in this folder."""
    return [{"calls": note_call(folder)}]


def note_call(folder):
    """Add a line with this process's id to calls.txt and return how many there are."""
    with open(folder / "calls.txt", "a") as file:
        file.write(f"{os.getpid()}\n")
    return len((folder / "calls.txt").read_text().splitlines())


def add_needs(folder, needs):
    """Return the names of the needs and how many of them have rows."""
    return [
        {"needs": " ".join(sorted(needs)), "with_rows": sum((path / "rows.json").exists() for path in needs.values())}
    ]


def fail(folder, needs, message):
    """Raise a ValueError, having noted the call."""
    note_call(folder)
    raise ValueError(message)


def leave(folder, needs):
    """End the process as a library might, without rows."""
    os._exit(0)


def die(folder, needs, times):
    """Kill this process as the system might, in the first `times` calls."""
    calls = note_call(folder)
    if calls <= times:
        print(f"about to die in call {calls}")  # noqa: T201
        os.kill(os.getpid(), signal.SIGKILL)
    return [{"calls": calls}]


def rows_then_die(folder, needs):
    """Leave rows like another driver's worker would, then die."""
    (folder / "manifest.json").write_text((folder / "trial.json").read_text())
    (folder / "rows.json").write_text('[{"x": 1}]')
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for(folder, needs, gate):
    """Note the call, then wait until the file `gate` exists."""
    calls = note_call(folder)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not Path(gate).exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return [{"calls": calls, "process": os.getpid()}]


def use_device(folder, needs, number):
    """Return which device this process sees, and when it began and ended to use it."""
    start = time.monotonic()
    time.sleep(0.3)
    return [{"device": os.environ.get("CUDA_VISIBLE_DEVICES"), "start": start, "stop": time.monotonic()}]


def surroundings(folder, needs):
    """Return the variables that set thread counts, and the current folder."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "NEOPHYTE_THREADS")
    return [{**{name: os.environ[name] for name in names}, "current": os.getcwd()}]
