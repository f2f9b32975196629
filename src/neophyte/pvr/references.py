"""What to compare a model with: guesses that do not follow the pointer, and a learner that only remembers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from neophyte.core.spec import check_integer
from neophyte.pvr import rule
from neophyte.pvr.spec import RuleSpec

if TYPE_CHECKING:
    from neophyte.pvr.dataset import TokenDataset

# Examples drawn at a time, and those that a guess is estimated from where there is no exact law.
_CHUNK = 1_000_000
_ESTIMATE = 100_000


def controls(dataset: TokenDataset, tokens: Any) -> dict[str, np.ndarray]:
    """Return each control's guesses for sequences (batch, length), int64 (batch,) by name.

    "constant" is always the most frequent label, "first_window" takes the pointer to be 0.
    """
    spec = dataset.spec
    unpointed = np.array(tokens)
    columns = slice(spec.pointer_position, spec.pointer_position + spec.pointer_length)
    unpointed[:, columns] = 0
    return {
        "constant": np.full(len(unpointed), constant_label(dataset)),
        "first_window": rule.labels(unpointed, spec),
    }


def constant_label(dataset: TokenDataset) -> int:
    """Return the most frequent label of a task (see `task_law`)."""
    return int(task_law(dataset).argmax())


def task_law(dataset: TokenDataset) -> np.ndarray:
    """Return the probability of each label, float64 (classes,); without an exact law, among the first examples."""
    try:
        return rule.task_law(dataset.spec)
    except ValueError:
        labels = dataset.batch(np.arange(_ESTIMATE)).labels
        return np.bincount(labels, minlength=dataset.spec.classes) / len(labels)


@dataclass(frozen=True)
class Overlap:
    """How much of a test set occurs in a training set, counted exactly.

    A case is what the label depends on: where the window begins and the values in it. There are 10^(m + 2) in the
    paper's tasks.

    Attributes:
        test: Examples of the test set.
        train: Examples of the training set.
        sequences: Test examples whose whole sequence is a training example too.
        cases: Test examples whose case is that of a training example.
    """

    test: int
    train: int
    sequences: int
    cases: int


def overlap(train: TokenDataset, test: TokenDataset) -> Overlap:
    """Count the examples of a test set that also occur in a training set, as sequences and as cases.

    Args:
        train: Its `num_examples` are drawn a million at a time; nothing of them is kept.
        test: It is held in memory.

    Raises:
        ValueError: The two sets have different rules.
    """
    rules = [{name: getattr(one.spec, name) for name in RuleSpec.__dataclass_fields__} for one in (train, test)]
    if rules[0] != rules[1]:
        field = next(name for name in rules[0] if rules[0][name] != rules[1][name])
        raise ValueError(f"{field} of the test set is {rules[1][field]!r}; allowed: the training set's, "
                         f"{rules[0][field]!r}")  # fmt: skip
    wanted = [np.concatenate(parts) for parts in zip(*(_codes(test, one) for one in _chunks(len(test))), strict=True)]
    # Each distinct code of the test set once, sorted: a training example marks its own.
    distinct = [np.unique(codes, return_inverse=True) for codes in wanted]
    seen = [np.zeros(len(codes), dtype=bool) for codes, _ in distinct]
    for indices in _chunks(len(train)):
        for codes, (known, _), marks in zip(_codes(train, indices), distinct, seen, strict=True):
            places = np.minimum(known.searchsorted(codes), len(known) - 1)
            marks[places[known[places] == codes]] = True
    sequences, cases = (int(marks[back].sum()) for marks, (_, back) in zip(seen, distinct, strict=True))
    return Overlap(len(test), len(train), sequences, cases)


def _chunks(size: int) -> Iterator[np.ndarray]:
    for start in range(0, size, _CHUNK):
        yield np.arange(start, min(start + _CHUNK, size))


def _codes(dataset: TokenDataset, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a number for each example's sequence and one for its case, equal where and only where these are."""
    spec = dataset.spec
    tokens = dataset.batch(indices).tokens
    found = rule.variables(tokens, spec)
    case = np.column_stack([found.starts, found.windows + 1])
    return _numbers(tokens, spec.alphabet), _numbers(case, max(spec.alphabet + 1, spec.num_starts))


def _numbers(digits: np.ndarray, base: int) -> np.ndarray:
    """Return each row as one value that can be sorted: a number in that base, or where that is too large its bytes."""
    if base ** digits.shape[1] >= 2**63:
        rows = np.ascontiguousarray(digits)
        return rows.view(f"S{rows.dtype.itemsize * rows.shape[1]}")[:, 0]
    codes = np.zeros(len(digits), dtype=np.int64)
    for column in digits.T:
        codes = codes * base + column
    return codes


def memorisation(spec: RuleSpec, train_size: int) -> float:
    """Return the expected test accuracy of a learner that remembers the cases it has seen, and else guesses.

    It knows which values matter, and nothing of how they make the label: for an unseen case it names the most frequent
    label. What a model reaches beyond this it has not memorised (paper, section 6.2).

    Args:
        spec: A rule with one hop; its cases are equally likely for each position and number of values.
        train_size: Number of training examples.

    Raises:
        ValueError: The rule has several hops.
    """
    check_integer("train_size", train_size, 0)
    if spec.hops > 1:
        raise ValueError(f"hops is {spec.hops}; allowed: 1")
    guess = int(rule.label_law(spec).argmax())
    widths = range(spec.window - spec.num_widths + 1, spec.window + 1)
    # Starts with one law of the number of values: (number of values, of how many widths) -> how many starts.
    groups: Counter[tuple[int, int]] = Counter()
    for start in range(spec.num_starts):
        room = spec.window if spec.window_end == "cyclic" else spec.num_values - start
        groups.update(Counter(min(width, room) for width in widths).items())
    accuracy = 0.0
    for (size, ways), starts in groups.items():
        share = Fraction(ways, spec.num_starts * len(widths))
        seen = -np.expm1(train_size * np.log1p(-float(share / spec.alphabet**size)))
        accuracy += float(starts * share) * (seen + (1.0 - seen) * float(rule.label_law(spec, size)[guess]))
    return accuracy
