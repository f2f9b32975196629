"""Loss by position in the context, for any predictor, with intervals over sequences (gpicl, Figures 3 and 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from neophyte.core.addressing import Space
from neophyte.core.files import atomic_write

Predictor = Callable[[np.ndarray], np.ndarray]  # tokens (batch, time) -> -log p in nats, float (batch, time)


def log_bins(length: int, per_octave: int = 4) -> np.ndarray:
    """Return bin edges over positions 0..length, int64: single positions first, then `per_octave` bins a doubling.

    The sixteenth, eighth, quarter, half and three quarters of the length are edges too, for `span_means`.
    """
    octaves = np.arange(0, np.log2(length) + 1 / per_octave, 1 / per_octave)
    shares = np.array([1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4]) * length
    edges = np.unique(np.rint(np.concatenate([2.0**octaves, shares[shares >= 1]])).astype(np.int64))
    return np.concatenate([[0], edges[edges < length], [length]])


@dataclass
class Losses:
    """Mean loss of every sequence in every bin of positions: all that curves, regrets and fits are made from.

    Attributes:
        edges: int64 (bin + 1,), where the bins begin and end.
        groups: The group of each sequence, such as its language's order or "text".
        values: By predictor: float32 (sequence, bin), nats.
    """

    edges: np.ndarray
    groups: list[Any] = field(default_factory=list)
    values: dict[str, np.ndarray] = field(default_factory=dict)

    def curve(self, predictor: str, group: Any, over: str | None = None) -> list[dict[str, Any]]:
        """Return a row for each bin: start, stop, mean nats and its 95 % interval (Student's t over sequences).

        Args:
            predictor: Whose losses.
            group: The sequences' group.
            over: Another predictor whose loss on the same sequences is taken off first.
        """
        chosen = self.select(predictor, group)
        if over is not None:
            chosen = chosen - self.select(over, group)
        means, half_widths = mean_interval(chosen)
        return [
            {
                "predictor": predictor,
                "group": str(group),
                "start": int(self.edges[i]),
                "stop": int(self.edges[i + 1]),
                "mean_nats": float(means[i]),
                "low_nats": float(means[i] - half_widths[i]),
                "high_nats": float(means[i] + half_widths[i]),
                "sequences": len(chosen),
            }
            for i in range(len(means))
        ]

    def select(self, predictor: str, group: Any) -> np.ndarray:
        """Return float32 (sequence, bin): one predictor's losses on the sequences of one group."""
        return self.values[predictor][[g == group for g in self.groups]]

    def rows(self) -> list[dict[str, Any]]:
        """Return the curves of all predictors and groups, less those that a predictor has no values for."""
        names = list(dict.fromkeys(self.groups))
        curves = [self.curve(name, group) for name in self.values for group in names]
        return [row for curve in curves for row in curve if np.isfinite(row["mean_nats"])]


def collect_losses(
    batches: Iterable[tuple[list[Any], Mapping[str, np.ndarray]]],
    edges: np.ndarray,
    progress: Callable[[int], None] | None = None,
) -> Losses:
    """Bin the losses of a stream of batches; only the binned means stay in memory.

    Args:
        batches: Pairs of the sequences' groups and, by predictor, -log p (batch, time) in nats. A predictor that is
            missing from a batch has no value there.
        edges: Bin edges over positions.
        progress: Called with the number of sequences in each batch.
    """
    groups: list[Any] = []
    parts: list[dict[str, np.ndarray]] = []
    for batch_groups, scores in batches:
        groups += batch_groups
        parts.append({name: _bin_means(nll, edges) for name, nll in scores.items()})
        if progress:
            progress(len(batch_groups))
    names = list(dict.fromkeys(name for part in parts for name in part))
    absent = [np.full(next(iter(part.values())).shape, np.nan, dtype=np.float32) for part in parts]
    values = {name: np.concatenate([p.get(name, a) for p, a in zip(parts, absent, strict=True)]) for name in names}
    return Losses(edges, groups, values)


def save_losses(losses: Losses, path: Path) -> None:
    """Write losses as .npz, whole or not at all."""
    with atomic_write(path) as file:
        arrays: dict[str, Any] = {**losses.values, "edges": losses.edges, "groups": np.array(losses.groups, dtype=str)}
        np.savez_compressed(file, **arrays)


def load_losses(path: Path) -> Losses:
    """Read what `save_losses` wrote; the groups come back as strings."""
    with np.load(path, allow_pickle=False) as stored:
        values = {name: stored[name] for name in stored.files if name not in ("edges", "groups")}
        return Losses(stored["edges"], stored["groups"].tolist(), values)


def span_means(losses: Losses, predictor: str, group: Any, low: float, high: float) -> np.ndarray:
    """Return each sequence's mean loss over a span of the context, float64 (sequence,).

    Args:
        losses: Binned losses.
        predictor: Whose losses.
        group: The sequences' group.
        low: Where the span begins, as a share of the context; the bins nearest to the span are taken.
        high: Where it ends.
    """
    length = losses.edges[-1]
    first = int(np.argmin(np.abs(losses.edges - low * length)))
    last = max(first + 1, int(np.argmin(np.abs(losses.edges - high * length))))
    widths = np.diff(losses.edges)[first:last]
    return np.average(losses.select(predictor, group)[:, first:last].astype(np.float64), axis=1, weights=widths)


def _bin_means(nll: np.ndarray, edges: np.ndarray) -> np.ndarray:
    sums = np.add.reduceat(nll.astype(np.float64), edges[:-1], axis=1)
    return (sums / np.diff(edges)).astype(np.float32)


def mean_interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean over axis 0 and the half-width of its 95 % interval (Student's t); infinite for one row."""
    count = len(values)
    if count < 2:
        return values.mean(axis=0), np.full(values.shape[1:], np.inf)
    spread = values.std(axis=0, ddof=1, dtype=np.float64)
    return values.mean(axis=0, dtype=np.float64), student_t(count - 1) * spread / np.sqrt(count)


def student_t(degrees: int) -> float:
    """Return the 97.5 % point of Student's t: exact for 1 and 2 degrees, else within 0.2 % (G. W. Hill's series)."""
    if degrees == 1:
        return 12.706204736
    if degrees == 2:
        return 4.302652730
    z = 1.959963985
    g1 = (z**3 + z) / 4
    g2 = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    g3 = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    g4 = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + g1 / degrees + g2 / degrees**2 + g3 / degrees**3 + g4 / degrees**4


def bootstrap(count: int, statistic: Callable[[np.ndarray], float], draws: int = 1000) -> tuple[float, float]:
    """Return the 95 % percentile interval of `statistic` under resampling of `count` rows, from a fixed address.

    Args:
        count: Number of rows.
        statistic: int64 row numbers (count,) -> value.
        draws: Number of resamples.
    """
    picks = Space("bootstrap@1", "evaluation").stream("rows", count).integers(count, draws * count)
    values = [statistic(rows) for rows in picks.reshape(draws, count)]
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def power_law(losses: Losses, predictor: str, group: Any, first: int = 16) -> dict[str, Any] | None:
    """Fit excess loss over the oracle = a t^(-exponent) to the bins from position `first` on.

    Returns:
        exponent and its 95 % bootstrap interval over sequences, or None where the excess is not positive
        throughout, in a resample either.
    """
    excess = losses.select(predictor, group).astype(np.float64) - losses.select("oracle", group)
    used = losses.edges[:-1] >= first
    excess, centres = excess[:, used], np.sqrt(losses.edges[:-1] * losses.edges[1:])[used]

    def exponent(rows: np.ndarray) -> float:
        means = excess[rows].mean(axis=0)
        if len(means) < 3 or (means <= 0).any():
            return float("nan")
        return float(-np.polyfit(np.log(centres), np.log(means), 1)[0])

    value = exponent(np.arange(len(excess)))
    if not np.isfinite(value):
        return None
    low, high = bootstrap(len(excess), exponent, 200)
    if not np.isfinite(low + high):
        return None
    return {"predictor": predictor, "group": str(group), "exponent": value, "low": low, "high": high, "first": first}
