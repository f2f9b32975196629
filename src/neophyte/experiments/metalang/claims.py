"""What the curves say of the paper's statements (gpicl, sections 2.3.1 and 2.3.2), and the demo's own conditions."""

from __future__ import annotations

import math
from itertools import pairwise

from neophyte.experiments.base import FAILS, HOLDS, UNDECIDED, Claim, above, all_of, claim, within
from neophyte.metalang.references import CONTROLS
from neophyte.metalang.spec import EVAL_ORDERS
from neophyte.metalang.text import TEXT
from neophyte.plotting.figures import select
from neophyte.running.trials import Row

UNTRAINED_ORDERS = (7, 8)
MARGIN = 0.05  # nats: two models are as good as each other if they differ by no more
BEND = 0.5  # a fall is linear in log context if two successive doublings differ by less than this share of their mean


def _one(rows: list[Row], kind: str, model: str, group: object) -> Row:
    return select(rows, kind=kind, predictor=model, group=str(group))[0]


def _models(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row["predictor"] for row in rows if row["kind"] == "drop"))


def claims_fig3(rows: list[Row], scale: str) -> list[Claim]:
    """Test the statements of section 2.3.1 on the largest model of the scale."""
    model = _models(rows)[-1]
    drops = {group: _one(rows, "drop", model, group) for group in (*EVAL_ORDERS, TEXT)}

    def falls(*groups: object) -> tuple[str, str]:
        chosen = [drops[group] for group in groups]  # type: ignore[index]
        detail = ", ".join(f"{row['group']}: {row['fall']:+.2f} ± {row['half_width']:.2f}" for row in chosen)
        return (
            all_of(above(row["fall"], row["half_width"]) for row in chosen),
            f"fall from the first sixteenth of the context to its last quarter, nats: {detail}",
        )

    fits = [row for row in rows if row["kind"] == "fit" and row["predictor"] == model]
    exponents = ", ".join(
        f"{row['group']}: {row['exponent']:.2f} [{row['low']:.2f}, {row['high']:.2f}]" for row in fits
    )
    return [
        claim("The loss falls with context for every n", scale, *falls(*EVAL_ORDERS)),
        claim("It falls too for n = 7 and 8, which were not trained", scale, *falls(*UNTRAINED_ORDERS)),
        claim(
            "Higher n falls more slowly",
            scale,
            _decreasing(fits) if len(fits) == len(EVAL_ORDERS) else UNDECIDED,
            f"exponent of the excess loss over the oracle against position, by order: {exponents}",
        ),
        claim("It falls on natural text, never seen in training", scale, *falls(TEXT)),
    ]


def _decreasing(fits: list[Row]) -> str:
    """Whether the exponents fall from one order to the next, by more than their intervals overlap."""
    pairs = list(pairwise(fits))
    if any(one["high"] < other["low"] for one, other in pairs):
        return FAILS
    return HOLDS if all(one["low"] > other["high"] for one, other in pairs) else UNDECIDED


def claims_fig5(rows: list[Row], scale: str) -> list[Claim]:
    """Test the statements of section 2.3.2 across the model sizes of the scale."""
    models = _models(rows)
    small, large = models[0], models[-1]

    def differences(group: object, *pairs: tuple[str, str]) -> tuple[str, str]:
        found = [
            row
            for row in select(rows, kind="difference", group=str(group))
            if not pairs or (row["predictor"], row["other"]) in pairs
        ]
        detail = ", ".join(
            f"{row['predictor']} less {row['other']} {row['late_difference']:+.3f} ± {row['half_width']:.3f}"
            for row in found
        )
        return all_of(within(row["late_difference"], row["half_width"], MARGIN) for row in found), f"{group}: {detail}"

    simple = [differences(order) for order in (2, 3)]
    hard = [_log_linear(_one(rows, "octaves", large, order)) for order in UNTRAINED_ORDERS]
    still = [above(row["last_fall"], row["last_fall_half_width"])
             for row in (_one(rows, "octaves", large, order) for order in UNTRAINED_ORDERS)]  # fmt: skip
    text_line = _log_linear(_one(rows, "octaves", large, TEXT))
    opposite = {HOLDS: FAILS, FAILS: HOLDS, UNDECIDED: UNDECIDED}
    measure = f"last quarter, paired by sequence, as good means within {MARGIN} nats; "
    return [
        claim("For n < 4 all sizes converge to one asymptote", scale, all_of(verdict for verdict, _ in simple),
              measure + "; ".join(detail for _, detail in simple)),
        claim("At n = 2 the smallest model is as good as the largest in the end", scale,
              *_prefixed(measure, differences(2, (small, large)))),
        claim("For n > 6 the loss still falls at the end of the context", scale, all_of(still),
              "; ".join(detail for _, detail in hard)),
        claim("For n > 6 it falls linearly in the logarithm of the context", scale, all_of(v for v, _ in hard),
              "; ".join(detail for _, detail in hard)),
        claim("On natural text the smallest model is as good as the largest", scale,
              *_prefixed(measure, differences(TEXT, (small, large)))),
        claim("On natural text the fall is not linear in log context", scale, opposite[text_line[0]], text_line[1]),
    ]  # fmt: skip


def _prefixed(measure: str, found: tuple[str, str]) -> tuple[str, str]:
    return found[0], measure + found[1]


def _log_linear(row: Row) -> tuple[str, str]:
    """Whether the last two doublings of the context lower the loss by nearly the same (see BEND)."""
    first, last = row["first_fall"], row["last_fall"]
    first_width, last_width, bend_width = (row[f"{name}_half_width"] for name in ("first_fall", "last_fall", "bend"))
    shared = (first_width**2 + last_width**2 - bend_width**2) / 2  # their covariance, in the units of half-widths
    verdicts = []
    for sign in (1, -1):
        # What is left below the limit: BEND * (first + last) / 2 - sign * (first - last), with its own interval.
        a, b = BEND / 2 - sign, BEND / 2 + sign
        width = math.sqrt(max(0.0, (a * first_width) ** 2 + (b * last_width) ** 2 + 2 * a * b * shared))
        verdicts.append(above(a * first + b * last, width))
    falls = f"{first:.3f} and {last:.3f} nats in the last two doublings"
    limit = f"linear means below {BEND} of their mean"
    return all_of(verdicts), f"{row['group']}: {falls} (difference {row['bend']:+.3f} ± {bend_width:.3f}; {limit})"


def claims_demo(rows: list[Row], scale: str) -> list[Claim]:
    """Test whether the demo's model has learned to learn."""
    model = next(name for name in _models(rows) if name not in CONTROLS)
    languages, text = _one(rows, "drop", model, 2), _one(rows, "drop", model, TEXT)
    gap, width = languages["below_unigram"], languages["below_unigram_half_width"]
    return [
        claim("Late in the context the model is clearly below the unigram control", scale, above(gap, width, 0.2),
              f"{languages['late']:.2f} against {languages['late_unigram']:.2f} nats "
              f"(difference {gap:.2f} ± {width:.2f}; oracle {languages['late_oracle']:.2f})"),
        claim("On languages it has never seen its loss falls by at least 1 nat", scale,
              above(languages["fall"], languages["half_width"], 1.0),
              f"{languages['early']:.2f} -> {languages['late']:.2f} nats"),
        claim("On English its loss falls by at least 0.3 nats", scale, above(text["fall"], text["half_width"], 0.3),
              f"{text['early']:.2f} -> {text['late']:.2f} nats"),
    ]  # fmt: skip
