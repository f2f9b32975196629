"""Figures 3 and 5 of gpicl, loss by position in the context, and the demo's picture."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

from neophyte.evaluation.language import CONTROLS, TEXT
from neophyte.experiments.base import Claim, claim
from neophyte.experiments.metalang.scales import SCALES
from neophyte.metalang.spec import EVAL_ORDERS
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

UNTRAINED_ORDERS = (7, 8)
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
    """Draw one model's curves over all orders in one panel, as the paper does, and beside it its regret."""
    model = _models(rows)[-1]
    figure, axes = new_figure(1, 2, width=4.6, height=3.6)
    groups = [str(order) for order in EVAL_ORDERS] + [TEXT]
    for colour, group in zip(COLOURS, groups, strict=True):
        curve = select(rows, kind="curve", predictor=model, group=group)
        label = "text" if group == TEXT else f"n = {group}" + ("*" if int(group) in UNTRAINED_ORDERS else "")
        draw_curve(axes[0, 0], curve, label, color=colour, linewidth=1.6)
        if group != TEXT:
            oracle = {
                row["start"]: row["mean_nats"] for row in select(rows, kind="curve", predictor="oracle", group=group)
            }
            regret = [
                {**row, "mean_nats": row["mean_nats"] - oracle[row["start"]], "low_nats": math.nan} for row in curve
            ]
            draw_curve(axes[0, 1], regret, label, color=colour, linewidth=1.6)
    for control in ("uniform", "unigram"):
        curve = select(rows, kind="curve", predictor=control, group="3")
        draw_curve(axes[0, 0], curve, f"{CONTROL_LABELS[control]}, n = 3", **CONTROL_STYLES[control])
    axes[0, 0].set(title=f"{model}: loss by position", ylabel="-log p (nats)", xlabel="position in the context")
    axes[0, 1].set(title="regret over the oracle", ylabel="nats", xlabel="position in the context", yscale="log")
    axes[0, 0].set_ylim(0, _CEILING)
    axes[0, 0].legend(ncols=2, loc="lower left")
    save_figure(figure, path, f"{_caption(rows, caption)}; * orders not trained on; bands: 95 % intervals")


def _caption(rows: list[Row], caption: str) -> str:
    counts = {row["group"]: row["sequences"] for row in rows if row["kind"] == "drop"}
    orders = max((count for group, count in counts.items() if group != TEXT), default=0)
    return f"{caption}, {orders} sequences an order, {counts.get(TEXT, 0)} of text"


def _drop(rows: list[Row], model: str, group: object) -> Row:
    return select(rows, kind="drop", predictor=model, group=str(group))[0]


def _fall(row: Row) -> str:
    return f"{row['group']}: {row['fall']:+.2f} ± {row['half_width']:.2f}"


def claims_fig3(rows: list[Row], scale: str) -> list[Claim]:
    """Test the statements of section 2.3.1 on the largest model of the scale."""
    model = _models(rows)[-1]
    drops = {order: _drop(rows, model, order) for order in EVAL_ORDERS}
    text = _drop(rows, model, TEXT)

    def falls(row: Row) -> bool:
        return row["fall"] > row["half_width"]

    order_detail = "nats from the first sixteenth to the last quarter, by order: "
    fits = {row["group"]: row for row in select(rows, kind="fit", predictor=model)}
    exponents = [fits[str(order)]["exponent"] for order in EVAL_ORDERS if str(order) in fits]
    return [
        claim(
            "The loss falls with context for every n",
            scale,
            all(falls(row) for row in drops.values()),
            order_detail + ", ".join(_fall(row) for row in drops.values()),
        ),
        claim(
            "It falls too for n = 7 and 8, which were not trained",
            scale,
            all(falls(drops[order]) for order in UNTRAINED_ORDERS),
            order_detail + ", ".join(_fall(drops[order]) for order in UNTRAINED_ORDERS),
        ),
        claim(
            "Higher n falls more slowly",
            scale,
            len(exponents) == len(EVAL_ORDERS) and all(a > b for a, b in pairwise(exponents)),
            "exponent of the excess loss over the oracle against position, by order: "
            + ", ".join(f"{n}: {fit['exponent']:.2f} [{fit['low']:.2f}, {fit['high']:.2f}]" for n, fit in fits.items()),
        ),
        claim("It falls on natural text, never seen in training", scale, falls(text), _fall(text)),
    ]


def claims_fig5(rows: list[Row], scale: str) -> list[Claim]:
    """Test the statements of section 2.3.2 across the model sizes of the scale."""
    models = list(SCALES[scale].models)
    small, large = models[0], models[-1]

    def late(model: str, group: object) -> float:
        return float(_drop(rows, model, group)["late"])

    def gap(group: object) -> tuple[bool, str]:
        difference = late(small, group) - late(large, group)
        width = math.hypot(*(_drop(rows, model, group)["half_width"] for model in (small, large)))
        return abs(difference) <= max(0.05, width), f"{group}: {difference:+.3f} ± {width:.3f}"

    detail = f"late loss of {small} less that of {large}, nats: "
    simple = [gap(order) for order in (2, 3)]
    text = gap(TEXT)
    hard = [_is_log_linear(rows, large, str(order)) for order in UNTRAINED_ORDERS]
    text_line = _is_log_linear(rows, large, TEXT)
    return [
        claim("For n < 4 all sizes converge to one asymptote", scale, all(ok for ok, _ in simple),
              detail + ", ".join(text for _, text in simple)),
        claim(f"At n = 2 the smallest model is as good as the largest in the end ({small} against {large})", scale,
              simple[0][0], detail + simple[0][1]),
        claim("For n > 6 the loss still falls at the end of the context, linearly in its logarithm", scale,
              all(ok for ok, _ in hard), "; ".join(detail for _, detail in hard)),
        claim("On natural text the smallest model is as good as the others", scale, text[0], detail + text[1]),
        claim("On natural text the fall is not linear in log context", scale, not text_line[0], text_line[1]),
    ]  # fmt: skip


def _is_log_linear(rows: list[Row], model: str, group: str) -> tuple[bool, str]:
    """Whether the loss still falls over the last three octaves, by nearly equal steps: a line in log2 position."""
    curve = select(rows, kind="curve", predictor=model, group=group)
    end = curve[-1]["stop"]

    def octave(back: int) -> float:
        inside = [row for row in curve if end >> (back + 1) <= row["start"] and row["stop"] <= end >> back]
        weights = [row["stop"] - row["start"] for row in inside]
        return sum(w * row["mean_nats"] for w, row in zip(weights, inside, strict=True)) / sum(weights)

    values = [octave(back) for back in (2, 1, 0)]
    first, second = values[1] - values[0], values[2] - values[1]
    straight = first < 0 and second < 0 and abs(first - second) <= 0.25 * abs(first + second)
    return straight, f"{group}: {first:+.3f} then {second:+.3f} nats in the last two doublings"


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


def claims_demo(rows: list[Row], scale: str) -> list[Claim]:
    """Test whether the demo's model has learned to learn."""
    languages, text = _drop(rows, "model", 2), _drop(rows, "model", TEXT)
    gap = languages["late_unigram"] - languages["late"]
    width = languages["gap_to_unigram_half_width"]
    return [
        claim("Late in the context the model is clearly below the unigram control", scale, gap - width >= 0.2,
              f"{languages['late']:.2f} against {languages['late_unigram']:.2f} nats "
              f"(difference {gap:.2f} ± {width:.2f}; oracle {languages['late_oracle']:.2f})"),
        claim("On languages it has never seen its loss falls by at least 1 nat", scale, languages["fall"] >= 1.0,
              f"{languages['early']:.2f} -> {languages['late']:.2f} nats"),
        claim("On English its loss falls by at least 0.3 nats", scale, text["fall"] >= 0.3,
              f"{text['early']:.2f} -> {text['late']:.2f} nats"),
    ]  # fmt: skip
