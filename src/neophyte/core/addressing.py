"""The addressing law: a sample is a pure function of (task@version, split, seed, index).

An address and a stream name are hashed to the 128-bit key of a Philox counter-based generator. Named streams ("theta",
"tokens", ...) are independent of each other, so that a new draw never shifts another. NumPy promises stability for the
raw words of a bit generator only, so the words are turned into numbers by our own functions in `core/kernels.py`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from neophyte.core import kernels
from neophyte.core.spec import check_integer, set_plain

MAX_SEED = 2**63 - 1
MAX_INDEX = 2**63 - 1

_SHUFFLE_ROUNDS = 12


@dataclass(frozen=True)
class Space:
    """All the addresses of one task, split and seed; its samples are told apart by their index.

    Attributes:
        task: The task's identity with its version, such as "metalang@1:5f0c..."; not empty.
        split: The split's name, such as "train"; not empty.
        seed: Integer in [0, 2^63).
    """

    task: str
    split: str
    seed: int = 0

    def __post_init__(self) -> None:
        set_plain(self)
        for field in ("task", "split"):
            value = getattr(self, field)
            if not isinstance(value, str) or not value:
                raise ValueError(f"{field} is {value!r}; allowed: a name that is not empty")
        check_integer("seed", self.seed, 0, MAX_SEED)

    def keys(self, stream: str, indices: np.ndarray) -> np.ndarray:
        """Return the Philox keys of the stream `stream` at every index.

        Args:
            stream: Name of the stream.
            indices: Integers in [0, 2^63), shape (batch,).

        Returns:
            uint64 array (batch, 2).

        Raises:
            ValueError: The indices are not of this form.
        """
        # Every part carries its length, so that no two different addresses are the same bytes.
        parts = (self.task.encode(), self.split.encode(), stream.encode())
        prefix = hashlib.blake2b(digest_size=16, person=b"neophyte/stream")
        for part in parts:
            prefix.update(len(part).to_bytes(4, "little") + part)
        prefix.update(self.seed.to_bytes(8, "little"))
        digests = bytearray()
        for index in check_indices(indices).tolist():
            state = prefix.copy()
            state.update(index.to_bytes(8, "little"))
            digests += state.digest()
        return np.frombuffer(bytes(digests), dtype="<u8").astype(np.uint64).reshape(-1, 2)

    def stream(self, name: str, index: int) -> Stream:
        """Return the stream `name` of the sample at `index`."""
        check_integer("index", index, 0, MAX_INDEX)
        return Stream(self.keys(name, np.array([index]))[0])

    def shuffled(self, name: str, index: int, size: int, positions: Any) -> np.ndarray:
        """Return what stands at some positions of a shuffled range(size), without making the whole of it.

        Args:
            name: Name of the stream that decides the order.
            index: Which order of that stream, such as the epoch.
            size: Length of the range, in [1, 2^62].
            positions: Integers in [0, size), (batch,).

        Returns:
            int64 array (batch,).

        Raises:
            ValueError: A position lies outside the range.
        """
        check_integer("size", size, 1, 2**62)
        positions = check_indices(positions)
        if positions.max() >= size:
            raise ValueError(f"positions lie in [{positions.min()}, {positions.max()}]; allowed: [0, {size})")
        out = np.empty_like(positions)
        kernels.permute(self.stream(name, index).words(_SHUFFLE_ROUNDS), size, positions, out)
        return out


def check_indices(indices: Any) -> np.ndarray:
    """Return `indices` as int64 (batch,).

    Raises:
        ValueError: They are not integers in [0, 2^63) of shape (batch,), batch at least 1.
    """
    array = np.asarray(indices)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise ValueError(f"indices has shape {array.shape} and dtype {array.dtype}; allowed: integers, (batch,)")
    if array.min() < 0 or array.max() > MAX_INDEX:
        raise ValueError(f"indices lie in [{array.min()}, {array.max()}]; allowed: [0, {MAX_INDEX}]")
    return array.astype(np.int64)


class Stream:
    """A sequence of random 64-bit words and the documented ways to turn them into numbers.

    Each number below takes one word (a bounded integer takes another for each rejection, which happens with
    probability below bound / 2^64), and `position` tells how many words have been taken.
    """

    def __init__(self, key: np.ndarray, position: int = 0) -> None:
        self.key = np.asarray(key, dtype=np.uint64)
        self.position = position

    def words(self, count: int) -> np.ndarray:
        """Return the next `count` raw words, uint64 (count,)."""
        out = np.empty(count, dtype=np.uint64)
        kernels.philox_words(self.key, self.position, out)
        self.position += count
        return out

    def uniform(self, count: int) -> np.ndarray:
        """Return float64 (count,) uniform on [0, 1): the high 53 bits of a word over 2^53."""
        return kernels.uniform_from_words(self.words(count))

    def normal(self, count: int) -> np.ndarray:
        """Return float64 (count,) standard normal: the inverse distribution function (AS 241) of one word."""
        return kernels.normal_from_words(self.words(count))

    def integers(self, bound: int, count: int) -> np.ndarray:
        """Return int64 (count,) uniform on {0, ..., bound - 1}, without bias (Lemire's method with rejection).

        Args:
            bound: Number of values, in [1, 2^63).
            count: How many to draw.
        """
        check_integer("bound", bound, 1, 2**63 - 1)
        out = np.empty(count, dtype=np.int64)
        self.position = kernels.bounded_integers(self.key, self.position, np.uint64(bound), out)
        return out

    def permutation(self, size: int) -> np.ndarray:
        """Return a uniform random permutation of 0..size-1, int64 (size,) (Fisher-Yates from the end)."""
        out = np.arange(size, dtype=np.int64)
        self.position = kernels.shuffle(self.key, self.position, out)
        return out
