"""Blocks of images: contact sheet, training curves and logits under holdout (Figures 6, 7, 8 and 15)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from neophyte.core.spec import from_mapping
from neophyte.experiments.base import FAILS, HOLDS, UNDECIDED, Claim, above, claim
from neophyte.experiments.pvr.accuracy import values_of
from neophyte.plotting.figures import COLOURS, new_figure, save_figure, select
from neophyte.pvr.visual import VisualDataset
from neophyte.pvr.visual_spec import VisualSpec
from neophyte.running.trials import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = {"resnet18": "ResNet18", "vgg11-bn": "VGG11-bn"}
CHANCE = 0.1


def dataset(task: Mapping[str, Any], split: str, root: str, seed: int = 0) -> VisualDataset:
    """Return the images of a task, fields of `VisualSpec`."""
    return VisualDataset(from_mapping(VisualSpec, task), split, seed, root)


def draw_fig7(rows: list[Row], path: Path, caption: str) -> None:
    """Draw training and test accuracy by epoch, a row for each setting and a column for each network."""
    models, settings = values_of(rows, "model"), ("iid", "holdout")
    figure, axes = new_figure(2, len(models), width=4.4, height=2.8, sharex=True, sharey=True)
    for i, setting in enumerate(settings):
        for j, model in enumerate(models):
            panel = axes[i, j]
            for seed in values_of(rows, "seed"):
                curve = select(rows, kind="curve", model=model, setting=setting, seed=seed)
                epochs = [row["epoch"] for row in curve]
                for colour, name in zip(COLOURS, ("train", "test"), strict=False):
                    label = name if seed == rows[0]["seed"] else None
                    panel.plot(epochs, [row[f"{name}_accuracy"] for row in curve], color=colour, label=label)
            panel.axhline(CHANCE, color="#999999", linewidth=0.8)
            panel.set(title=f"{LABELS.get(model, model)}, {setting}", ylim=(-0.03, 1.03), ylabel="accuracy",
                      xlabel="epoch" if i else "")  # fmt: skip
    axes[0, 0].legend()
    sizes = ", ".join(f"{size:,}" for size in values_of(rows, "train_size"))
    seeds = len(values_of(rows, "seed"))
    said = f"{seeds} seed{'s' * (seeds > 1)}"
    save_figure(figure, path, f"{caption}; {sizes} training examples, {said}; grey: best constant guess, 10 %")


def claims_fig7(rows: list[Row], scale: str) -> list[Claim]:
    """Test section 4.2."""

    def of(setting: str, name: str) -> list[Row]:
        return select(rows, kind="result", setting=setting, set=name)

    def say(found: Sequence[Row]) -> str:
        return ", ".join(f"{LABELS.get(r['model'], r['model'])} {r['accuracy']:.3f} [{r['low']:.3f}, {r['high']:.3f}]"
                         for r in found)  # fmt: skip

    def least(found: Sequence[Row], value: float) -> str:
        return HOLDS if all(row["accuracy"] >= value for row in found) else FAILS

    tests = of("holdout", "test")
    below = HOLDS if all(row["high"] < CHANCE for row in tests) else (
        FAILS if any(row["low"] >= CHANCE for row in tests) else UNDECIDED
    )  # fmt: skip
    return [
        claim("IID: training accuracy near 100 % (at least 95 %)", scale, least(of("iid", "train"), 0.95),
              say(of("iid", "train"))),
        claim("IID: test accuracy near 100 % (at least 95 %)", scale, least(of("iid", "test"), 0.95),
              say(of("iid", "test"))),
        claim("Holdout: training accuracy near 100 % (at least 95 %)", scale, least(of("holdout", "train"), 0.95),
              say(of("holdout", "train"))),
        claim("Holdout: test accuracy below chance", scale, below, say(tests)),
    ]  # fmt: skip


def draw_logits(rows: list[Row], path: Path, caption: str, *, first: int) -> None:
    """Draw the logits of three examples below their images, those of held-out classes in another colour."""
    shown = values_of(select(rows, kind="logit"), "example")[first : first + 3]
    address = select(rows, kind="rank")[0]
    pictures = _pictures(address["spec"], "test", address["root"], shown)
    figure, axes = new_figure(3, len(shown), width=3.0, height=2.0)
    for j, example in enumerate(shown):
        _picture(axes[0, j], pictures[j], f"example {example}")
        for i, setting in enumerate(("iid", "holdout"), 1):
            bars = select(rows, kind="logit", setting=setting, example=example)
            colours = [COLOURS[1] if row["held_out"] else "#AAAAAA" for row in bars]
            axes[i, j].bar([row["class"] for row in bars], [row["logit"] for row in bars], color=colours)
            axes[i, j].axvline(bars[0]["label"], color="#000000", linewidth=0.8, linestyle=":")
            axes[i, j].set(title=f"trained {setting}, label {bars[0]['label']}", ylabel="logit")
            axes[i, j].set_xticks(range(len(bars)))
    lowest = {row["setting"]: f"{row['lowest']:.1%}" for row in select(rows, kind="rank")}
    save_figure(figure, path, f"{caption}; dotted: the label; orange: held out of the pointed cell, exactly the "
                f"lowest in {lowest['holdout']} (trained under holdout) and {lowest['iid']} (IID)")  # fmt: skip


def _pictures(spec: str, split: str, root: str, examples: Sequence[int]) -> np.ndarray:
    """Draw the images of a set again, from their address."""
    return dataset(json.loads(spec), split, root).batch(np.array(examples)).images


def _picture(axes: Axes, image: np.ndarray, title: str) -> None:
    axes.imshow(image.squeeze(), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axes.set_title(title, fontsize=8)
    axes.set_axis_off()


def claims_logits(rows: list[Row], scale: str) -> list[Claim]:
    """Test section 4.2: training under holdout pushes the held-out classes down, training without does not."""
    summary = {row["setting"]: row for row in select(rows, kind="rank")}
    holdout, iid = summary["holdout"], summary["iid"]
    say = "; ".join(f"{name}: gap {row['gap']:+.2f} +- {row['half_width']:.2f}, exactly the lowest in "
                    f"{row['lowest']:.1%} of {row['examples']}, accuracy {row['accuracy']:.3f}"
                    for name, row in summary.items())  # fmt: skip
    return [
        claim("Trained under holdout, held-out classes get lower logits than the rest (mean gap below 0)", scale,
              above(-holdout["gap"], holdout["half_width"]), say),
        claim("They are the lowest of all (in most examples)", scale, HOLDS if holdout["lowest"] > 0.5 else FAILS, say),
        claim("Trained without, they do not (mean gap above 0: the label is among them)", scale,
              above(iid["gap"], iid["half_width"]), say),
    ]  # fmt: skip


draw_fig8, draw_fig15 = partial(draw_logits, first=0), partial(draw_logits, first=3)


def draw_fig6(rows: list[Row], path: Path, caption: str) -> None:
    """Draw the first examples of every set, a row for each."""
    draw_sheet(
        {
            name: (_pictures(found[0]["spec"], found[0]["split"], found[0]["root"], values_of(found, "example")),
                   [f"{row['pointer_class']} → cell {row['cell']}: {row['label']}" for row in found])
            for name in ("iid", "holdout-train", "holdout-test") if (found := select(rows, set=name))
        },
        path, f"{caption}; above each: the pointer's class, the value cell that it names, the label",
    )  # fmt: skip


def draw_sheet(sets: dict[str, tuple[np.ndarray, list[str]]], path: Path, caption: str) -> None:
    """Draw images uint8 (count, height, width, channels) with their titles, a row for each set."""
    columns = max(len(titles) for _, titles in sets.values())
    height, width = next(iter(sets.values()))[0].shape[1:3]
    across = min(1.5 * width / height, 8.0)  # inches
    figure, axes = new_figure(len(sets), columns, width=across, height=across * height / width + 0.25)
    for axis in axes.flat:
        axis.set_axis_off()
    for line, (name, (images, titles)) in zip(axes, sets.items(), strict=True):
        for axis, image, title in zip(line, images, titles, strict=False):
            _picture(axis, image, title)
        line[0].text(-0.08, 0.5, name, transform=line[0].transAxes, rotation=90, ha="right", va="center", fontsize=8)
    save_figure(figure, path, caption)


def claims_fig6(rows: list[Row], scale: str) -> list[Claim]:
    """Test that the shown holdout sets hold what Figure 6 says, by the classes of the shown examples."""
    held: dict[int, Any] = {0: {1, 2, 3}, 1: {4, 5, 6}, 2: {7, 8, 9, 0}}
    train, test = (select(rows, kind="example", set=name) for name in ("holdout-train", "holdout-test"))
    holds = all(row["label"] not in held[row["cell"]] for row in train) and all(
        row["label"] in held[row["cell"]] for row in test
    )
    detail = f"{len(train)} training and {len(test)} test examples"
    return [Claim("Held-out digits never stand in their cell in training, and only they do in the test set",
                  HOLDS if holds else FAILS, detail)]  # fmt: skip
