"""How alike two representations are: linear centred kernel alignment (S. Kornblith et al., 2019)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def linear_cka(pairs: Iterable[tuple[np.ndarray, np.ndarray]]) -> float:
    """Return ||Y'X||^2 / (||X'X|| ||Y'Y||) (Frobenius) of the centred representations X and Y of the same examples.

    The products are gathered batch by batch, in float64 and about the first batch's means, so that any number of
    examples fits.

    Args:
        pairs: Batches of (X float (batch, width), Y float (batch, other width)); rows are examples, the same in both.

    Returns:
        A number in [0, 1].

    Raises:
        ValueError: There are fewer than two examples, the batches do not match, or a representation is constant.
    """
    count, width = 0, 0
    joint, sums, origin = np.zeros((0, 0)), np.zeros(0), np.zeros(0)
    for x, y in pairs:
        if x.ndim != 2 or y.ndim != 2 or len(x) != len(y):
            raise ValueError(f"pairs holds shapes {x.shape} and {y.shape}; allowed: (batch, width), of equal batch")
        both = np.concatenate([x, y], axis=1).astype(np.float64)
        if not count:
            origin, width = both.mean(axis=0), x.shape[1]
            joint, sums = np.zeros((both.shape[1], both.shape[1])), np.zeros(both.shape[1])
        if both.shape[1] != len(origin) or x.shape[1] != width:
            raise ValueError(f"pairs holds widths {x.shape[1]} and {y.shape[1]}; allowed: the same in each batch")
        both -= origin
        joint += both.T @ both
        sums += both.sum(axis=0)
        count += len(both)
    if count < 2:
        raise ValueError(f"pairs holds {count} examples; allowed: at least 2")
    joint -= np.outer(sums, sums) / count
    own, other, cross = joint[:width, :width], joint[width:, width:], joint[width:, :width]
    scale = float(np.linalg.norm(own) * np.linalg.norm(other))
    if scale == 0.0:
        raise ValueError("pairs holds a representation that is the same for all examples; allowed: one that varies")
    return min(1.0, float(np.sum(cross**2) / scale))
