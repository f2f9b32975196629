"""Table 1 of pvr, the parameters of the four token classifiers, and the search for a recipe in its appendix A."""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np

from neophyte.experiments.base import FAILS, HOLDS, Claim, claim
from neophyte.experiments.pvr.accuracy import NEAR, results, values_of
from neophyte.plotting.figures import new_figure, save_figure
from neophyte.running.trials import Row


def claims_table1(rows: list[Row], scale: str) -> list[Claim]:
    """Test the parameter counts; they do not depend on the scale."""
    detail = ", ".join(f"{row['model']}: {row['parameters']:,}" for row in rows)
    holds = all(row["parameters"] == row["published_count"] for row in rows)
    return [Claim("The token classifiers have Table 1's parameters", HOLDS if holds else FAILS, detail)]


def _median_of(rows: list[Row], **values: object) -> float:
    return statistics.median(row["accuracy"] for row in results(rows, "test", **values))


def draw_sweep(rows: list[Row], path: Path, caption: str) -> None:
    """Draw the test accuracy of every optimiser by learning rate and batch size."""
    optimizers, rates, batches = (values_of(rows, name) for name in ("optimizer", "learning_rate", "batch_size"))
    figure, axes = new_figure(1, len(optimizers), width=3.0, height=2.8, sharey=True)
    for panel, optimizer in zip(axes[0], optimizers, strict=True):
        grid = np.array([[_median_of(rows, optimizer=optimizer, learning_rate=rate, batch_size=batch)
                          for batch in batches] for rate in rates])  # fmt: skip
        panel.imshow(grid, vmin=0, vmax=1, cmap="viridis", aspect="auto")
        for (i, j), value in np.ndenumerate(grid):
            panel.text(j, i, f"{value:.2f}", ha="center", va="center", color="white" if value < 0.6 else "black")
        panel.set_xticks(range(len(batches)), batches)
        panel.set_yticks(range(len(rates)), [f"{rate:g}" for rate in rates])
        panel.set(title=optimizer, xlabel="batch size")
        panel.grid(visible=False)
    axes[0, 0].set_ylabel("learning rate")
    size = values_of(rows, "train_size")[0]
    save_figure(figure, path, f"{caption}; test accuracy of the MLP, m = 0, {size:,} examples, median of "
                f"{len(values_of(rows, 'seed'))} seeds")  # fmt: skip


def claims_sweep(rows: list[Row], scale: str) -> list[Claim]:
    """Test that the recipe that the paper chose is among the best of the search."""
    scores = {
        (optimizer, rate, batch): _median_of(rows, optimizer=optimizer, learning_rate=rate, batch_size=batch)
        for optimizer in values_of(rows, "optimizer")
        for rate in values_of(rows, "learning_rate")
        for batch in values_of(rows, "batch_size")
    }
    best = max(scores, key=lambda key: scores[key])
    chosen = scores.get(("sgd", 0.05, 1024), float("nan"))
    detail = (
        f"SGD at 0.05, batch 1,024: {chosen:.3f}; best: {best[0]} at {best[1]:g}, batch {best[2]:,}: {scores[best]:.3f}"
    )
    holds = HOLDS if scores[best] - chosen <= NEAR else FAILS
    return [claim(f"The paper's recipe does as well as any of the search (within {NEAR})", scale, holds, detail)]
