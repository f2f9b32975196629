"""Batches for training: torch data sets over any corpus, and a prefetching thread for the training loop."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from neophyte.core.addressing import Space
from neophyte.core.contract import inputs_and_labels
from neophyte.core.spec import check_integer
from neophyte.metalang import Corpus

Item = TypeVar("Item")


class TokenSource(Protocol):
    """Anything that draws token sequences by index: a `Corpus`, a `TextCorpus` or arrays on disk."""

    def __len__(self) -> int:
        """Number of sequences in the set."""

    def batch(self, indices: Any) -> Any:
        """Return tokens (batch, time), or an object that holds them as `tokens`."""


def draw_tokens(source: TokenSource, indices: Any) -> np.ndarray:
    """Return the tokens (batch, time) of a source at `indices`."""
    drawn = source.batch(indices)
    return getattr(drawn, "tokens", drawn)


def corpus_batches(corpus: Corpus, threads: int | None = None) -> tuple[Callable[[int, int], Tensor], dict[str, Any]]:
    """Return what the training loop asks of a corpus: (first, count) -> int64 (batch, time), and what that draws.

    Args:
        corpus: Its sequences go on without end beyond its length.
        threads: Threads to draw with; by default NEOPHYTE_THREADS, which the trial engine sets, or one.
    """
    threads = threads or int(os.environ.get("NEOPHYTE_THREADS", "1"))

    def draw(first: int, count: int) -> Tensor:
        tokens = corpus.batch(np.arange(first, first + count), threads=threads).tokens
        return torch.from_numpy(tokens.astype(np.int64))

    data = {
        "task": corpus.spec.identity,
        "context_length": corpus.spec.context_length,
        "sequences_per_language": corpus.spec.sequences_per_language,
        "split": corpus.split,
        "seed": corpus.seed,
    }
    return draw, data


class ExampleSource(Protocol):
    """Anything that draws labelled examples by index: a `pvr.TokenDataset` or a `pvr.VisualDataset`."""

    spec: Any
    split: str
    seed: int

    def __len__(self) -> int:
        """Number of examples in the set."""

    def arrays(self, indices: Any, threads: int = 1) -> dict[str, np.ndarray]:
        """Return the inputs by their name, and the "labels", batch axis first."""


def draw_examples(source: ExampleSource, indices: Any, threads: int = 1, epoch: int = 0) -> tuple[Tensor, Tensor]:
    """Return inputs uint8 (batch, ...) and labels int64 (batch,) of a source at `indices`, in a given epoch."""
    redrawn = {"epoch": epoch} if getattr(source.spec, "redraw", False) else {}
    inputs, labels = inputs_and_labels(source.arrays(indices, threads, **redrawn))  # type: ignore[arg-type]
    return torch.from_numpy(inputs), torch.from_numpy(labels.astype(np.int64))


def example_batches(
    source: ExampleSource, *, shuffle_seed: int = 0, threads: int | None = None
) -> tuple[Callable[[int, int], tuple[Tensor, Tensor]], dict[str, Any]]:
    """Return what the training loop asks of a set of examples that it sees in epochs, each in an order of its own.

    That is (first, count) -> inputs and labels of the examples first, ..., numbered on from epoch to epoch, and what
    they are. A batch lies in one epoch: `TrainSpec.span` cuts epochs into batches.

    No order is stored: what stands at a place of it is computed (`Space.shuffled`).

    Args:
        source: Its length is the epoch's (`TrainSpec.epoch_size`).
        shuffle_seed: Seed of the orders.
        threads: Threads to draw with; by default NEOPHYTE_THREADS, which the trial engine sets, or one.
    """
    threads = threads or int(os.environ.get("NEOPHYTE_THREADS", "1"))
    size = len(source)
    orders = Space(source.spec.identity, source.split, shuffle_seed)

    def draw(first: int, count: int) -> tuple[Tensor, Tensor]:
        epoch, place = divmod(first, size)
        if place + count > size:
            raise ValueError(f"first is {first} and count {count}; allowed: a batch in one epoch of {size} examples, "
                             "as TrainSpec.span gives")  # fmt: skip
        indices = orders.shuffled("epochs", epoch, size, np.arange(place, place + count))
        return draw_examples(source, indices, threads, epoch)

    data = {
        "task": source.spec.identity,
        "num_examples": size,
        "split": source.split,
        "seed": source.seed,
        "shuffle_seed": shuffle_seed,
    }
    if banks := getattr(source, "bank_digests", None):
        data["banks"] = banks
    return draw, data


class ExampleDataset(Dataset[tuple[Tensor, Tensor]]):
    """A map-style torch data set: index -> (inputs uint8 (...), label int64 ())."""

    def __init__(self, source: ExampleSource) -> None:
        self.source = source

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not 0 <= index < len(self):
            raise IndexError(f"index is {index}; allowed: [0, {len(self)})")
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[int]) -> list[tuple[Tensor, Tensor]]:
        """Draw a whole batch at once: torch's loader calls this where it is defined."""
        return list(zip(*draw_examples(self.source, np.asarray(indices)), strict=True))


class TokenDataset(Dataset[Tensor]):
    """A map-style torch data set: index -> int64 tokens (time,)."""

    def __init__(self, source: TokenSource) -> None:
        self.source = source

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Tensor:
        if not 0 <= index < len(self):  # a `Corpus` goes on beyond its length; a map-style data set ends there
            raise IndexError(f"index is {index}; allowed: [0, {len(self)})")
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[int]) -> list[Tensor]:
        """Draw a whole batch at once: torch's loader calls this where it is defined."""
        return list(torch.from_numpy(draw_tokens(self.source, np.asarray(indices)).astype(np.int64)))


class TokenStream(IterableDataset[Tensor]):
    """An endless torch data set of whole batches, int64 (batch, time), with one integer for its state.

    Use it with `DataLoader(stream, batch_size=None, num_workers=...)`: the batches and their order are the same for
    every number of workers. Ranks of a distributed run take interleaved shares.

    Args:
        source: What to draw from. Beyond its length a `Corpus` has fresh sequences; any other source begins again.
        batch_size: Sequences in a batch of this rank.
        rank: This process among `world_size`.
        world_size: Number of processes.
    """

    def __init__(self, source: TokenSource, batch_size: int, *, rank: int = 0, world_size: int = 1) -> None:
        check_integer("batch_size", batch_size, 1)
        check_integer("world_size", world_size, 1)
        check_integer("rank", rank, 0, world_size - 1)
        self.source, self.batch_size, self.rank, self.world_size = source, batch_size, rank, world_size
        self.position = 0

    def state_dict(self) -> dict[str, int]:
        """Return the number of batches taken. Loader workers count apart: set it from the training step there."""
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on after `state["position"]` batches."""
        check_integer("position", state["position"], 0)
        self.position = state["position"]

    def __iter__(self) -> Iterator[Tensor]:
        worker = get_worker_info()
        stride, offset = (worker.num_workers, worker.id) if worker else (1, 0)
        step = self.position + offset
        while True:
            if worker is None:  # a worker's copy begins each pass where the loader's owner says
                self.position = step + 1
            yield torch.from_numpy(self.draw(step))
            step += stride

    def draw(self, step: int) -> np.ndarray:
        """Return batch `step` of this rank, int64 (batch, time)."""
        first = (step * self.world_size + self.rank) * self.batch_size
        indices = np.arange(first, first + self.batch_size)
        if not isinstance(self.source, Corpus):
            indices %= len(self.source)
        return draw_tokens(self.source, indices).astype(np.int64)


class Prefetcher(Generic[Item]):
    """Call `make(step)` for step = start, start + 1, ... in a thread, a few steps ahead of the consumer.

    The kernels hold no GIL, so batches are drawn while the model computes.
    """

    def __init__(self, make: Callable[[int], Item], start: int, stop: int, depth: int = 2) -> None:
        self._queue: queue.Queue[Item | BaseException | None] = queue.Queue(depth)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(make, start, stop), daemon=True)
        self._thread.start()

    def _run(self, make: Callable[[int], Item], start: int, stop: int) -> None:
        try:
            for step in range(start, stop):
                self._put(make(step))
                if self._stopped.is_set():
                    return
            self._put(None)
        except BaseException as error:  # noqa: BLE001  it is raised where the batch is asked for
            self._put(error)

    def _put(self, item: Item | BaseException | None) -> None:
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def __iter__(self) -> Iterator[Item]:
        while (item := self._queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def close(self) -> None:
        """Stop the thread."""
        self._stopped.set()
        self._thread.join()
