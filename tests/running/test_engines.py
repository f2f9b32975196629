"""The local engine: order, retries, failures, and what is left when something is killed."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import neophyte.core
from neophyte.running.engines import TrialError, run_trials
from neophyte.running.trials import Trial, load_rows, prepare
from neophyte.running.worker import PARENT_VARIABLE

HERE = Path(__file__).parent
SOURCES = Path(neophyte.core.__file__).parents[2]
DEADLINE_SECONDS = 60.0

# A driver of its own process: says each event, runs a trial that waits for a gate. Ctrl-C works in it even where the
# tests run in the background of a shell, which ignores it there.
DRIVER = """
import signal, sys
from neophyte.running.engines import run_trials
from neophyte.running.trials import Trial
signal.signal(signal.SIGINT, signal.default_int_handler)
root, function, params = sys.argv[1], sys.argv[2], eval(sys.argv[3])
trial = Trial("driven", function, params)
print(run_trials([trial], root, progress=lambda event: print(event.kind, flush=True))[trial.key])
"""


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Let the workers import trial_functions."""
    monkeypatch.syspath_prepend(str(HERE))


@pytest.fixture
def start_driver(tmp_path):
    """Start drivers on tmp_path, and end those that are left."""
    drivers = []

    def start(function, params):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCES), str(HERE)])}
        command = [sys.executable, "-c", DRIVER, str(tmp_path), function, repr(params)]
        drivers.append(subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.kill()
        driver.communicate()


def until(condition):
    """Wait until the condition gives something, and return that."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)
    return found


def calls(folder):
    """Return the ids of the processes that called the trial's function, in order."""
    path = folder / "calls.txt"
    return [int(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def is_gone(process):
    """Return whether no process of this id runs; a dead one that nobody has waited for does not."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    status = Path(f"/proc/{process}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return Path("/proc/self").exists()


def gated(tmp_path):
    """Return the gate file and the trial that the driver runs with it."""
    gate = tmp_path / "gate"
    return gate, Trial("driven", "trial_functions:wait_for", {"gate": str(gate)})


def test_runs_once_then_skips(tmp_path):
    trial, events = Trial("once", "trial_functions:count"), []
    for _ in range(2):
        assert run_trials([trial, trial], tmp_path, progress=events.append) == {trial.key: [{"calls": 1}]}
    assert [(event.kind, event.done, event.total) for event in events] == [
        ("started", 0, 1),
        ("finished", 1, 1),
        ("skipped", 1, 1),
    ]
    assert events[1].trial == trial
    assert events[1].seconds > 0


def test_manifest_says_what_ran(tmp_path):
    need = Trial("need", "trial_functions:count")
    trial = Trial("main", "trial_functions:add_needs", needs=(need,))
    run_trials([trial], tmp_path, threads=2)
    manifest = json.loads((trial.folder(tmp_path) / "manifest.json").read_text())
    assert manifest["function"] == trial.function
    assert manifest["params"] == {}
    assert manifest["needs"] == {"need": need.key}
    assert manifest["attempts"] == 1
    assert manifest["threads"] == 2
    assert manifest["environment"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert manifest["started"] <= manifest["finished"]
    assert manifest["finished"].endswith("+00:00")
    assert manifest["wall_seconds"] > 0
    assert manifest["cpu_seconds"] > 0
    assert 1 < manifest["peak_memory_mb"] < 1000
    assert "version" in manifest


def test_shared_needs_run_once_and_first(tmp_path):
    shared = Trial("shared", "trial_functions:count")
    left = Trial("left", "trial_functions:add_needs", needs=(shared,))
    right = Trial("right", "trial_functions:add_needs", needs=(Trial("shared", "trial_functions:count"),))
    top = Trial("top", "trial_functions:add_needs", needs=(left, right))
    events = []
    rows = run_trials([top, left], tmp_path, jobs=2, progress=events.append)
    assert rows == {
        top.key: [{"needs": "left right", "with_rows": 2}],
        left.key: [{"needs": "shared", "with_rows": 1}],
    }
    assert len(calls(shared.folder(tmp_path))) == 1
    finished = [event.trial.name for event in events if event.kind == "finished"]
    assert finished[0] == "shared"
    assert finished[-1] == "top"
    assert len(finished) == 4


def test_needs_of_finished_trials_are_not_run(tmp_path):
    need = Trial("need", "trial_functions:count")
    trial = Trial("main", "trial_functions:add_needs", needs=(need,))
    rows = run_trials([trial], tmp_path)
    need.folder(tmp_path).rename(tmp_path / "weights moved away")
    assert run_trials([trial], tmp_path) == rows
    assert not need.folder(tmp_path).exists()


def test_jobs_run_at_once(tmp_path):
    """Each of two trials waits for what the other writes when it starts."""
    names = ["a", "b"]
    params = [{"gate": str(tmp_path / "gate-a")}, {"gate": str(tmp_path / "gate-b")}]
    trials = [Trial(name, "trial_functions:wait_for", gate) for name, gate in zip(names, params, strict=True)]

    def open_gates_when_both_run(event):
        if event.kind == "started" and event.trial == trials[1]:
            until(lambda: all(calls(trial.folder(tmp_path)) for trial in trials))
            for gate in params:
                Path(gate["gate"]).touch()

    assert len(run_trials(trials, tmp_path, jobs=2, progress=open_gates_when_both_run)) == 2


def test_surroundings_of_a_worker(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trial = Trial("a", "trial_functions:surroundings")
    (row,) = run_trials([trial], "relative", threads=3)[trial.key]
    assert Path(row.pop("current")).samefile(tmp_path)
    assert len(row) == 5
    assert set(row.values()) == {"3"}
    assert (tmp_path / "relative" / "trials" / trial.key / "rows.json").exists()


def test_module_in_the_drivers_current_folder(tmp_path, start_driver):
    (tmp_path / "my_own_module.py").write_text("def f(folder, needs, x):\n    return [{'x': x}]\n")
    output, _ = start_driver("my_own_module:f", {"x": 7}).communicate(timeout=DEADLINE_SECONDS)
    assert "[{'x': 7}]" in output


def test_killed_worker_is_retried_in_its_folder(tmp_path):
    trial, events = Trial("a", "trial_functions:die", {"times": 2}), []
    assert run_trials([trial], tmp_path, progress=events.append) == {trial.key: [{"calls": 3}]}
    assert [event.kind for event in events] == ["started", "retried"] * 2 + ["started", "finished"]
    assert json.loads((trial.folder(tmp_path) / "manifest.json").read_text())["attempts"] == 3
    assert "about to die in call 1\nabout to die in call 2\n" in (trial.folder(tmp_path) / "log.txt").read_text()


def test_killed_worker_is_retried_so_often_only(tmp_path):
    trial = Trial("a", "trial_functions:die", {"times": 2})
    with pytest.raises(TrialError, match=r"a: killed by signal 9 .*attempts: 2 .*log\.txt"):
        run_trials([trial], tmp_path, retries=1)
    assert run_trials([trial], tmp_path, retries=0) == {trial.key: [{"calls": 3}]}


def test_worker_that_dies_after_its_rows_has_finished(tmp_path):
    trial = Trial("a", "trial_functions:rows_then_die")
    assert run_trials([trial], tmp_path, retries=0) == {trial.key: [{"x": 1}]}


def test_failures_are_reported_when_the_others_have_finished(tmp_path):
    bad = Trial("bad", "trial_functions:fail", {"message": "order is 9; allowed: 1 to 3"})
    gone = Trial("gone", "trial_functions:leave")
    missing = Trial("missing", "no_such_module:f")
    blocked = Trial("blocked", "trial_functions:add_needs", needs=(bad,))
    good = Trial("good", "trial_functions:echo", {"x": 1})
    events = []
    with pytest.raises(TrialError) as error:
        run_trials([bad, gone, missing, blocked, good], tmp_path, jobs=2, progress=events.append)
    report = str(error.value)
    assert report.startswith("3 of 5 trials failed:")
    log = bad.folder(tmp_path) / "log.txt"
    assert f"bad: ValueError: order is 9; allowed: 1 to 3 (log: {log})" in report
    assert "gone: ended without an error or rows" in report
    assert "missing: ModuleNotFoundError: No module named 'no_such_module'" in report
    assert "not run, for they need these: blocked" in report
    assert "Traceback" in log.read_text()
    assert len(calls(bad.folder(tmp_path))) == 1, "errors are not retried"
    assert load_rows(good.folder(tmp_path)) == [{"x": 1}]
    assert not blocked.folder(tmp_path).exists()
    assert [event.done for event in events if event.kind in ("failed", "finished")] == [1, 2, 3, 4]


def test_bad_rows_fail_the_trial(tmp_path):
    trial = Trial("a", "trial_functions:echo", {"x": [1]})
    with pytest.raises(TrialError, match="a: ValueError: x of a row is a list"):
        run_trials([trial], tmp_path)


def test_corrupt_or_foreign_folders_stop_the_run_before_it_starts(tmp_path):
    first, second = Trial("first", "trial_functions:count"), Trial("second", "trial_functions:count")
    path = second.folder(tmp_path) / "rows.json"
    run_trials([second], tmp_path)
    path.write_text("[")
    with pytest.raises(ValueError, match=r"rows\.json"):
        run_trials([first, second], tmp_path)
    assert path.read_text() == "["
    path.unlink()
    (path.parent / "trial.json").write_text('{"function": "other:f"}')
    with pytest.raises(ValueError, match="another trial"):
        run_trials([first, second], tmp_path)
    assert not first.folder(tmp_path).exists()


def test_running_trials_share_no_device(tmp_path):
    trials = [Trial(f"use-{number}", "trial_functions:use_device", {"number": number}) for number in range(5)]
    rows = [rows[0] for rows in run_trials(trials, tmp_path, jobs=4, devices=("3", "7")).values()]
    assert {row["device"] for row in rows} == {"3", "7"}
    for device in ("3", "7"):
        uses = sorted((row["start"], row["stop"]) for row in rows if row["device"] == device)
        assert all(earlier[1] <= later[0] for earlier, later in itertools.pairwise(uses))


@pytest.mark.parametrize("field", ["jobs", "threads", "retries"])
def test_bad_numbers_are_refused(tmp_path, field):
    with pytest.raises(ValueError, match=field):
        run_trials([], tmp_path, **{field: -1})


def test_killed_driver_leaves_no_worker_and_resumes(tmp_path, start_driver):
    gate, trial = gated(tmp_path)
    driver = start_driver(trial.function, trial.params)
    (worker,) = until(lambda: calls(trial.folder(tmp_path)))
    driver.kill()
    driver.wait()
    until(lambda: is_gone(worker))
    gate.touch()
    (row,) = run_trials([trial], tmp_path)[trial.key]
    assert row["calls"] == 2
    assert row["process"] != worker
    assert json.loads((trial.folder(tmp_path) / "manifest.json").read_text())["attempts"] == 2


def test_ctrl_c_ends_the_workers(tmp_path, start_driver):
    _, trial = gated(tmp_path)
    driver = start_driver(trial.function, trial.params)
    (worker,) = until(lambda: calls(trial.folder(tmp_path)))
    driver.send_signal(signal.SIGINT)
    assert driver.wait(timeout=DEADLINE_SECONDS) in (-signal.SIGINT, 130)
    assert is_gone(worker)
    assert not (trial.folder(tmp_path) / "rows.json").exists()


def test_worker_whose_driver_died_before_it_started_does_nothing(tmp_path):
    trial = Trial("a", "trial_functions:count")
    prepare(trial, tmp_path)
    command = [sys.executable, "-m", "neophyte.running.worker", str(trial.folder(tmp_path))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCES), str(HERE)])}
    orphaned = {**environment, PARENT_VARIABLE: str(os.getppid())}
    subprocess.run(command, env=orphaned, timeout=DEADLINE_SECONDS, check=False)
    assert not calls(trial.folder(tmp_path))
    subprocess.run(command, env=environment, timeout=DEADLINE_SECONDS, check=True)
    assert load_rows(trial.folder(tmp_path)) == [{"calls": 1}], "by hand, without a driver, it runs"


def test_second_driver_waits_and_takes_the_result(tmp_path, start_driver):
    gate, trial = gated(tmp_path)
    first = start_driver(trial.function, trial.params)
    (worker,) = until(lambda: calls(trial.folder(tmp_path)))
    second = start_driver(trial.function, trial.params)
    assert second.stdout.readline() == "started\n"
    time.sleep(0.5)  # Time for its worker to call the function too, if it wrongly did.
    gate.touch()
    for driver in (first, second):
        output, _ = driver.communicate(timeout=DEADLINE_SECONDS)
        assert f"'process': {worker}" in output
    assert calls(trial.folder(tmp_path)) == [worker]


def test_second_driver_takes_over_from_a_killed_one(tmp_path, start_driver):
    gate, trial = gated(tmp_path)
    first = start_driver(trial.function, trial.params)
    until(lambda: calls(trial.folder(tmp_path)))
    second = start_driver(trial.function, trial.params)
    assert second.stdout.readline() == "started\n"
    first.kill()
    until(lambda: len(calls(trial.folder(tmp_path))) == 2)
    gate.touch()
    output, _ = second.communicate(timeout=DEADLINE_SECONDS)
    assert "'calls': 2" in output
