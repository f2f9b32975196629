"""Visual tasks: index -> labelled grid of images, in any order, without end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neophyte.core.addressing import MAX_INDEX, Space, check_indices
from neophyte.core.contract import Field
from neophyte.core.spec import change, check_integer, digest
from neophyte.core.threads import in_threads
from neophyte.pvr import rule, visual_kernels
from neophyte.pvr.banks import Bank, load_bank
from neophyte.pvr.visual_spec import VisualSpec, preset

# Windows that are enumerated for the law of the label; above, it is estimated from so many examples.
_MAX_WINDOWS = 200_000
_IMAGES_A_PART = 128  # they are worth waking a thread
_LAW_EXAMPLES = 100_000


@dataclass(frozen=True)
class ImageExamples:
    """Labelled grids of images and what is known of them.

    Attributes:
        images: uint8 (batch, height, width, channels): rows * cell and columns * cell pixels; 3 channels where any bank
            is coloured, else 1.
        labels: uint8 (batch,), in [0, num_classes).
        classes: uint8 (batch, cells), the class of every cell's image in reading order, the pointer's too.
        pointers: int64 (batch,), the value cell that the pointer names, in [0, cells - 1).
        windows: int64 (batch, w), the classes in the window in order; -1 where it is shorter than w.
    """

    images: np.ndarray
    labels: np.ndarray
    classes: np.ndarray
    pointers: np.ndarray
    windows: np.ndarray


class VisualDataset:
    """Grids of images, each a pure function of (spec, content of the banks, split, seed, index).

    Args:
        spec: What to draw.
        split: Name of the split; different splits are independent.
        seed: Integer in [0, 2^63); different seeds are independent.
        root: Folder of the image banks.

    Attributes:
        rule: The token rule that labels the classes of the value cells, a `RuleSpec`.
        banks: The bank of every cell in reading order.

    Raises:
        ValueError: A bank is missing or damaged, or the spec does not go with it.

    Example:
        >>> from neophyte.pvr.visual import images
        >>> image, label = images("digits-iid-train", seed=1)[5]
        >>> image.shape, image.dtype, 0 <= label < 10
        ((24, 24, 1), dtype('uint8'), True)
    """

    def __init__(self, spec: VisualSpec, split: str = "train", seed: int = 0, root: str | Path = "data") -> None:
        self.spec = spec
        self.split = split
        self.seed = seed
        self.root = root
        pointer = load_bank(spec.pointer_bank, root, spec.bank_part)
        values = [load_bank(name, root, spec.bank_part) for name in spec.cell_banks]
        spec.check_forms(pointer.form, [bank.form for bank in values])
        self.rule = spec.rule(max(bank.num_classes for bank in values))
        self.banks = [*values[: spec.pointer_cell], pointer, *values[spec.pointer_cell :]]
        # The content of the banks is part of the address: other pixels are other examples.
        contents = digest([bank.digest for bank in self.banks], 32)
        self._space = Space(f"{spec.identity}:{contents}", split, seed)
        self._starts = np.array(spec.starts(pointer.num_classes))
        self._channels = max(bank.form.channels for bank in self.banks)
        self._pool, self._pool_starts, self._pool_counts = self._pools()
        self._rooms = np.array([(spec.cell - b.form.height + 1, spec.cell - b.form.width + 1) for b in self.banks])

    def __repr__(self) -> str:
        return f"VisualDataset({self.spec}, split={self.split!r}, seed={self.seed}, root={str(self.root)!r})"

    def __reduce__(self) -> Any:
        # A process that it is sent to loads the banks itself: they are large.
        return VisualDataset, (self.spec, self.split, self.seed, self.root)

    def __len__(self) -> int:
        return self.spec.num_examples

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        """Return the image (height, width, channels) and the label of one example of the set."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"index is {index}; allowed: [0, {len(self)})")
        one = self.batch(np.array([index % len(self)]))
        return one.images[0], int(one.labels[0])

    @property
    def num_classes(self) -> int:
        """Number of labels."""
        return self.rule.classes

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Height and width in pixels, and channels of an image."""
        return self.spec.rows * self.spec.cell, self.spec.columns * self.spec.cell, self._channels

    @property
    def bank_digests(self) -> dict[str, str]:
        """The digest of each bank by name, for manifests."""
        return {bank.name: bank.digest for bank in self.banks}

    def batch(self, indices: Any, *, epoch: int = 0, threads: int = 1) -> ImageExamples:
        """Draw the examples at `indices`.

        Args:
            indices: Integers in [0, 2^63), shape (batch,); those from `num_examples` on are fresh examples too.
            epoch: Which offsets to draw, in a set that is redrawn; else it changes nothing. In [0, 2^63).
            threads: Threads to draw with; the bytes do not depend on it.
        """
        indices = check_indices(indices)
        check_integer("epoch", epoch, 0, MAX_INDEX)
        check_integer("threads", threads, 1, 1024)
        height, width, channels = self.image_shape
        picks = self._picks(indices)
        offsets = self._offsets(indices, epoch)
        images = np.zeros((len(indices), height, width * channels), dtype=np.uint8)

        def compose(rows: slice) -> None:
            for bank, cells in self._layers():
                _, bank_height, bank_width, bank_channels = bank.images.shape
                visual_kernels.compose(
                    bank.images.reshape(-1, bank_height, bank_width * bank_channels), cells, self.spec.columns,
                    self.spec.cell, channels, channels // bank_channels, picks[rows], offsets[rows], images[rows],
                )  # fmt: skip

        in_threads(compose, len(indices), threads, least=_IMAGES_A_PART)
        classes = self._classes(picks)
        pointers, windows, labels = self._labelled(classes)
        return ImageExamples(images.reshape(-1, height, width, channels), labels, classes, pointers, windows)

    def stream(self, batch_size: int, *, start: int = 0, threads: int = 1) -> Iterator[ImageExamples]:
        """Yield batches of the examples start, start + 1, ..., without end or repeats of an address."""
        check_integer("batch_size", batch_size, 1)
        check_integer("start", start, 0, MAX_INDEX)
        while True:
            yield self.batch(np.arange(start, start + batch_size), threads=threads)
            start += batch_size

    def label_law(self) -> np.ndarray:
        """Return the probability of each label, float64 (num_classes,); its largest is what a constant guess is worth.

        It is exact, from the frequencies of the classes in the banks, where a window has at most 200,000 values; else
        the frequencies of 100,000 examples.
        """
        spec, kind = self.spec, self.rule
        if kind.alphabet**kind.window > _MAX_WINDOWS:
            labels = self._labelled(self._classes(self._picks(np.arange(_LAW_EXAMPLES))))[2]
            return np.bincount(labels, minlength=kind.classes) / _LAW_EXAMPLES
        laws = [self._class_law(cell) for cell in range(spec.num_cells)]
        starts = np.bincount(self._starts, laws[spec.pointer_cell], kind.num_starts)
        values = [laws[cell] for cell in spec.value_cells]
        law = np.zeros(kind.classes)
        for start in np.flatnonzero(starts):
            places = start + np.arange(kind.window)
            if kind.window_end != "cyclic":
                places = places[places < kind.num_values]
            # Every window and its probability: the outer product of the laws of its cells.
            shape = (kind.alphabet,) * len(places)
            weights = np.full(1, starts[start])
            for place in places:
                weights = np.multiply.outer(weights, values[place % kind.num_values]).reshape(-1)
            windows = np.full((len(weights), kind.window), -1)
            windows[:, : len(places)] = np.indices(shape).reshape(len(places), -1).T
            possible = weights > 0
            law += np.bincount(rule.aggregate(windows[possible], kind), weights[possible], kind.classes)
        return law

    # What the task contract (core/contract.py) asks of every data set.

    def fields(self) -> dict[str, Field]:
        """Declare dtype, shape and range of each array of a sample."""
        uint8 = np.dtype(np.uint8)
        return {
            "images": Field(uint8, self.image_shape, 0, 255),
            "labels": Field(uint8, (), 0, self.num_classes - 1),
        }

    def arrays(self, indices: Any, threads: int = 1, *, epoch: int = 0) -> dict[str, np.ndarray]:
        """Return the samples' arrays by name, batch axis first; of an epoch, in a set that is redrawn."""
        found = self.batch(indices, epoch=epoch, threads=threads)
        return {"images": found.images, "labels": found.labels}

    def losses(self, indices: Any) -> dict[str, np.ndarray]:
        """Return the 0-1 error of the rule and of every control on each example, float64 (batch,).

        "constant" guesses the likeliest label, "first_cell" the class of the first value cell, wherever the pointer.
        """
        found = self.batch(indices)
        guesses = {
            "oracle": rule.aggregate(found.windows, self.rule),
            "constant": np.full(len(found.labels), self.label_law().argmax()),
            "first_cell": found.classes[:, self.spec.value_cells[0]],
        }
        return {name: (guess != found.labels).astype(float) for name, guess in guesses.items()}

    def canonical(self, indices: Any, threads: int = 1) -> np.ndarray:
        """Return the images, uint8 (batch, height, width, channels)."""
        return self.batch(indices, threads=threads).images

    # What an example is made of.

    def _allowed(self, cell: int) -> tuple[int, ...]:
        """Return the classes that a cell may show."""
        spec, bank = self.spec, self.banks[cell]
        counts = np.bincount(bank.labels, minlength=bank.num_classes)
        held = dict(zip(spec.value_cells, spec.held_out, strict=True)).get(cell, ()) if spec.part != "all" else ()
        if held and spec.part == "test":
            allowed, absent = held, [label for label in held if not counts[label]]
        else:
            allowed = tuple(label for label in range(bank.num_classes) if label not in held)
            absent = [] if counts[list(allowed)].any() else list(allowed)
        if absent:
            raise ValueError(f"held_out is {spec.held_out!r}; allowed: classes with images in the {spec.bank_part} "
                             f"part of {bank.name}, which has none of {absent}")  # fmt: skip
        return allowed

    def _pools(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """List which images of its bank each cell may hold: (their positions, first of each cell, count of each)."""
        pools: dict[tuple[str, tuple[int, ...]], tuple[int, int]] = {}
        parts: list[np.ndarray] = []
        chosen = []
        for cell, bank in enumerate(self.banks):
            key = (bank.digest, self._allowed(cell))
            if key not in pools:
                positions = bank.indices(key[1]).astype(np.int32)
                pools[key] = (sum(map(len, parts)), len(positions))
                parts.append(positions)
            chosen.append(pools[key])
        firsts, counts = np.array(chosen).T.copy()
        return np.concatenate(parts), firsts, counts

    def _layers(self) -> Iterator[tuple[Bank, np.ndarray]]:
        """Yield each different bank with the cells that hold its images, int64."""
        for bank in dict.fromkeys(self.banks):
            yield bank, np.array([cell for cell, other in enumerate(self.banks) if other is bank])

    def _words(self, stream: str, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the keys of the examples' blocks, and each example's block among them and place in it."""
        blocks, rows = np.unique(indices // visual_kernels.BLOCK, return_inverse=True)
        return self._space.keys(stream, blocks), rows, indices % visual_kernels.BLOCK

    def _picks(self, indices: np.ndarray) -> np.ndarray:
        """Draw which image of its bank each cell holds, int32 (batch, cells)."""
        picks = np.empty((len(indices), self.spec.num_cells), dtype=np.int32)
        pools = (self._pool, self._pool_starts, self._pool_counts)
        visual_kernels.pick_images(*self._words("images", indices), *pools, picks)
        return picks

    def _offsets(self, indices: np.ndarray, epoch: int) -> np.ndarray:
        """Draw where in its cell each image lies, int32 (batch, cells, 2), pixels from the top and the left."""
        if not self.spec.jitter:
            middle = ((self._rooms - 1) // 2).astype(np.int32)
            return np.repeat(middle[None], len(indices), axis=0)
        stream = f"offsets/{epoch}" if self.spec.redraw and epoch else "offsets"
        offsets = np.empty((len(indices), self.spec.num_cells, 2), dtype=np.int32)
        visual_kernels.pick_offsets(*self._words(stream, indices), self._rooms, offsets)
        return offsets

    def _classes(self, picks: np.ndarray) -> np.ndarray:
        """Return the class of each cell's image, uint8 (batch, cells)."""
        return np.stack([bank.labels[picks[:, cell]] for cell, bank in enumerate(self.banks)], axis=1)

    def _class_law(self, cell: int) -> np.ndarray:
        """Return the probability of each class in a cell, float64 (alphabet,), or of the pointer's."""
        first, count = self._pool_starts[cell], self._pool_counts[cell]
        bank = self.banks[cell]
        length = bank.num_classes if cell == self.spec.pointer_cell else self.rule.alphabet
        return np.bincount(bank.labels[self._pool[first : first + count]], minlength=length) / count

    def _labelled(self, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return pointers, windows and labels: those of the token rule on the classes of the value cells."""
        pointers = self._starts[classes[:, self.spec.pointer_cell]]
        length = self.rule.pointer_length
        tokens = np.empty((len(classes), self.rule.length), dtype=np.int64)
        for place in range(length):
            tokens[:, place] = pointers // self.rule.alphabet ** (length - 1 - place) % self.rule.alphabet
        tokens[:, length:] = np.delete(classes, self.spec.pointer_cell, axis=1)
        windows = rule.variables(tokens, self.rule).windows
        return pointers, windows, rule.aggregate(windows, self.rule).astype(np.uint8)


def images(
    name_or_spec: str | VisualSpec,
    *,
    split: str | None = None,
    seed: int = 0,
    root: str | Path = "data",
    **changes: Any,
) -> VisualDataset:
    """Return a visual task by preset name or spec.

    Args:
        name_or_spec: A preset such as "mnist-iid-train" (`visual_spec.PRESETS`), or a `VisualSpec`.
        split: Name of the split; by default the preset's own, or "train" for a spec.
        seed: Integer in [0, 2^63).
        root: Folder of the image banks.
        **changes: Fields of `VisualSpec` to change, such as window=2.
    """
    if isinstance(name_or_spec, str):
        chosen = preset(name_or_spec)
        spec, split = chosen.spec, split or chosen.split
    else:
        spec = name_or_spec
    return VisualDataset(change(spec, **changes), split or "train", seed, root)
