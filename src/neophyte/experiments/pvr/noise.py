"""Figure 5: noise sensitivity by window size and by aggregation, exact with the paper's samples on top."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from neophyte.experiments.base import FAILS, HOLDS, Claim, claim
from neophyte.plotting.figures import COLOURS, new_figure, save_figure, select
from neophyte.pvr import RuleSpec
from neophyte.pvr.complexity import DELTAS, noise_sensitivity, sampled_noise_sensitivity
from neophyte.running.trials import Row

AGGREGATIONS = ("mod_sum", "median", "maj_vote", "min", "max")
FALSE_ALARM = 0.01  # of the comparison of all samples with the exact values


def measure_noise(
    folder: Path, needs: dict[str, Path], *, aggregation: str, windows: Sequence[int], samples: int, runs: int
) -> list[Row]:
    """Compute the noise sensitivity of one aggregation; a row for each window size and delta.

    `exact` is None where there is no exact method (maj_vote above six values).
    """
    rows: list[Row] = []
    for window in windows:
        spec = RuleSpec(window=window, aggregation=aggregation)
        try:
            exact: list[float] | list[None] = noise_sensitivity(spec, DELTAS).tolist()
        except ValueError:
            exact = [None] * len(DELTAS)
        sampled = sampled_noise_sensitivity(spec, DELTAS, samples=samples, runs=runs)
        for delta, value, found in zip(DELTAS.tolist(), exact, sampled.T, strict=True):
            rows.append({"aggregation": aggregation, "window": window, "delta": delta, "exact": value,
                         "sampled": float(found.mean()), "lowest_run": float(found.min()),
                         "highest_run": float(found.max()), "samples": samples * runs})  # fmt: skip
    return rows


def _mean(rows: Sequence[Row], aggregation: str, field: str) -> dict[int, float]:
    """Return the average over deltas by window size, where all values are known."""
    found: dict[int, float] = {}
    for window in sorted({row["window"] for row in rows}):
        values = [row[field] for row in select(rows, aggregation=aggregation, window=window)]
        if values and None not in values:
            found[window] = float(np.mean(values))
    return found


def draw_fig5(rows: list[Row], path: Path, caption: str) -> None:
    """Draw NS by delta for mod_sum, and its average over delta for every aggregation."""
    figure, axes = new_figure(1, 2, width=4.4, height=3.5)
    windows = sorted({row["window"] for row in rows})
    # Light to dark: the windows are ordered.
    shades = [str(shade) for shade in np.linspace(0.75, 0.0, len(windows))]
    for shade, window in zip(shades, windows, strict=True):
        found = select(rows, aggregation="mod_sum", window=window)
        deltas = [row["delta"] for row in found]
        label = f"w = {window}" if window in (windows[0], windows[-1]) else None
        axes[0, 0].plot(deltas, [row["exact"] for row in found], color=shade, linewidth=1, label=label)
        axes[0, 0].plot(deltas, [row["sampled"] for row in found], ".", color=COLOURS[0], markersize=2.5)
    axes[0, 0].set(xscale="log", xlabel="δ", ylabel="noise sensitivity", title="mod_sum, by window size")
    axes[0, 0].legend()
    for colour, kind in zip(COLOURS, AGGREGATIONS, strict=False):
        exact, sampled = (_mean(rows, kind, field) for field in ("exact", "sampled"))
        axes[0, 1].plot(list(exact), list(exact.values()), color=colour, label=kind)
        axes[0, 1].plot(list(sampled), list(sampled.values()), ".", color=colour)
    axes[0, 1].set(xlabel="window size w", ylabel="average noise sensitivity", title="average over δ in [e⁻⁷, e⁻¹]")
    axes[0, 1].legend()
    save_figure(figure, path, f"{caption}; lines: exact, points: {rows[0]['samples']:,} samples")


def claims_fig5(rows: list[Row], scale: str) -> list[Claim]:
    """Test section 4.1; exact values do not depend on the scale."""
    means = _mean(rows, "mod_sum", "exact")
    found = [
        Claim("mod_sum: its average grows with the window", HOLDS if _monotone(list(means.values())) else FAILS,
              _list(means)),
        _at_every_delta(rows),
    ]  # fmt: skip
    for kind in ("min", "max"):
        means = {window: value for window, value in _mean(rows, kind, "exact").items() if window >= 2}
        falls = all(a > b for a, b in itertools.pairwise(means.values()))
        found.append(Claim(f"{kind}: its average falls with the window, from w = 2", HOLDS if falls else FAILS,
                           _list(means)))  # fmt: skip
    unordered = [kind for kind in ("median", "maj_vote")
                 if not _monotone(list(_mean(rows, kind, "sampled").values()))]  # fmt: skip
    found.append(claim("Of the others none makes a clean sequence of growing difficulty", scale,
                       HOLDS if len(unordered) == 2 else FAILS, f"not monotone: {', '.join(unordered)}"))  # fmt: skip
    return [*found, _agreement(rows)]


def _at_every_delta(rows: Sequence[Row]) -> Claim:
    deltas = sorted({row["delta"] for row in rows})
    falls = [(a["window"], b["window"], delta, a["exact"] - b["exact"]) for delta in deltas
             for a, b in itertools.pairwise(select(rows, aggregation="mod_sum", delta=delta))
             if a["exact"] >= b["exact"]]  # fmt: skip
    detail = "no exception"
    if falls:
        pairs = ", ".join(f"w = {one} to {other}" for one, other in sorted({fall[:2] for fall in falls}))
        least, most = min(fall[2] for fall in falls), max(fall[3] for fall in falls)
        detail = (
            f"it falls from {pairs} at {len(falls)} of {len(deltas)} deltas, from {least:.3f} on, by at most {most:.4f}"
        )
    return Claim("mod_sum: it grows at every single delta", FAILS if falls else HOLDS, detail)


def _monotone(values: Sequence[float]) -> bool:
    return all(a < b for a, b in itertools.pairwise(values))


def _list(means: dict[int, float]) -> str:
    return "averages " + ", ".join(f"w = {window}: {value:.4f}" for window, value in means.items())


def _agreement(rows: Sequence[Row]) -> Claim:
    """Compare every sampled value with the exact one: the two-sided binomial error, shared out over all of them."""
    known = [row for row in rows if row["exact"] is not None]
    scores = [abs(row["sampled"] - row["exact"]) / math.sqrt(row["exact"] * (1 - row["exact"]) / row["samples"])
              for row in known]  # fmt: skip
    # A normal tail bound, 2 exp(-z^2 / 2), shared out over the comparisons (Bonferroni).
    limit = math.sqrt(2 * math.log(2 * len(scores) / FALSE_ALARM))
    return Claim(f"Samples agree with the exact values ({len(scores)} of them, false alarm below {FALSE_ALARM:.0%})",
                 HOLDS if max(scores) <= limit else FAILS,
                 f"largest deviation {max(scores):.2f} standard errors, limit {limit:.2f}")  # fmt: skip
