"""Corpora: index -> sequence, in any order, by any number of threads, without end."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from neophyte.core.addressing import MAX_INDEX, Space, check_indices
from neophyte.core.contract import Field
from neophyte.core.spec import change, check_integer
from neophyte.core.threads import in_threads
from neophyte.metalang import kernels
from neophyte.metalang.language import (
    LAWS,
    Language,
    Sequence,
    draw_languages,
    input_scales,
    position_factors,
    token_dtype,
)
from neophyte.metalang.references import score_controls
from neophyte.metalang.spec import CorpusSpec, preset

# Two sequences that differ in their first tokens differ: so much of each is enough to tell them apart.
_CANONICAL_LENGTH = 128


@dataclass(frozen=True)
class Batch:
    """Sequences and what is known of them.

    Attributes:
        tokens: uint8 (uint16 for vocabularies above 256), (batch, time).
        nll: float32 (batch, time), the exact -log p of each token in nats (the oracle); (batch, 0) if not asked for.
        orders: int64 (batch,), the order of each sequence's language.
        lam: float32 (batch,), its inverse temperature.
    """

    tokens: np.ndarray
    nll: np.ndarray
    orders: np.ndarray
    lam: np.ndarray


class Corpus:
    """Token sequences of random languages, each a pure function of (spec, split, seed, index).

    Args:
        spec: What to draw.
        split: Name of the split; different splits are independent.
        seed: Integer in [0, 2^63); different seeds are independent.

    Example:
        >>> from neophyte import metalang
        >>> corpus = metalang.corpus("tiny-train", seed=1)
        >>> corpus[5].shape, corpus[5].dtype
        ((256,), dtype('uint8'))
    """

    def __init__(self, spec: CorpusSpec, split: str = "train", seed: int = 0) -> None:
        self.spec = spec
        self.split = split
        self.seed = seed
        self._space = Space(spec.identity, split, seed)
        self._factors = position_factors(spec)
        self._scales = input_scales(spec)

    def __repr__(self) -> str:
        return f"Corpus({self.spec}, split={self.split!r}, seed={self.seed})"

    def __len__(self) -> int:
        return self.spec.num_sequences

    def __getitem__(self, index: int) -> np.ndarray:
        """Return the tokens of one sequence of the set, (time,)."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"index is {index}; allowed: [0, {len(self)})")
        return self.batch(np.array([index % len(self)])).tokens[0]

    def batch(self, indices: Any, *, nll: bool = False, threads: int = 1) -> Batch:
        """Draw the sequences at `indices`.

        Args:
            indices: Integers in [0, 2^63), shape (batch,); those from `num_sequences` on are fresh sequences too.
            nll: Also return each token's exact -log p.
            threads: Threads to draw with; the bytes do not depend on it.
        """
        indices = check_indices(indices)
        check_integer("threads", threads, 1, 1024)
        spec = self.spec
        languages = indices // spec.sequences_per_language
        draws = draw_languages(spec, self._space, languages)
        keys = np.stack([draws.theta_keys, draws.pilot_keys, self._space.keys("tokens", indices)])
        tokens = np.empty((len(indices), spec.context_length), dtype=token_dtype(spec.vocab_size))
        scores = np.empty((len(indices), spec.context_length if nll else 0), dtype=np.float32)
        lam = np.empty(len(indices), dtype=np.float32)

        def draw(rows: slice) -> None:
            kernels.generate(
                LAWS[spec.law],
                (spec.vocab_size, spec.embedding_dim, spec.hidden_dim),
                draws.orders[rows],
                keys[:, rows],
                float(spec.sigma),
                self._factors,
                self._scales,
                np.float32(spec.lam),
                spec.pilot_tokens if spec.calibrate else 0,
                draws.targets[rows],
                tokens[rows],
                scores[rows],
                lam[rows],
            )

        in_threads(draw, len(indices), threads)
        return Batch(tokens, scores, draws.orders, lam)

    def stream(self, batch_size: int, *, start: int = 0, threads: int = 1) -> Iterator[np.ndarray]:
        """Yield batches of tokens, (batch, time), of the sequences start, start + 1, ..., without end or repeats."""
        check_integer("batch_size", batch_size, 1)
        check_integer("start", start, 0, MAX_INDEX)
        while True:
            yield self.batch(np.arange(start, start + batch_size), threads=threads).tokens
            start += batch_size

    def pieces(self, index: int, length: int) -> Iterator[Sequence]:
        """Yield sequence `index` in consecutive pieces of at most `length` tokens, in constant memory.

        The pieces join to the bytes that `batch` draws at once, with the exact -log p of each token.
        """
        check_integer("length", length, 1)
        language = self.language(index)
        key = self._space.keys("tokens", np.array([index]))[0]
        context = None
        for start in range(0, self.spec.context_length, length):
            count = min(length, self.spec.context_length - start)
            piece = language.sample(key, count, start, context)
            context = piece.context
            yield piece

    def language(self, index: int) -> Language:
        """Return the language of sequence `index`."""
        check_integer("index", index, 0, MAX_INDEX)
        return Language.draw(self.spec, self.split, self.seed, index // self.spec.sequences_per_language)

    def orders(self, indices: Any) -> np.ndarray:
        """Return the order of each sequence's language, int64 (batch,), without drawing the sequences."""
        languages = check_indices(indices) // self.spec.sequences_per_language
        return draw_languages(self.spec, self._space, languages).orders

    # What the task contract (core/contract.py) asks of every data set.

    def fields(self) -> dict[str, Field]:
        """Declare dtype, shape and range of each array of a sample."""
        spec = self.spec
        return {"tokens": Field(token_dtype(spec.vocab_size), (spec.context_length,), 0, spec.vocab_size - 1)}

    def arrays(self, indices: Any, threads: int = 1) -> dict[str, np.ndarray]:
        """Return the samples' arrays by name, batch axis first."""
        return {"tokens": self.batch(indices, threads=threads).tokens}

    def losses(self, indices: Any) -> dict[str, np.ndarray]:
        """Return the mean -log p (nats per token) of each sequence by the oracle and every control, float (batch,)."""
        batch = self.batch(indices, nll=True)
        orders = self.spec.true_orders(batch.orders)
        controls = score_controls(batch.tokens, self.spec.vocab_size, orders=orders)
        return {name: nll.mean(axis=1) for name, nll in {"oracle": batch.nll, **controls}.items()}

    def canonical(self, indices: Any, threads: int = 1) -> np.ndarray:
        """Return the first tokens of each sequence, (batch, time): equal sequences have equal rows."""
        length = min(_CANONICAL_LENGTH, self.spec.context_length)
        short = Corpus(dataclasses.replace(self.spec, context_length=length), self.split, self.seed)
        return short.batch(indices, threads=threads).tokens


def corpus(name_or_spec: str | CorpusSpec, *, split: str | None = None, seed: int = 0, **changes: Any) -> Corpus:
    """Return a corpus by preset name or spec.

    Args:
        name_or_spec: "train", "warmup", "eval", "tiny-train", "tiny-eval", or a `CorpusSpec`.
        split: Name of the split; by default the preset's own, or "train" for a spec.
        seed: Integer in [0, 2^63).
        **changes: Fields of `CorpusSpec` to change, such as context_length=512.
    """
    if isinstance(name_or_spec, str):
        chosen = preset(name_or_spec)
        spec, split = chosen.spec, split or chosen.split
    else:
        spec = name_or_spec
    return Corpus(change(spec, **changes), split or "train", seed)
