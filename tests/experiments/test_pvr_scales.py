"""Lists of pvr trials: the paper's own sizes at paper scale, shared trainings, specs that are valid."""

import dataclasses
import itertools
import math

import pytest

from neophyte.core.spec import from_mapping
from neophyte.experiments.base import SCALES
from neophyte.experiments.pvr import scales
from neophyte.experiments.pvr.trials import make_spec
from neophyte.experiments.registry import EXPERIMENTS
from neophyte.models.presets import CLASSIFIERS
from neophyte.pvr import TokenSpec, VisualSpec
from neophyte.pvr.visual_spec import HELD_OUT, PRESETS
from neophyte.training.spec import TrainSpec

NAMES = [name for name in EXPERIMENTS if name.startswith("pvr-")]
# Of the token sweeps.
PAPER_SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)


def expanded(trials):
    """The trials and all that they need, by key."""
    found = {}
    for trial in trials:
        found[trial.key] = trial
        found |= expanded(trial.needs)
    return found


def all_trials(name, scale):
    return list(expanded(EXPERIMENTS[name].trials(scale)).values())


def trainings(name, scale):
    return [trial for trial in all_trials(name, scale) if "recipe" in trial.params]


def training(trial):
    """How a trial trains."""
    params = trial.params
    return make_spec(params["recipe"], params["task"]["num_examples"], params["seed"], params["evaluations"])


def table(name, scale, *fields):
    """(model, neighbours) and more fields -> the sorted training-set sizes, and how many seeds each has."""
    found = {}
    for trial in trainings(name, scale):
        spec = from_mapping(TokenSpec, trial.params["task"])
        key = (trial.params["model"], spec.window - 1, *(getattr(spec, field) for field in fields))
        found.setdefault(key, {}).setdefault(spec.num_examples, set()).add(trial.params["seed"])
    counts = {key: {len(seeds) for seeds in sizes.values()} for key, sizes in found.items()}
    return {key: (tuple(sorted(sizes)), *counts[key]) for key, sizes in found.items()}


def test_the_experiments_are_those_of_the_paper():
    figures = {f"pvr-fig{number}" for number in (5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18)}
    assert set(NAMES) == figures | {"pvr-table1", "pvr-sweep"}
    assert all(EXPERIMENTS[name].scales == SCALES for name in NAMES)


@pytest.mark.parametrize(("name", "scale"), list(itertools.product(NAMES, SCALES)))
def test_every_list_can_be_built_of_valid_specs(name, scale):
    trials = all_trials(name, scale)
    assert trials
    assert {trial.key for trial in all_trials(name, scale)} == {trial.key for trial in trials}
    for trial in trials:
        tasks = [trial.params.get("task"), trial.params.get("test"), *trial.params.get("tasks", {}).values()]
        for task in filter(None, tasks):
            spec = from_mapping(VisualSpec if "pointer_bank" in task else TokenSpec, task)
            # What is not said is as the spec has it: the trial is named by what it says.
            assert dataclasses.replace(spec) == spec
        if "recipe" in trial.params:
            spec = training(trial)
            assert spec.epoch_size == trial.params["task"]["num_examples"]
            assert 0 < spec.warmup_steps < spec.steps or spec.schedule == "constant"
            assert 1 <= spec.evaluate_every <= spec.steps
            assert trial.params["model"] in CLASSIFIERS
            assert trial.params["curve_examples"] <= trial.params.get("test_examples", 10_000)


@pytest.mark.parametrize("scale", SCALES)
def test_no_two_trials_are_taken_for_one(scale):
    # Tables and claims tell runs apart by their names.
    for name in NAMES:
        names = {}
        for trial in EXPERIMENTS[name].trials(scale):
            assert names.setdefault(trial.name, trial.key) == trial.key, trial.name
    trials = [trial for name in NAMES for trial in EXPERIMENTS[name].trials(scale)]
    for name in NAMES:  # none is listed twice
        keys = [trial.key for trial in EXPERIMENTS[name].trials(scale)]
        assert len(set(keys)) == len(keys)
    assert len({trial.key for trial in trials}) < len(trials)


def keys(name, scale):
    return {trial.key for trial in all_trials(name, scale)}


@pytest.mark.parametrize("scale", SCALES)
def test_figures_share_their_runs(scale):
    # Runs of the MLP with one recipe are run once.
    assert keys("pvr-fig9", scale) & keys("pvr-fig10", scale)
    assert keys("pvr-fig9", scale) & keys("pvr-fig11", scale)
    assert keys("pvr-fig9", scale) & keys("pvr-fig16", scale)
    assert keys("pvr-fig12", scale) < keys("pvr-fig13", scale)
    assert keys("pvr-fig8", scale) == keys("pvr-fig15", scale)
    assert keys("pvr-fig7", scale) & keys("pvr-fig8", scale)
    assert keys("pvr-fig10", scale) & keys("pvr-fig17", scale)


def test_at_paper_scale_they_share_all_that_they_can():
    mlp = {key for key in keys("pvr-fig10", "paper") if key.startswith("mlp-m")}
    assert mlp < keys("pvr-fig9", "paper")
    with_pointer = {key for key in keys("pvr-fig17", "paper") if "no-pointer" not in key}
    assert with_pointer < keys("pvr-fig10", "paper")
    assert {key for key in keys("pvr-fig16", "paper") if "mlp-m0" in key} < keys("pvr-fig9", "paper")


TOKENS = ("pvr-fig9", "pvr-fig10", "pvr-fig11", "pvr-fig12", "pvr-fig13", "pvr-fig14", "pvr-fig16", "pvr-fig17",
          "pvr-fig18")  # fmt: skip


@pytest.mark.parametrize("name", TOKENS)
def test_paper_scale_trains_tokens_as_the_paper_did(name):
    for trial in trainings(name, "paper"):
        spec, size = training(trial), trial.params["task"]["num_examples"]
        assert (spec.optimizer, spec.learning_rate, spec.momentum, spec.weight_decay) == ("sgd", 0.05, 0.9, 1e-5)
        assert (spec.batch_size, spec.schedule, spec.max_gradient_norm) == (1024, "cosine", 0.0)
        per_epoch = math.ceil(size / 1024)
        assert spec.steps == max(200 * per_epoch, 800)
        assert spec.warmup_steps == 10 * per_epoch
        assert spec.rate(spec.warmup_steps - 1) == pytest.approx(0.05)
        assert spec.rate(0) == pytest.approx(0.05 / spec.warmup_steps)
        assert spec.rate(spec.steps - 1) == pytest.approx(0.0, abs=1e-9)
        # The last batch of an epoch is what is left.
        assert spec.span(per_epoch - 1) == (1024 * (per_epoch - 1), size - 1024 * (per_epoch - 1))
        assert spec.span(per_epoch)[0] == size
        # At 1,024 examples the Mixer does not fit into memory.
        assert 0 < spec.micro_batch_size <= 256 if trial.params["model"] == "mixer" else not spec.micro_batch_size
        assert trial.params["test_examples"] == 100_000
        task = from_mapping(TokenSpec, trial.params["task"])
        assert (task.num_values, task.alphabet, task.window_end) == (10, 10, "cyclic")


def test_tiny_sets_are_seen_for_800_steps():
    spec = next(training(t) for t in trainings("pvr-fig9", "paper") if t.params["task"]["num_examples"] == 100)
    assert (spec.steps, spec.warmup_steps) == (800, 10)
    assert spec.span(799) == (79_900, 100)


def test_paper_scale_trains_on_images_as_the_paper_did():
    trials = trainings("pvr-fig7", "paper")
    runs = [(trial.params["model"], trial.params["setting"], trial.params["seed"]) for trial in trials]
    assert sorted(runs) == sorted(itertools.product(("resnet18", "vgg11-bn"), ("iid", "holdout"), range(3)))
    for trial in trials:
        spec = training(trial)
        assert (spec.optimizer, spec.learning_rate, spec.betas) == ("adam", 1e-4, (0.9, 0.999))
        assert {spec.rate(step) for step in (0, 1, spec.steps - 1)} == {1e-4}
        assert (spec.batch_size, spec.steps, spec.weight_decay, spec.max_gradient_norm) == (50, 12_000, 0.0, 0.0)
        task, test = (from_mapping(VisualSpec, trial.params[name]) for name in ("task", "test"))
        assert (task.rows, task.columns, task.cell, task.pointer_bank) == (2, 2, 40, "mnist")
        assert (task.bank_part, test.bank_part) == ("train", "test")
        assert (task.num_examples, test.num_examples) == (60_000, 10_000)
        held = HELD_OUT if trial.params["setting"] == "holdout" else ()
        assert (task.held_out, test.held_out) == (held, held)
        assert (task.part, test.part) == (("train", "test") if held else ("all", "all"))


def test_laptop_scale_trains_on_real_mnist():
    for trial in trainings("pvr-fig7", "laptop"):
        task = from_mapping(VisualSpec, trial.params["task"])
        assert (task.pointer_bank, task.value_banks, trial.params["model"]) == ("mnist", ("mnist",), "resnet18")
        assert task.num_examples < PRESETS["mnist-iid-train"].spec.num_examples


@pytest.mark.parametrize("scale", SCALES)
def test_logits_are_those_of_the_trained_networks_on_held_out_examples(scale):
    (trial,) = EXPERIMENTS["pvr-fig8"].trials(scale)
    needs = {need.name: need for need in trial.needs}
    assert {need.key for need in trial.needs} <= keys("pvr-fig7", scale)
    assert {setting: needs[name].params["setting"] for setting, name in trial.params["settings"].items()} == {
        "iid": "iid", "holdout": "holdout"
    }  # fmt: skip
    test = from_mapping(VisualSpec, trial.params["test"])
    assert (test.part, test.bank_part, test.held_out) == ("test", "test", HELD_OUT)
    assert trial.params["shown"] >= 6  # three in each figure


def test_figure_9_has_the_papers_sizes():
    assert table("pvr-fig9", "paper") == {("mlp", m): (PAPER_SIZES, 5) for m in range(4)}


def test_figure_10_has_four_architectures():
    models = ("mlp", "mlp-2x", "transformer", "mixer")
    assert table("pvr-fig10", "paper") == {(model, m): (PAPER_SIZES, 3) for m in range(4) for model in models}


def test_figure_11_goes_up_to_fifty_million():
    found = table("pvr-fig11", "paper")
    assert {model for model, _ in found} == {"mlp", "mixer"}
    for (_, m), (sizes, seeds) in found.items():
        assert max(sizes) == 5 * 10**7
        assert seeds == 3
        if 3 <= m <= 4:  # what the claims look at
            assert 5 * 10 ** (m + 3) in sizes
    assert 10**7 in found["mlp", 3][0]
    assert {m for model, m in found if model == "mixer"} >= {0, 1, 2, 3, 4, 5}


def test_figures_12_and_13_have_the_papers_learners():
    assert table("pvr-fig12", "paper") == {("mlp", 2): ((300_000,), 10), ("mixer", 5): ((5_000_000,), 10)}
    for trial in EXPERIMENTS["pvr-fig13"].trials("paper"):
        assert len(trial.needs) == 10
        assert len({need.params["model"] for need in trial.needs}) == 1
    assert len(EXPERIMENTS["pvr-fig13"].trials("paper")) == 2


def test_figure_14_holds_out_every_number_of_permutations():
    found = set()
    for trial in trainings("pvr-fig14", "paper"):
        spec = from_mapping(TokenSpec, trial.params["task"])
        assert spec.part == "train"
        found.add((spec.window - 1, spec.holdout, spec.holdout_count))
    assert found == {
        *((1, "permutations", i) for i in (1, 2)), *((2, "permutations", i) for i in range(1, 7)),
        (1, "balanced", 10), (2, "balanced", 10),
    }  # fmt: skip


def test_figure_16_has_every_aggregation():
    found = table("pvr-fig16", "paper", "aggregation")
    assert {key[1:] for key in found} == {
        (0, "mod_sum"), *itertools.product((1, 2, 3), ("mod_sum", "median", "maj_vote", "min", "max"))
    }  # fmt: skip
    # Every line has the same sizes, so that they can be compared.
    assert set(found.values()) == {(PAPER_SIZES, 3)}


@pytest.mark.parametrize("scale", SCALES)
def test_figures_16_and_17_compare_equal_sizes(scale):
    assert len({sizes for sizes, _ in table("pvr-fig16", scale, "aggregation").values()}) == 1
    found = table("pvr-fig17", scale, "pointer")
    for model, m, pointer in found:
        assert found[model, m, pointer] == found[model, m, not pointer]


def test_figure_17_is_the_mixers():
    assert {key[0] for key in table("pvr-fig17", "paper", "pointer")} == {"mixer"}
    for trial in trainings("pvr-fig17", "paper"):
        assert trial.params["task"].get("pointer", True) == ("no-pointer" not in trial.name)


def test_figure_18_holds_out_all_six_permutations():
    trials = trainings("pvr-fig18", "paper")
    assert len({trial.params["seed"] for trial in trials}) == len(trials) == 10
    for trial in trials:
        spec = from_mapping(TokenSpec, trial.params["task"])
        assert (spec.window, spec.num_examples, spec.part) == (3, 300_000, "train")
        assert (spec.holdout, spec.holdout_count) == ("permutations", 6)
    (comparison,) = (trial for trial in EXPERIMENTS["pvr-fig18"].trials("paper") if trial.needs)
    assert {need.key for need in comparison.needs} == {trial.key for trial in trials}


@pytest.mark.parametrize("scale", SCALES)
def test_figure_5_has_every_window(scale):
    trials = EXPERIMENTS["pvr-fig5"].trials(scale)
    assert {trial.params["aggregation"] for trial in trials} == {"mod_sum", "median", "maj_vote", "min", "max"}
    for trial in trials:
        if scale != "smoke":
            assert trial.params["windows"] == list(range(1, 11))
            assert (trial.params["samples"], trial.params["runs"]) == (10_000, 10)


def test_the_search_is_the_papers():
    trials = EXPERIMENTS["pvr-sweep"].trials("paper")
    recipes = [trial.params["recipe"] for trial in trials]
    assert {recipe["optimizer"] for recipe in recipes} == {"sgd", "adam", "adagrad", "lamb"}
    rates = {recipe["learning_rate"] for recipe in recipes}
    assert (min(rates), max(rates)) == (1e-3, 4e-1)
    assert {recipe["batch_size"] for recipe in recipes} == {128, 256, 512, 1024, 2048, 4096}
    found = {tuple(recipe[name] for name in ("optimizer", "learning_rate", "batch_size")) for recipe in recipes}
    assert len(found) == 4 * len(rates) * 6  # every combination
    assert ("sgd", 0.05, 1024) in found
    assert ("sgd", 0.05, 1024) in {
        tuple(trial.params["recipe"][name] for name in ("optimizer", "learning_rate", "batch_size"))
        for trial in EXPERIMENTS["pvr-sweep"].trials("laptop")
    }


def test_laptop_scale_has_what_the_issue_asks_for():
    fig9 = table("pvr-fig9", "laptop")
    for m in (0, 1):
        sizes, seeds = fig9["mlp", m]
        assert seeds == 3
        assert sizes[0] <= 300
    assert {1_000, 10_000, 30_000} <= set(fig9["mlp", 0][0])  # the anchors
    fig10 = table("pvr-fig10", "laptop")
    assert {model for model, _ in fig10} == {"mlp", "mlp-2x", "transformer-64", "mixer-64"}
    assert max(max(sizes) for sizes, _ in fig10.values()) <= 3_000
    assert {trial.params["task"]["window"] for trial in trainings("pvr-fig14", "laptop")} == {2}


@pytest.mark.parametrize("name", TOKENS)
def test_laptop_scale_uses_the_papers_recipe_for_fewer_epochs(name):
    for trial in trainings(name, "laptop"):
        spec, size = training(trial), trial.params["task"]["num_examples"]
        epochs = min(200, scales.LAPTOP_EXAMPLES // size)
        assert epochs > 2 * 10  # most of them after the warm-up
        assert spec.steps == max(800, epochs * math.ceil(size / 1024))
        paper = make_spec({**scales.TOKEN_RECIPE, "epochs": epochs}, size, spec.seed, trial.params["evaluations"])
        assert spec == paper
        # Two cores cannot train the wide ones: those of that scale have other names.
        assert trial.params["model"] not in ("transformer", "mixer")


@pytest.mark.parametrize("scale", SCALES)
def test_the_banks_that_trials_read_are_checked_and_fetched(scale, monkeypatch):
    loaded, fetched = set(), []
    monkeypatch.setattr(scales, "load_bank", lambda *address: loaded.add(address))
    monkeypatch.setattr(scales, "fetch_missing", lambda *call: fetched.append(call))
    bank = "digits" if scale == "smoke" else "mnist"
    for name in ("pvr-fig6", "pvr-fig7", "pvr-fig8", "pvr-fig15"):
        loaded.clear()
        experiment = EXPERIMENTS[name]
        experiment.check(experiment.trials(scale))
        assert loaded == {(bank, "data", part) for part in ("train", "test")}
        experiment.fetch(experiment.trials(scale))
    assert fetched == [({bank}, "data")] * 4
    for name in set(NAMES) - {"pvr-fig6", "pvr-fig7", "pvr-fig8", "pvr-fig15"}:
        experiment = EXPERIMENTS[name]
        experiment.check(experiment.trials(scale))
        experiment.fetch(experiment.trials(scale))
    assert len(fetched) == 4


def test_table_1_counts_four_networks():
    for scale in SCALES:
        (trial,) = EXPERIMENTS["pvr-table1"].trials(scale)
        assert trial.params["published"] == {
            "mlp": 1_445_194, "mlp-2x": 5_052_426, "transformer": 8_429_066, "mixer": 8_495_674
        }  # fmt: skip


def test_recipes_are_valid_as_they_are():
    for recipe in (scales.TOKEN_RECIPE, scales.IMAGE_RECIPE):
        known = {field.name for field in dataclasses.fields(TrainSpec)} | {"epochs", "warmup_epochs", "min_steps"}
        assert recipe.keys() <= known
