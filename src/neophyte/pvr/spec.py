"""Specs of Pointer Value Retrieval on tokens: the rule that makes the label, and the distribution of examples."""

from __future__ import annotations

import dataclasses
import itertools
import math
import sys
from dataclasses import dataclass
from typing import Any

from neophyte.core.spec import check_boolean, check_choice, check_integer, digest, set_plain, suggestion, to_mapping

VERSION = 1
AGGREGATIONS = ("mod_sum", "median", "maj_vote", "min", "max", "parity")
WINDOW_ENDS = ("cyclic", "truncate", "fit")
MEDIANS = ("lower", "upper", "mean")
MODE_TIES = ("smallest", "largest", "first")
HOLDOUTS = ("none", "permutations", "balanced", "frozen", "predicate")
PARTS = ("all", "train", "test", "first")
MAX_HELD_OUT = 4_000_000  # above the permutations of ten digits
MAX_CODE = 2**63  # windows are numbered in base `alphabet`


def check_function(field: str, value: Any) -> str:
    """Return the dotted path "package.module:function" of a user's function, or of its path.

    Raises:
        ValueError: It is neither a path nor a function that can be imported by one.
    """
    if callable(value):
        name, module = getattr(value, "__qualname__", ""), getattr(value, "__module__", "")
        if getattr(sys.modules.get(module), name, None) is not value:
            raise ValueError(f"{field} is {value!r}; allowed: a function at the top of a module, or its dotted path")
        value = f"{module}:{name}"
    if not isinstance(value, str) or value.count(":") != 1 or not all(value.split(":")):
        raise ValueError(f"{field} is {value!r}; allowed: a dotted path 'package.module:function'")
    return value


@dataclass(frozen=True, kw_only=True)
class RuleSpec:
    """What the label of a sequence is (paper, sections 3.1 and 4.1).

    A sequence holds `pointer_length` pointer tokens, then one token for the width where `variable_window` is set, among
    `num_values` value tokens. The label aggregates the window of values that the pointer names.

    Attributes:
        num_values: Number of values n.
        alphabet: Number of tokens K: they are 0, ..., K - 1.
        window: Window size w, the paper's complexity plus one (m + 1).
        aggregation: "mod_sum", "median", "maj_vote", "min", "max", "parity" (of 0 and 1 as the signs -1 and +1: their
            product), or the dotted path "module:function" of your own: windows (batch, w) of integers, -1 where a
            window is shorter, -> labels (batch,).
        window_end: Where a window that starts near the end goes: "cyclic" goes on at the first value, "truncate" stops,
            "fit" draws pointers to whole windows only.
        median: Of an even number of values: "lower" or "upper" middle, or the "mean" of both, rounded down.
        mode_tie: Where several values are the most frequent: "smallest", "largest", or the "first" in the window.
        pointer: Whether there is a pointer; without, it is always 0 (paper, appendix D).
        pointer_position: How many values stand before the pointer.
        pointer_length: Number of pointer tokens: digits in base K, the most significant first.
        hops: How many pointers to follow: each but the last points at the value that is the next (modulo the number of
            positions that a window can start at).
        variable_window: Whether a second pointer, one token, names the window's size: 1 + its value, below `window`.
        num_classes: Number of labels; 0 takes K. Only your own aggregation can have others.
    """

    num_values: int = 10
    alphabet: int = 10
    window: int = 1
    aggregation: str = "mod_sum"
    window_end: str = "cyclic"
    median: str = "lower"
    mode_tie: str = "smallest"
    pointer: bool = True
    pointer_position: int = 0
    pointer_length: int = 1
    hops: int = 1
    variable_window: bool = False
    num_classes: int = 0

    def __post_init__(self) -> None:
        set_plain(self)
        check_integer("num_values", self.num_values, 1, 65_536)
        check_integer("alphabet", self.alphabet, 2, 256)
        check_integer("window", self.window, 1, self.num_values)
        check_choice("window_end", self.window_end, WINDOW_ENDS)
        check_choice("median", self.median, MEDIANS)
        check_choice("mode_tie", self.mode_tie, MODE_TIES)
        check_boolean("pointer", self.pointer)
        check_boolean("variable_window", self.variable_window)
        check_integer("pointer_position", self.pointer_position, 0, self.num_values)
        check_integer("pointer_length", self.pointer_length, 1, 16)
        check_integer("hops", self.hops, 1, 64)
        self._check_aggregation()
        if self.alphabet**self.pointer_length < self.num_starts:
            least = next(length for length in itertools.count(1) if self.alphabet**length >= self.num_starts)
            raise ValueError(f"pointer_length is {self.pointer_length}; allowed: at least {least}, so that its tokens "
                             f"name each of {self.num_starts} positions")  # fmt: skip
        if self.variable_window and self.window > self.alphabet:
            raise ValueError(f"window is {self.window}; allowed with variable_window: at most the alphabet, "
                             f"{self.alphabet}, since one token names it")  # fmt: skip
        if self.hops > 1 and not self.pointer:
            raise ValueError(f"hops is {self.hops}; allowed without a pointer: 1")

    def _check_aggregation(self) -> None:
        if self.aggregation not in AGGREGATIONS:
            if not callable(self.aggregation) and ":" not in str(self.aggregation):
                raise ValueError(
                    f"aggregation is {self.aggregation!r}; allowed: {', '.join(AGGREGATIONS)}, or the dotted path "
                    f"'module:function' of your own{suggestion(self.aggregation, AGGREGATIONS)}"
                )
            object.__setattr__(self, "aggregation", check_function("aggregation", self.aggregation))
        if self.aggregation == "parity" and self.alphabet != 2:
            raise ValueError(f"alphabet is {self.alphabet}; allowed for parity: 2")
        check_integer("num_classes", self.num_classes, 0, 256)
        if self.num_classes not in (0, self.alphabet) and ":" not in self.aggregation:
            raise ValueError(f"num_classes is {self.num_classes}; allowed for {self.aggregation}: {self.alphabet}")

    @property
    def num_starts(self) -> int:
        """Number of positions that a pointer can name."""
        if not self.pointer:
            return 1
        return self.num_values - self.window + 1 if self.window_end == "fit" else self.num_values

    @property
    def num_widths(self) -> int:
        """Number of sizes that a window may have where it is not cut short."""
        return self.window if self.variable_window else 1

    @property
    def whole_starts(self) -> int:
        """Number of positions at which a window is whole: the first ones."""
        if not self.pointer:
            return 1
        return self.num_values if self.window_end == "cyclic" else self.num_values - self.window + 1

    @property
    def length(self) -> int:
        """Tokens in a sequence."""
        return self.num_values + self.pointer_length + self.variable_window

    @property
    def classes(self) -> int:
        """Number of labels."""
        return self.num_classes or self.alphabet


@dataclass(frozen=True, kw_only=True)
class TokenSpec(RuleSpec):
    """A distribution of labelled sequences, all of whose tokens are uniform but for what is held out.

    Attributes:
        holdout: What the training examples lack. "permutations": windows that are one of the first `holdout_count`
            permutations of (0, ..., w - 1), in lexicographic order (paper, section 6.2). "balanced": `holdout_count`
            windows drawn by `holdout_seed` so that all labels are equally frequent. "frozen": in training the value at
            `frozen_position` is always `frozen_value`. "predicate": whatever your function says.
        holdout_count: How many windows are held out.
        holdout_seed: Seed of the balanced holdout.
        frozen_position: Position among the values.
        frozen_value: The value there in training.
        predicate: Dotted path "module:function": (tokens (batch, length), windows (batch, w)) -> bool (batch,).
        part: Which examples: "all", those that are not held out ("train"), those that are ("test"), or those with the
            first held-out window only ("first": the paper's test set).
        num_examples: Size of the set. A stream does not end there: it goes on to fresh examples.
    """

    holdout: str = "none"
    holdout_count: int = 0
    holdout_seed: int = 0
    frozen_position: int = 0
    frozen_value: int = 0
    predicate: str = ""
    part: str = "all"
    num_examples: int = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("holdout", self.holdout, HOLDOUTS)
        check_choice("part", self.part, PARTS)
        check_integer("num_examples", self.num_examples, 1, 2**48)
        check_integer("holdout_seed", self.holdout_seed, 0, 2**63 - 1)
        if self.holdout_seed and self.holdout != "balanced":
            raise ValueError(f"holdout_seed is {self.holdout_seed}; allowed with holdout {self.holdout!r}: 0")
        if self.holdout == "none" and self.part != "all":
            raise ValueError(f"part is {self.part!r}; allowed without a holdout: all")
        if self.part == "first" and self.holdout != "permutations":
            raise ValueError(f"part is 'first'; allowed with holdout {self.holdout!r}: all, train, test")
        self._check_windows()
        self._check_frozen()
        if self.holdout == "predicate":
            object.__setattr__(self, "predicate", check_function("predicate", self.predicate))
        elif self.predicate:
            raise ValueError(f"predicate is {self.predicate!r}; allowed with holdout {self.holdout!r}: none")

    def _check_windows(self) -> None:
        if self.holdout not in ("permutations", "balanced"):
            if self.holdout_count:
                raise ValueError(f"holdout_count is {self.holdout_count}; allowed with holdout {self.holdout!r}: 0")
            return
        windows = self.alphabet**self.window
        if windows >= MAX_CODE:
            raise ValueError(f"window is {self.window}; allowed with a holdout of windows: alphabet^window below 2^63")
        if self.holdout == "permutations":
            if self.window > self.alphabet:
                raise ValueError(f"window is {self.window}; allowed with held-out permutations: at most the alphabet, "
                                 f"{self.alphabet}")  # fmt: skip
            check_integer("holdout_count", self.holdout_count, 1, min(math.factorial(self.window), MAX_HELD_OUT))
        else:
            check_integer("holdout_count", self.holdout_count, 1, MAX_HELD_OUT)
            if self.holdout_count % self.classes:
                raise ValueError(f"holdout_count is {self.holdout_count}; allowed with a balanced holdout: a multiple "
                                 f"of the {self.classes} labels")  # fmt: skip
        shorter = self.variable_window or self.whole_starts < self.num_starts
        if self.holdout_count >= windows and not shorter:
            raise ValueError(f"holdout_count is {self.holdout_count}; allowed: below {windows}, the number of windows, "
                             "since no training example would be left")  # fmt: skip

    def _check_frozen(self) -> None:
        if self.holdout == "frozen":
            check_integer("frozen_position", self.frozen_position, 0, self.num_values - 1)
            check_integer("frozen_value", self.frozen_value, 0, self.alphabet - 1)
        elif self.frozen_position or self.frozen_value:
            raise ValueError(f"frozen_position is {self.frozen_position} and frozen_value {self.frozen_value}; allowed "
                             f"with holdout {self.holdout!r}: 0")  # fmt: skip

    @property
    def identity(self) -> str:
        """The task's name in addresses: the family, its version and a hash of every field but the set's size."""
        values = to_mapping(self)
        del values["num_examples"]
        return f"pvr-tokens@{VERSION}:{digest(values, 32)}"


def boolean(pointer_bits: int, window: int, aggregation: str = "parity", **changes: Any) -> TokenSpec:
    """Return a Boolean PVR task: `pointer_bits` bits that point into 2^pointer_bits bits.

    Tokens 0 and 1 stand for the signs -1 and +1 (`dataset.signs` converts). "parity" is their product, "maj_vote"
    their majority.

    Args:
        pointer_bits: Number of pointer bits, in [1, 16].
        window: Window size.
        aggregation: "parity", "maj_vote", "min" or "max".
        **changes: Other fields of `TokenSpec`, such as holdout="frozen", frozen_position=3, frozen_value=1.
    """
    check_integer("pointer_bits", pointer_bits, 1, 16)
    check_choice("aggregation", aggregation, ("parity", "maj_vote", "min", "max"))
    sizes = {"alphabet": 2, "pointer_length": pointer_bits, "num_values": 2**pointer_bits}
    return TokenSpec(window=window, aggregation=aggregation, **{**sizes, **changes})


@dataclass(frozen=True)
class Preset:
    """A named set of examples: its spec, the split it is drawn from, and what it is for."""

    spec: TokenSpec
    split: str
    summary: str


def _presets() -> dict[str, Preset]:
    def pair(name: str, what: str, train: TokenSpec, test: TokenSpec) -> dict[str, Preset]:
        return {f"{name}-train": Preset(train, "train", f"{what}: training set"),
                f"{name}-test": Preset(test, "test", f"{what}: test set")}  # fmt: skip

    def both(name: str, what: str, /, size: int = 1_000_000, **fields: Any) -> dict[str, Preset]:
        train, test = ("train", "test") if fields.get("holdout", "none") != "none" else ("all", "all")
        return pair(name, what, TokenSpec(part=train, num_examples=size, **fields),
                    TokenSpec(part=test, num_examples=100_000, **fields))  # fmt: skip

    found: dict[str, Preset] = {}
    for m in range(6):
        size = {0: 30_000, 1: 100_000}.get(m, 1_000_000)  # where the MLP solves it
        found |= both(f"m{m}", f"mod_sum of {m + 1} of 10 digits (paper, section 5.1)", size, window=m + 1)
    for m in (1, 2):
        count = math.factorial(m + 1)
        permutations: dict[str, Any] = {"window": m + 1, "holdout": "permutations", "holdout_count": count}
        found |= both(f"holdout-m{m}", f"all {count} permutations held out (paper, section 6.2)", **permutations)
        balanced: dict[str, Any] = {"window": m + 1, "holdout": "balanced", "holdout_count": 10}
        found |= both(f"balanced-m{m}", "10 windows held out, one of each label", **balanced)
    found |= both("no-pointer-m2", "the pointer is always 0 (paper, appendix D)", window=3, pointer=False)
    for kind in ("median", "maj_vote", "min", "max"):
        found |= both(f"{kind}-m2", f"{kind} of 3 of 10 digits (paper, section 4.1)", window=3, aggregation=kind)
    found |= both("two-hop-m0", "the value is a pointer to the value", hops=2)
    found |= both("long-m2", "mod_sum of 3 of 100 digits, a pointer of two", window=3, num_values=100, pointer_length=2)
    found |= both("variable-m2", "mod_sum of 1 to 3 digits, as a second pointer says", window=3, variable_window=True)
    bits = boolean(4, 3, holdout="frozen", frozen_position=5, frozen_value=1, part="train", num_examples=1_000_000)
    found |= pair("boolean", "parity of 3 of 16 bits, one frozen in training", bits,
                  dataclasses.replace(bits, part="test", num_examples=100_000))  # fmt: skip
    return found


PRESETS = _presets()


def preset(name: str) -> Preset:
    """Return a preset by name.

    Raises:
        ValueError: There is none of that name; the message lists them and gives the nearest.
    """
    check_choice("preset", name, PRESETS)
    return PRESETS[name]
