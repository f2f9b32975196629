"""The rule in plain NumPy: from tokens to pointers, windows and labels, and what a constant guess is worth.

This is the definition. `kernels.py` is its fast twin.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from neophyte.core.addressing import Space
from neophyte.core.spec import check_integer
from neophyte.pvr.spec import VERSION, RuleSpec, TokenSpec

# Draws of the balanced holdout before a label is called too rare.
_MAX_DRAWS = 10_000_000
# Windows that are enumerated to find the law of a label for which there is no closed form.
_MAX_WINDOWS = 10_000_000


@dataclass(frozen=True)
class Variables:
    """The intermediate variables of a batch of sequences.

    Attributes:
        pointers: int64 (batch,), what the pointer tokens say.
        path: int64 (batch, hops - 1), the positions of the values that are read as pointers.
        starts: int64 (batch,), where the window begins among the values.
        mask: bool (batch, length), the tokens of the window.
        windows: int64 (batch, w), the values of the window in order; -1 where it is shorter than w.
    """

    pointers: np.ndarray
    path: np.ndarray
    starts: np.ndarray
    mask: np.ndarray
    windows: np.ndarray


def imported(field: str, path: str) -> Callable[..., Any]:
    """Return the function that a field's "package.module:function" names.

    Raises:
        ValueError: It cannot be imported.
    """
    module, _, name = path.partition(":")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{field} is {path!r}, which cannot be imported: {error}") from None
    if not callable(found):
        raise ValueError(f"{field} is {path!r}; allowed: a function, not {found!r}")
    return found


def value_columns(spec: RuleSpec) -> np.ndarray:
    """Return the column of every value among the tokens, int64 (num_values,)."""
    values = np.arange(spec.num_values)
    return np.where(values < spec.pointer_position, values, values + spec.length - spec.num_values)


def variables(tokens: Any, spec: RuleSpec) -> Variables:
    """Return the intermediate variables of sequences.

    Args:
        tokens: Integers in [0, alphabet), (batch, length).
        spec: The rule.

    Raises:
        ValueError: The tokens are not of this form, or a pointer names no position.
    """
    tokens = _check_tokens(tokens, spec)
    first, columns = spec.pointer_position, value_columns(spec)
    pointers = np.zeros(len(tokens), dtype=np.int64)
    for column in range(first, first + spec.pointer_length):
        pointers = pointers * spec.alphabet + tokens[:, column]
    widths = tokens[:, first + spec.pointer_length] + 1 if spec.variable_window else np.full(len(tokens), spec.window)
    for name, found, bound in (("pointer", pointers, spec.num_starts), ("window", widths - 1, spec.window)):
        if len(found) and found.max() >= bound:
            raise ValueError(f"tokens hold the {name} {found.max()}; allowed: at most {bound - 1}")
    values, rows = tokens[:, columns], np.arange(len(tokens))
    starts, path = pointers, np.empty((len(tokens), spec.hops - 1), dtype=np.int64)
    for hop in range(spec.hops - 1):
        path[:, hop] = starts
        starts = values[rows, starts] % spec.num_starts
    offsets = np.arange(spec.window)
    positions = starts[:, None] + offsets
    inside = offsets < widths[:, None]
    if spec.window_end != "cyclic":
        inside &= positions < spec.num_values
    positions %= spec.num_values
    windows = np.where(inside, values[rows[:, None], positions], -1)
    mask = np.zeros(tokens.shape, dtype=bool)
    mask[np.nonzero(inside)[0], columns[positions[inside]]] = True
    return Variables(pointers, path, starts, mask, windows)


def labels(tokens: Any, spec: RuleSpec) -> np.ndarray:
    """Return the labels of sequences, int64 (batch,), in [0, classes).

    Args:
        tokens: Integers in [0, alphabet), (batch, length).
        spec: The rule.

    Raises:
        ValueError: The tokens are not of this form, or a pointer names no position.
    """
    return aggregate(variables(tokens, spec).windows, spec)


def aggregate(windows: Any, spec: RuleSpec) -> np.ndarray:
    """Return the label of each window, int64 (batch,).

    Args:
        windows: Integers in [0, alphabet), (batch, w), -1 after the end of a window that is shorter; none is empty.
        spec: The rule.

    Raises:
        ValueError: Your own aggregation returned anything else than a label for each window.
    """
    windows = np.asarray(windows, dtype=np.int64)
    inside = windows >= 0
    sizes, kind = inside.sum(axis=1), spec.aggregation
    if kind == "mod_sum":
        return np.where(inside, windows, 0).sum(axis=1) % spec.alphabet
    if kind == "min":
        return np.where(inside, windows, spec.alphabet).min(axis=1)
    if kind == "max":
        return windows.max(axis=1)
    if kind == "parity":
        return 1 - (windows == 0).sum(axis=1) % 2
    if kind == "median":
        ordered, rows = np.sort(np.where(inside, windows, spec.alphabet), axis=1), np.arange(len(windows))
        lower, upper = ordered[rows, (sizes - 1) // 2], ordered[rows, sizes // 2]
        return {"lower": lower, "upper": upper, "mean": (lower + upper) // 2}[spec.median]
    if kind == "maj_vote":
        return _modes(windows, spec)
    found = np.asarray(imported("aggregation", kind)(windows))
    if found.shape != sizes.shape or found.dtype.kind not in "iu":
        raise ValueError(f"aggregation {kind} returned {found.dtype} {found.shape}; allowed: integers {sizes.shape}")
    if len(found) and not (found.min() >= 0 and found.max() < spec.classes):
        raise ValueError(f"aggregation {kind} returned labels in [{found.min()}, {found.max()}]; allowed: "
                         f"[0, {spec.classes}), or another num_classes")  # fmt: skip
    return found.astype(np.int64)


def _modes(windows: np.ndarray, spec: RuleSpec) -> np.ndarray:
    """Return the most frequent value of each window, ties broken by the spec."""
    counts = (windows[:, :, None] == np.arange(spec.alphabet)).sum(axis=1)
    if spec.mode_tie == "smallest":
        return counts.argmax(axis=1)
    if spec.mode_tie == "largest":
        return spec.alphabet - 1 - counts[:, ::-1].argmax(axis=1)
    rows = np.arange(len(windows))
    of_each = np.where(windows >= 0, counts[rows[:, None], windows], -1)
    return windows[rows, of_each.argmax(axis=1)]


def _check_tokens(tokens: Any, spec: RuleSpec) -> np.ndarray:
    array = np.asarray(tokens)
    if array.ndim != 2 or array.shape[1] != spec.length or array.dtype.kind not in "iu":
        raise ValueError(f"tokens has shape {array.shape} and dtype {array.dtype}; allowed: integers, "
                         f"(batch, {spec.length})")  # fmt: skip
    if array.size and not (array.min() >= 0 and array.max() < spec.alphabet):
        raise ValueError(f"tokens lie in [{array.min()}, {array.max()}]; allowed: [0, {spec.alphabet})")
    return array.astype(np.int64)


# What is held out.


def held_out_windows(spec: TokenSpec) -> np.ndarray:
    """Return the windows that training never shows, int64 (count, w); none for a holdout of another kind.

    Permutations stand in lexicographic order, so that the first is (0, ..., w - 1).

    Raises:
        ValueError: The balanced holdout asks for more windows of a label than there are.
    """
    if spec.holdout == "permutations":
        found = itertools.islice(itertools.permutations(range(spec.window)), spec.holdout_count)
        return np.array(list(found), dtype=np.int64)
    if spec.holdout == "balanced":
        return _balanced_windows(spec)
    return np.empty((0, spec.window), dtype=np.int64)


def _balanced_windows(spec: TokenSpec) -> np.ndarray:
    """Draw windows one by one and keep the new ones whose label still lacks some."""
    quota = np.full(spec.classes, spec.holdout_count // spec.classes)
    if ":" not in spec.aggregation and (label_law(spec, spec.window) * _MAX_DRAWS < quota).any():
        rare = int(label_law(spec, spec.window).argmin())
        raise ValueError(f"holdout_count is {spec.holdout_count}; allowed: fewer, since too few windows have the label "
                         f"{rare}")  # fmt: skip
    stream = Space(f"pvr-holdout@{VERSION}", "holdout", spec.holdout_seed).stream("windows", 0)
    found: dict[tuple[int, ...], int] = {}
    drawn = 0
    while quota.any():
        if drawn >= _MAX_DRAWS:
            raise ValueError(f"holdout_count is {spec.holdout_count}; allowed: fewer, since too few windows have the "
                             f"label {int(quota.argmax())}")  # fmt: skip
        windows = stream.integers(spec.alphabet, 1000 * spec.window).reshape(-1, spec.window)
        drawn += len(windows)
        for window, label in zip(map(tuple, windows.tolist()), aggregate(windows, spec).tolist(), strict=True):
            if quota[label] and window not in found:
                found[window] = label
                quota[label] -= 1
    return np.array(list(found), dtype=np.int64)


def window_codes(windows: Any, alphabet: int) -> np.ndarray:
    """Return each whole window (batch, w) as a number in base `alphabet`, the first value the highest, int64 (batch,).

    A window that is shorter has the code -1.
    """
    windows = np.asarray(windows, dtype=np.int64)
    codes = np.zeros(len(windows), dtype=np.int64)
    for column in windows.T:
        codes = codes * alphabet + column
    return np.where((windows >= 0).all(axis=1), codes, -1)


def label_table(spec: RuleSpec) -> tuple[np.ndarray, np.ndarray]:
    """Return the label of every window, of each size that the end of the sequence leaves.

    Returns:
        Where the windows of each size begin, int64 (w + 1,), and the labels, uint8: of the windows of a size in the
        order of their codes (`window_codes`).
    """
    starts, tables, total = np.zeros(spec.window + 1, dtype=np.int64), [], 0
    for size in sorted(window_sizes(spec)):
        starts[size], count = total, spec.alphabet**size
        tables.append(_labels_of_codes(np.arange(count), size, spec).astype(np.uint8))
        total += count
    return starts, np.concatenate(tables)


# What a constant guess is worth.


def label_law(spec: RuleSpec, size: int | None = None) -> np.ndarray:
    """Return the exact probability of each label of a window of uniform values, float64 (classes,).

    Args:
        spec: The rule.
        size: Number of values in the window; by default w, or for windows of several sizes their mixture.

    Raises:
        ValueError: It is your own aggregation, over more windows than can be enumerated.
    """
    if size is None:
        sizes = window_sizes(spec)
        return np.sum([float(weight) * label_law(spec, size) for size, weight in sizes.items()], axis=0)
    check_integer("size", size, 1, spec.window)
    base, law = spec.alphabet, None
    if spec.aggregation in ("mod_sum", "parity"):
        law = [Fraction(1, base)] * base
    elif spec.aggregation in ("min", "max"):
        law = [Fraction((x + 1) ** size - x**size, base**size) for x in range(base)]
        law = law[::-1] if spec.aggregation == "min" else law
    elif spec.aggregation == "median" and (size % 2 or spec.median != "mean"):
        law = _median_law(base, size, (size - 1) // 2 if spec.median == "lower" else size // 2)
    elif spec.aggregation == "maj_vote" and spec.mode_tie == "first":
        law = [Fraction(1, base)] * base  # the rule treats all values alike
    elif spec.aggregation == "maj_vote":
        law = _mode_law(base, size)
        law = law[::-1] if spec.mode_tie == "largest" else law
    if law is not None:
        return np.array([float(p) for p in law])
    return _enumerated_law(spec, size)


def window_sizes(spec: RuleSpec) -> dict[int, Fraction]:
    """Return the probability of each number of values that the window of a sequence can have."""
    widths = range(spec.window - spec.num_widths + 1, spec.window + 1)
    if spec.window_end == "cyclic":
        return {width: Fraction(1, len(widths)) for width in widths}
    sizes: dict[int, Fraction] = {}
    for start, width in itertools.product(range(spec.num_starts), widths):
        size = min(width, spec.num_values - start)
        sizes[size] = sizes.get(size, Fraction(0)) + Fraction(1, spec.num_starts * len(widths))
    return sizes


def _median_law(base: int, size: int, rank: int) -> list[Fraction]:
    """Return the law of the value of that rank, from 0, among `size` uniform ones."""

    def at_most(x: int) -> Fraction:  # at least rank + 1 of the values are below x + 1
        p = Fraction(x + 1, base)
        return sum((math.comb(size, k) * p**k * (1 - p) ** (size - k) for k in range(rank + 1, size + 1)), Fraction(0))

    below = [Fraction(0), *(at_most(x) for x in range(base))]
    return [high - low for low, high in itertools.pairwise(below)]


def _mode_law(base: int, size: int) -> list[Fraction]:
    """Return the law of the smallest most frequent value: of x, c times, with fewer of each below it and no more above.

    The number of windows with given limits on the counts is size! times a coefficient of a product of truncated
    exponential series.
    """

    def times(a: list[Fraction], b: list[Fraction]) -> list[Fraction]:
        return [sum((a[i] * b[k - i] for i in range(k + 1)), Fraction(0)) for k in range(size + 1)]

    def power(limit: int, exponent: int) -> list[Fraction]:
        series = [Fraction(1, math.factorial(j)) if j <= limit else Fraction(0) for j in range(size + 1)]
        result = [Fraction(1), *[Fraction(0)] * size]
        for _ in range(exponent):
            result = times(result, series)
        return result

    law = []
    for x in range(base):
        ways = Fraction(0)
        for c in range(1, size + 1):
            others = times(power(c - 1, x), power(c, base - 1 - x))
            ways += others[size - c] / math.factorial(c)
        law.append(ways * math.factorial(size) / base**size)
    return law


def _enumerated_law(spec: RuleSpec, size: int) -> np.ndarray:
    count = spec.alphabet**size
    if count > _MAX_WINDOWS:
        raise ValueError(f"window is {size}; allowed for the exact law of {spec.aggregation}: at most {_MAX_WINDOWS:,} "
                         f"windows, not {count:,}")  # fmt: skip
    law = np.zeros(spec.classes)
    for start in range(0, count, 100_000):
        codes = np.arange(start, min(start + 100_000, count))
        law += np.bincount(_labels_of_codes(codes, size, spec), minlength=spec.classes)
    return law / count


def _labels_of_codes(codes: np.ndarray, size: int, spec: RuleSpec) -> np.ndarray:
    """Return the labels of the windows of `size` values that are these numbers in base `alphabet` (`window_codes`)."""
    digits = codes[:, None] // spec.alphabet ** np.arange(size - 1, -1, -1) % spec.alphabet
    return aggregate(np.pad(digits, ((0, 0), (0, spec.window - size)), constant_values=-1), spec)


def best_constant(spec: RuleSpec) -> float:
    """Return the accuracy of the best constant guess: the largest probability of a label (see `task_law`)."""
    return float((task_law(spec) if isinstance(spec, TokenSpec) else label_law(spec)).max())


def task_law(spec: TokenSpec) -> np.ndarray:
    """Return the exact probability of each label in a set of examples, float64 (classes,).

    Where the part holds held-out windows only, it is that of their labels: all permutations of one set have one sum, so
    that a constant guess is always right there.

    Raises:
        ValueError: There is no exact law: a predicate or a frozen value shapes the part, or your own aggregation is
            over too many windows.
    """
    if spec.hops > 2 or (spec.hops == 2 and spec.window_end != "cyclic"):
        raise ValueError(f"hops is {spec.hops}; allowed for an exact law: 1, or 2 with cyclic windows")
    if spec.part == "all":
        return label_law(spec)
    if spec.holdout in ("frozen", "predicate"):
        raise ValueError(f"holdout is {spec.holdout!r}; allowed for an exact law of part {spec.part!r}: none, "
                         "permutations, balanced")  # fmt: skip
    windows = held_out_windows(spec)[: 1 if spec.part == "first" else None]
    held = np.bincount(aggregate(windows, spec), minlength=spec.classes)
    if spec.part != "train":
        return held / held.sum()
    # Of all windows, a part is whole; of those, the held-out ones are missing.
    whole = Fraction(spec.whole_starts, spec.num_starts * spec.num_widths)
    missing = float(whole) * held / spec.alphabet**spec.window
    law: np.ndarray = label_law(spec) - missing
    return law / law.sum()
