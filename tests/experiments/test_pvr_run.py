"""Every pvr experiment at smoke scale, all in one folder."""

import csv
import importlib
import itertools
import json
import os

import matplotlib.image
import pytest

from neophyte.experiments.base import HOLDS, UNTESTED, run_experiment
from neophyte.experiments.registry import EXPERIMENTS
from neophyte.pvr.visual_spec import HELD_OUT
from neophyte.running.engines import run_trials
from neophyte.running.trials import check_rows, prepare

from .handmade import finish

ORDER = ("pvr-table1", "pvr-fig5", "pvr-fig6", "pvr-fig7", "pvr-fig8", "pvr-fig15", "pvr-fig9", "pvr-fig10",
         "pvr-fig11", "pvr-fig12", "pvr-fig13", "pvr-fig14", "pvr-fig16", "pvr-fig17", "pvr-fig18",
         "pvr-sweep")  # fmt: skip
each_experiment = pytest.mark.parametrize("name", ORDER)
# One trial of each function runs in a process of the engine, as all do for everybody. A process takes seconds to start,
# so the others are called here.
IN_PROCESSES = {
    "count-classifiers", "noise-mod_sum", "show-blocks", "resnet18-holdout-s0", "compare-logits", "mlp-m0-80-s1",
    "compare-learners-mlp",
}  # fmt: skip


def expanded(trials):
    """The trials and all that they need by key, each after its needs."""
    found = {}
    for trial in trials:
        found |= expanded(trial.needs)
        found[trial.key] = trial
    return found


class Session:
    """All experiments run once, and what was heard of it."""

    def __init__(self, out):
        self.out, self.events, self.reports = out, [], {}
        trials = expanded(trial for name in ORDER for trial in EXPERIMENTS[name].trials("smoke"))
        for trial in trials.values():
            if trial.name not in IN_PROCESSES:
                self.call(trial)
        # All at once, so that two processes have something to do most of the time.
        left = [trial for trial in trials.values() if trial.name in IN_PROCESSES]
        run_trials(left, out, jobs=2, progress=self.events.append)
        for name in ORDER:
            self.reports[name] = self.run(name)

    def call(self, trial):
        """Do here what a process would do."""
        prepare(trial, self.out)
        module, _, function = trial.function.partition(":")
        needs = {need.name: need.folder(self.out) for need in trial.needs}
        rows = getattr(importlib.import_module(module), function)(trial.folder(self.out), needs, **trial.params)
        finish(trial, self.out, check_rows(rows))

    def run(self, name):
        return run_experiment(EXPERIMENTS[name], "smoke", self.out, jobs=2, progress=self.events.append)

    def rows(self, name, **fields):
        return [row for row in self.reports[name].rows if all(row.get(key) == value for key, value in fields.items())]

    def contents(self):
        """The bytes of every file by path; of checkpoints, which are large, when they were written."""
        return {
            path: path.stat().st_mtime_ns if "checkpoints" in path.parts else path.read_bytes()
            for path in self.out.rglob("*") if path.is_file()
        }  # fmt: skip


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    folder, before = tmp_path_factory.mktemp("pvr"), os.getcwd()
    os.chdir(folder)
    try:
        yield Session(folder / "out")
        # Nothing but the experiments' own folder was written.
        assert [path.name for path in folder.iterdir()] == ["out"]
    finally:
        os.chdir(before)


def test_all_experiments_are_run():
    assert set(ORDER) == {name for name in EXPERIMENTS if name.startswith("pvr-")}


def test_shared_trials_ran_once(session):
    started = [event.trial.name for event in session.events if event.kind == "started"]
    assert sorted(started) == sorted(IN_PROCESSES)
    assert not [event for event in session.events if event.kind in ("failed", "retried")]
    wanted = {key for name in ORDER for key in expanded(EXPERIMENTS[name].trials("smoke"))}
    assert {folder.name for folder in (session.out / "trials").iterdir()} == wanted
    assert len(wanted) < sum(len(EXPERIMENTS[name].trials("smoke")) for name in ORDER)


@each_experiment
def test_table_claims_and_manifest_are_there(session, name):
    report, folder = session.reports[name], session.out / name
    with open(folder / "table.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == len(report.rows) > 0
    claims = json.loads((folder / "claims.json").read_text())
    assert claims == [{"text": c.text, "verdict": c.verdict, "detail": c.detail} for c in report.claims]
    assert claims
    assert len({claim["text"] for claim in claims}) == len(claims)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["experiment"], manifest["scale"]) == (name, "smoke")
    needed = expanded(EXPERIMENTS[name].trials("smoke"))
    assert manifest["trials"].keys() == needed.keys()
    for key, trial in needed.items():
        assert manifest["trials"][key]["params"] == trial.params
        if trial.name in IN_PROCESSES:
            assert manifest["trials"][key]["wall_seconds"] >= 0
            assert manifest["trials"][key]["environment"]["python"]
    assert manifest["drawn_with"]["python"]
    assert not report.failed
    assert all(file.exists() for file in report.files)


@each_experiment
def test_figures_are_pictures(session, name):
    figures = [file for file in session.reports[name].files if file.suffix == ".png"]
    if name == "pvr-table1":
        assert not figures
        return
    (figure,) = figures
    assert figure == session.out / name / f"{name}.png"
    pixels = matplotlib.image.imread(figure)
    assert min(pixels.shape[:2]) > 300
    assert pixels[..., :3].std() > 0.05


def test_smoke_proves_nothing_but_what_does_not_depend_on_the_scale(session):
    expected = {"pvr-table1": [HOLDS], "pvr-fig6": [HOLDS], "pvr-fig5": [HOLDS, HOLDS, HOLDS, HOLDS, UNTESTED, HOLDS]}
    for name, report in session.reports.items():
        verdicts = [claim.verdict for claim in report.claims]
        assert verdicts == expected.get(name, [UNTESTED] * len(verdicts)), name


def test_table1_has_the_published_counts(session):
    counts = {row["model"]: row["parameters"] for row in session.rows("pvr-table1")}
    assert counts == {"mlp": 1_445_194, "mlp-2x": 5_052_426, "transformer": 8_429_066, "mixer": 8_495_674}


def test_noise_has_every_aggregation_window_and_delta(session):
    rows = session.rows("pvr-fig5")
    assert len({row["delta"] for row in rows}) == 25
    keys = [(row["aggregation"], row["window"], row["delta"]) for row in rows]
    kinds = ("mod_sum", "median", "maj_vote", "min", "max")
    assert {key[:2] for key in keys} == set(itertools.product(kinds, (1, 2, 3)))
    assert len(set(keys)) == len(keys) == 5 * 3 * 25
    for row in rows:
        assert 0 < row["exact"] < 1
        assert 0 <= row["lowest_run"] <= row["sampled"] <= row["highest_run"] <= 1
        assert row["samples"] == 2_000


TOKENS = ("pvr-fig9", "pvr-fig10", "pvr-fig11", "pvr-fig16", "pvr-fig17", "pvr-sweep")


@pytest.mark.parametrize("name", TOKENS)
def test_every_run_has_its_scores_and_its_curve(session, name):
    for trial in EXPERIMENTS[name].trials("smoke"):
        task = trial.params["task"]
        scores = session.rows(name, trial=trial.name, kind="result")
        assert [row["set"] for row in scores] == ["train", "test"]
        curve = session.rows(name, trial=trial.name, kind="curve")
        assert len(curve) >= 2
        assert [row["step"] for row in curve] == sorted({row["step"] for row in curve})
        assert all({"train_accuracy", "test_accuracy", "loss_nats", "epoch"} <= row.keys() for row in curve)
        for row in (*scores, *curve):
            assert (row["model"], row["train_size"], row["seed"]) == (
                trial.params["model"], task["num_examples"], trial.params["seed"]
            )  # fmt: skip
            assert (row["neighbours"], row["aggregation"], row["pointer"], row["holdout"]) == (
                task["window"] - 1, task.get("aggregation", "mod_sum"), task.get("pointer", True), "none"
            )  # fmt: skip
            assert (row["optimizer"], row["batch_size"]) == tuple(
                trial.params["recipe"][field] for field in ("optimizer", "batch_size")
            )
        train, test = scores
        assert (train["examples"], test["examples"]) == (task["num_examples"], 200)
        for row in scores:
            assert row["low"] <= row["accuracy"] <= row["high"]
            assert 0.1 <= row["constant_accuracy"] < 0.5
        # How many test cases are in the training set: few enough here that most are new.
        cases = 10 ** task["window"] * (10 if task.get("pointer", True) else 1)
        assert 0 <= test["seen_cases"] <= min(1.0, 4 * task["num_examples"] / cases)
        assert test["constant_accuracy"] < test["memorisation"] <= 1


@pytest.mark.parametrize("name", ["pvr-fig14", "pvr-fig18"])
def test_holdout_runs_have_every_set(session, name):
    trials = [trial for trial in EXPERIMENTS[name].trials("smoke") if "task" in trial.params]
    assert trials
    for trial in trials:
        scores = {row["set"]: row for row in session.rows(name, trial=trial.name, kind="result")}
        permutations, count = trial.params["task"]["holdout"] == "permutations", trial.params["task"]["holdout_count"]
        assert {"train", "test", "held_out"} <= scores.keys()
        assert ("first" in scores) == permutations
        windows = [row for row in scores.values() if row["set"].startswith("window ")]
        assert len(windows) == count
        if permutations:
            assert {row["set"] for row in windows} == {"window 0 1", "window 1 0"} - (
                {"window 1 0"} if count == 1 else set()
            )
        assert sum(row["examples"] for row in windows) == scores["held_out"]["examples"] == 200
        # The flaw of the paper's test set: it has one label. The balanced one has all.
        assert scores["held_out"]["constant_accuracy"] == (1.0 if permutations else pytest.approx(0.1))
        assert scores["test"]["constant_accuracy"] < 0.12
        curve = session.rows(name, trial=trial.name, kind="curve")
        assert all({"train_accuracy", "test_accuracy", "held_out_accuracy"} <= row.keys() for row in curve)


def test_figure_14_has_every_number_of_held_out_windows(session):
    rows = session.rows("pvr-fig14", kind="result", set="held_out")
    assert {(row["holdout"], row["holdout_count"]) for row in rows} == {
        ("permutations", 1), ("permutations", 2), ("balanced", 10)
    }  # fmt: skip


@pytest.mark.parametrize(("name", "pairs"), [("pvr-fig13", 1), ("pvr-fig18", 1)])
def test_every_pair_of_learners_is_compared(session, name, pairs):
    rows = session.rows(name, kind="cka")
    assert len(rows) == pairs
    for row in rows:
        assert 0 <= row["cka"] <= 1
        assert {row["one"], row["other"]} < {
            trial.name for trial in expanded(EXPERIMENTS[name].trials("smoke")).values()
        }
        assert row["pair"].count("-") == 1
        assert row["examples"] == 40


def test_blocks_have_scores_and_curves_in_both_settings(session):
    found = [(row["setting"], row["set"]) for row in session.rows("pvr-fig7", kind="result")]
    assert sorted(found) == [("holdout", "test"), ("holdout", "train"), ("iid", "test"), ("iid", "train")]
    for row in session.rows("pvr-fig7", kind="result"):
        assert row["low"] <= row["accuracy"] <= row["high"]
        assert row["parameters"] == 11_181_642
    for setting in ("iid", "holdout"):
        curve = session.rows("pvr-fig7", kind="curve", setting=setting)
        assert len(curve) >= 2
        assert all({"train_accuracy", "test_accuracy", "epoch"} <= row.keys() for row in curve)


@pytest.mark.parametrize("name", ["pvr-fig8", "pvr-fig15"])
def test_logits_are_of_held_out_examples(session, name):
    logits = session.rows(name, kind="logit")
    keys = [(row["setting"], row["example"], row["class"]) for row in logits]
    assert sorted(keys) == sorted(itertools.product(("iid", "holdout"), range(6), range(10)))
    for row in logits:
        held = {one["class"] for one in logits if one["example"] == row["example"] and one["held_out"]}
        assert tuple(sorted(held)) in HELD_OUT
        assert row["label"] in held
    assert sorted(row["setting"] for row in session.rows(name, kind="rank")) == ["holdout", "iid"]


def test_figures_8_and_15_show_other_examples(session):
    one, other = ((session.out / name / f"{name}.png").read_bytes() for name in ("pvr-fig8", "pvr-fig15"))
    assert one != other


def test_the_contact_sheet_has_every_set(session):
    rows = session.rows("pvr-fig6")
    assert sorted((row["set"], row["example"]) for row in rows) == sorted(
        itertools.product(("iid", "holdout-train", "holdout-test"), range(8))
    )
    assert {row["split"] for row in rows if row["set"] == "holdout-test"} == {"test"}


# Below, tests that go on with the folder.


def test_another_run_skips_all_and_draws_the_same(session):
    before = session.contents()
    first = len(session.events)
    for name in ORDER:
        session.run(name)
    assert {event.kind for event in session.events[first:]} == {"skipped"}
    after = session.contents()
    assert after.keys() == before.keys()
    for path, data in after.items():
        if path.name == "manifest.json" and path.parent.parent == session.out:
            continue  # it says how long it took
        assert data == before[path], path


def test_another_scale_in_the_same_folder_is_refused(session):
    before = session.contents()
    with pytest.raises(ValueError, match="pvr-table1: holds the scale 'smoke'; allowed: 'smoke' again, or another"):
        run_experiment(EXPERIMENTS["pvr-table1"], "laptop", session.out)
    assert session.contents() == before


@pytest.mark.parametrize("name", ["pvr-fig6", "pvr-fig7", "pvr-fig8", "pvr-fig15"])
def test_a_missing_bank_is_said_before_anything_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"-ubyte: no such file; to fetch it, run: neophyte data fetch mnist"):
        run_experiment(EXPERIMENTS[name], "laptop", tmp_path / "out")
    assert not list(tmp_path.iterdir())
