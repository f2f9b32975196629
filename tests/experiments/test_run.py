"""Every experiment of gpicl, and the demo, at smoke scale, all in one folder."""

import csv
import json

import matplotlib.image
import pytest

from neophyte.cli import main
from neophyte.experiments.base import UNTESTED, run_experiment
from neophyte.experiments.metalang import DEMO_STEPS
from neophyte.experiments.metalang import EXPERIMENTS as METALANG
from neophyte.experiments.metalang.scales import demo_trial
from neophyte.experiments.registry import EXPERIMENTS

from .handmade import changed, evaluation, finish

# In this order, so that two processes have something to do most of the time.
ORDER = ("gpicl-fig5", "gpicl-fig4", "gpicl-fig3", "gpicl-fig12a", "demo", "gpicl-table1")
each_experiment = pytest.mark.parametrize("name", ORDER)


class Session:
    """All experiments run once, and what was heard of it."""

    def __init__(self, out):
        self.out, self.events, self.reports = out, [], {}
        for name in ORDER:
            self.reports[name] = self.run(name)

    def run(self, name):
        return run_experiment(EXPERIMENTS[name], "smoke", self.out, jobs=2, progress=self.events.append)

    def contents(self):
        return {path: path.read_bytes() for path in self.out.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    return Session(tmp_path_factory.mktemp("experiments"))


def test_all_experiments_are_run():
    # Those of the other worlds are run in test_pvr_run.py and test_mazeworld_sheets.py.
    assert set(ORDER) == {experiment.name for experiment in METALANG}


def test_shared_trials_ran_once(session):
    started = [event.trial.name for event in session.events if event.kind == "started"]
    assert sorted(started) == sorted(
        [
            "warm-up-laptop-3x64", "train-laptop-3x64", "train-laptop-2x32", "evaluate-laptop-3x64",
            "evaluate-laptop-2x32", "compare-models", "generate-vocabulary", "generate-arithmetic", "train-demo",
            "evaluate-demo", "count-language-models",
        ]
    )  # fmt: skip
    assert not [event for event in session.events if event.kind in ("failed", "retried")]
    for folder in (session.out / "trials").iterdir():
        assert len((folder / "lock").read_text().splitlines()) == 1, f"{folder.name} had more than one attempt"


@each_experiment
def test_table_claims_and_manifest_are_there(session, name):
    report, folder = session.reports[name], session.out / name
    with open(folder / "table.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == len(report.rows) > 0
    claims = json.loads((folder / "claims.json").read_text())
    assert claims == [{"text": c.text, "verdict": c.verdict, "detail": c.detail} for c in report.claims]
    assert claims
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["experiment"], manifest["scale"]) == (name, "smoke")
    wanted, needed = list(EXPERIMENTS[name].trials("smoke")), {}
    while wanted:
        trial = wanted.pop()
        needed[trial.key] = trial
        wanted += trial.needs
    assert manifest["trials"].keys() == needed.keys()
    assert all(manifest["trials"][key]["params"] == trial.call()["params"] for key, trial in needed.items())
    assert manifest["drawn_with"]["python"]
    assert all(trial["wall_seconds"] >= 0 for trial in manifest["trials"].values())
    assert not report.failed
    assert all(file.exists() for file in report.files)


@each_experiment
def test_figures_are_pictures(session, name):
    figures = [file for file in session.reports[name].files if file.suffix == ".png"]
    if name == "gpicl-table1":
        assert not figures
        return
    (figure,) = figures
    assert figure == session.out / name / f"{name}.png"
    pixels = matplotlib.image.imread(figure)
    assert min(pixels.shape[:2]) > 300
    assert pixels[..., :3].std() > 0.05


def test_curves_have_every_group_and_control(session):
    rows = [row for row in session.reports["gpicl-fig5"].rows if row["kind"] == "curve"]
    groups = {str(order) for order in range(2, 9)} | {"text"}
    assert {row["group"] for row in rows} == groups
    for group in groups:
        expected = {"laptop-2x32", "laptop-3x64", "uniform", "unigram", "ngram", "ngram_mixture", "induction"}
        if group != "text":
            expected |= {"oracle", "ngram_true_order"}
        assert {row["predictor"] for row in rows if row["group"] == group} == expected


def test_generation_has_every_draw(session):
    rows = session.reports["gpicl-fig4"].rows
    assert sorted((row["task"], row["context"], row["draw"]) for row in rows) == sorted(
        (task, context, draw)
        for task in ("arithmetic", "vocabulary")
        for context in ("full", "half")
        for draw in (0, 1)
    )
    for task in ("arithmetic", "vocabulary"):
        half, full = (
            next(row for row in rows if (row["task"], row["context"], row["draw"]) == (task, context, 0))
            for context in ("half", "full")
        )
        assert full["context_text"].startswith(half["context_text"])
        assert full["context_items"] == 2 * half["context_items"]
        assert len(full["generated_text"]) == 24


def test_table1_has_the_published_counts(session):
    rows = session.reports["gpicl-table1"].rows
    assert [row["parameters"] for row in rows] == [303_008, 9_484_832, 151_185_440]


def test_smoke_proves_nothing_but_the_counts(session):
    for name, report in session.reports.items():
        verdicts = {claim.verdict for claim in report.claims}
        assert verdicts == ({"holds"} if name == "gpicl-table1" else {UNTESTED})


def test_the_training_goes_on_from_the_warm_up(session):
    (warm,) = (session.out / "trials").glob("warm-up-laptop-3x64-*")
    (main,) = (session.out / "trials").glob("train-laptop-3x64-*")
    trial = json.loads((main / "trial.json").read_text())
    assert trial["needs"] == {"warm-up-laptop-3x64": warm.name}


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
    with pytest.raises(ValueError, match="gpicl-table1: holds the scale 'smoke'; allowed: 'smoke' again, or another"):
        run_experiment(EXPERIMENTS["gpicl-table1"], "laptop", session.out)
    assert session.contents() == before


def test_an_unknown_scale_is_refused(tmp_path):
    with pytest.raises(ValueError, match="scale is 'paper'; allowed: smoke, laptop"):
        run_experiment(EXPERIMENTS["demo"], "paper", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def run_demo(out, rows, capsys, *options):
    """`neophyte run demo --scale laptop` on rows that are there already."""
    finish(demo_trial(DEMO_STEPS["laptop"]), out, [{k: v for k, v in row.items() if k != "trial"} for row in rows])
    with pytest.raises(SystemExit) as end:
        main(["run", "demo", "--scale", "laptop", "--out", str(out), "--quiet", *options])
    return end.value.code, capsys.readouterr()


def test_the_demo_passes_where_the_model_learned(tmp_path, capsys):
    code, printed = run_demo(tmp_path, evaluation("model", (2,)), capsys)
    assert code == 0
    assert printed.out.count("holds") == 3
    assert "does not hold" not in printed.out
    assert (tmp_path / "demo" / "demo.png").exists()


def test_the_demo_fails_where_it_did_not(tmp_path, capsys):
    rows = changed(evaluation("model", (2,)), {"fall": 0.5}, kind="drop", group="2")
    code, printed = run_demo(tmp_path, rows, capsys)
    assert code == 1
    assert printed.out.count("does not hold") == 1
    assert printed.err == "neophyte: the run did not learn what it must\n"
    # The table and the picture are there all the same.
    assert (tmp_path / "demo" / "demo.png").exists()
    code, printed = run_demo(tmp_path, rows, capsys, "--json")
    assert code == 1
    verdicts = [claim["verdict"] for claim in json.loads(printed.out)["claims"]]
    assert verdicts == ["holds", "does not hold", "holds"]
