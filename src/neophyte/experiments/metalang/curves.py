"""Drawings of Figures 3 and 5 of gpicl, loss by position in the context, and of the demo."""

from __future__ import annotations

from pathlib import Path

from neophyte.experiments.metalang.claims import UNTRAINED_ORDERS
from neophyte.metalang.references import CONTROLS
from neophyte.metalang.spec import EVAL_ORDERS
from neophyte.metalang.text import TEXT
from neophyte.plotting.figures import (
    COLOURS,
    CONTROL_LABELS,
    CONTROL_STYLES,
    draw_curve,
    new_figure,
    save_figure,
    select,
)
from neophyte.running.trials import Row

_CEILING = 4.5  # nats; ln 32 = 3.47 is what knowing nothing costs


def _title(group: str) -> str:
    return "natural text (Persuasion)" if group == TEXT else f"order n = {group}"


def _draw_panel(axes: object, rows: list[Row], group: str, models: list[str], names: dict[str, str]) -> None:
    for name in CONTROLS:
        if curve := select(rows, kind="curve", predictor=name, group=group, trial=rows[0]["trial"]):
            draw_curve(axes, curve, CONTROL_LABELS[name], **CONTROL_STYLES[name])  # type: ignore[arg-type]
    for colour, model in zip(COLOURS, models, strict=False):
        curve = select(rows, kind="curve", predictor=model, group=group)
        draw_curve(axes, curve, names.get(model, model), color=colour, linewidth=2.0)  # type: ignore[arg-type]
    axes.set_title(_title(group), loc="left")  # type: ignore[attr-defined]
    axes.set_ylim(0, _CEILING)  # type: ignore[attr-defined]


def _models(rows: list[Row]) -> list[str]:
    names = [row["predictor"] for row in rows if row["kind"] == "curve"]
    return [name for name in dict.fromkeys(names) if name not in CONTROLS]


def draw_panels(rows: list[Row], path: Path, caption: str) -> None:
    """Draw a panel for each order and one for text, with every model and every control."""
    groups = list(dict.fromkeys(row["group"] for row in rows if row["kind"] == "curve"))
    columns = min(4, len(groups))
    lines = -(-len(groups) // columns)
    figure, axes = new_figure(lines, columns, width=3.4, height=2.8, sharex=True, sharey=True)
    for axis in axes.flat[len(groups) :]:
        axis.axis("off")
    for axis, group in zip(axes.flat, groups, strict=False):
        _draw_panel(axis, rows, group, _models(rows), {})
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), 3 * columns))
    figure.supylabel("-log p (nats)")
    save_figure(figure, path, f"{_caption(rows, caption)}; position in the context (log axis), bands: 95 % intervals")


def draw_fig3(rows: list[Row], path: Path, caption: str) -> None:
    """Draw one model over all orders, as the paper does, its regret over the oracle, and below it every control."""
    model = _models(rows)[-1]
    groups = [str(order) for order in EVAL_ORDERS] + [TEXT]
    figure, axes = new_figure(4, 4, width=3.0, height=2.3, sharex=True)
    grid = axes[0, 0].get_gridspec()
    for axis in axes[:2].flat:
        axis.remove()
    whole, regret = figure.add_subplot(grid[:2, :2]), figure.add_subplot(grid[:2, 2:])
    for colour, group in zip(COLOURS, groups, strict=True):
        label = "text" if group == TEXT else f"n = {group}" + ("*" if int(group) in UNTRAINED_ORDERS else "")
        style = {"color": colour, "linewidth": 1.6}
        draw_curve(whole, select(rows, kind="curve", predictor=model, group=group), label, **style)
        if group != TEXT:
            draw_curve(regret, select(rows, kind="regret", predictor=model, group=group), label, **style)
    whole.set(title=f"{model}: loss by position", ylabel="-log p (nats)", ylim=(0, _CEILING))
    regret.set(title="regret over the oracle", ylabel="nats", yscale="log")
    whole.legend(ncols=2, loc="lower left")
    for axis, group in zip(axes[2:].flat, groups, strict=True):
        _draw_panel(axis, rows, group, [model], {})
    handles, labels = axes[2, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    save_figure(figure, path, f"{_caption(rows, caption)}; * orders not trained on; position on a log axis; "
                              "bands: 95 % intervals")  # fmt: skip


def _caption(rows: list[Row], caption: str) -> str:
    counts = {row["group"]: row["sequences"] for row in rows if row["kind"] == "drop"}
    orders = max((count for group, count in counts.items() if group != TEXT), default=0)
    return f"{caption}, {orders} sequences an order, {counts.get(TEXT, 0)} of text"


def draw_demo(rows: list[Row], path: Path, caption: str) -> None:
    """Draw the demo's two panels: unknown languages, and English."""
    figure, axes = new_figure(1, 2, width=4.4, height=3.5, sharey=True)
    names = {"model": "the trained model"}
    _draw_panel(axes[0, 0], rows, "2", ["model"], names)
    _draw_panel(axes[0, 1], rows, TEXT, ["model"], names)
    axes[0, 0].set_title("languages it has never seen (order 2)", loc="left")
    axes[0, 1].set_title("English, which it has never seen either", loc="left")
    axes[0, 0].set_ylabel("-log p (nats)")
    for axis in axes.flat:
        axis.set_xlabel("tokens read so far")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4)
    save_figure(figure, path, f"{_caption(rows, caption)}; bands: 95 % intervals")
