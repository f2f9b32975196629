"""One random language: its law, its tokens and the exact probability of each."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from neophyte.core.addressing import MAX_INDEX, Space
from neophyte.core.spec import check_integer
from neophyte.metalang import kernels
from neophyte.metalang.spec import LanguageSpec

LAWS = {"additive": kernels.ADDITIVE, "joint": kernels.JOINT}


def token_dtype(vocab_size: int) -> np.dtype[Any]:
    """Return the dtype of tokens: uint8 for vocabularies up to 256, uint16 above."""
    return np.dtype(np.uint8 if vocab_size <= 256 else np.uint16)


def position_factors(spec: LanguageSpec) -> np.ndarray:
    """Return what each position counts for, float32 (max_order + 1, max_order): row n serves order n, oldest first."""
    longest = max(spec.orders)
    factors = np.zeros((longest + 1, longest), dtype=np.float32)
    first = 1 if spec.position_weights == "recency" else 0
    for order in range(1, longest + 1):
        factors[order, :order] = np.arange(first, first + order) / order
    return factors


def input_scales(spec: LanguageSpec) -> np.ndarray:
    """Return the joint law's input scale of each order, float32 (max_order + 1,): gain / sqrt(n d)."""
    orders = np.maximum(np.arange(max(spec.orders) + 1), 1)
    return (spec.gain / np.sqrt(orders * spec.embedding_dim)).astype(np.float32)


@dataclass(frozen=True)
class LanguageDraws:
    """What a run of languages is made from: Philox keys, orders and entropy targets, an entry for each.

    Attributes:
        theta_keys: uint64 (batch, 2).
        pilot_keys: uint64 (batch, 2).
        orders: int64 (batch,).
        targets: float64 (batch,), nats.
    """

    theta_keys: np.ndarray
    pilot_keys: np.ndarray
    orders: np.ndarray
    targets: np.ndarray


def draw_languages(spec: LanguageSpec, space: Space, indices: np.ndarray) -> LanguageDraws:
    """Draw the orders, targets and keys of the languages at `indices`, int64 (batch,)."""
    picks = np.empty(len(indices), dtype=np.int64)
    targets = np.empty(len(indices))
    low, high = spec.entropy_band
    margin = 0.2 * (high - low)
    kernels.language_draws(
        space.keys("order", indices),
        space.keys("target", indices),
        len(spec.orders),
        low + margin,
        high - margin,
        picks,
        targets,
    )
    if spec.order_sampling == "balanced":
        picks = indices % len(spec.orders)
    orders = np.array(spec.orders, dtype=np.int64)[picks]
    return LanguageDraws(space.keys("theta", indices), space.keys("pilot", indices), orders, targets)


@dataclass(frozen=True)
class Language:
    """A language: a law p(x_t | x_{t-1}, ..., x_{t-n}) over `vocab_size` tokens.

    Attributes:
        spec: The distribution that it was drawn from.
        order: Number n of tokens that the next one depends on.
        lam: Inverse temperature of its standardised logits.
        theta_key: uint64 (2,), the Philox key of its parameters.
    """

    spec: LanguageSpec
    order: int
    lam: float
    theta_key: np.ndarray
    _parts: tuple[Any, ...] = field(repr=False, compare=False)

    @classmethod
    def draw(cls, spec: LanguageSpec, split: str = "train", seed: int = 0, index: int = 0) -> Language:
        """Draw the language with this address."""
        check_integer("index", index, 0, MAX_INDEX)
        draws = draw_languages(spec, Space(spec.identity, split, seed), np.array([index], dtype=np.int64))
        order = int(draws.orders[0])
        parts = kernels.make_language(
            LAWS[spec.law],
            order,
            (spec.vocab_size, spec.embedding_dim, spec.hidden_dim),
            draws.theta_keys[0],
            spec.sigma,
            position_factors(spec)[order, :order],
            input_scales(spec)[order],
            np.float32(spec.lam),
            spec.pilot_tokens if spec.calibrate else 0,
            draws.targets[0],
            draws.pilot_keys[0],
        )
        lam = np.float32(parts[5])  # it comes back as a Python float, and float64 would round otherwise
        return cls(spec, order, float(lam), draws.theta_keys[0], (*parts[:5], lam))

    def theta(self) -> dict[str, np.ndarray]:
        """Return the parameters by name, float32, entries Normal(0, sigma^2).

        Returns:
            embedding (N, d), weights (n, d, H), oldest position first, hidden_bias (n, H) or for the joint law (1, H),
            output (H, N) and output_bias (N,), both centred over the vocabulary, which leaves the law as it is.
        """
        spec = self.spec
        law, dims = LAWS[spec.law], (spec.vocab_size, spec.embedding_dim, spec.hidden_dim)
        flat = np.empty(kernels.theta_size(law, self.order, *dims), dtype=np.float32)
        kernels.draw_theta(self.theta_key, spec.sigma, flat)
        names = ("embedding", "weights", "hidden_bias", "output", "output_bias")
        arrays = dict(zip(names, kernels.unpack_theta(flat, law, self.order, *dims), strict=True))
        for name in ("output", "output_bias"):
            arrays[name] = arrays[name][..., : spec.vocab_size]
        return arrays

    def sample(self, key: np.ndarray, length: int, start: int = 0, context: np.ndarray | None = None) -> Sequence:
        """Draw tokens start, ..., start + length - 1 of the sequence with the Philox key `key`, uint64 (2,).

        Args:
            key: The sequence's key.
            length: How many tokens.
            start: Position of the first one; a sequence drawn in pieces has the same bytes as in one.
            context: The `order` tokens before it, oldest first; needed when `start` is not zero.
        """
        check_integer("start", start, 0, MAX_INDEX)
        check_integer("length", length, 0)
        if start and context is None:
            raise ValueError("context is None; allowed: the tokens before `start`, when start is not 0")
        state = self._context(context)
        tokens = np.empty(length, dtype=token_dtype(self.spec.vocab_size))
        nll = np.empty(length, dtype=np.float32)
        kernels.sample(self._parts, key, start, state, tokens, nll)
        return Sequence(tokens, nll, state)

    def nll(self, tokens: np.ndarray, context: np.ndarray | None = None) -> np.ndarray:
        """Return the exact -log p of each token, float32 (time,) nats, given `context` (default: zeros)."""
        return self._score(tokens, context, with_law=False)[0]

    def law(self, tokens: np.ndarray, context: np.ndarray | None = None) -> np.ndarray:
        """Return the law of every position of `tokens` (time,), float32 (time, vocab); rows sum to one."""
        return self._score(tokens, context, with_law=True)[1]

    def _score(self, tokens: np.ndarray, context: np.ndarray | None, with_law: bool) -> tuple[np.ndarray, np.ndarray]:
        tokens = self._checked("tokens", tokens)
        history = np.concatenate([self._context(context), tokens])
        nll = np.empty(tokens.size, dtype=np.float32)
        shape = (tokens.size, self.spec.vocab_size) if with_law else (0, 0)
        probabilities = np.empty(shape, dtype=np.float32)
        kernels.score(self._parts, history, nll, probabilities)
        return nll, probabilities

    def _context(self, context: np.ndarray | None) -> np.ndarray:
        if context is None:
            return np.zeros(self.order, dtype=np.int64)
        if np.shape(context) != (self.order,):
            raise ValueError(f"context has shape {np.shape(context)}; allowed: ({self.order},), the language's order")
        return self._checked("context", context)

    def _checked(self, name: str, tokens: Any) -> np.ndarray:
        """Return tokens (time,) as int64: the kernels look them up without checking."""
        array = np.asarray(tokens)
        allowed = f"allowed: integers in [0, {self.spec.vocab_size}), (time,)"
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise ValueError(f"{name} has shape {array.shape} and dtype {array.dtype}; {allowed}")
        if array.size and (array.min() < 0 or array.max() >= self.spec.vocab_size):
            raise ValueError(f"{name} lie in [{array.min()}, {array.max()}]; {allowed}")
        return array.astype(np.int64)


@dataclass(frozen=True)
class Sequence:
    """A stretch of a sequence.

    Attributes:
        tokens: uint8 or uint16 (time,).
        nll: float32 (time,), the exact -log p of each token in nats.
        context: int64 (order,), its last tokens, oldest first: where the next stretch goes on.
    """

    tokens: np.ndarray
    nll: np.ndarray
    context: np.ndarray = dataclasses.field(repr=False)
