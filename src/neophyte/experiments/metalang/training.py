"""Figure 12a of gpicl, training loss by iteration, and the language models of its Table 1."""

from __future__ import annotations

from pathlib import Path

from neophyte.experiments.base import FAILS, HOLDS, Claim, claim
from neophyte.plotting.figures import COLOURS, new_figure, save_figure, select
from neophyte.running.trials import Row


def draw_fig12a(rows: list[Row], path: Path, caption: str) -> None:
    """Draw the training loss of every model of the scale."""
    figure, axes = new_figure(1, 1, width=5.0, height=3.4)
    for colour, model in zip(COLOURS, dict.fromkeys(row["model"] for row in rows), strict=False):
        lines = select(rows, model=model)
        axes[0, 0].plot(
            [line["step"] for line in lines], [line["loss_nats"] for line in lines], label=model, color=colour
        )
    axes[0, 0].set(xlabel="iteration", ylabel="training loss (nats)", title="Meta-Language, orders 3-6")
    axes[0, 0].legend()
    save_figure(figure, path, f"{caption}; one run each, means over the steps between points")


def claims_fig12a(rows: list[Row], scale: str) -> list[Claim]:
    """Test that every model's training loss falls."""
    falls = {}
    for model in dict.fromkeys(row["model"] for row in rows):
        lines = select(rows, model=model)
        falls[model] = (lines[0]["loss_nats"], lines[-1]["loss_nats"])
    detail = ", ".join(f"{model}: {first:.2f} -> {last:.2f}" for model, (first, last) in falls.items())
    verdict = HOLDS if all(last < first for first, last in falls.values()) else FAILS
    return [claim("The training loss falls for every model", scale, verdict, detail)]


def claims_table1(rows: list[Row], scale: str) -> list[Claim]:
    """Test the parameter counts; they do not depend on the scale."""
    detail = ", ".join(f"{row['model']}: {row['parameters']:,} ({row['paper']})" for row in rows)
    holds = all(row["parameters"] == row["published_count"] for row in rows)
    return [claim("The language models have Table 1's parameters", "paper", HOLDS if holds else FAILS, detail)]
