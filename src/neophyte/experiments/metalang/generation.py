"""Figure 4 of gpicl: lists of words and equations, continued by the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from neophyte.evaluation.curves import mean_interval
from neophyte.evaluation.generation import ITEMS, SEPARATOR
from neophyte.experiments.base import Claim, above, claim
from neophyte.plotting.figures import COLOURS, new_figure, save_figure, select
from neophyte.running.trials import Row

CONTEXTS = ("half", "full")


def _mean(rows: list[Row], field: str) -> tuple[float, float]:
    mean, half_width = mean_interval(np.array([row[field] for row in rows]))
    return float(mean), float(half_width)


def draw_fig4(rows: list[Row], path: Path, caption: str) -> None:
    """Draw error rate and coverage by context, and below them an example of each task with its errors in red."""
    figure, axes = new_figure(2, 2, width=5.0, height=2.8, height_ratios=(1, 1.1))
    for column, task in enumerate(ITEMS):
        axis = axes[0, column]
        for offset, (field, label) in enumerate((("error_rate", "error rate"), ("coverage", "coverage"))):
            results = [_mean(select(rows, task=task, context=context), field) for context in CONTEXTS]
            axis.bar(
                np.arange(2) + 0.36 * offset - 0.18,
                [mean for mean, _ in results],
                0.34,
                yerr=[min(width, 1.0) for _, width in results],
                label=label,
                color=COLOURS[1 - offset],
            )
        counts = [int(select(rows, task=task, context=context)[0]["context_items"]) for context in CONTEXTS]
        axis.set_xticks(range(2), [f"{c} context, {n} items" for c, n in zip(CONTEXTS, counts, strict=True)])
        axis.set(title=f"{task}: generated items", ylim=(0, 1.05))
        axis.axhline(0.15, color="#999999", linestyle=":", linewidth=1, label="errors in the context")
        if column == 0:
            figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=3)
        _draw_example(axes[1, column], select(rows, task=task, context="full", draw=0)[0], task)
    draws = len(select(rows, task="vocabulary", context="full"))
    save_figure(figure, path, f"{caption}; {draws} draws each, bars: 95 % intervals; example: full context, draw 0")


def _draw_example(axis: object, row: Row, task: str, width: int = 58, lines: int = 7) -> None:
    """Write the end of the context, then what the model wrote, items that are none in red."""
    axis.axis("off")  # type: ignore[attr-defined]
    shown = row["context_text"].split(SEPARATOR)[:-1][-16:]
    text = [(item, "#777777") for item in shown] + [("▸", "#0072B2")]
    text += [
        (item, "#000000" if item in ITEMS[task] else "#D00000") for item in row["generated_text"].split(SEPARATOR)[:-1]
    ]
    x, y = 0, 0
    for item, colour in text:
        if x + len(item) + 1 > width:
            x, y = 0, y + 1
        if y >= lines:
            break
        axis.text(x / width, 1 - (y + 0.5) / lines, item + (SEPARATOR if item != "▸" else ""), color=colour,  # type: ignore[attr-defined]
                  family="monospace", fontsize=7, transform=axis.transAxes)  # type: ignore[attr-defined]  # fmt: skip
        x += len(item) + 2


def claims_fig4(rows: list[Row], scale: str) -> list[Claim]:
    """Test the statements of section 2.3.1 on generation."""
    claims = []
    for task in ITEMS:
        half, full = (select(rows, task=task, context=context) for context in CONTEXTS)
        fall = np.array([a["error_rate"] - b["error_rate"] for a, b in zip(half, full, strict=True)])
        width = float(mean_interval(fall)[1])
        (low, _), (high, high_width) = _mean(half, "error_rate"), _mean(full, "error_rate")
        claims += [
            claim(f"{task}: more items in the context give fewer errors", scale, above(float(fall.mean()), width),
                  f"error rate {low:.3f} -> {high:.3f} (fall {fall.mean():.3f} ± {width:.3f}); "
                f"share of different items {_mean(half, 'distinct')[0]:.2f} -> {_mean(full, 'distinct')[0]:.2f}"),
            claim(f"{task}: the model writes fewer errors than its context holds (15 %)", scale,
                  above(0.15 - high, high_width), f"error rate {high:.3f} ± {high_width:.3f}"),
        ]  # fmt: skip
    return claims
