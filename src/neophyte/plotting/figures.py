"""Figures with one look: colours that colour-blind readers can tell apart, direct labels, the scale on their face."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from neophyte.core.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, and greys for what is not learnt.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6BB1", "#000000")
CONTROL_STYLES = {
    "oracle": {"color": "#000000", "linestyle": "-", "linewidth": 1.2},
    "ngram_true_order": {"color": "#555555", "linestyle": "--", "linewidth": 1.2},
    "ngram_mixture": {"color": "#555555", "linestyle": (0, (1, 1)), "linewidth": 1.2},
    "ngram": {"color": "#777777", "linestyle": "-.", "linewidth": 1.2},
    "induction": {"color": "#999999", "linestyle": (0, (3, 1, 1, 1)), "linewidth": 1.2},
    "unigram": {"color": "#999999", "linestyle": ":", "linewidth": 1.6},
    "uniform": {"color": "#BBBBBB", "linestyle": "-", "linewidth": 1.0},
}
CONTROL_LABELS = {
    "oracle": "oracle (exact law)",
    "ngram_true_order": "n-gram, true order",
    "ngram_mixture": "n-gram mixture, orders ≤ 5",
    "ngram": "n-gram, order ≤ 5",
    "induction": "induction head",
    "unigram": "unigram",
    "uniform": "uniform",
}
_CAPTION_CHARACTERS = 18  # an inch of the caption's type
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.dpi": 150,
}


@contextmanager
def style() -> Iterator[None]:
    """Draw in the package's style while the block runs; matplotlib's settings are as before after it."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        yield


def new_figure(rows: int, columns: int, width: float = 4.0, height: float = 3.0, **options: Any) -> tuple[Figure, Any]:
    """Return a figure and its axes, an object array (rows, columns); sizes are inches a panel."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def save_figure(figure: Figure, path: Path, caption: str) -> None:
    """Write a figure as PNG, whole or not at all, with the caption (scale, counts) at its foot."""
    lines = textwrap.wrap(caption, int(_CAPTION_CHARACTERS * figure.get_figwidth()))
    figure.supxlabel("\n".join(lines), fontsize=7, color="#666666", ha="right", x=0.99)
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=150, metadata={"Software": None})


def draw_curve(axes: Axes, curve: Sequence[dict[str, Any]], label: str, **style: Any) -> None:
    """Draw mean nats over position (log axis) from curve rows, a band for its 95 % interval but for controls."""
    centres = np.sqrt([(row["start"] + 1) * row["stop"] for row in curve])
    means = np.array([row["mean_nats"] for row in curve])
    axes.plot(centres, means, label=label, **style)
    low, high = (np.array([row[name] for row in curve], dtype=float) for name in ("low_nats", "high_nats"))
    if np.isfinite(low).all() and curve[0]["predictor"] not in CONTROL_STYLES:
        axes.fill_between(centres, low, high, color=style.get("color"), alpha=0.15, linewidth=0)
    axes.set_xscale("log", base=2)


def select(rows: Sequence[dict[str, Any]], **values: Any) -> list[dict[str, Any]]:
    """Return the rows whose fields have these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in values.items())]
