"""Token tasks: index -> labelled sequence, in any order, without end, at tens of millions a second."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from neophyte.core.addressing import MAX_INDEX, Space, check_indices
from neophyte.core.contract import Field
from neophyte.core.spec import change, check_integer
from neophyte.core.threads import in_threads
from neophyte.pvr import kernels, rule
from neophyte.pvr.references import controls
from neophyte.pvr.spec import MEDIANS, MODE_TIES, TokenSpec, preset

_AGGREGATIONS = {
    "mod_sum": kernels.MOD_SUM,
    "median": kernels.MEDIAN,
    "maj_vote": kernels.MAJ_VOTE,
    "min": kernels.MIN,
    "max": kernels.MAX,
    "parity": kernels.PARITY,
}
# Values that share a word: their number of combinations stays below this, so that a word is rejected once in 2^14.
_WORD_LIMIT = 2**50
# The faster kernel looks four digits up at once: up to this base the table stays in a near cache.
_MAX_DIGIT = 16
# ... and so does the label of every window, which is looked up where there are no more than this.
_MAX_ANSWERS = 100_000
# Attempts at one example before the training space is called empty.
_MAX_ATTEMPTS = 100_000
_EXAMPLES_A_PART = 8192  # they are worth waking a thread


@dataclass(frozen=True)
class Examples:
    """Labelled sequences.

    Attributes:
        tokens: uint8 (batch, length), in [0, alphabet).
        labels: uint8 (batch,), in [0, classes).
    """

    tokens: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Twins:
    """Counterfactual twins of a batch: the same sequences with one thing changed, and their new labels.

    Attributes:
        pointer: The pointer names another position.
        value: One value of the window is another.
        irrelevant: One value outside the window, which nothing points through, is another: the label stays. Where
            there is none, the sequence stays as it is.
    """

    pointer: Examples
    value: Examples
    irrelevant: Examples


class TokenDataset:
    """Sequences of a token task, each a pure function of (spec, split, seed, index).

    Args:
        spec: What to draw.
        split: Name of the split; different splits are independent.
        seed: Integer in [0, 2^63); different seeds are independent.

    Raises:
        ValueError: The spec's balanced holdout or functions cannot be had.

    Example:
        >>> from neophyte import pvr
        >>> tokens, label = pvr.tokens(window=3, seed=1)[5]
        >>> tokens.shape, tokens.dtype, 0 <= label < 10
        ((11,), dtype('uint8'), True)
    """

    def __init__(self, spec: TokenSpec, split: str = "train", seed: int = 0) -> None:
        self.spec = spec
        self.split = split
        self.seed = seed
        self._space = Space(spec.identity, split, seed)
        if ":" in spec.aggregation:
            rule.imported("aggregation", spec.aggregation)
        self._windows = rule.held_out_windows(spec)[: 1 if spec.part == "first" else None]
        predicate = rule.imported("predicate", spec.predicate) if spec.predicate else None
        self._predicate = predicate if spec.part != "all" else None
        self._rule, self._layout, self._holdout = self._plan()
        self._slots = _pack(self._bounds())
        self._groups: Any = self._digit_plan()
        self._keys = np.empty((0, 2), dtype=np.uint64)

    def __repr__(self) -> str:
        return f"TokenDataset({self.spec}, split={self.split!r}, seed={self.seed})"

    def __len__(self) -> int:
        return self.spec.num_examples

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        """Return the tokens (length,) and the label of one example of the set."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"index is {index}; allowed: [0, {len(self)})")
        one = self.batch(np.array([index % len(self)]))
        return one.tokens[0], int(one.labels[0])

    def batch(self, indices: Any, *, threads: int = 1) -> Examples:
        """Draw the examples at `indices`.

        Args:
            indices: Integers in [0, 2^63), shape (batch,); those from `num_examples` on are fresh examples too.
            threads: Threads to draw with; the bytes do not depend on it.

        Raises:
            ValueError: The holdout leaves no example.
        """
        indices = check_indices(indices)
        check_integer("threads", threads, 1, 1024)
        keys, places = self._places(indices)
        tokens = np.empty((len(indices), self.spec.length), dtype=np.uint8)
        labels = np.empty(len(indices), dtype=np.uint8)

        def draw(rows: slice) -> None:
            if self._groups is not None:
                plan, window, held_out, groups, answers = self._groups
                kernels.draw_digits(
                    keys, places[rows], plan, window, held_out, groups, answers, tokens[rows], labels[rows]
                )
                return
            attempts = np.zeros(len(places[rows]), dtype=np.int64)
            failures = kernels.draw_examples(
                keys, places[rows], attempts, _MAX_ATTEMPTS, self._rule, self._layout, self._slots, self._holdout,
                tokens[rows], labels[rows],
            )  # fmt: skip
            if failures:
                raise ValueError(f"holdout is {self.spec.holdout!r}; allowed: one that leaves examples: {failures} had "
                                 f"none in {_MAX_ATTEMPTS:,} draws")  # fmt: skip

        in_threads(draw, len(indices), threads, least=_EXAMPLES_A_PART)
        if self._predicate is not None:
            self._redraw(keys, places, tokens, labels)
        if ":" in self.spec.aggregation:
            labels[:] = rule.labels(tokens, self.spec)
        return Examples(tokens, labels)

    def stream(self, batch_size: int, *, start: int = 0, threads: int = 1) -> Iterator[Examples]:
        """Yield batches of the examples start, start + 1, ..., without end or repeats of an address."""
        check_integer("batch_size", batch_size, 1)
        check_integer("start", start, 0, MAX_INDEX)
        while True:
            yield self.batch(np.arange(start, start + batch_size), threads=threads)
            start += batch_size

    def variables(self, indices: Any) -> rule.Variables:
        """Return the intermediate variables of the examples at `indices`: pointers, window masks, window values."""
        return rule.variables(self.batch(indices).tokens, self.spec)

    def twins(self, indices: Any) -> Twins:
        """Return counterfactual twins of the examples at `indices`; they may be ones that the holdout holds out."""
        indices = check_indices(indices)
        tokens, spec = self.batch(indices).tokens, self.spec
        found = rule.variables(tokens, spec)
        words = np.empty((len(indices), 4), dtype=np.uint64)
        kernels.first_words(self._space.keys("twins", indices), words)
        # 32 bits choose the place and 32 the new value; the bias of a choice among k is below k / 2^32.
        high, low = words >> np.uint64(32), words & np.uint64(2**32 - 1)
        rows, columns = np.arange(len(tokens)), rule.value_columns(spec)

        with_pointer = tokens.copy()
        if spec.num_starts > 1:
            pointers = (found.pointers + 1 + _below(high[:, 0], spec.num_starts - 1)) % spec.num_starts
            for place in range(spec.pointer_length):
                column = spec.pointer_position + spec.pointer_length - 1 - place
                with_pointer[:, column] = pointers // spec.alphabet**place % spec.alphabet

        def changed(allowed: np.ndarray, word: int) -> np.ndarray:
            # The place is the k-th allowed one: its columns are counted along each row.
            counts = allowed.sum(axis=1)
            wanted = _below(high[:, word], np.maximum(counts, 1))
            place = (allowed.cumsum(axis=1) > wanted[:, None]).argmax(axis=1)
            step = np.where(counts > 0, 1 + _below(low[:, word], spec.alphabet - 1), 0)
            result = tokens.copy()
            result[rows, place] = (tokens[rows, place] + step) % spec.alphabet
            return result

        outside = np.zeros(tokens.shape, dtype=bool)
        outside[:, columns] = True
        outside &= ~found.mask
        for hop in range(spec.hops - 1):
            outside[rows, columns[found.path[:, hop]]] = False
        made = (with_pointer, changed(found.mask, 1), changed(outside, 2))
        return Twins(*(Examples(twin, rule.labels(twin, spec).astype(np.uint8)) for twin in made))

    # What the task contract (core/contract.py) asks of every data set.

    def fields(self) -> dict[str, Field]:
        """Declare dtype, shape and range of each array of a sample."""
        byte = np.dtype(np.uint8)
        return {
            "tokens": Field(byte, (self.spec.length,), 0, self.spec.alphabet - 1),
            "labels": Field(byte, (), 0, self.spec.classes - 1),
        }

    def arrays(self, indices: Any, threads: int = 1) -> dict[str, np.ndarray]:
        """Return the samples' arrays by name, batch axis first."""
        found = self.batch(indices, threads=threads)
        return {"tokens": found.tokens, "labels": found.labels}

    def losses(self, indices: Any) -> dict[str, np.ndarray]:
        """Return the error (0 or 1) of the rule ("oracle") and of every control on each example, float64 (batch,)."""
        found = self.batch(indices)
        guesses = {"oracle": rule.labels(found.tokens, self.spec), **controls(self, found.tokens)}
        return {name: (guess != found.labels).astype(float) for name, guess in guesses.items()}

    def canonical(self, indices: Any, threads: int = 1) -> np.ndarray:
        """Return the tokens, (batch, length)."""
        return self.batch(indices, threads=threads).tokens

    # How the kernel is told what to draw.

    def _plan(self) -> tuple[Any, Any, Any]:
        spec = self.spec
        code = _AGGREGATIONS.get(spec.aggregation, kernels.OTHER)
        if spec.window == 1 and code not in (kernels.PARITY, kernels.OTHER):
            code = kernels.MIN  # of one value all are the value
        variant = {"median": MEDIANS.index(spec.median), "maj_vote": MODE_TIES.index(spec.mode_tie)}
        numbers = (code, variant.get(spec.aggregation, 0), spec.alphabet, spec.num_starts, spec.hops,
                   spec.window_end == "cyclic")  # fmt: skip
        layout = (spec.num_values, spec.pointer_position, spec.pointer_length, spec.window, int(spec.variable_window))
        mode = kernels.KEEP
        if len(self._windows) and spec.part != "all":
            held = kernels.REQUIRE if spec.hops > 1 else kernels.WRITE
            mode = kernels.REJECT if spec.part == "train" else held
        frozen = spec.holdout == "frozen" and spec.part != "all"
        codes = np.sort(rule.window_codes(self._windows, spec.alphabet))
        holdout = (mode, codes, self._windows, spec.frozen_position if frozen else -1, spec.frozen_value,
                   spec.part == "train")  # fmt: skip
        return numbers, layout, holdout

    def _bounds(self) -> list[int]:
        """Return how many values each random choice of an example has, in the order of the kernel's slots."""
        spec, mode = self.spec, self._holdout[0]
        values = [spec.alphabet] * spec.num_values
        if self._holdout[3] >= 0:
            values[spec.frozen_position] = 1 if spec.part == "train" else spec.alphabet - 1
        header = [len(self._windows), spec.whole_starts] if mode == kernels.WRITE else [spec.num_starts]
        return header + [spec.window] * spec.variable_window + values

    def _digit_plan(self) -> Any:
        """Return how the faster kernel draws this task, or None where tokens are not plain digits in one word."""
        spec, (mode, codes, *_), (bounds, _, thresholds) = self.spec, self._holdout, self._slots
        plain = (
            spec.alphabet <= _MAX_DIGIT
            and spec.pointer
            and spec.pointer_position == 0
            and spec.pointer_length == 1
            and not spec.variable_window
        )
        if not (plain and spec.hops == 1 and len(thresholds) == 1 and len(set(bounds.tolist())) == 1
                and self._holdout[3] < 0 and mode in (kernels.KEEP, kernels.REJECT)):  # fmt: skip
            return None
        rest = spec.length % 4
        digits = np.arange(spec.alphabet**4)[:, None] // spec.alphabet ** np.arange(3, -1, -1) % spec.alphabet
        table = (digits.astype(np.uint32) << np.arange(0, 32, 8, dtype=np.uint32)).sum(axis=1, dtype=np.uint32)
        whole, partial = np.uint64(spec.alphabet**4), np.uint64(spec.alphabet**rest)
        groups = (whole, partial, spec.alphabet ** (4 - rest), thresholds[0], table)
        aggregation, variant, alphabet, _, _, cyclic = self._rule
        held_out = codes if mode == kernels.REJECT else codes[:0]
        answers = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint8)
        # A sum is as quick to make as to look up, and from four values on quicker.
        if aggregation not in (kernels.OTHER, kernels.MOD_SUM) and spec.alphabet**spec.window <= _MAX_ANSWERS:
            answers = rule.label_table(spec)
        return (aggregation, variant, alphabet, cyclic), spec.window, held_out, groups, answers

    def _places(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the keys of the blocks of examples, uint64 (rows, 2), and row * BLOCK + place in the block of each."""
        low, high = int(indices.min()) >> kernels.BLOCK_BITS, int(indices.max()) >> kernels.BLOCK_BITS
        if high - low < 64 + len(indices) // 64:
            return self._space.keys("examples", np.arange(low, high + 1)), indices - low * kernels.BLOCK
        size = -(-len(self) // kernels.BLOCK)
        if high < size <= 1_000_000:  # random access to a set, as in training: its keys are worth keeping
            if not len(self._keys):
                self._keys = self._space.keys("examples", np.arange(size))
            return self._keys, indices
        found, rows = np.unique(indices >> kernels.BLOCK_BITS, return_inverse=True)
        return self._space.keys("examples", found), rows * kernels.BLOCK + indices % kernels.BLOCK

    def _redraw(self, keys: np.ndarray, places: np.ndarray, tokens: np.ndarray, labels: np.ndarray) -> None:
        """Give the examples that the predicate does not want their next attempt, until there are none."""
        predicate, wants = self._predicate, self.spec.part == "test"
        assert predicate is not None
        left = np.arange(len(tokens))
        for attempt in itertools.count(1):
            windows = rule.variables(tokens[left], self.spec).windows
            held = np.asarray(predicate(tokens[left], windows))
            if held.shape != left.shape or held.dtype != bool:
                raise ValueError(f"predicate {self.spec.predicate} returned {held.dtype} {held.shape}; allowed: bool "
                                 f"{left.shape}")  # fmt: skip
            left = left[held != wants]
            if not len(left):
                return
            if attempt > _MAX_ATTEMPTS:
                raise ValueError(f"predicate is {self.spec.predicate!r}; allowed: one that leaves examples: "
                                 f"{len(left)} had none in {_MAX_ATTEMPTS:,} draws")  # fmt: skip
            parts = tokens[left], labels[left]
            kernels.draw_examples(
                keys, places[left], np.full(len(left), attempt), attempt, self._rule, self._layout, self._slots,
                self._holdout, *parts,
            )  # fmt: skip
            tokens[left], labels[left] = parts


def tokens(
    name_or_spec: str | TokenSpec | None = None, *, split: str | None = None, seed: int = 0, **changes: Any
) -> TokenDataset:
    """Return a token task by preset name, spec, or the fields of one.

    Args:
        name_or_spec: A preset such as "m2-train" (`pvr.PRESETS`), or a `TokenSpec`; by default its defaults.
        split: Name of the split; by default the preset's own, or "train" for a spec.
        seed: Integer in [0, 2^63).
        **changes: Fields of `TokenSpec` to change, such as window=3.
    """
    if isinstance(name_or_spec, str):
        chosen = preset(name_or_spec)
        spec, split = chosen.spec, split or chosen.split
    else:
        spec = name_or_spec or TokenSpec()
    return TokenDataset(change(spec, **changes), split or "train", seed)


def signs(bits: Any) -> np.ndarray:
    """Return bits 0 and 1 as the signs -1 and +1, int8: tokens or labels of a Boolean task."""
    return (2 * np.asarray(bits).astype(np.int8) - 1).astype(np.int8)


def _pack(bounds: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Share random choices out among 64-bit words: (bounds, first choice of each word and the end, thresholds).

    A word whose remainder is below its threshold, 2^64 modulo the number of combinations, is drawn again: so all are
    equally likely (D. Lemire, "Fast random integer generation in an interval", 2019).
    """
    starts, product, thresholds = [0], 1, []
    for slot, bound in enumerate(bounds):
        if product * bound > _WORD_LIMIT:
            thresholds.append(2**64 % product)
            starts.append(slot)
            product = 1
        product *= bound
    thresholds.append(2**64 % product)
    starts.append(len(bounds))
    return np.array(bounds, dtype=np.uint64), np.array(starts), np.array(thresholds, dtype=np.uint64)


def _below(bits: np.ndarray, bound: Any) -> np.ndarray:
    """Return 32 random bits as int64 below `bound`."""
    return ((bits * np.asarray(bound).astype(np.uint64)) >> np.uint64(32)).astype(np.int64)
