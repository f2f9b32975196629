"""The contract of every registered task, and the two proofs about it: golden fingerprints and disjoint splits."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from neophyte.core.spec import check_integer

if TYPE_CHECKING:
    from neophyte.core.registry import Task


@dataclass(frozen=True)
class Field:
    """What an array of a sample promises.

    Attributes:
        dtype: Its NumPy dtype.
        shape: Its shape, without the batch axis.
        low: Smallest value allowed.
        high: Largest value allowed.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    low: float
    high: float


class TaskDataset(Protocol):
    """What every data set offers."""

    def __len__(self) -> int:
        """Number of samples in the set."""

    def fields(self) -> dict[str, Field]:
        """Declare dtype, shape and range of each array of a sample."""

    def arrays(self, indices: Any, threads: int = 1) -> dict[str, np.ndarray]:
        """Return the samples' arrays by name, batch axis first."""

    def losses(self, indices: Any) -> dict[str, np.ndarray]:
        """Return the loss of each sample under "oracle" and under every control, (batch,)."""

    def canonical(self, indices: Any, threads: int = 1) -> np.ndarray:
        """Return a row for each sample such that equal samples have equal rows (a part may do), (batch, ...)."""


def inputs_and_labels(arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the inputs and the labels among the arrays of labelled samples, whatever the inputs are called."""
    (name,) = arrays.keys() - {"labels"}
    return arrays[name], arrays["labels"]


class ContractError(AssertionError):
    """A task breaks the contract; the message says which clause and where."""


def _require(condition: bool, task: Task, message: str) -> None:
    if not condition:
        raise ContractError(f"{task.name}: {message}")


def _same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def check_task(task: Task, *, samples: int = 12) -> None:
    """Check that a task keeps the contract: determinism, independence, invariance, declared ranges, a true oracle.

    Args:
        task: A registered task.
        samples: How many samples to draw, at least 4.

    Raises:
        ContractError: A clause is broken.
    """
    dataset = task.dataset()
    indices = np.arange(samples)
    whole = dataset.arrays(indices)
    _require(_same(whole, task.dataset().arrays(indices)), task, "two data sets of one address differ")
    _check_invariance(task, dataset, indices, whole)
    _check_independence(task, indices, whole)
    _check_fields(task, dataset, whole)
    _check_oracle(task, dataset, indices)
    for field, changes in task.refusals.items():
        _check_refusal(task, field, changes)


def _check_invariance(task: Task, dataset: TaskDataset, indices: np.ndarray, whole: dict[str, np.ndarray]) -> None:
    single = [dataset.arrays(indices[i : i + 1]) for i in range(len(indices))]
    joined = {name: np.concatenate([part[name] for part in single]) for name in whole}
    _require(_same(whole, joined), task, "a sample depends on its batch")
    backwards = dataset.arrays(indices[::-1].copy())
    _require(_same(whole, {k: v[::-1] for k, v in backwards.items()}), task, "a sample depends on the order of access")
    for threads in (2, 3):
        _require(_same(whole, dataset.arrays(indices, threads)), task, f"a sample depends on {threads} threads")


def _check_independence(task: Task, indices: np.ndarray, whole: dict[str, np.ndarray]) -> None:
    others = {
        "seed 1 gives the samples of seed 0": task.dataset(seed=1).arrays(indices),
        "seed 1 is seed 0 shifted by one": task.dataset(seed=1).arrays(indices + 1),
        "another split gives the same samples": task.dataset(split=task.split + "-other").arrays(indices),
    }
    for fault, other in others.items():
        equal = [all(np.array_equal(whole[k][i], other[k][i]) for k in whole) for i in range(len(indices))]
        shifted = [all(np.array_equal(whole[k][i], other[k][i - 1]) for k in whole) for i in range(1, len(indices))]
        _require(not any(equal) and not any(shifted), task, fault)


def _check_fields(task: Task, dataset: TaskDataset, whole: dict[str, np.ndarray]) -> None:
    fields = dataset.fields()
    _require(fields.keys() == whole.keys(), task, f"declares {sorted(fields)} but returns {sorted(whole)}")
    for name, field in fields.items():
        array = whole[name]
        _require(array.dtype == field.dtype, task, f"{name} has dtype {array.dtype}, declared {field.dtype}")
        _require(array.shape[1:] == field.shape, task, f"{name} has shape {array.shape[1:]}, declared {field.shape}")
        inside = field.low <= array.min() and array.max() <= field.high
        _require(bool(inside), task, f"{name} leaves its declared range [{field.low}, {field.high}]")


def _check_oracle(task: Task, dataset: TaskDataset, indices: np.ndarray) -> None:
    losses = {name: float(np.mean(values)) for name, values in dataset.losses(indices).items()}
    _require("oracle" in losses and len(losses) > 1, task, "has no oracle or no control")
    for name, loss in losses.items():
        _require(np.isfinite(loss), task, f"the loss of {name} is not finite")
        _require(
            losses["oracle"] <= loss, task, f"the control {name} ({loss:.4f}) beats the oracle ({losses['oracle']:.4f})"
        )


def _check_refusal(task: Task, field: str, changes: Any) -> None:
    try:
        task.change(**changes)
    except ValueError as error:
        _require(field in str(error), task, f"refuses {dict(changes)} without naming {field}: {error}")
    else:
        _require(False, task, f"accepts {dict(changes)}")


def fingerprint(task: Task, samples: int = 4) -> str:
    """Return a hash of the first samples of a task, in a byte order of its own."""
    digest = hashlib.sha256()
    for name, array in sorted(task.dataset().arrays(np.arange(samples)).items()):
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        digest.update(f"{name} {little.dtype.str} {array.shape}".encode())
        digest.update(little.tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Certificate:
    """What `certify` found about two splits.

    Attributes:
        tasks: Name of each split's task.
        splits: The two splits' names.
        checked: How many samples of each split were compared.
        sizes: How many samples each split has.
        shared: How many of the checked samples of the second split are samples of the first one too.
        repeated: How many of the checked samples of each split occur earlier in it.
    """

    tasks: tuple[str, str]
    splits: tuple[str, str]
    checked: tuple[int, int]
    sizes: tuple[int, int]
    shared: int
    repeated: tuple[int, int]

    @property
    def disjoint(self) -> bool:
        """Whether no checked sample lies in both splits."""
        return self.shared == 0

    @property
    def complete(self) -> bool:
        """Whether every sample of both splits was checked."""
        return self.checked == self.sizes


def certify(
    task: Task,
    splits: tuple[str, str],
    *,
    other: Task | None = None,
    seed: int = 0,
    limit: int | None = None,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Certificate:
    """Compare the samples of two splits: hashes of their canonical form, then whole samples where two agree.

    Args:
        task: A registered task.
        splits: Names of two splits.
        other: The task of the second split, where that is another, such as the test set's.
        seed: The seed of both.
        limit: Check at most so many samples of each; None checks all.
        threads: Threads to draw with.
        progress: Called with the number of samples done after each block.

    Raises:
        ValueError: The two splits are one, or the two tasks' samples have different forms.
    """
    tasks = (task, other or task)
    if splits[0] == splits[1] and tasks[0] == tasks[1]:
        raise ValueError(f"splits is {splits}; allowed: two different names")
    if limit is not None:
        check_integer("limit", limit, 1)
    datasets = [one.dataset(split, seed) for one, split in zip(tasks, splits, strict=True)]
    forms = [{name: (f.dtype.str, f.shape) for name, f in dataset.fields().items()} for dataset in datasets]
    if forms[0] != forms[1]:
        raise ValueError(f"task is {tasks[1].name!r}, with samples {forms[1]}; allowed: one with the samples of "
                         f"{tasks[0].name}, {forms[0]}")  # fmt: skip
    hashes = [_canonical_hashes(dataset, limit, threads, progress) for dataset in datasets]
    # Canonical forms may be shortened: only those that occur twice need a look at the whole.
    often = {value for value, count in Counter(hashes[0] + hashes[1]).items() if count > 1}
    for dataset, found in zip(datasets, hashes, strict=True):
        for index in [index for index, value in enumerate(found) if value in often]:
            whole = dataset.arrays(np.array([index]))
            found[index] = _digest(*(whole[name][0] for name in sorted(whole)))
    known = set(hashes[0])
    return Certificate(
        (tasks[0].name, tasks[1].name),
        splits,
        checked=(len(hashes[0]), len(hashes[1])),
        sizes=(len(datasets[0]), len(datasets[1])),
        shared=sum(value in known for value in hashes[1]),
        repeated=(len(hashes[0]) - len(known), len(hashes[1]) - len(set(hashes[1]))),
    )


def _canonical_hashes(
    dataset: TaskDataset, limit: int | None, threads: int, progress: Callable[[int], None] | None
) -> list[bytes]:
    count = len(dataset) if limit is None else min(limit, len(dataset))
    found: list[bytes] = []
    for start in range(0, count, 256):
        rows = dataset.canonical(np.arange(start, min(start + 256, count)), threads)
        found += [_digest(row) for row in rows]
        if progress:
            progress(len(rows))
    return found


def _digest(*arrays: np.ndarray) -> bytes:
    state = hashlib.blake2b(digest_size=16)
    for array in arrays:
        state.update(np.ascontiguousarray(array).tobytes())
    return state.digest()
