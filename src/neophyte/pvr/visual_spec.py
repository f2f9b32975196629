"""Specs of visual Pointer Value Retrieval: a grid of images, one of which points at others (paper, section 3.2)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neophyte.core.spec import check_boolean, check_choice, check_integer, digest, set_plain, to_mapping
from neophyte.pvr.banks import KNOWN, PARTS, Form
from neophyte.pvr.spec import AGGREGATIONS, RuleSpec

VERSION = 1
MAX_SIDE = 256
MAX_CELL = 1024


@dataclass(frozen=True, kw_only=True)
class VisualSpec:
    """A distribution of labelled grids of images (paper, section 3.2 and appendix A).

    The cells are counted in reading order; all but the pointer's are value cells, counted in the same order from 0. The
    label aggregates the classes of a window of value cells, which begins at the one that the pointer image names. Every
    cell holds an image drawn uniformly, with replacement, from those of its bank that it may hold.

    Attributes:
        rows: Rows of cells, in [1, 256]. One row is the sequence style (paper, Fig. 2).
        columns: Columns of cells, in [1, 256]; at least two cells in all.
        cell: Height and width of a cell in pixels, in [1, 1024]; what the image leaves of it is black.
        pointer_cell: Which cell is the pointer.
        pointer_map: For each class of the pointer's bank the value cell at which its window begins; if empty, the
            classes are divided evenly, in order: ten among three cells as 0-3, 4-6, 7-9, among ten cells one each.
        pointer_bank: Bank of the pointer's images (see `banks.load_bank`).
        value_banks: Bank of the value cells' images, or one for each value cell.
        window: Window size, in [1, number of value cells]; above 1 all value banks must have the same classes.
        aggregation: As in `RuleSpec`, of class numbers modulo the number of classes; of one cell, its class.
        window_end: As in `RuleSpec`.
        median: As in `RuleSpec`.
        mode_tie: As in `RuleSpec`.
        num_classes: As in `RuleSpec`: number of labels, of your own aggregation only; 0 takes that of the value banks.
        jitter: Whether each image lies at a uniform offset in its cell; otherwise in the middle.
        redraw: Whether the offsets are drawn anew in each epoch; not in test sets. [open in the paper]
        held_out: The classes that training holds out of each value cell; empty for no holdout.
        part: "all" draws every class everywhere, "train" none that is held out, "test" those only. The pointer is free.
        bank_part: Which part of the banks the images come from: "train" or "test".
        num_examples: Size of the set. A stream does not end there: it goes on to fresh examples.

    Raises:
        ValueError: A value is out of range, or does not go with the banks.
    """

    rows: int = 2
    columns: int = 2
    cell: int = 40
    pointer_cell: int = 0
    pointer_map: tuple[int, ...] = ()
    pointer_bank: str = "mnist"
    value_banks: tuple[str, ...] = ("mnist",)
    window: int = 1
    aggregation: str = "mod_sum"
    window_end: str = "cyclic"
    median: str = "lower"
    mode_tie: str = "smallest"
    num_classes: int = 0
    jitter: bool = True
    redraw: bool = False
    held_out: tuple[tuple[int, ...], ...] = ()
    part: str = "all"
    bank_part: str = "train"
    num_examples: int = 60_000

    def __post_init__(self) -> None:
        set_plain(self)
        check_integer("rows", self.rows, 1, MAX_SIDE)
        check_integer("columns", self.columns, 1, MAX_SIDE)
        if self.num_cells < 2:
            raise ValueError(f"columns is {self.columns}; allowed with one row: at least 2, a pointer and a value")
        check_integer("cell", self.cell, 1, MAX_CELL)
        check_integer("pointer_cell", self.pointer_cell, 0, self.num_cells - 1)
        check_boolean("jitter", self.jitter)
        check_boolean("redraw", self.redraw)
        check_choice("part", self.part, ("all", "train", "test"))
        check_choice("bank_part", self.bank_part, PARTS)
        check_integer("num_examples", self.num_examples, 1, 2**48)
        if self.redraw and "test" in (self.part, self.bank_part):
            raise ValueError("redraw is True; allowed for a test set: False")
        self._check_banks()
        self._check_held_out()
        forms = [KNOWN.get(name) for name in (self.pointer_bank, *self.cell_banks)]
        self.check_forms(forms[0], forms[1:])

    def _check_banks(self) -> None:
        names = (self.value_banks,) if isinstance(self.value_banks, str) else self.value_banks
        if not isinstance(names, tuple) or len(names) not in (1, self.num_values):
            raise ValueError(f"value_banks is {names!r}; allowed: one bank, or one for each of {self.num_values} value "
                             "cells")  # fmt: skip
        object.__setattr__(self, "value_banks", names)
        for field, name in [("pointer_bank", self.pointer_bank), *(("value_banks", name) for name in names)]:
            if not isinstance(name, str) or not name:
                raise ValueError(f"{field} is {name!r}; allowed: {', '.join(KNOWN)}, an .npz file or a folder")

    def _check_held_out(self) -> None:
        groups = self.held_out
        if not isinstance(groups, tuple) or not all(isinstance(group, tuple | list) for group in groups):
            raise ValueError(f"held_out is {groups!r}; allowed: a tuple of classes for each value cell")
        if groups and len(groups) != self.num_values:
            raise ValueError(f"held_out is {groups!r}; allowed: classes for each of {self.num_values} value cells")
        for label in itertools.chain(*groups):
            check_integer("held_out class", label, 0, 255)
        # Sorted: equal sets are one holdout, and have one address.
        ordered = tuple(tuple(sorted({int(label) for label in group})) for group in groups)
        object.__setattr__(self, "held_out", ordered)
        if self.part != "all" and not groups:
            raise ValueError(f"part is {self.part!r}; allowed without held_out: all")
        if self.part == "test" and not all(groups):
            raise ValueError(
                f"held_out is {groups!r}; allowed for the test part: one class or more for each value cell"
            )

    @property
    def num_cells(self) -> int:
        """Number of cells, the pointer's too."""
        return self.rows * self.columns

    @property
    def num_values(self) -> int:
        """Number of value cells."""
        return self.num_cells - 1

    @property
    def cell_banks(self) -> tuple[str, ...]:
        """The bank of each value cell."""
        return self.value_banks * self.num_values if len(self.value_banks) == 1 else self.value_banks

    @property
    def value_cells(self) -> tuple[int, ...]:
        """The cell of each value cell: all but the pointer's."""
        return tuple(cell for cell in range(self.num_cells) if cell != self.pointer_cell)

    @property
    def num_starts(self) -> int:
        """Number of value cells that a pointer can name."""
        return self.rule().num_starts

    def rule(self, num_classes: int | None = None) -> RuleSpec:
        """Return the token rule on the classes of the value cells.

        Args:
            num_classes: The largest number of classes of a value bank; None is not known yet.

        Raises:
            ValueError: The window or the aggregation is out of range.
        """
        if num_classes is None:  # any number that all the other fields allow
            check_integer("num_classes", self.num_classes, 0, 256)
            num_classes = 2 if self.aggregation == "parity" else max(2, self.num_classes or 256)
        if self.aggregation == "parity" and num_classes != 2:
            allowed = ", ".join(name for name in AGGREGATIONS if name != "parity")
            raise ValueError(f"aggregation is 'parity'; allowed for {num_classes} classes: {allowed}")
        # It is the map that points; with so many pointer tokens the rule can name any start.
        length = next(length for length in itertools.count(1) if num_classes**length >= self.num_values)
        return RuleSpec(
            num_values=self.num_values,
            alphabet=num_classes,
            window=self.window,
            aggregation=self.aggregation,
            window_end=self.window_end,
            median=self.median,
            mode_tie=self.mode_tie,
            num_classes=self.num_classes,
            pointer_length=length,
        )

    def starts(self, num_classes: int) -> tuple[int, ...]:
        """Return the value cell that each of `num_classes` classes of the pointer points at."""
        if self.pointer_map:
            return self.pointer_map
        parts = np.array_split(np.arange(num_classes), self.num_starts)
        return tuple(start for start, classes in enumerate(parts) for _ in classes)

    def check_forms(self, pointer: Form | None, values: Sequence[Form | None]) -> None:
        """Check all that depends on the banks.

        Args:
            pointer: What the pointer's images are; None is not known yet.
            values: The same for each value cell.

        Raises:
            ValueError: A field does not go with the banks.
        """
        known = [form for form in values if form is not None]
        for form in [*known, *([pointer] if pointer else [])]:
            if max(form.height, form.width) > self.cell:
                raise ValueError(f"cell is {self.cell}; allowed: at least {max(form.height, form.width)}, the size of "
                                 "the images")  # fmt: skip
        counts = {form.num_classes for form in known}
        if self.window > 1 and len(counts) > 1:
            raise ValueError(f"window is {self.window}; allowed for banks of {sorted(counts)} classes: 1")
        rule = self.rule(max(counts) if len(known) == len(values) else None)
        if not isinstance(self.pointer_map, tuple):
            raise ValueError(f"pointer_map is {self.pointer_map!r}; allowed: a tuple of value cells")
        if pointer and self.pointer_map and len(self.pointer_map) != pointer.num_classes:
            raise ValueError(f"pointer_map is {self.pointer_map!r}; allowed: {pointer.num_classes} entries, one for "
                             "each class of the pointer's bank")  # fmt: skip
        for start in self.pointer_map:
            check_integer("pointer_map entry", start, 0, rule.num_starts - 1)
        for group, bank in zip(self.held_out, values, strict=False):
            if bank and group and group[-1] >= bank.num_classes:
                raise ValueError(f"held_out class is {group[-1]}; allowed: [0, {bank.num_classes - 1}], the classes of "
                                 "the cell's bank")  # fmt: skip
            if bank and self.part == "train" and len(group) == bank.num_classes:
                raise ValueError(f"held_out is {group!r} for one cell; allowed for the train part: not all classes")

    @property
    def identity(self) -> str:
        """The task's name in addresses: the family, its version and a hash of the fields that shape an example.

        The size of the set is not among them, nor `redraw`, so that the first epoch of a set that is redrawn is the
        fixed set. A file's path is not either: `VisualDataset` adds the content of the banks.
        """
        values = to_mapping(self)
        del values["num_examples"], values["redraw"]
        values["pointer_bank"] = self.pointer_bank if self.pointer_bank in KNOWN else ""
        values["value_banks"] = [name if name in KNOWN else "" for name in self.cell_banks]
        return f"pvr-images@{VERSION}:{digest(values, 32)}"


@dataclass(frozen=True)
class Preset:
    """A named set of examples: its spec, the split it is drawn from, and what it is for."""

    spec: VisualSpec
    split: str
    summary: str


HELD_OUT = ((1, 2, 3), (4, 5, 6), (0, 7, 8, 9))  # paper, Fig. 6


def _presets() -> dict[str, Preset]:
    found: dict[str, Preset] = {}

    # The paper names no sizes: [open], ours are those of MNIST's parts.
    def pair(name: str, what: str, sizes: tuple[int, int] = (60_000, 10_000), **fields: Any) -> None:
        for part, size in zip(PARTS, sizes, strict=True):
            chosen = part if "held_out" in fields else "all"
            spec = VisualSpec(part=chosen, bank_part=part, num_examples=size, **fields)
            found[f"{name}-{part}"] = Preset(spec, part, f"{what}: {'training' if part == 'train' else 'test'} set")

    digits = {"pointer_bank": "digits", "value_banks": ("digits",), "cell": 12}
    kinds: dict[str, dict[str, Any]] = {"mnist": {}, "cifar10": {"value_banks": ("cifar10",)}, "digits": digits}
    titles = {"mnist": "MNIST", "cifar10": "CIFAR-10 with an MNIST pointer", "digits": "8 x 8 digits"}
    for name, fields in kinds.items():
        where = f"2 x 2 block of {titles[name]}"
        pair(f"{name}-iid", f"{where} (paper, appendix A)", **fields)
        pair(f"{name}-holdout", f"{where}, three to four classes a cell held out (paper, Fig. 6)", held_out=HELD_OUT,
             **fields)  # fmt: skip
        if name != "cifar10":
            pair(f"{name}-sequence", f"a row of a pointer and ten values of {titles[name]} (paper, Fig. 2)", rows=1,
                 columns=11, **fields)  # fmt: skip
    return found


PRESETS = _presets()


def preset(name: str) -> Preset:
    """Return a preset by name.

    Raises:
        ValueError: There is none of that name; the message lists them and gives the nearest.
    """
    check_choice("preset", name, PRESETS)
    return PRESETS[name]
