"""Fast and slow learners: learning curves and how alike their representations are (Figures 12, 13 and 18)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

from neophyte.core.files import read_json
from neophyte.core.spec import from_mapping
from neophyte.evaluation.similarity import linear_cka
from neophyte.experiments.base import FAILS, HOLDS, UNTESTED, Claim, claim
from neophyte.experiments.pvr.accuracy import LABELS, values_of
from neophyte.plotting.figures import COLOURS, new_figure, save_figure, select
from neophyte.pvr import TokenDataset, TokenSpec
from neophyte.running.trials import TRIAL_FILE, Row, load_rows

# The criterion: a learner is fast if it generalises and slow if it does not, whatever its training accuracy.
FAST, SLOW = 0.9, 0.5
CRITERION = f"fast: at least {FAST:.0%} at the end, slow: at most {SLOW:.0%}"


def final_accuracy(rows: Sequence[Row]) -> float:
    """Return what a run is judged by: its test accuracy, or with held-out windows the lower of it and that on them.

    Not on held-out windows alone: permutations have one sum, so that a constant guess is right on all of them.
    """
    return min(row["accuracy"] for row in rows if row["kind"] == "result" and row["set"] in ("test", "held_out"))


def kind_of(accuracy: float) -> str:
    """Name a run by its final accuracy: "fast", "slow", or "between"."""
    return "fast" if accuracy >= FAST else "slow" if accuracy <= SLOW else "between"


def compare_learners(folder: Path, needs: dict[str, Path], *, model: str, examples: int) -> list[Row]:
    """Compare the last hidden layers of trained networks; a row ("cka") for each pair.

    All pairs are compared on the same data: the training set of the slowest learner (paper, section 6.1).
    """
    # Here, so that experiments can be listed and drawn without torch.
    from neophyte.evaluation.classification import feature_batches
    from neophyte.models.loading import load_model
    from neophyte.training.loop import pick_device

    finals = {name: final_accuracy(load_rows(trial)) for name, trial in needs.items()}
    slowest = min(finals, key=lambda name: finals[name])
    call = read_json(needs[slowest] / TRIAL_FILE)["params"]
    source = TokenDataset(from_mapping(TokenSpec, call["task"]), "train", call["seed"])
    count, device = min(examples, len(source)), pick_device()
    features = {name: feature_batches(load_model(trial / "run")[0].to(device), source, count, device=device)
                for name, trial in needs.items()}  # fmt: skip
    found: list[Row] = []
    for one, other in combinations(sorted(finals, key=lambda name: -finals[name]), 2):
        pair = f"{kind_of(finals[one])}-{kind_of(finals[other])}"
        similarity = linear_cka(zip(features[one](), features[other](), strict=True))
        found.append({"kind": "cka", "model": model, "one": one, "other": other, "pair": pair, "cka": similarity,
                      "data": slowest, "examples": count})  # fmt: skip
    return found


def _runs(rows: Sequence[Row]) -> dict[str, str]:
    """Return the kind of each run by its trial."""
    trials = values_of(select(rows, kind="result"), "trial")
    return {trial: kind_of(final_accuracy(select(rows, trial=trial))) for trial in trials}


STYLES: Mapping[str, tuple[str, str]] = {
    "fast": (COLOURS[0], "fast"), "slow": (COLOURS[1], "slow"), "between": ("#999999", "between"),
}  # fmt: skip


def draw_curves(rows: list[Row], path: Path, caption: str) -> None:
    """Draw training (dashed) and test (solid) accuracy of each run by epoch, a panel for each architecture."""
    models = values_of(rows, "model")
    figure, axes = new_figure(1, len(models), width=4.8, height=3.4, sharey=True)
    held_out = any("held_out_accuracy" in row for row in rows)
    field = "held_out_accuracy" if held_out else "test_accuracy"
    for panel, model in zip(axes[0], models, strict=True):
        shown = set()
        for trial, kind in _runs(select(rows, model=model)).items():
            curve = select(rows, kind="curve", trial=trial)
            colour, label = STYLES[kind]
            epochs = [row["epoch"] for row in curve]
            panel.plot(epochs, [row["train_accuracy"] for row in curve], color=colour, linestyle="--", linewidth=0.8)
            panel.plot(epochs, [row[field] for row in curve], color=colour, label=None if kind in shown else label)
            shown.add(kind)
        one = select(rows, kind="result", model=model)[0]
        panel.set(title=f"{LABELS.get(model, model)}, m = {one['neighbours']}, {one['train_size']:,} examples",
                  xlabel="epoch", ylabel="accuracy", ylim=(-0.03, 1.03))  # fmt: skip
        panel.legend()
    what, flaw = "test", ""
    if held_out:
        what, flaw = "held-out", "; on held-out permutations a constant guess is always right, so that both the test " \
                                 "accuracy and that on them count"  # fmt: skip
    kinds = list(_runs(rows).values())
    save_figure(figure, path, f"{caption}; {len(kinds)} runs, {kinds.count('between')} of them between; dashed: "
                f"training, solid: {what} accuracy; {CRITERION}{flaw}")  # fmt: skip


def _epochs_to_fit(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Return by kind of learner the epoch at which each run first has 90 % of its training set right, or its last."""
    found: dict[str, list[float]] = {}
    for trial, kind in _runs(rows).items():
        curve = select(rows, kind="curve", trial=trial)
        fitted = [row["epoch"] for row in curve if row["train_accuracy"] >= 0.9]
        found.setdefault(kind, []).append(fitted[0] if fitted else curve[-1]["epoch"])
    return found


def claims_curves(rows: list[Row], scale: str) -> list[Claim]:
    """Test section 6.1: runs that fail to generalise fit their training set later."""
    claims = []
    for model in values_of(rows, "model"):
        epochs = _epochs_to_fit(select(rows, model=model))
        detail = "; ".join(f"{kind}: {len(found)} runs, 90 % of the training set after {statistics.median(found):.0f} "
                           "epochs (median)" for kind, found in sorted(epochs.items()))  # fmt: skip
        both = "fast" in epochs and "slow" in epochs
        verdict = UNTESTED if not both else (
            HOLDS if statistics.median(epochs["fast"]) < statistics.median(epochs["slow"]) else FAILS
        )  # fmt: skip
        claims.append(claim(f"{LABELS.get(model, model)}: learners that generalise fit faster than those that do not",
                            scale, verdict, detail))  # fmt: skip
    return claims


PAIRS = ("fast-fast", "fast-slow", "slow-slow")


def draw_cka(rows: list[Row], path: Path, caption: str) -> None:
    """Draw the similarity of every pair of runs by the kinds of the two, a panel for each architecture."""
    models = values_of(select(rows, kind="cka"), "model")
    figure, axes = new_figure(1, len(models), width=5.0, height=3.4, sharey=True)
    for panel, model in zip(axes[0], models, strict=True):
        pairs = [pair for pair in PAIRS if select(rows, kind="cka", model=model, pair=pair)]
        for place, pair in enumerate(pairs):
            values = [row["cka"] for row in select(rows, kind="cka", model=model, pair=pair)]
            panel.plot([place] * len(values), values, "o", color=COLOURS[place], markersize=5, alpha=0.7)
            panel.plot([place - 0.2, place + 0.2], [statistics.median(values)] * 2, color=COLOURS[place])
        panel.set_xticks(range(len(pairs)), [pair.replace("-", " and ") for pair in pairs])
        panel.set(ylabel="linear CKA", ylim=(0, 1.03), title=f"{LABELS.get(model, model)}, last hidden layers")
        panel.set_xlim(-0.6, max(1, len(pairs)) - 0.4)
    found = select(rows, kind="cka")
    left_out = sum(row["pair"] not in PAIRS for row in found)
    save_figure(figure, path, f"{caption}; on {found[0]['examples']:,} training examples of the slowest learner; bars: "
                f"medians; {CRITERION}; left out: {left_out} of {len(found)} pairs with a learner between")  # fmt: skip


def claims_cka(rows: list[Row], scale: str) -> list[Claim]:
    """Test section 6.1: two fast learners are more alike than a fast and a slow one."""
    claims = []
    for model in values_of(select(rows, kind="cka"), "model"):
        found = select(rows, kind="cka", model=model)
        both, mixed = ([row["cka"] for row in select(found, pair=pair)] for pair in PAIRS[:2])
        detail = ", ".join(f"{pair}: median {statistics.median(values):.4f} of {len(values)} pairs" if values else
                           f"{pair}: no pair" for pair, values in zip(PAIRS, (both, mixed), strict=False))  # fmt: skip
        verdict = UNTESTED
        if both and mixed:
            verdict = HOLDS if statistics.median(both) > statistics.median(mixed) else FAILS
        text = f"{LABELS.get(model, model)}: two fast learners are more alike than a fast and a slow one"
        claims.append(claim(text, scale, verdict, detail))
    return claims


def draw_fig18(rows: list[Row], path: Path, caption: str) -> None:
    """Draw the learning curves under holdout; the similarities stand in the caption and the table."""
    pairs = {pair: [f"{row['cka']:.3f}" for row in select(rows, kind="cka", pair=pair)] for pair in
             ("fast-fast", "fast-slow")}  # fmt: skip
    said = "; ".join(f"CKA {pair}: {', '.join(values)}" for pair, values in pairs.items() if values)
    curves = [row for row in rows if row.get("kind") != "cka"]
    draw_curves(curves, path, f"{caption}; {said}" if said else caption)


def claims_fig18(rows: list[Row], scale: str) -> list[Claim]:
    """Test appendix E."""
    return [*claims_curves([row for row in rows if row.get("kind") != "cka"], scale), *claims_cka(rows, scale)]
