"""The sizes of the Pointer Value Retrieval experiments at each scale, and the trials that they share."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neophyte.core.spec import to_mapping
from neophyte.pvr.banks import load_bank
from neophyte.pvr.fetch import fetch_missing
from neophyte.pvr.visual_spec import PRESETS as VISUAL_PRESETS
from neophyte.running.trials import Trial

_PACKAGE = "neophyte.experiments.pvr"
_HERE = f"{_PACKAGE}.trials"

# Appendix A of the paper. Its 200 epochs, 10 of them warm-up, and 800 steps at least.
TOKEN_RECIPE: dict[str, Any] = {
    "optimizer": "sgd", "momentum": 0.9, "weight_decay": 1e-5, "learning_rate": 0.05, "schedule": "cosine",
    "final_rate": 0.0, "max_gradient_norm": 0.0, "batch_size": 1024, "dtype": "auto", "epochs": 200,
    "warmup_epochs": 10, "min_steps": 800,
}  # fmt: skip
IMAGE_RECIPE: dict[str, Any] = {
    "optimizer": "adam", "betas": [0.9, 0.999], "learning_rate": 1e-4, "schedule": "constant", "max_gradient_norm": 0.0,
    "batch_size": 50, "dtype": "auto", "epochs": 10, "warmup_epochs": 0, "min_steps": 1,
}  # fmt: skip
# A run at laptop scale sees each example 200 times as in the paper, but no more than so many in all.
LAPTOP_EXAMPLES = 6_000_000
_SMOKE: dict[str, Any] = {"epochs": 2, "warmup_epochs": 1, "min_steps": 6, "batch_size": 32, "dtype": "float32"}


@dataclass(frozen=True)
class Sweep:
    """Training runs over models, tasks and sizes.

    Attributes:
        sizes: Training-set sizes for each (model, neighbours m).
        seeds: Runs of each.
    """

    sizes: Mapping[tuple[str, int], Sequence[int]]
    seeds: int


def token_trial(
    scale: str,
    model: str,
    size: int,
    seed: int,
    *,
    evaluations: int = 10,
    changes: Mapping[str, Any] | None = None,
    **task: Any,
) -> Trial:
    """Return the trial that trains a model on `size` examples of a token task and scores it.

    Args:
        scale: The scale.
        model: A preset.
        size: Examples in the training set.
        seed: Seed of the training set and of the weights.
        evaluations: Points of the learning curve.
        changes: Fields of the recipe that are not the paper's choice.
        **task: Fields of `TokenSpec`.
    """
    recipe, examples = dict(TOKEN_RECIPE), 100_000
    if scale == "laptop":
        recipe["epochs"] = min(recipe["epochs"], LAPTOP_EXAMPLES // size)
    if model == "mixer" and scale == "paper":
        recipe["micro_batch_size"] = 256  # at 1,024 it needs 15 GB
    if scale == "smoke":
        recipe, examples, evaluations = {**recipe, **_SMOKE}, 200, 2
    recipe |= changes or {}
    params = {
        "model": model,
        "task": {**task, "num_examples": size},
        "seed": seed,
        "recipe": recipe,
        "evaluations": evaluations,
        "curve_examples": min(examples, 5000),
        "test_examples": examples,
    }
    said = [model, f"m{task.get('window', 1) - 1}"]
    said += [str(task[name]) for name in ("aggregation",) if task.get(name, "mod_sum") != "mod_sum"]
    said += ["no-pointer"] * (not task.get("pointer", True))
    if "holdout" in task:
        said.append(f"{task['holdout']}-{task['holdout_count']}")
    said += [f"{value:g}" if isinstance(value, float) else str(value) for value in (changes or {}).values()
             if not isinstance(value, list)]  # fmt: skip
    return Trial("-".join([*said, str(size), f"s{seed}"]), f"{_HERE}:train_token_classifier", params)


def sweep_trials(scale: str, sweep: Sweep, **task: Any) -> list[Trial]:
    """Return the trials of a sweep: seed by seed, so that a stopped run has whole curves."""
    return [
        token_trial(scale, model, size, seed, window=neighbours + 1, **task)
        for seed in range(sweep.seeds)
        for (model, neighbours), sizes in sweep.sizes.items()
        for size in sizes
    ]


_LOW = (100, 300, 1_000, 3_000, 10_000)
_THIN = (300, 1_000, 3_000)
_PAPER_SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
_ALL_SIZES = (*_PAPER_SIZES, 5_000_000, 10_000_000, 50_000_000)


def _with(size: int) -> tuple[int, ...]:
    """Return all sizes of the paper and this one, where it is no larger than they are."""
    return tuple(sorted({*_ALL_SIZES, min(size, _ALL_SIZES[-1])}))


FIG9 = {
    "smoke": Sweep({("mlp", 0): (40, 80), ("mlp", 1): (40,)}, seeds=2),
    "laptop": Sweep(
        {
            ("mlp", 0): (*_LOW, 30_000),
            ("mlp", 1): (*_LOW, 30_000, 100_000),
            ("mlp", 2): _LOW,
            ("mlp", 3): _LOW,
        },
        seeds=3,
    ),
    "paper": Sweep({("mlp", m): _PAPER_SIZES for m in range(4)}, seeds=5),
}
FIG10 = {
    "smoke": Sweep({(model, 0): (40,) for model in ("mlp", "mlp-2x", "transformer-64", "mixer-64")}, seeds=1),
    "laptop": Sweep({(model, m): _THIN if m == 0 else _THIN[-1:] for m in (0, 1)
                     for model in ("mlp", "mlp-2x", "transformer-64", "mixer-64")}, seeds=2),
    "paper": Sweep({(model, m): _PAPER_SIZES for m in range(4) for model in ("mlp", "mlp-2x", "transformer", "mixer")},
                   seeds=3),
}  # fmt: skip
FIG11 = {
    "smoke": Sweep({("mlp", 0): (40, 80), ("mixer-64", 0): (40,)}, seeds=1),
    "laptop": Sweep({("mlp", 0): (10_000, 30_000), ("mlp", 1): (30_000, 100_000), ("mixer-64", 0): _THIN,
                     ("mixer-64", 1): _THIN[-1:]}, seeds=3),
    "paper": Sweep({**{("mlp", m): _ALL_SIZES for m in range(5)},
                    **{("mixer", m): _with(5 * 10 ** (m + 3)) for m in range(6)}}, seeds=3),
}  # fmt: skip
FIG16 = {
    "smoke": Sweep({("mlp", m): (40,) for m in (1, 2)}, seeds=1),
    "laptop": Sweep({("mlp", m): (1_000, 10_000) for m in (1, 2)}, seeds=2),
    "paper": Sweep({("mlp", m): _PAPER_SIZES for m in (1, 2, 3)}, seeds=3),
}
FIG17 = {
    "smoke": Sweep({("mixer-64", 0): (40,), ("mixer-64", 1): (40,)}, seeds=1),
    "laptop": Sweep({("mixer-64", m): (100, *_THIN) for m in (0, 1)}, seeds=2),
    "paper": Sweep({("mixer", m): _PAPER_SIZES for m in range(4)}, seeds=3),
}


def fig9_trials(scale: str) -> list[Trial]:
    """Return the runs of Figure 9: the MLP by complexity and size."""
    return sweep_trials(scale, FIG9[scale])


def fig10_trials(scale: str) -> list[Trial]:
    """Return the runs of Figure 10: four architectures; at laptop scale the Transformer and the Mixer are thin."""
    return sweep_trials(scale, FIG10[scale])


def fig11_trials(scale: str) -> list[Trial]:
    """Return the runs of Figure 11: up to 5 * 10^7 examples at paper scale."""
    return sweep_trials(scale, FIG11[scale])


# Where some seeds generalise and some do not (paper: MLP 300k, m = 2; Mixer 5M, m = 5): (model, m, size, seeds).
LEARNERS: dict[str, tuple[tuple[str, int, int, int], ...]] = {
    "smoke": (("mlp", 0, 40, 2),),
    "laptop": (("mlp", 1, 50_000, 6),),
    "paper": (("mlp", 2, 300_000, 10), ("mixer", 5, 5_000_000, 10)),
}


def fig12_trials(scale: str) -> list[Trial]:
    """Return the runs of Figure 12, with more points to their learning curves."""
    return [
        token_trial(scale, model, size, seed, evaluations=40, window=m + 1)
        for model, m, size, seeds in LEARNERS[scale]
        for seed in range(seeds)
    ]


def fig13_trials(scale: str) -> list[Trial]:
    """Return the comparisons of Figure 13: the learners of each architecture of Figure 12."""
    runs = fig12_trials(scale)
    return [
        _comparison(scale, f"compare-learners-{model}", [run for run in runs if run.params["model"] == model])
        for model in dict.fromkeys(run.params["model"] for run in runs)
    ]


def _comparison(scale: str, name: str, runs: Sequence[Trial]) -> Trial:
    params = {"model": runs[0].params["model"], "examples": 40 if scale == "smoke" else 50_000}
    return Trial(name, f"{_PACKAGE}.dynamics:compare_learners", params, tuple(runs))


# (m, size, seeds, the numbers i of held-out permutations, windows of the balanced holdout).
HOLDOUTS: dict[str, tuple[tuple[int, int, int, tuple[int, ...], int], ...]] = {
    "smoke": ((1, 40, 1, (1, 2), 10),),
    "laptop": ((1, 100_000, 3, (1, 2), 10), (1, 200_000, 1, (1, 2), 10)),
    "paper": ((1, 300_000, 5, (1, 2), 10), (2, 1_000_000, 5, (1, 2, 3, 4, 5, 6), 10)),
}


def fig14_trials(scale: str) -> list[Trial]:
    """Return the runs of Figure 14: holdout-i for every i, and the balanced holdout."""
    return [
        token_trial(scale, "mlp", size, seed, window=m + 1, holdout=holdout, holdout_count=count, part="train")
        for m, size, seeds, counts, balanced in HOLDOUTS[scale]
        for seed in range(seeds)
        for holdout, count in [*(("permutations", count) for count in counts), ("balanced", balanced)]
    ]


def fig16_trials(scale: str) -> list[Trial]:
    """Return the runs of Figure 16; of one value all aggregations are the value, so that m = 0 is run once."""
    chosen = FIG16[scale]
    sizes = next(iter(chosen.sizes.values()))
    single = sweep_trials(scale, Sweep({("mlp", 0): sizes}, chosen.seeds))
    others = [sweep_trials(scale, chosen, aggregation=kind) for kind in ("median", "maj_vote", "min", "max")]
    return [*single, *sweep_trials(scale, chosen), *(trial for found in others for trial in found)]


def fig17_trials(scale: str) -> list[Trial]:
    """Return the runs of Figure 17: without a pointer, and with one."""
    return [*sweep_trials(scale, FIG17[scale], pointer=False), *sweep_trials(scale, FIG17[scale])]


# Figure 18: all permutations held out (m, size, seeds).
HOLDOUT_LEARNERS: dict[str, tuple[int, int, int]] = {
    "smoke": (1, 40, 2),
    "laptop": (1, 50_000, 6),
    "paper": (2, 300_000, 10),
}


def fig18_trials(scale: str) -> list[Trial]:
    """Return the runs of Figure 18 and their comparison."""
    m, size, seeds = HOLDOUT_LEARNERS[scale]
    count = {1: 2, 2: 6}[m]
    runs = [
        token_trial(scale, "mlp", size, seed, evaluations=40, window=m + 1, holdout="permutations", holdout_count=count,
                    part="train")
        for seed in range(seeds)
    ]  # fmt: skip
    return [*runs, _comparison(scale, "compare-holdout-learners", runs)]


def fig5_trials(scale: str) -> list[Trial]:
    """Return the trials of Figure 5, one for each aggregation."""
    samples, windows = (200, [1, 2, 3]) if scale == "smoke" else (10_000, list(range(1, 11)))
    sizes = {"windows": windows, "samples": samples, "runs": 10}
    return [
        Trial(f"noise-{kind}", f"{_PACKAGE}.noise:measure_noise", {"aggregation": kind, **sizes})
        for kind in ("mod_sum", "median", "maj_vote", "min", "max")
    ]


# Blocks of images: bank, networks, training examples, test examples, seeds.
BLOCKS: dict[str, tuple[str, tuple[str, ...], int, int, int]] = {
    "smoke": ("digits", ("resnet18",), 60, 50, 1),
    "laptop": ("mnist", ("resnet18",), 40_000, 5_000, 1),
    "paper": ("mnist", ("vgg11-bn", "resnet18"), 60_000, 10_000, 3),
}
DATA = "data"  # where `neophyte data fetch` puts image banks, below the current folder


def _block(scale: str, setting: str, part: str) -> dict[str, Any]:
    """Return the fields of a task's `VisualSpec` as JSON values."""
    bank, _, train, test, _ = BLOCKS[scale]
    spec = VISUAL_PRESETS[f"{bank}-{setting}-{part}"].spec
    return to_mapping(dataclasses.replace(spec, num_examples=train if part == "train" else test))


def block_trial(scale: str, model: str, setting: str, seed: int) -> Trial:
    """Return the trial that trains a network on blocks, "iid" or under "holdout"."""
    recipe, examples = {**IMAGE_RECIPE, "epochs": 4 if scale == "laptop" else 10}, 1_000
    if scale == "smoke":
        recipe, examples = {**recipe, "epochs": 1, "batch_size": 10, "dtype": "float32"}, 20
    params = {
        "model": model,
        "setting": setting,
        "task": _block(scale, setting, "train"),
        "test": _block(scale, setting, "test"),
        "root": DATA,
        "seed": seed,
        "recipe": recipe,
        "evaluations": {"smoke": 2, "laptop": 16, "paper": 20}[scale],
        "curve_examples": examples,
    }
    return Trial(f"{model}-{setting}-s{seed}", f"{_PACKAGE}.image_trials:train_image_classifier", params)


def fig7_trials(scale: str) -> list[Trial]:
    """Return the runs of Figure 7: each network on IID blocks and under holdout."""
    _, models, _, _, seeds = BLOCKS[scale]
    return [block_trial(scale, model, setting, seed) for seed in range(seeds) for model in models
            for setting in ("iid", "holdout")]  # fmt: skip


def logit_trials(scale: str) -> list[Trial]:
    """Return the comparison of Figures 8 and 15: the first ResNet18 of each setting of Figure 7."""
    needs = {setting: block_trial(scale, "resnet18", setting, 0) for setting in ("iid", "holdout")}
    params = {
        "settings": {setting: trial.name for setting, trial in needs.items()},
        "test": _block(scale, "holdout", "test"),
        "root": DATA,
        "shown": 6,
        "examples": 50 if scale == "smoke" else 1_000,
    }
    return [Trial("compare-logits", f"{_PACKAGE}.image_trials:compare_logits", params, tuple(needs.values()))]


def fig6_trials(scale: str) -> list[Trial]:
    """Return the trial of Figure 6: the first blocks of every set."""
    sets = {"iid": ("iid", "train"), "holdout-train": ("holdout", "train"), "holdout-test": ("holdout", "test")}
    params = {"tasks": {name: _block(scale, *found) for name, found in sets.items()}, "root": DATA, "shown": 8}
    return [Trial("show-blocks", f"{_PACKAGE}.image_trials:show_examples", params)]


def _banks(trials: Sequence[Trial]) -> Iterator[tuple[str, str, str]]:
    """Yield the image banks that the trials read: (name, root, part)."""
    for trial in trials:
        yield from _banks(trial.needs)
        for task in [trial.params.get("task"), trial.params.get("test"), *trial.params.get("tasks", {}).values()]:
            if task and "pointer_bank" in task:
                for bank in {task["pointer_bank"], *task["value_banks"]}:
                    yield bank, trial.params["root"], task["bank_part"]


def check_banks(trials: list[Trial]) -> None:
    """Load the image banks that the trials will ask for.

    Raises:
        ValueError: One is missing or damaged.
    """
    for bank, root, part in set(_banks(trials)):
        load_bank(bank, root, part)


def fetch_banks(trials: list[Trial]) -> None:
    """Download the image banks that the trials will ask for.

    Raises:
        ValueError: One cannot be had.
    """
    for root in {root for _, root, _ in _banks(trials)}:
        fetch_missing({bank for bank, where, _ in _banks(trials) if where == root}, root)


# The search of appendix A: (size, rates, batch sizes, seeds), for each optimiser.
_MOMENTS = {"betas": [0.9, 0.999]}  # of Adam and LAMB, as their authors have them
OPTIMIZERS = ("sgd", "adam", "adagrad", "lamb")
SEARCH: dict[str, tuple[int, tuple[float, ...], tuple[int, ...], int]] = {
    "smoke": (40, (0.01,), (16, 32), 1),
    "laptop": (3_000, (0.001, 0.01, 0.05, 0.4), (128, 1024), 1),
    "paper": (30_000, (0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4), (128, 256, 512, 1024, 2048, 4096), 3),
}


def sweep_of_recipes(scale: str) -> list[Trial]:
    """Return the runs of the search for optimiser, rate and batch size: the MLP on m = 0."""
    size, rates, batches, seeds = SEARCH[scale]
    return [
        token_trial(scale, "mlp", size, seed, window=1,
                    changes={"optimizer": optimizer, "learning_rate": rate, "batch_size": batch, **_MOMENTS})
        for optimizer in OPTIMIZERS for rate in rates for batch in batches for seed in range(seeds)
    ]  # fmt: skip


def table1_trials(scale: str) -> list[Trial]:
    """Return the trial that counts the parameters of Table 1."""
    published = {"mlp": 1_445_194, "mlp-2x": 5_052_426, "mixer": 8_495_674, "transformer": 8_429_066}
    return [Trial("count-classifiers", f"{_HERE}:count_table", {"published": published})]
