"""The exact probability that two windows that share some positions have the same label.

Each method below takes the rule, `joints` (deltas, K, K), the joint law of a token and its noisy copy at every delta,
and the pair's key, three integers (`complexity.py` says which), and returns float64 (deltas,).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from neophyte.pvr.rule import aggregate
from neophyte.pvr.spec import RuleSpec

SAMPLED = "sampled_noise_sensitivity takes others"

# Longer windows would take many minutes or much memory.
_MAX_COUNTED = 30_000_000  # entries of all tables of counts of a median, a delta
_MAX_SORTED = 32  # values in a window that is seen as a multiset
_MAX_MOVES = 10_000_000  # twice the entries of the tables of steps between multisets
_MAX_WINDOWS = 1_000_000  # windows that are enumerated

Key = tuple[int, int, int]
Agreement = Callable[[RuleSpec, np.ndarray, Key], np.ndarray]


def agreement_of(spec: RuleSpec, *, largest_delta: float) -> Agreement:
    """Return the method for this rule.

    Args:
        spec: The rule.
        largest_delta: The largest probability that a bit is flipped, in [0, 1].

    Raises:
        ValueError: There is none, for this delta or this window.
    """
    base, w = spec.alphabet, spec.window
    if spec.aggregation in ("mod_sum", "parity"):
        return _sum_agreement
    if spec.aggregation in ("min", "max"):
        return _extreme_agreement
    if spec.aggregation == "median" and spec.median != "mean":
        keys = w if spec.window_end == "cyclic" else w**2  # roughly
        _check_cost(spec, keys * w * (w + 1) ** 2 * base <= _MAX_COUNTED)
        return _median_agreement
    if minds_order(spec):
        _check_cost(spec, base**w <= _MAX_WINDOWS)
        return _ordered_agreement
    if spec.aggregation not in ("median", "maj_vote"):
        raise ValueError(f"aggregation is {spec.aggregation!r}; allowed for the exact noise sensitivity: mod_sum, "
                         f"parity, min, max, median, maj_vote; {SAMPLED}")  # fmt: skip
    _check_cost(spec, w <= _MAX_SORTED and math.comb(w + base - 1, w) * w * base <= _MAX_MOVES)
    if largest_delta > 0.5:
        raise ValueError(f"deltas is {largest_delta}; allowed for the exact noise sensitivity of {spec.aggregation}: "
                         f"at most 0.5; {SAMPLED}")  # fmt: skip
    return _symmetric_agreement


def minds_order(spec: RuleSpec) -> bool:
    """Return whether the label depends on the order of the values in a window."""
    return spec.aggregation == "maj_vote" and spec.mode_tie == "first"


def _check_cost(spec: RuleSpec, affordable: bool) -> None:
    if not affordable:
        raise ValueError(f"window is {spec.window}; allowed for the exact noise sensitivity of {spec.aggregation}: a "
                         f"shorter one; {SAMPLED}")  # fmt: skip


def _sum_agreement(spec: RuleSpec, joints: np.ndarray, key: Key) -> np.ndarray:
    """Sums are equal modulo K: the mean over all characters of that of their difference.

    The products of signs too: with K = 2, zeros and ones are as frequent.
    """
    own_x, shared, own_y = key
    tokens = np.arange(spec.alphabet)
    characters = np.exp(2j * np.pi * (tokens[:, None] * tokens % spec.alphabet) / spec.alphabet)
    one = joints[0].sum(axis=1) @ characters
    both = np.einsum("dab,ak,bk->dk", joints, characters, characters.conj(), optimize=True)
    return (both**shared * one**own_x * one.conj() ** own_y).real.mean(axis=1)


def _ordered_law(joints: np.ndarray, at_most: Callable[..., np.ndarray]) -> np.ndarray:
    """Return the probability that two labels are equal, given that of "x's at most s, y's at most t" by `at_most`.

    It takes P(a <= s, b <= t), P(a <= s) and P(b <= t) of a single pair of tokens, each (deltas, K).
    """
    below = np.pad(joints.cumsum(axis=1).cumsum(axis=2), ((0, 0), (1, 0), (1, 0)))
    s = np.arange(1, joints.shape[1] + 1)

    def law(s: np.ndarray, t: np.ndarray) -> np.ndarray:
        return at_most(below[:, s, t], below[:, s, -1], below[:, -1, t])

    return (law(s, s) - law(s - 1, s) - law(s, s - 1) + law(s - 1, s - 1)).sum(axis=1)


def _extreme_agreement(spec: RuleSpec, joints: np.ndarray, key: Key) -> np.ndarray:
    """A maximum is at most s where all tokens are; a minimum is a maximum of the alphabet upside down."""
    own_x, shared, own_y = key
    if spec.aggregation == "min":
        joints = joints[:, ::-1, ::-1]
    return _ordered_law(joints, lambda both, left, right: both**shared * left**own_x * right**own_y)


def _median_agreement(spec: RuleSpec, joints: np.ndarray, key: Key) -> np.ndarray:
    """A median is at most s where enough tokens are: count them in both windows, position by position."""
    own_x, shared, own_y = key
    size_x, size_y = own_x + shared, own_y + shared
    # The lower median's rank from 0 is (size - 1) // 2, the upper's size // 2.
    less = 1 if spec.median == "lower" else 0
    least_x, least_y = (size_x - less) // 2 + 1, (size_y - less) // 2 + 1

    def at_most(both: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        law = np.zeros((size_x + 1, size_y + 1, *both.shape))
        law[0, 0] = 1.0
        steps = [(both, left - both, right - both)] * shared
        steps += [(0 * left, left, 0 * left)] * own_x + [(0 * right, 0 * right, right)] * own_y
        for in_both, in_x, in_y in steps:
            new = law * (1.0 - in_both - in_x - in_y)
            new[1:, 1:] += law[:-1, :-1] * in_both
            new[1:] += law[:-1] * in_x
            new[:, 1:] += law[:, :-1] * in_y
            law = new
        return law[least_x:, least_y:].sum(axis=(0, 1))

    return _ordered_law(joints, at_most)


def _ordered_agreement(spec: RuleSpec, joints: np.ndarray, key: Key) -> np.ndarray:
    """Of a rule that minds the order: the sum over labels of <g_x, J x ... x J g_y>.

    g_x is the chance of the label given the shared tokens of x, over random ones in the rest of its window: a tensor.
    """
    size_x, size_y, later = key
    n, base = spec.num_values, spec.alphabet
    law = joints[0].sum(axis=1)
    of_x = [a for a in range(size_x) if (a - later) % n < size_y]  # offsets of shared positions in x's window
    of_y = [(a - later) % n for a in of_x]
    labels_x, labels_y = _all_labels(spec, size_x), _all_labels(spec, size_y)
    found = np.zeros(len(joints))
    for label in range(base):
        chance_x = _mean_over((labels_x == label).astype(np.float64), set(range(size_x)) - set(of_x), law)
        chance_y = _mean_over((labels_y == label).astype(np.float64), set(range(size_y)) - set(of_y), law)
        chance_y = chance_y.transpose([sorted(of_y).index(offset) for offset in of_y])
        for d, joint in enumerate(joints):
            noisy = chance_y
            for _ in of_x:  # the first axis is taken off and comes back as the last
                noisy = noisy.reshape(base, -1).T @ joint
            found[d] += chance_x.ravel() @ noisy.ravel()
    return found


def _all_labels(spec: RuleSpec, size: int) -> np.ndarray:
    """Return the label of every window of that size, int64 (K, ..., K)."""
    count, powers = spec.alphabet**size, spec.alphabet ** np.arange(size - 1, -1, -1)
    blocks = [np.arange(first, min(first + 50_000, count)) for first in range(0, count, 50_000)]
    found = [aggregate(codes[:, None] // powers % spec.alphabet, spec) for codes in blocks]
    return np.concatenate(found).reshape((spec.alphabet,) * size)


def _mean_over(chances: np.ndarray, axes: set[int], law: np.ndarray) -> np.ndarray:
    for axis in sorted(axes, reverse=True):
        chances = np.tensordot(chances, law, axes=(axis, 0))
    return chances


class _Multisets:
    """The multisets of `size` tokens of K: the windows, as a rule sees them that does not mind the order.

    Attributes:
        counts: int64 (multisets, K), how often each token occurs.
    """

    def __init__(self, alphabet: int, size: int) -> None:
        windows = np.array(list(itertools.combinations_with_replacement(range(alphabet), size)), dtype=np.int64)
        counts = np.zeros((len(windows), alphabet), dtype=np.int64)
        for column in windows.T:
            counts[np.arange(len(windows)), column] += 1
        # ways[s, a] is the number of ways to choose a out of s + a - 1: the combinatorial number system.
        self._ways = np.zeros((size + 1, alphabet), dtype=np.int64)
        self._ways[1:, 0] = 1
        for a in range(1, alphabet):
            self._ways[1:, a] = self._ways[1:, a - 1].cumsum()
        self.counts = np.empty_like(counts)
        self.counts[self.places(counts)] = counts

    def places(self, counts: np.ndarray) -> np.ndarray:
        """Return where these multisets (batch, K) stand in `self.counts`, int64 (batch,)."""
        return self._ways[counts[:, :-1].cumsum(axis=1), np.arange(1, counts.shape[1])].sum(axis=1)


def _symmetric_agreement(spec: RuleSpec, joints: np.ndarray, key: Key) -> np.ndarray:
    """Of any rule that does not mind the order: as `_ordered_agreement`, on multisets.

    With J = L D L' there is L' x ... x L' on either side of D x ... x D. It is a product of steps, each of which adds
    a multiple of one token's entries to those of another, in place.
    """
    own_x, shared, own_y = key
    law = joints[0].sum(axis=1)
    sets = _Multisets(spec.alphabet, shared)
    chances = [_label_chances(spec, own, shared, law) for own in sorted({own_x, own_y})]
    steps = list(_steps(sets))
    orders = np.array([float(math.factorial(size)) for size in range(shared + 1)])
    windows = orders[shared] / orders[sets.counts].prod(axis=1)
    found = np.empty(len(joints))
    for d, joint in enumerate(joints):
        lower, pivots = _factors(joint)
        changed = [chance.copy() for chance in chances]
        for table in changed:
            for a, b, rows, moved in steps:
                table[rows] += lower[b, a] * table[moved]
        found[d] = (windows * (pivots**sets.counts).prod(axis=1)) @ (changed[0] * changed[-1]).sum(axis=1)
    return found


def _label_chances(spec: RuleSpec, own: int, shared: int, law: np.ndarray) -> np.ndarray:
    """Return the probability of each label given the shared tokens, over random own ones, float64 (multisets, K)."""
    base, size = spec.alphabet, own + shared
    sets = _Multisets(base, size)
    windows = np.repeat(np.tile(np.arange(base), len(sets.counts)), sets.counts.ravel()).reshape(-1, size)
    chances = np.eye(base)[aggregate(windows, spec)]
    for less in range(size - 1, shared - 1, -1):
        smaller = _Multisets(base, less)
        one_more = [chances[sets.places(smaller.counts + one)] for one in np.eye(base, dtype=np.int64)]
        chances = np.tensordot(law, one_more, axes=1)
        sets = smaller
    return chances


def _steps(sets: _Multisets) -> Iterator[tuple[int, int, np.ndarray, np.ndarray]]:
    """Yield tokens a < b, the multisets with at least j times a, and the same with one a turned into b; j = 1, 2, ...

    If each j of these in turn adds c times the latter's entry to the former's, then a multiset with a k times ends with
    the entries for all choices of the a's to turn, times c for each turned: (1 + c)^k in symbols.
    """
    for a, b in itertools.combinations(range(sets.counts.shape[1]), 2):
        rows = np.flatnonzero(sets.counts[:, a])
        counts = sets.counts[rows]
        counts[:, a] -= 1
        counts[:, b] += 1
        moved = sets.places(counts).astype(np.int32)
        for j in range(1, sets.counts[:, a].max() + 1):
            enough = sets.counts[rows, a] >= j
            yield a, b, rows[enough].astype(np.int32), moved[enough]


def _factors(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return L (K, K), of unit diagonal, and D (K,) with J = L D L': J has no negative eigenvalue for delta <= 1/2."""
    rest, lower, pivots = joint.copy(), np.eye(len(joint)), np.zeros(len(joint))
    for a in range(len(joint)):
        if rest[a, a] > 1e-13 * joint.max():  # otherwise, but for rounding, its whole column is zero
            pivots[a], lower[a:, a] = rest[a, a], rest[a:, a] / rest[a, a]
            rest -= pivots[a] * np.outer(lower[:, a], lower[:, a])
    return lower, pivots
