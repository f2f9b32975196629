"""Engines run lists of trials; this one, in processes on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from neophyte.core.spec import check_integer
from neophyte.running.trials import LOG_FILE, ROWS_FILE, Row, Trial, is_finished, load_rows, prepare
from neophyte.running.worker import PARENT_VARIABLE, THREADS_VARIABLE

POLL_SECONDS = 0.05
LOG_TAIL_BYTES = 65536
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")

# Threads of GNU OpenMP (torch's) wait for each other by spinning. Where another process wants the core that is 3 times
# slower than a short spin and then sleep (a training step, two threads and one busy core: 399 against 119 ms); on an
# idle machine the two are equal.
SPIN_COUNT = "10000"

EventKind = Literal["skipped", "started", "finished", "failed", "retried"]


@dataclass(frozen=True)
class TrialEvent:
    """What a progress display hears.

    Attributes:
        kind: "skipped" (was finished before), "started", "finished", "failed" or "retried" (was killed, waits again).
        trial: The trial that it happened to.
        done: How many trials have ended so far: skipped, finished or failed.
        total: How many trials there are, needs included.
        seconds: How long the attempt that ended took; 0 for "skipped" and "started".
    """

    kind: EventKind
    trial: Trial
    done: int
    total: int
    seconds: float


class TrialError(RuntimeError):
    """Some trials failed; the message gives each one's error and log, and the trials that could not run for it."""


def run_trials(
    trials: Iterable[Trial],
    root: str | Path,
    jobs: int = 1,
    threads: int = 1,
    progress: Callable[[TrialEvent], None] | None = None,
    retries: int = 2,
    devices: Sequence[str] = (),
) -> dict[str, list[Row]]:
    """Run the trials and all that they need, each in a process of its own, and return their rows.

    Finished trials are skipped, and so are needs of finished trials only. The processes end with this one, however
    it ends; run again to resume. Several drivers may share a root: none runs a trial while another does.

    Args:
        trials: The trials wanted.
        root: The folder that holds `trials/`; made when missing.
        jobs: How many trials run at once, at least 1.
        threads: How many threads each may use, at least 1; in its environment as NEOPHYTE_THREADS, OMP_NUM_THREADS
            and their like.
        progress: Called with each `TrialEvent`.
        retries: How often a trial is tried again whose process was killed by a signal; errors are not tried again.
        devices: GPUs; each running trial sees one of them alone (CUDA_VISIBLE_DEVICES): no more trials run at once.

    Returns:
        The rows of each of `trials` by its key.

    Raises:
        ValueError: A trial's folder holds a corrupt file or another trial; nothing was run.
        TrialError: Trials failed; all that do not need them have been run.
    """
    check_integer("jobs", jobs, 1)
    check_integer("threads", threads, 1)
    check_integer("retries", retries, 0)
    trials = list(trials)
    finished: dict[Trial, bool] = {}
    _expand(trials, root, finished)
    if devices:
        jobs = min(jobs, len(devices))
    run = _Run(finished, Path(root), jobs, threads, progress or (lambda event: None), retries, devices)
    run.to_the_end()
    if run.failures:
        raise TrialError(run.report())
    return {trial.key: load_rows(trial.folder(root)) for trial in trials}


def _expand(trials: Iterable[Trial], root: str | Path, found: dict[Trial, bool]) -> None:
    """Add the trials and what the unfinished ones need to `found`, needs first, each with whether it is finished."""
    for trial in trials:
        if trial not in found:
            finished = is_finished(trial, root)
            if not finished:
                _expand(trial.needs, root, found)
            found[trial] = finished


@dataclass
class _Worker:
    """A process that runs a trial."""

    trial: Trial
    process: subprocess.Popen[bytes]
    log: Path
    log_start: int
    started: float
    device: str | None

    def last_words(self) -> str:
        """Return the last line that this process wrote into the log, which is the error if there was one."""
        with open(self.log, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self.log_start, size - LOG_TAIL_BYTES))
            lines = file.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "ended without an error or rows")

    def kill(self) -> None:
        """End the process and what it started, at once: to be killed is what trials are made to survive."""
        if sys.platform == "win32":
            self.process.kill()
        else:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class _Run:
    """The state of one call of `run_trials`: each trial is waiting, with a worker, done or failed."""

    def __init__(
        self,
        finished: dict[Trial, bool],
        root: Path,
        jobs: int,
        threads: int,
        progress: Callable[[TrialEvent], None],
        retries: int,
        devices: Sequence[str],
    ) -> None:
        self.free_devices = list(devices)
        self.root, self.jobs, self.progress, self.retries = root, jobs, progress, retries
        self.environment = _environment(threads)
        self.total = len(finished)
        self.waiting = [trial for trial, is_done in finished.items() if not is_done]
        self.workers: list[_Worker] = []
        self.done: set[Trial] = set()
        self.failures: dict[Trial, str] = {}
        self.attempts: Counter[Trial] = Counter()
        for trial, is_done in finished.items():
            if is_done:
                self.done.add(trial)
                self.tell("skipped", trial)

    def tell(self, kind: EventKind, trial: Trial, seconds: float = 0.0) -> None:
        """Report an event."""
        self.progress(TrialEvent(kind, trial, len(self.done) + len(self.failures), self.total, seconds))

    def to_the_end(self) -> None:
        """Run all that can be run; on an error here, such as Ctrl-C, end the workers first."""
        try:
            self.start_ready()
            while self.workers:
                time.sleep(POLL_SECONDS)
                for worker in [worker for worker in self.workers if worker.process.poll() is not None]:
                    self.workers.remove(worker)
                    self.settle(worker)
                self.start_ready()
        finally:
            for worker in self.workers:
                worker.kill()

    def start_ready(self) -> None:
        """Start waiting trials that have what they need, as many as there is room for."""
        room = self.jobs - len(self.workers)
        if room > 0:
            ready = [trial for trial in self.waiting if self.done.issuperset(trial.needs)]
            for trial in ready[:room]:
                self.waiting.remove(trial)
                self.start(trial)

    def start(self, trial: Trial) -> None:
        """Start a worker for the trial."""
        prepare(trial, self.root)
        self.attempts[trial] += 1
        folder = trial.folder(self.root)
        # -P: its module path is this process's own, with nothing of the current folder in front.
        command = [sys.executable, "-P", "-m", "neophyte.running.worker", str(folder)]
        device = self.free_devices.pop(0) if self.free_devices else None
        visible = {} if device is None else {"CUDA_VISIBLE_DEVICES": device}
        with open(folder / LOG_FILE, "ab") as log:
            log_start = log.tell()
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**self.environment, **visible},
                start_new_session=True,  # Ctrl-C reaches the driver alone, which then ends the workers.
            )
            worker = _Worker(trial, process, folder / LOG_FILE, log_start, time.monotonic(), device)
        self.workers.append(worker)
        self.tell("started", trial)

    def settle(self, worker: _Worker) -> None:
        """Decide what the end of a worker means, by the rows it left rather than by how it ended."""
        trial, status = worker.trial, worker.process.returncode
        if worker.device is not None:
            self.free_devices.append(worker.device)
        seconds = time.monotonic() - worker.started
        if (trial.folder(self.root) / ROWS_FILE).exists():
            self.done.add(trial)
            self.tell("finished", trial, seconds)
        elif status < 0 and self.attempts[trial] <= self.retries:
            self.waiting.append(trial)
            self.tell("retried", trial, seconds)
        else:
            self.failures[trial] = self.reason(worker)
            self.tell("failed", trial, seconds)

    def reason(self, worker: _Worker) -> str:
        """Say why a worker ended without rows."""
        status = worker.process.returncode
        if status >= 0:
            return worker.last_words()
        return f"killed by signal {-status} ({signal.strsignal(-status)}), attempts: {self.attempts[worker.trial]}"

    def report(self) -> str:
        """Say which trials failed, why, and which could not be run for it."""
        lines = [f"{len(self.failures)} of {self.total} trials failed:"]
        for trial, reason in self.failures.items():
            lines.append(f"  {trial.name}: {reason} (log: {trial.folder(self.root) / LOG_FILE})")
        if self.waiting:
            lines.append(f"  not run, for they need these: {', '.join(trial.name for trial in self.waiting)}")
        return "\n".join(lines)


def _environment(threads: int) -> dict[str, str]:
    """Return the environment of a worker: this process's, with its module path and the number of threads."""
    return {
        "GOMP_SPINCOUNT": SPIN_COUNT,
        **os.environ,
        **dict.fromkeys(THREAD_VARIABLES, str(threads)),
        THREADS_VARIABLE: str(threads),
        PARENT_VARIABLE: str(os.getpid()),
        # "" stands for the current folder here, and for nothing in the variable.
        "PYTHONPATH": os.pathsep.join(os.path.abspath(folder) for folder in sys.path),
        "PYTHONUNBUFFERED": "1",  # The last lines of a worker that is killed are in its log.
    }
