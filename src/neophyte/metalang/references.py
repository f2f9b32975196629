"""Controls: predictors that learn in context with no training, scored on the same sequences as a model.

Each maps tokens (batch, time) to -log p (batch, time) in nats, and predicts every token from those before it alone.
The oracle, the exact law, comes with the corpus (`Corpus.batch(..., nll=True)`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from neophyte.core.spec import check_integer
from neophyte.metalang import control_kernels

# All of them, the oracle first, as figures list them.
CONTROLS = ("oracle", "ngram_true_order", "ngram_mixture", "ngram", "induction", "unigram", "uniform")

DEFAULT_MAX_ORDER = 5
INDUCTION_MAX_LENGTH = 16


def uniform(tokens: np.ndarray, vocab_size: int) -> np.ndarray:
    """Predict every token with probability 1 / vocab_size; float32 (batch, time) nats."""
    return np.full(tokens.shape, math.log(vocab_size), dtype=np.float32)


def unigram(tokens: np.ndarray, vocab_size: int, *, threads: int = 1) -> np.ndarray:
    """Predict from the counts of the tokens so far, plus one half each; float32 (batch, time) nats."""
    return _score(tokens, lambda row, out: control_kernels.unigram(row, vocab_size, out), vocab_size, threads)


def ngram(
    tokens: np.ndarray, vocab_size: int, max_order: int | np.ndarray = DEFAULT_MAX_ORDER, *, threads: int = 1
) -> np.ndarray:
    """Predict from counts after contexts of all lengths up to `max_order`, interpolated (Witten-Bell).

    With h' the context h less its oldest token, c counts and T(h) the number of different tokens seen after h:
    p(x | h) = (c(h, x) + T(h) p(x | h')) / (c(h) + T(h)), down to the uniform law; T. Bell, J. Cleary and I. Witten
    (1990), method C.

    Args:
        tokens: Unsigned integers (batch, time).
        vocab_size: Number of tokens.
        max_order: Longest context, in [0, 64]; an integer, or one for each sequence, (batch,).
        threads: Threads to score with.

    Returns:
        float32 (batch, time), nats.
    """
    longest = np.broadcast_to(np.asarray(max_order, dtype=np.int64), tokens.shape[:1])
    for order in np.unique(longest).tolist():
        check_integer("max_order", order, 0, 64)
    nothing = np.empty(0, dtype=np.float32)
    return _score(
        tokens,
        lambda row, order, out: control_kernels.witten_bell(row, vocab_size, order, out, nothing),
        vocab_size,
        threads,
        longest,
    )


def ngram_mixture(
    tokens: np.ndarray, vocab_size: int, max_order: int = DEFAULT_MAX_ORDER, *, threads: int = 1
) -> np.ndarray:
    """Predict with a mixture of n-grams that finds the best order as it reads: the strongest of the counting controls.

    The experts are the uniform law and `ngram` of maximal order 0, 1, ..., max_order. They begin with equal weights,
    which follow Bayes' rule; after token t a share 1 / (t + 2) of all weight is dealt out equally again, for short
    contexts serve best at first and long ones later (fixed share; M. Herbster and M. Warmuth, 1998).

    Returns:
        float32 (batch, time), nats.
    """
    return _ngram_and_mixture(tokens, vocab_size, max_order, threads)[1]


def _ngram_and_mixture(
    tokens: np.ndarray, vocab_size: int, max_order: int, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of `ngram` and of `ngram_mixture`, which are counted in one pass."""
    check_integer("max_order", max_order, 0, 64)
    mixture = np.empty(tokens.shape, dtype=np.float32)
    nll = _score(
        tokens,
        lambda row, b, out: control_kernels.witten_bell(row, vocab_size, max_order, out, mixture[b]),
        vocab_size,
        threads,
        np.arange(len(tokens)),
    )
    return nll, mixture


def induction(tokens: np.ndarray, vocab_size: int, *, threads: int = 1) -> np.ndarray:
    """Predict what followed the latest occurrence of the longest suffix seen before, trusted as it was right so far.

    Suffixes of up to 16 tokens are matched. This is the copying rule of induction heads (C. Olsson et al., 2022).
    Returns float32 (batch, time) nats.
    """
    return _score(
        tokens,
        lambda row, out: control_kernels.induction(row, vocab_size, INDUCTION_MAX_LENGTH, out),
        vocab_size,
        threads,
    )


def score_controls(
    tokens: np.ndarray, vocab_size: int, *, orders: np.ndarray | None = None, threads: int = 1
) -> dict[str, np.ndarray]:
    """Score sequences with every control.

    Args:
        tokens: Unsigned integers (batch, time).
        vocab_size: Number of tokens.
        orders: int64 (batch,), how many tokens each sequence's law depends on, where there is one (`true_orders`).
        threads: Threads to score with.

    Returns:
        float32 (batch, time) nats by name: "uniform", "unigram", "ngram" (maximal order 5), "ngram_mixture" (of orders
        up to 5), "ngram_true_order" (only with `orders`) and "induction".
    """
    longest, mixture = _ngram_and_mixture(tokens, vocab_size, DEFAULT_MAX_ORDER, threads)
    scores = {
        "uniform": uniform(tokens, vocab_size),
        "unigram": unigram(tokens, vocab_size, threads=threads),
        "ngram": longest,
        "ngram_mixture": mixture,
        "induction": induction(tokens, vocab_size, threads=threads),
    }
    if orders is not None:
        scores["ngram_true_order"] = ngram(tokens, vocab_size, orders, threads=threads)
    return scores


def _score(
    tokens: np.ndarray, score_row: Callable[..., None], vocab_size: int, threads: int, per_row: np.ndarray | None = None
) -> np.ndarray:
    if tokens.ndim != 2 or tokens.dtype.kind not in "iu":
        raise ValueError(f"tokens has shape {tokens.shape}, dtype {tokens.dtype}; allowed: integers (batch, time)")
    if tokens.size and (tokens.min() < 0 or tokens.max() >= vocab_size):
        raise ValueError(f"tokens lie in [{tokens.min()}, {tokens.max()}]; allowed: [0, {vocab_size})")
    nll = np.empty(tokens.shape, dtype=np.float32)

    def score(b: int) -> None:
        extra = () if per_row is None else (int(per_row[b]),)
        score_row(np.ascontiguousarray(tokens[b]), *extra, nll[b])

    if threads == 1:
        for b in range(len(tokens)):
            score(b)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(score, range(len(tokens))))
    return nll
