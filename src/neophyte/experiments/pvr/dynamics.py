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


def kind_of(accuracy: float) -> str:
    """Name a run by its final accuracy on the set that it is judged by: "fast", "slow", or "between"."""
    return "fast" if accuracy >= FAST else "slow" if accuracy <= SLOW else "between"


def judged_set(rows: Sequence[Row]) -> str:
    """Return the set that runs are judged by: what is held out, or where nothing is the test set."""
    return "held_out" if any(row.get("holdout") not in (None, "none") for row in rows) else "test"


def compare_learners(folder: Path, needs: dict[str, Path], *, examples: int) -> list[Row]:
    """Compare the last hidden layers of all trained networks; a row ("cka") for each pair.

    They are compared on the training data of the slowest learner of the pair (paper, section 6.1).
    """
    # Here, so that experiments can be listed and drawn without torch.
    from neophyte.evaluation.classification import feature_batches
    from neophyte.models.loading import load_model
    from neophyte.training.loop import pick_device

    finals: dict[str, float] = {}
    for name, trial in needs.items():
        rows = load_rows(trial)
        finals[name] = next(row["accuracy"] for row in rows if row.get("set") == judged_set(rows))
    device = pick_device()
    models = {name: load_model(trial / "run")[0].to(device) for name, trial in needs.items()}
    found: list[Row] = []
    for one, other in combinations(sorted(finals, key=lambda name: -finals[name]), 2):
        call = read_json(needs[other] / TRIAL_FILE)["params"]
        source = TokenDataset(from_mapping(TokenSpec, call["task"]), "train", call["seed"])
        count = min(examples, len(source))
        batches = [feature_batches(models[name], source, count, device=device)() for name in (one, other)]
        pair = f"{kind_of(finals[one])}-{kind_of(finals[other])}"
        similarity = linear_cka(zip(*batches, strict=True))
        found.append({"kind": "cka", "one": one, "other": other, "pair": pair, "cka": similarity, "examples": count})
    return found


def _runs(rows: Sequence[Row]) -> dict[str, str]:
    """Return the kind of each run by its trial."""
    name = judged_set(rows)
    return {row["trial"]: kind_of(row["accuracy"]) for row in select(rows, kind="result", set=name)}


STYLES: Mapping[str, tuple[str, str]] = {
    "fast": (COLOURS[0], "fast"), "slow": (COLOURS[1], "slow"), "between": ("#999999", "between"),
}  # fmt: skip


def draw_curves(rows: list[Row], path: Path, caption: str) -> None:
    """Draw training (dashed) and test (solid) accuracy of each run by epoch, a panel for each architecture."""
    models = values_of(rows, "model")
    figure, axes = new_figure(1, len(models), width=4.8, height=3.4, sharey=True)
    field = f"{judged_set(rows)}_accuracy"
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
    what = "held-out" if field.startswith("held") else "test"
    save_figure(figure, path, f"{caption}; {len(_runs(rows))} runs; dashed: training, solid: {what} accuracy; fast: "
                f"{what} above {FAST:.0%} at the end, slow: below {SLOW:.0%}")  # fmt: skip


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


def draw_cka(rows: list[Row], path: Path, caption: str) -> None:
    """Draw the similarity of every pair of runs by the kinds of the two."""
    figure, axes = new_figure(1, 1, width=5.0, height=3.4)
    pairs = [pair for pair in ("fast-fast", "fast-slow", "slow-slow") if select(rows, kind="cka", pair=pair)]
    for place, pair in enumerate(pairs):
        values = [row["cka"] for row in select(rows, kind="cka", pair=pair)]
        axes[0, 0].plot([place] * len(values), values, "o", color=COLOURS[place], markersize=5, alpha=0.7)
        axes[0, 0].plot([place - 0.2, place + 0.2], [statistics.median(values)] * 2, color=COLOURS[place])
    axes[0, 0].set_xticks(range(len(pairs)), [pair.replace("-", " and ") for pair in pairs])
    axes[0, 0].set(ylabel="linear CKA", ylim=(0, 1.03), title="last hidden layers")
    axes[0, 0].set_xlim(-0.6, max(1, len(pairs)) - 0.4)
    count = next((row["examples"] for row in select(rows, kind="cka")), 0)
    save_figure(figure, path, f"{caption}; on {count:,} training examples of the slower learner; bars: medians")


def claims_cka(rows: list[Row], scale: str) -> list[Claim]:
    """Test section 6.1: two fast learners are more alike than a fast and a slow one."""
    both, mixed = ([row["cka"] for row in select(rows, kind="cka", pair=pair)] for pair in ("fast-fast", "fast-slow"))
    if not both or not mixed:
        detail = f"{len(both)} fast-fast pairs, {len(mixed)} fast-slow pairs"
        return [claim("Two fast learners are more alike than a fast and a slow one", scale, UNTESTED, detail)]
    verdict = HOLDS if statistics.median(both) > statistics.median(mixed) else FAILS
    detail = ", ".join(f"{kind}: median {statistics.median(found):.4f} of {len(found)} pairs"
                       for kind, found in (("fast-fast", both), ("fast-slow", mixed)))  # fmt: skip
    return [claim("Two fast learners are more alike than a fast and a slow one", scale, verdict, detail)]


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
