"""Slow twins of the language and of the controls, written from their definitions with nothing but Python and NumPy.

Float64 and the C library's functions; no code is shared with the package, which gives only the parameters.
"""

import math
from collections import Counter

import numpy as np


def logits(spec, theta, history):
    """Return the logits before normalisation, float64 (N,), after `history` (n,), oldest token first."""
    embedding, weights, hidden_bias, output, output_bias = (
        theta[name].astype(np.float64) for name in ("embedding", "weights", "hidden_bias", "output", "output_bias")
    )
    n = len(history)
    if spec.law == "additive":
        first = {"recency": 1, "published": 0}[spec.position_weights]
        hidden = np.zeros(spec.hidden_dim)
        for k, token in enumerate(history):
            inputs = embedding[token] @ weights[k] + hidden_bias[k]
            hidden += (k + first) / n * np.array([math.tanh(value) for value in inputs])
    else:
        total = sum(embedding[token] @ weights[k] for k, token in enumerate(history))
        scale = spec.gain / math.sqrt(n * spec.embedding_dim)
        hidden = np.array([math.tanh(scale * value + bias) for value, bias in zip(total, hidden_bias[0], strict=True)])
    return hidden @ output + output_bias


def law(spec, theta, lam, history):
    """Return p(x | history), float64 (N,)."""
    z = logits(spec, theta, history)
    z = lam * (z - z.mean()) / math.sqrt(np.mean((z - z.mean()) ** 2))
    weights = np.exp(z - z.max())
    return weights / weights.sum()


def laws(language, tokens):
    """Return the law of every position of `tokens`, float64 (T, N), the first one after n times token 0."""
    theta = language.theta()
    history = [0] * language.order + [int(token) for token in tokens]
    return np.array(
        [law(language.spec, theta, language.lam, history[t : t + language.order]) for t in range(len(tokens))]
    )


def unigram(tokens, vocab_size):
    """Return the predictions of counts plus one half, float64 (T + 1, N)."""
    rows = []
    for t in range(len(tokens) + 1):
        counts = Counter(tokens[:t])
        rows.append([(counts[x] + 0.5) / (t + 0.5 * vocab_size) for x in range(vocab_size)])
    return np.array(rows)


def witten_bell(tokens, vocab_size, max_order):
    """Return the interpolated Witten-Bell predictions, float64 (T + 1, N), counted anew at every position."""
    rows = []
    for t in range(len(tokens) + 1):
        p = [1.0 / vocab_size] * vocab_size
        for length in range(min(max_order, t) + 1):
            context = tokens[t - length : t]
            counts = Counter(tokens[s] for s in range(length, t) if tokens[s - length : s] == context)
            total, types = sum(counts.values()), len(counts)
            if total:
                p = [(counts[x] + types * p[x]) / (total + types) for x in range(vocab_size)]
        rows.append(p)
    return np.array(rows)


def ngram_mixture(tokens, vocab_size, max_order):
    """Return the predictions of the mixture of n-grams, float64 (T + 1, N), from weights kept as logarithms."""
    laws = [np.full((len(tokens) + 1, vocab_size), 1.0 / vocab_size)]
    laws += [witten_bell(tokens, vocab_size, order) for order in range(max_order + 1)]
    logs = np.full(len(laws), -np.log(len(laws)))
    rows = []
    for t in range(len(tokens) + 1):
        weights = np.exp(logs)
        rows.append(sum(w * law[t] for w, law in zip(weights, laws, strict=True)))
        if t < len(tokens):
            logs = logs + np.log([law[t][tokens[t]] for law in laws])
            logs -= np.log(np.exp(logs).sum())
            share = 1.0 / (t + 2)
            logs = np.log((1.0 - share) * np.exp(logs) + share / len(laws))
    return np.array(rows)


def induction(tokens, vocab_size, max_length):
    """Return the predictions of the copying rule, float64 (T + 1, N)."""
    right, tried = Counter(), Counter()
    rows = []
    for t in range(len(tokens) + 1):
        copied, length = None, 0
        for length in range(min(max_length, t), -1, -1):
            earlier = [s for s in range(length, t) if tokens[s - length : s] == tokens[t - length : t]]
            if earlier:
                copied = tokens[earlier[-1]]
                break
        if copied is None:
            rows.append([1.0 / vocab_size] * vocab_size)
            continue
        trust = (right[length] + 0.5) / (tried[length] + 1.0)
        rows.append([trust if x == copied else (1.0 - trust) / (vocab_size - 1) for x in range(vocab_size)])
        if t < len(tokens):
            tried[length] += 1
            right[length] += tokens[t] == copied
    return np.array(rows)
