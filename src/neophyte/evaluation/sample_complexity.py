"""The official score of Pointer Value Retrieval: how many examples a learner needs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

THRESHOLD = 0.95


def sample_complexity(scores: Iterable[tuple[int, int, float]], threshold: float = THRESHOLD) -> dict[int, int | None]:
    """Return the smallest training-set size with a median test accuracy above the threshold, for each complexity.

    Scores are comparable where they come from the same grid of sizes, with three seeds each.

    Args:
        scores: (m, training-set size, test accuracy) of each run.
        threshold: Accuracy to exceed.

    Returns:
        m -> size, or None where no size of the grid suffices; by m.
    """
    runs: dict[int, dict[int, list[float]]] = {}
    for m, size, accuracy in scores:
        runs.setdefault(m, {}).setdefault(size, []).append(accuracy)
    return {
        m: next((size for size in sorted(runs[m]) if statistics.median(runs[m][size]) > threshold), None)
        for m in sorted(runs)
    }
