"""What single pvr trials do: the recipe, scores and curves, rows of windows, learners and logits compared."""

import itertools
import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from neophyte import pvr
from neophyte.core.spec import to_mapping
from neophyte.evaluation.classification import Accuracy, measure
from neophyte.experiments.pvr import dynamics, image_trials, trials
from neophyte.experiments.pvr.scales import TOKEN_RECIPE, fig14_trials, token_trial
from neophyte.models.loading import load_model
from neophyte.models.presets import CLASSIFIERS
from neophyte.pvr import TokenSpec
from neophyte.pvr.dataset import TokenDataset
from neophyte.pvr.visual_spec import HELD_OUT, PRESETS

from .handmade import changed, finish

CPU = torch.device("cpu")
QUICK = {**TOKEN_RECIPE, "epochs": 6, "warmup_epochs": 1, "min_steps": 1, "batch_size": 16, "dtype": "float32",
         "device": "cpu"}  # fmt: skip
TINY = {**CLASSIFIERS["mlp"], "length": 11, "alphabet": 10, "num_classes": 10, "embedding_dim": 8, "widths": [32, 16]}


@pytest.mark.parametrize(
    ("size", "steps", "warmup"),
    [(64, 800, 10), (1024, 800, 10), (1025, 800, 20), (4096, 800, 40), (5000, 1000, 50), (1_000_000, 195_400, 9770)],
)
def test_the_recipe_becomes_steps(size, steps, warmup):
    spec = trials.make_spec(TOKEN_RECIPE, size, 3, 10)
    assert (spec.steps, spec.warmup_steps, spec.epoch_size, spec.seed) == (steps, warmup, size, 3)
    assert (spec.evaluate_every, spec.log_every) == (steps // 10, min(steps // 10, 100))
    rates = [spec.rate(step) for step in (0, warmup - 1, warmup, (warmup + steps) // 2, steps - 1)]
    half = (((warmup + steps) // 2) - warmup) / (steps - 1 - warmup)
    expected = [0.05 / warmup, 0.05, 0.05, 0.025 * (1 + math.cos(math.pi * half)), 0.0]
    np.testing.assert_allclose(rates, expected, atol=1e-12)


def test_a_recipe_is_left_as_it_was_and_what_is_given_goes_over_it():
    recipe = {**TOKEN_RECIPE, "steps": 7, "evaluate_every": 3}
    before = dict(recipe)
    spec = trials.make_spec(recipe, 5000, 0, 10)
    assert recipe == before
    assert (spec.steps, spec.evaluate_every) == (7, 3)


@pytest.mark.parametrize("epochs", [1, 3, 10])
def test_few_epochs_are_not_all_warm_up(epochs):
    # `neophyte train pvr --epochs 3`: the rate must reach its peak, and fall to the end.
    spec = trials.make_spec({**TOKEN_RECIPE, "epochs": epochs, "min_steps": 1}, 10_240, 0, 10)
    rates = [spec.rate(step) for step in range(spec.steps)]
    assert max(rates) == pytest.approx(0.05)
    assert rates[-1] == pytest.approx(0.0, abs=1e-9)


def test_evaluations_are_as_many_as_asked_for():
    for size, evaluations in ((100, 10), (100, 3), (5000, 20)):
        spec = trials.make_spec(TOKEN_RECIPE, size, 0, evaluations)
        assert evaluations <= spec.steps // spec.evaluate_every <= evaluations + 1
    assert trials.make_spec({**QUICK, "epochs": 1}, 16, 0, 10).evaluate_every == 1


def test_fit_returns_the_network_and_its_curve(tmp_path):
    source = pvr.tokens(num_examples=100, seed=1)
    sets = {"train": source, "test": pvr.tokens(num_examples=300, split="test")}
    spec = trials.make_spec(QUICK, 100, 1, 3)
    model, curve = trials.fit(tmp_path, TINY, spec, source, sets, 70)
    assert [row["step"] for row in curve] == [14, 28, 42]
    assert [row["epoch"] for row in curve] == [2.0, 4.0, 6.0]
    for row in curve:
        assert row.keys() == {"kind", "step", "epoch", "loss_nats", "train_accuracy", "test_accuracy"}
        assert row["kind"] == "curve"
    for name, one in sets.items():
        assert curve[-1][f"{name}_accuracy"] == measure(model, one, 70, device=CPU).accuracy
    again, same = trials.fit(tmp_path, TINY, spec, source, sets, 70)
    assert same == curve
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def test_a_set_smaller_than_asked_for_is_scored_whole(tmp_path):
    source = pvr.tokens(num_examples=30)
    model, curve = trials.fit(tmp_path, TINY, trials.make_spec(QUICK, 30, 0, 1), source, {"train": source}, 5000)
    assert curve[-1]["train_accuracy"] == measure(model, source, 30, device=CPU).accuracy


def test_a_score_becomes_a_row():
    row = trials.score_row("test", Accuracy(30, 40, 0.5, 0.6, 0.8), constant_accuracy=0.1)
    assert row == {"kind": "result", "set": "test", "accuracy": 0.75, "low": 0.6, "high": 0.8, "loss_nats": 0.5,
                   "examples": 40, "constant_accuracy": 0.1}  # fmt: skip


def call(trial, folder, **changes):
    """Train here, as a trial does in its process."""
    params = {**trial.params, **changes}
    return trials.train_token_classifier(folder, {}, **params)


def test_a_token_trial_scores_its_own_training_set_and_a_fresh_test_set(tmp_path):
    trial = token_trial("smoke", "mlp", 50, 3, window=2)
    rows = call(trial, tmp_path)
    model, _ = load_model(tmp_path / "run")
    spec = TokenSpec(window=2, num_examples=50)
    test = TokenDataset(TokenSpec(window=2, num_examples=200), "test", 0)
    sets = {"train": TokenDataset(spec, "train", 3), "test": test}
    for name, source in sets.items():
        (row,) = (row for row in rows if row.get("set") == name)
        score = measure(model, source, len(source), device=CPU)
        assert (row["accuracy"], row["low"], row["high"]) == (score.accuracy, score.low, score.high)
        assert row["examples"] == len(source)
    test_row = next(row for row in rows if row.get("set") == "test")
    assert test_row["seen_cases"] == pvr.overlap(sets["train"], test).cases / 200
    assert test_row["memorisation"] == pvr.memorisation(spec, 50)
    for row in rows:
        assert (row["parameters"], row["neighbours"], row["train_size"], row["seed"]) == (1_445_194, 1, 50, 3)
        assert (row["epochs"], row["dtype"]) == (
            3.0,
            "float32",
        )  # two epochs are four steps; at least six are asked for


def test_every_seed_has_its_own_training_set_and_the_same_test_set(tmp_path, monkeypatch):
    seen = []
    score = trials.measure

    def noted(model, source, *arguments, **options):
        seen.append((source.split, source.seed, source.spec.part))
        return score(model, source, *arguments, **options)

    monkeypatch.setattr(trials, "measure", noted)
    for seed in (0, 1):
        call(token_trial("smoke", "mlp", 20, seed, window=1), tmp_path / str(seed))
    assert set(seen) == {("train", 0, "all"), ("train", 1, "all"), ("test", 0, "all")}


@pytest.mark.parametrize("trial", fig14_trials("smoke"), ids=lambda trial: trial.name)
def test_rows_of_windows_add_up(tmp_path, trial):
    rows = call(trial, tmp_path, test_examples=300)
    task = trial.params["task"]
    spec = TokenSpec(**{**task, "part": "test", "num_examples": 300})
    source = TokenDataset(spec, "test", 0)
    windows = {"window " + " ".join(map(str, w)): w for w in pvr.held_out_windows(spec).tolist()}
    found = {row["set"]: row for row in rows if row["kind"] == "result"}
    assert {name for name in found if name.startswith("window ")} == windows.keys()
    whole = found["held_out"]
    assert sum(found[name]["examples"] for name in windows) == whole["examples"] == 300
    right = sum(found[name]["examples"] * found[name]["accuracy"] for name in windows)
    assert right == pytest.approx(300 * whole["accuracy"])
    # One by one, from the network itself.
    model, _ = load_model(tmp_path / "run")
    batch = source.batch(np.arange(300))
    with torch.inference_mode():
        correct = model(torch.from_numpy(batch.tokens)).argmax(dim=1).numpy() == batch.labels
    shown = source.variables(np.arange(300)).windows
    for name, window in windows.items():
        of_it = (shown == window).all(axis=1)
        assert found[name]["examples"] == of_it.sum() > 0
        assert found[name]["accuracy"] == pytest.approx(correct[of_it].mean())
    if task["holdout"] == "permutations":
        # The paper's own test set holds the first of them alone.
        assert found["first"]["constant_accuracy"] == found["held_out"]["constant_accuracy"] == 1.0
        assert found["first"]["examples"] == 300
    else:
        assert "first" not in found
    # Examples that are not held out are the test set of the training distribution.
    assert found["test"]["constant_accuracy"] < 0.12
    assert "memorisation" not in found["test"]


# Learners


def centred_cka(x, y):
    """Linear CKA by its definition."""
    x, y = (features - features.mean(axis=0) for features in (x, y))
    cross, own, other = (np.linalg.norm(a.T @ b) for a, b in ((y, x), (x, x), (y, y)))
    return cross**2 / (own * other)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two trained trials, finished: name -> (trial, folder, rows)."""
    root, found = tmp_path_factory.mktemp("learners"), {}
    for seed in (0, 1):
        trial = token_trial("smoke", "mlp", 40, seed, window=2)
        folder = trial.folder(root)
        folder.mkdir(parents=True)
        found[trial.name] = (trial, folder, call(trial, folder))
    return root, found


@pytest.mark.parametrize(("better", "finals", "kind"), [
    (0, (0.97, 0.2), "fast-slow"), (1, (0.97, 0.2), "fast-slow"), (1, (0.95, 0.93), "fast-fast"),
    (0, (0.7, 0.1), "between-slow"),
])  # fmt: skip
@pytest.mark.parametrize("examples", [40, 25])
def test_learners_are_compared_on_the_slower_ones_training_set(pair, better, finals, kind, examples):
    root, found = pair
    names = list(found)
    order = (names[better], names[1 - better])
    needs = {}
    for name, final in zip(order, finals, strict=True):
        trial, folder, rows = found[name]
        finish(trial, root, changed(rows, {"accuracy": final}, set="test"))
        needs[name] = folder
    # A worker gets its needs in the order of their names.
    (row,) = dynamics.compare_learners(root, dict(sorted(needs.items())), model="mlp", examples=examples)
    assert (row["one"], row["other"], row["pair"], row["examples"]) == (*order, kind, examples)
    assert (row["model"], row["data"]) == ("mlp", order[1])
    slower = found[order[1]][0].params
    source = TokenDataset(TokenSpec(**slower["task"]), "train", slower["seed"])
    tokens = torch.from_numpy(source.batch(np.arange(examples)).tokens)
    with torch.inference_mode():
        features = [load_model(found[name][1] / "run")[0].features(tokens).double().numpy() for name in order]
    assert row["cka"] == pytest.approx(centred_cka(*features), rel=1e-6)


def test_learners_are_judged_by_the_test_set_and_what_is_held_out():
    rows = [{"kind": "result", "set": "train", "accuracy": 0.1}, {"kind": "result", "set": "test", "accuracy": 0.8},
            {"kind": "curve", "step": 1}]  # fmt: skip
    assert dynamics.final_accuracy(rows) == 0.8
    # On held-out permutations a constant guess is always right, and elsewhere it is not.
    assert dynamics.final_accuracy([*rows, {"kind": "result", "set": "held_out", "accuracy": 1.0}]) == 0.8
    assert dynamics.final_accuracy([*rows, {"kind": "result", "set": "held_out", "accuracy": 0.3}]) == 0.3
    assert dynamics.final_accuracy([*rows, {"kind": "result", "set": "window 0 1", "accuracy": 0.0}]) == 0.8


# Logits


class Table(nn.Module):
    """Logits that were written down, one line for each example in their order."""

    def __init__(self, logits):
        super().__init__()
        self.logits = torch.from_numpy(logits)
        self.asked = 0

    def forward(self, images):
        assert not self.training
        assert images.shape[1:] == (24, 24, 1)
        self.asked += len(images)
        return self.logits[self.asked - len(images) : self.asked]


def compare(tmp_path, monkeypatch, tables, examples, shown=4):
    networks = {str(tmp_path / name / "run"): Table(logits) for name, logits in tables.items()}
    monkeypatch.setattr(image_trials, "load_model", lambda folder: (networks[str(folder)], {}))
    monkeypatch.setattr(image_trials, "pick_device", lambda: CPU)
    test = to_mapping(PRESETS["digits-holdout-test"].spec)
    needs = {name: tmp_path / name for name in tables}
    return image_trials.compare_logits(
        tmp_path, needs, settings={name: name for name in tables}, test=test, root="data", shown=shown,
        examples=examples,
    )  # fmt: skip


def test_logits_are_summed_up(tmp_path, monkeypatch):
    examples = 230  # more than two batches
    batch = pvr.images("digits-holdout-test").batch(np.arange(examples))
    held = [set(HELD_OUT[pointer]) for pointer in batch.pointers]
    random = np.random.default_rng(5)
    tables = {"iid": random.normal(size=(examples, 10)).astype(np.float32)}
    tables["holdout"] = random.normal(size=(examples, 10)).astype(np.float32)
    for i in range(0, examples, 3):  # of each third example exactly the held-out classes are the lowest
        tables["holdout"][i, list(held[i])] -= 10
    for i in range(1, examples, 3):  # of another third all but one of them
        tables["holdout"][i, sorted(held[i])[1:]] -= 10
        tables["holdout"][i, min(held[i])] += 10
    rows = compare(tmp_path, monkeypatch, tables, examples)
    for setting, logits in tables.items():
        (row,) = (row for row in rows if row["kind"] == "rank" and row["setting"] == setting)
        lowest = [set(np.argsort(line)[: len(h)]) == h for line, h in zip(logits, held, strict=True)]
        gaps = [np.mean([line[c] for c in h]) - np.mean([line[c] for c in range(10) if c not in h])
                for line, h in zip(logits.astype(float), held, strict=True)]  # fmt: skip
        assert row["lowest"] == pytest.approx(np.mean(lowest))
        assert row["gap"] == pytest.approx(np.mean(gaps), abs=1e-6)
        assert row["half_width"] == pytest.approx(1.96 * np.std(gaps, ddof=1) / math.sqrt(examples), rel=1e-5)
        assert row["accuracy"] == pytest.approx((logits.argmax(axis=1) == batch.labels).mean())
        assert row["examples"] == examples
    assert 1 / 3 <= rows[-1]["lowest"] < 0.4
    shown = [row for row in rows if row["kind"] == "logit"]
    assert [(row["setting"], row["example"], row["class"]) for row in shown] == [
        *itertools.product(tables, range(4), range(10))
    ]
    for row in shown:
        assert row["logit"] == pytest.approx(tables[row["setting"]][row["example"], row["class"]])
        assert row["held_out"] == (row["class"] in held[row["example"]])
        assert row["label"] == batch.labels[row["example"]]


def test_held_out_classes_that_are_the_lowest_are_the_lowest(tmp_path, monkeypatch):
    batch = pvr.images("digits-holdout-test").batch(np.arange(50))
    logits = np.zeros((50, 10), dtype=np.float32) + np.arange(10, dtype=np.float32) / 100
    for line, pointer in zip(logits, batch.pointers, strict=True):
        line[list(HELD_OUT[pointer])] -= 2
    rows = compare(tmp_path, monkeypatch, {"holdout": logits, "iid": -logits}, 50)
    rank = {row["setting"]: row for row in rows if row["kind"] == "rank"}
    assert (rank["holdout"]["lowest"], rank["iid"]["lowest"]) == (1.0, 0.0)
    assert (rank["holdout"]["accuracy"], rank["iid"]["accuracy"] > 0.2) == (0.0, True)
    assert rank["holdout"]["gap"] == pytest.approx(-rank["iid"]["gap"])
    assert -2.1 < rank["holdout"]["gap"] < -1.9


def test_rows_say_where_their_images_come_from(tmp_path):
    spec = PRESETS["digits-holdout-test"].spec
    rows = image_trials.show_examples(
        tmp_path, {}, tasks={"holdout-test": to_mapping(spec), "iid": to_mapping(PRESETS["digits-iid-train"].spec)},
        root="data", shown=5,
    )  # fmt: skip
    for name, preset in {"holdout-test": "digits-holdout-test", "iid": "digits-iid-train"}.items():
        found = [row for row in rows if row["set"] == name]
        batch = pvr.images(preset).batch(np.arange(5))
        assert [row["label"] for row in found] == batch.labels.tolist()
        assert [row["cell"] for row in found] == batch.pointers.tolist()
        assert [row["pointer_class"] for row in found] == batch.classes[:, 0].tolist()
        again = image_trials.dataset(json.loads(found[0]["spec"]), found[0]["split"], found[0]["root"])
        np.testing.assert_array_equal(again.batch(np.arange(5)).images, batch.images)
