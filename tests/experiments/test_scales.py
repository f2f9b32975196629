"""Lists of gpicl trials: the paper's own sizes at paper scale, shared trainings, specs that are valid."""

import pytest

from neophyte.core.spec import from_mapping
from neophyte.experiments import metalang
from neophyte.experiments.base import SCALES as SCALE_NAMES
from neophyte.experiments.registry import EXPERIMENTS
from neophyte.metalang import CorpusSpec
from neophyte.models.presets import PRESETS
from neophyte.training.spec import TrainSpec

METALANG = {experiment.name: experiment for experiment in metalang.EXPERIMENTS}


def all_trials(name, scale):
    """The trials of an experiment and what they need, by name."""
    found = {}

    def add(trial):
        found[trial.name] = trial
        for need in trial.needs:
            add(need)

    for trial in EXPERIMENTS[name].trials(scale):
        add(trial)
    return found


def training_of(trial):
    return from_mapping(CorpusSpec, trial.params["corpus"]), from_mapping(TrainSpec, trial.params["settings"])


def test_the_experiments_are_those_of_the_paper_and_the_demo():
    assert set(METALANG) == {"demo", "gpicl-fig3", "gpicl-fig4", "gpicl-fig5", "gpicl-fig12a", "gpicl-table1"}
    assert {name: e.scales for name, e in METALANG.items() if e.scales != SCALE_NAMES} == {"demo": ("smoke", "laptop")}


@pytest.mark.parametrize(("name", "scale"), [(name, scale) for name, e in METALANG.items() for scale in e.scales])
def test_every_list_can_be_built(name, scale):
    trials = all_trials(name, scale)
    assert trials
    assert {trial.key for trial in all_trials(name, scale).values()} == {trial.key for trial in trials.values()}
    for trial in trials.values():
        if "settings" in trial.params:
            training_of(trial)
            assert trial.params["model"] in PRESETS


@pytest.mark.parametrize(("model", "batch_tokens"), [("tiny", 32_768), ("small", 32_768), ("standard", 65_536)])
def test_paper_scale_trains_as_the_paper_did(model, batch_tokens):
    trials = all_trials("gpicl-fig12a", "paper")
    corpus, spec = training_of(trials[f"train-{model}"])
    assert corpus == CorpusSpec(position_weights="published")
    assert (corpus.vocab_size, corpus.orders, corpus.context_length) == (32, (3, 4, 5, 6), 4096)
    assert spec.batch_size * corpus.context_length == batch_tokens
    assert spec.batch_size * spec.steps == corpus.num_sequences == 500_000
    assert (spec.schedule, spec.learning_rate, spec.warmup_steps, spec.max_gradient_norm) == ("noam", 1e-3, 1000, 1.0)
    needs = [need.name for need in trials[f"train-{model}"].needs]
    assert needs == (["warm-up-standard"] if model == "standard" else [])


def test_the_standard_model_warms_up_on_easy_languages():
    corpus, spec = training_of(all_trials("gpicl-fig3", "paper")["warm-up-standard"])
    assert corpus == CorpusSpec(position_weights="published", orders=(2, 3))
    assert spec.batch_size * spec.steps == 500_000


def test_paper_scale_evaluates_as_the_paper_did():
    trials = all_trials("gpicl-fig5", "paper")
    assert {name for name in trials if name.startswith("evaluate-")} == {
        "evaluate-tiny", "evaluate-small", "evaluate-standard"
    }  # fmt: skip
    for model in ("tiny", "small", "standard"):
        params = trials[f"evaluate-{model}"].params
        corpus = from_mapping(CorpusSpec, params["corpus"])
        assert (corpus.orders, corpus.context_length) == ((2, 3, 4, 5, 6, 7, 8), 4096)
        assert (corpus.order_sampling, corpus.position_weights) == ("balanced", "published")
        assert params["sequences"] == 4096
    assert [trial.name for trial in EXPERIMENTS["gpicl-fig3"].trials("paper")] == ["evaluate-standard"]


def test_paper_scale_generates_as_the_paper_did():
    trials = EXPERIMENTS["gpicl-fig4"].trials("paper")
    assert [trial.params["task"] for trial in trials] == ["vocabulary", "arithmetic"]
    for trial in trials:
        assert [need.name for need in trial.needs] == ["train-standard"]
        params = trial.params
        assert (params["num_items"], params["length"], params["temperature"]) == (400, 512, 0.3)


@pytest.mark.parametrize(("scale", "models"), [("smoke", 2), ("laptop", 3), ("paper", 3)])
def test_experiments_share_their_trainings(scale, models):
    keys = {}
    for name in ("gpicl-fig3", "gpicl-fig4", "gpicl-fig5", "gpicl-fig12a"):
        for trial in all_trials(name, scale).values():
            assert keys.setdefault(trial.name, trial.key) == trial.key
    assert len([name for name in keys if name.startswith("train-")]) == models


def test_laptop_sizes_are_labelled_as_such():
    # Two cores cannot train small and standard: the models of that scale have other names.
    trials = all_trials("gpicl-fig5", "laptop")
    assert {trial.params["model"] for trial in trials.values() if "model" in trial.params} == {
        "laptop-2x32", "laptop-3x64", "tiny"
    }  # fmt: skip
    for trial in (trial for trial in trials.values() if "corpus" in trial.params):
        assert trial.params["corpus"]["context_length"] == 512
        assert trial.params.get("sequences", 0) <= 256
