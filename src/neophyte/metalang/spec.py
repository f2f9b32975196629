"""Specs of Meta-Language: the distribution that languages are drawn from, corpora of sequences, and presets."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from neophyte.core.spec import (
    check_boolean,
    check_choice,
    check_integer,
    check_real,
    digest,
    set_plain,
    set_reals,
    to_mapping,
)

VERSION = 1
MAX_VOCAB_SIZE = 65_536
MAX_ORDER = 64


@dataclass(frozen=True, kw_only=True)
class LanguageSpec:
    """The distribution of random neural n-gram languages (paper, section 2.1, Algorithm 1).

    Attributes:
        vocab_size: Number of tokens N, in [2, 65536].
        orders: The orders n that a language may have, each in [1, 64]: how many tokens its next one depends on.
        order_sampling: "uniform" draws each language's order at random; "balanced" takes the orders in turn.
        law: "additive" sums a hidden layer for each position (the published form); "joint" lets positions interact.
        position_weights: Additive law only. With k = 0 for the oldest token, "recency" weighs it by k + 1, "published"
            by k: there the oldest token weighs nothing, so that a language of order n depends on n - 1 tokens.
        embedding_dim: Width d of the token embedding.
        hidden_dim: Width H of the hidden layer.
        sigma: Standard deviation of every random parameter.
        gain: Joint law only. Scale of the hidden layer's input: larger is further from linear.
        calibrate: Solve for each language's lam so that its entropy rate lies in `entropy_band`; otherwise use `lam`.
        entropy_band: (low, high) in nats per token. Targets are drawn uniformly from its middle 60 %.
        pilot_tokens: Length of the calibration's pilot. 4,096 costs as much as a sequence; more is more exact.
        lam: Inverse temperature of the standardised logits, used as it is without `calibrate`.
    """

    vocab_size: int = 32
    orders: tuple[int, ...] = (3, 4, 5, 6)
    order_sampling: str = "uniform"
    law: str = "additive"
    position_weights: str = "recency"
    embedding_dim: int = 16
    hidden_dim: int = 64
    sigma: float = 1.0
    gain: float = 1.0
    calibrate: bool = True
    entropy_band: tuple[float, float] = (0.5, 1.0)
    pilot_tokens: int = 4096
    lam: float = 5.0

    def __post_init__(self) -> None:
        set_plain(self)
        check_integer("vocab_size", self.vocab_size, 2, MAX_VOCAB_SIZE)
        if not isinstance(self.orders, tuple) or not self.orders:
            raise ValueError(f"orders is {self.orders!r}; allowed: one or more integers in [1, {MAX_ORDER}]")
        for order in self.orders:
            check_integer("order", order, 1, MAX_ORDER)
        check_choice("order_sampling", self.order_sampling, ("uniform", "balanced"))
        check_choice("law", self.law, ("additive", "joint"))
        check_choice("position_weights", self.position_weights, ("recency", "published"))
        check_integer("embedding_dim", self.embedding_dim, 1, 4096)
        check_integer("hidden_dim", self.hidden_dim, 1, 4096)
        check_real("sigma", self.sigma, 1e-6, 1e3)
        check_real("gain", self.gain, 0.0, 1e3, open_low=True)
        check_boolean("calibrate", self.calibrate)
        check_integer("pilot_tokens", self.pilot_tokens, 256, 2**24)
        check_real("lam", self.lam, 0.0, 50.0, open_low=True)
        self._check_band()
        set_reals(self, "sigma", "gain", "entropy_band", "lam")

    def _check_band(self) -> None:
        limit = math.log(self.vocab_size)
        allowed = f"0 < low < high < ln vocab_size = {limit:.4g} nats"
        if not isinstance(self.entropy_band, tuple) or len(self.entropy_band) != 2:
            raise ValueError(f"entropy_band is {self.entropy_band!r}; allowed: two numbers, {allowed}")
        low, high = self.entropy_band
        check_real("entropy_band low", low, 0.0, open_low=True)
        check_real("entropy_band high", high, 0.0, open_low=True)
        if low >= high or (self.calibrate and high >= limit):
            raise ValueError(f"entropy_band is {self.entropy_band!r}; allowed: {allowed}")

    def true_orders(self, orders: Any) -> Any:
        """Return how many of the last tokens a language of each order depends on: one less with "published" weights."""
        return orders - 1 if self.law == "additive" and self.position_weights == "published" else orders

    @property
    def identity(self) -> str:
        """The task's name in addresses: the family, its version and a hash of every field that shapes a language."""
        fields = [field.name for field in dataclasses.fields(LanguageSpec)]
        values = to_mapping(self)
        return f"metalang@{VERSION}:{digest({name: values[name] for name in fields}, 32)}"


@dataclass(frozen=True, kw_only=True)
class CorpusSpec(LanguageSpec):
    """A set of token sequences, each from a random language.

    The extents below are no part of an address: sequence i of a longer context begins with sequence i of a shorter one.

    Attributes:
        context_length: Tokens T in a sequence, in [1, 2^31).
        num_sequences: Size of the set. A stream does not end there: it goes on to fresh sequences.
        sequences_per_language: Sequences i with equal i // sequences_per_language share a language.
    """

    context_length: int = 4096
    num_sequences: int = 500_000
    sequences_per_language: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("context_length", self.context_length, 1, 2**31 - 1)
        check_integer("num_sequences", self.num_sequences, 1, 2**48)
        check_integer("sequences_per_language", self.sequences_per_language, 1, 2**32)


@dataclass(frozen=True)
class Preset:
    """A named corpus: its spec, the split it is drawn from, and what it is for."""

    spec: CorpusSpec
    split: str
    summary: str


EVAL_ORDERS = (2, 3, 4, 5, 6, 7, 8)

PRESETS = {
    "train": Preset(CorpusSpec(), "train", "500,000 sequences of 4,096 tokens, orders 3-6 (paper, section 2.2)"),
    "warmup": Preset(CorpusSpec(orders=(2, 3)), "train", "the same with orders 2-3 (paper, appendix 6.1)"),
    "eval": Preset(
        CorpusSpec(orders=EVAL_ORDERS, order_sampling="balanced", num_sequences=7 * 4096),
        "eval",
        "4,096 sequences of 4,096 tokens for each order 2-8 (paper, section 2.2)",
    ),
    "tiny-train": Preset(
        CorpusSpec(orders=(2,), context_length=256, pilot_tokens=1024, num_sequences=65_536),
        "train",
        "65,536 sequences of 256 tokens, order 2: learnable on a laptop in minutes",
    ),
    "tiny-eval": Preset(
        CorpusSpec(
            orders=(2, 3, 4), order_sampling="balanced", context_length=256, pilot_tokens=1024, num_sequences=3 * 512
        ),
        "eval",
        "512 sequences of 256 tokens for each order 2-4",
    ),
}


def preset(name: str) -> Preset:
    """Return a preset by name.

    Raises:
        ValueError: There is none of that name; the message lists them and gives the nearest.
    """
    check_choice("preset", name, PRESETS)
    return PRESETS[name]
