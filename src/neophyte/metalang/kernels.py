"""Compiled loops of Meta-Language: drawing a language, calibrating it, sampling and scoring its tokens.

Shapes use n (order), N (vocab_size), d (embedding_dim), H (hidden_dim) and P, which is N rounded up to a multiple of
eight. Arithmetic is float32 unless said otherwise. Sums over the vocabulary run in eight interleaved lanes: the order
of additions is fixed, and the compiler can still use vector instructions.

A language is passed around as the tuple (kind, tables, output, output_bias, vocab_size, lam):
    kind: LOGITS, ADDITIVE_HIDDEN or JOINT_HIDDEN, what a sum of table rows is (below).
    tables: [n, N, P] or [n, N, H], a row for each token at each of the n positions before the next, oldest first.
    output: [H, P] and output_bias: [P], the map from hidden units to logits, centred over the vocabulary.
    lam: softmax inverse temperature of the standardised logits.
Hot loops take its parts one by one: a tuple of arrays costs atomic reference counts each time it is opened.
"""

from __future__ import annotations

import math

import numpy as np

from neophyte.core.jit import inlined, kernel
from neophyte.core.kernels import (
    bounded_integers,
    exp32,
    fill_normal,
    log64,
    philox_words,
    tanh32,
    uniform_from_words,
)

ADDITIVE, JOINT = 0, 1  # laws
LOGITS, ADDITIVE_HIDDEN, JOINT_HIDDEN = 0, 1, 2  # what the rows of a language's tables add up to
TABLE_LIMIT = 512  # the largest vocabulary with tables of logits, [n, N, N]; above, tables of hidden units, [n, N, H]

_ZERO = np.float32(0.0)
_HALF = np.float32(2.0**-24)
_GAIN, _DECAY = 0.04, 5.0  # step t of the calibration has size _GAIN / sqrt(1 + t / _DECAY) in log lam
_PIECE = 4096  # tokens whose uniforms are drawn at once: memory stays flat however long the sequence


@kernel
def theta_size(law, order, vocab_size, embedding_dim, hidden_dim):
    """Number of random parameters of a language."""
    hidden_bias = order * hidden_dim if law == ADDITIVE else hidden_dim
    return vocab_size * embedding_dim + order * embedding_dim * hidden_dim + hidden_bias + (hidden_dim + 1) * vocab_size


@kernel
def draw_theta(key, sigma, out):
    """Fill float32 `out` (E, W, b, V, c in this order, row-major) with Normal(0, sigma^2), one word for each entry."""
    words = np.empty(out.size, dtype=np.uint64)
    philox_words(key, 0, words)
    fill_normal(words, out)
    if sigma != 1.0:
        factor = np.float32(sigma)
        for i in range(out.size):
            out[i] *= factor


@kernel
def _centred(row, out):
    """Write row [N] minus its mean into the first N entries of out [P]; the others become zero."""
    total = 0.0
    for j in range(row.size):
        total += row[j]
    mean = np.float32(total / row.size)
    out[:] = _ZERO
    for j in range(row.size):
        out[j] = row[j] - mean


@kernel
def unpack_theta(flat, law, order, vocab_size, embedding_dim, hidden_dim):
    """Split a flat float32 theta into its five arrays; the output map is centred, so that all logits have mean zero.

    Subtracting the mean of the logits (Algorithm 1, line 4) is linear in the output map: done once here, not per token.
    """
    end = vocab_size * embedding_dim
    embedding = flat[:end].reshape(vocab_size, embedding_dim)
    start, end = end, end + order * embedding_dim * hidden_dim
    weights = flat[start:end].reshape(order, embedding_dim, hidden_dim)
    rows = order if law == ADDITIVE else 1
    start, end = end, end + rows * hidden_dim
    hidden_bias = flat[start:end].reshape(rows, hidden_dim)
    padded = (vocab_size + 7) // 8 * 8
    output = np.empty((hidden_dim, padded), dtype=np.float32)
    for i in range(hidden_dim):
        start, end = end, end + vocab_size
        _centred(flat[start:end], output[i])
    output_bias = np.empty(padded, dtype=np.float32)
    _centred(flat[end : end + vocab_size], output_bias)
    return embedding, weights, hidden_bias, output, output_bias


@inlined
def _add_product(row, matrix, out):
    """out += row @ matrix, for row [inner] and matrix [inner, outer]."""
    for i in range(row.size):
        factor = row[i]
        for j in range(out.size):
            out[j] += factor * matrix[i, j]


@kernel
def build_tables(law, theta, factors, scale):
    """Return (kind, tables) of a language.

    Args:
        law: ADDITIVE or JOINT.
        theta: The tuple of `unpack_theta`.
        factors: float32 [n], what each position's hidden layer counts for (additive), oldest token first.
        scale: float32, what the summed input of the hidden layer is multiplied by (joint).
    """
    embedding, weights, hidden_bias, output, output_bias = theta
    vocab_size, order = embedding.shape[0], weights.shape[0]
    hidden_dim, padded = output.shape
    kind = JOINT_HIDDEN if law == JOINT else (LOGITS if vocab_size <= TABLE_LIMIT else ADDITIVE_HIDDEN)
    tables = np.zeros((order, vocab_size, padded if kind == LOGITS else hidden_dim), dtype=np.float32)
    hidden = np.empty(hidden_dim, dtype=np.float32)
    for k in range(order):
        for x in range(vocab_size):
            hidden[:] = _ZERO
            _add_product(embedding[x], weights[k], hidden)
            for i in range(hidden_dim):
                if law == ADDITIVE:
                    hidden[i] = factors[k] * tanh32(hidden[i] + hidden_bias[k, i])
                else:
                    hidden[i] *= scale
            if kind == LOGITS:
                _add_product(hidden, output, tables[k, x])
            else:
                tables[k, x] = hidden
        # A bias that is the same for every context rides on the newest token.
        if k == order - 1 and kind == LOGITS:
            tables[k] += output_bias
        if k == order - 1 and kind == JOINT_HIDDEN:
            tables[k] += hidden_bias[0]
    return kind, tables


@inlined
def _sum_rows(tables, history, t, order, out):
    """out[j] = sum over k of tables[k, history[t + k], j], oldest token first."""
    x = history[t]
    for j in range(out.size):
        out[j] = tables[0, x, j]
    for k in range(1, order - 1, 2):
        x, y = history[t + k], history[t + k + 1]
        for j in range(out.size):
            out[j] = out[j] + tables[k, x, j] + tables[k + 1, y, j]
    if order % 2 == 0:
        x = history[t + order - 1]
        for j in range(out.size):
            out[j] += tables[order - 1, x, j]


@inlined
def _logits(kind, tables, output, output_bias, history, t, hidden, z):
    """Fill z [P] with the centred logits of the token after history[t : t + n]; hidden [H] is scratch."""
    order = tables.shape[0]
    if kind == LOGITS:
        _sum_rows(tables, history, t, order, z)
    else:
        _sum_rows(tables, history, t, order, hidden)
        if kind == JOINT_HIDDEN:
            for i in range(hidden.size):
                hidden[i] = tanh32(hidden[i])
        for j in range(z.size):
            z[j] = output_bias[j]
        _add_product(hidden, output, z)


@inlined
def _softmax(z, vocab_size, lam, weights, lanes, tops):
    """Fill weights [P] with exp(scale * (z - top)) and lanes [8] with their running lane sums; return (scale, top).

    scale = lam / std(z) (Algorithm 1, line 4); the weights sum to lanes[7]; columns from N to P weigh nothing.
    """
    for lane in range(8):
        lanes[lane] = _ZERO
        tops[lane] = _ZERO  # the largest of centred logits is never below zero
    for j in range(0, z.size, 8):
        for lane in range(8):
            value = z[j + lane]
            lanes[lane] += value * value
            tops[lane] = value if value > tops[lane] else tops[lane]
    square = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]))
    top = tops[0]
    for lane in range(1, 8):
        top = tops[lane] if tops[lane] > top else top
    scale = lam / np.float32(math.sqrt(square / np.float32(vocab_size)))
    for j in range(z.size):
        weights[j] = exp32(scale * (z[j] - top))
    for j in range(vocab_size, z.size):
        weights[j] = _ZERO
    _sum_lanes(weights, lanes)
    for lane in range(1, 8):
        lanes[lane] += lanes[lane - 1]
    return scale, top


@inlined
def _sum_lanes(values, lanes):
    """lanes[l] = values[l] + values[l + 8] + ..."""
    for lane in range(8):
        lanes[lane] = _ZERO
    for j in range(0, values.size, 8):
        for lane in range(8):
            lanes[lane] += values[j + lane]


@inlined
def _draw(weights, vocab_size, lanes, uniform):
    """Return the token at `uniform` in [0, 1) of the distribution, tokens ordered by lane (j mod 8), then by j."""
    rest = uniform * lanes[7]
    lane = 0
    for i in range(7):
        lane += np.int64(rest >= lanes[i])
    if lane > 0:
        rest -= lanes[lane - 1]
    token = min(lane, vocab_size - 1)
    reached = _ZERO
    for j in range(lane, vocab_size, 8):
        token = j
        reached += weights[j]
        if rest < reached:
            break
    return token


@kernel
def _fill_uniforms(key, start, out):
    """Fill float32 `out` with the uniforms of the tokens start, start + 1, ...: two of 24 bits from each word."""
    first = start // 2
    words = np.empty((start + out.size + 1) // 2 - first, dtype=np.uint64)
    philox_words(key, first, words)
    for i in range(out.size):
        token = start + i
        word = words[token // 2 - first]
        half = word >> np.uint64(32) if token % 2 else word & np.uint64(0xFFFFFFFF)
        out[i] = np.float32(np.int64(half >> np.uint64(8))) * _HALF


@kernel
def sample(language, key, start, context, tokens, nll):
    """Draw tokens start, start + 1, ... of a sequence.

    Args:
        language: The tuple described at the top.
        key: uint64 [2], the key of the sequence's "tokens" stream.
        start: Position of the first token to draw.
        context: int64 [n], the n tokens before it, oldest first; updated to the last n tokens.
        tokens: Output, unsigned integers [T].
        nll: Output, float32 [T], -log p of each token in nats; pass an empty array to skip it.
    """
    kind, tables, output, output_bias, vocab_size, lam = language
    order = context.size
    hidden, z = np.empty(output.shape[0], dtype=np.float32), np.empty(output.shape[1], dtype=np.float32)
    weights, lanes, tops = np.empty_like(z), np.empty(8, dtype=np.float32), np.empty(8, dtype=np.float32)
    history = np.empty(order + _PIECE, dtype=np.int64)
    uniforms = np.empty(_PIECE, dtype=np.float32)
    for piece in range(0, tokens.size, _PIECE):
        count = min(_PIECE, tokens.size - piece)
        history[:order] = context
        _fill_uniforms(key, start + piece, uniforms[:count])
        for t in range(count):
            _logits(kind, tables, output, output_bias, history, t, hidden, z)
            scale, top = _softmax(z, vocab_size, lam, weights, lanes, tops)
            token = _draw(weights, vocab_size, lanes, uniforms[t])
            history[order + t] = token
            tokens[piece + t] = token
            if nll.size > 0:
                nll[piece + t] = log64(np.float64(lanes[7])) - np.float64(scale * (z[token] - top))
        context[:] = history[count : count + order]


@kernel
def score(language, history, nll, probabilities):
    """Score given tokens.

    Args:
        language: The tuple described at the top.
        history: int64 [n + T], the n tokens before the first one, then the tokens to score.
        nll: Output, float32 [T], -log p of each token in nats.
        probabilities: Output, float32 [T, N], the law of every position; pass [0, 0] to skip it.
    """
    kind, tables, output, output_bias, vocab_size, lam = language
    hidden, z = np.empty(output.shape[0], dtype=np.float32), np.empty(output.shape[1], dtype=np.float32)
    weights, lanes, tops = np.empty_like(z), np.empty(8, dtype=np.float32), np.empty(8, dtype=np.float32)
    order = tables.shape[0]
    for t in range(nll.size):
        _logits(kind, tables, output, output_bias, history, t, hidden, z)
        scale, top = _softmax(z, vocab_size, lam, weights, lanes, tops)
        nll[t] = log64(np.float64(lanes[7])) - np.float64(scale * (z[history[order + t]] - top))
        if probabilities.size > 0:
            for j in range(vocab_size):
                probabilities[t, j] = weights[j] / lanes[7]


@kernel
def calibrate(language, key, target, pilot_tokens):
    """Return the lam at which the language's entropy rate is near `target` nats: Robbins-Monro on log lam.

    A pilot sequence of its own is drawn while lam follows the entropy of each step's law; the result is the geometric
    mean of lam over the last three quarters of the pilot (Polyak-Ruppert averaging).
    """
    kind, tables, output, output_bias, vocab_size, start_lam = language
    order = tables.shape[0]
    hidden, z = np.empty(output.shape[0], dtype=np.float32), np.empty(output.shape[1], dtype=np.float32)
    weights, lanes, tops = np.empty_like(z), np.empty(8, dtype=np.float32), np.empty(8, dtype=np.float32)
    history = np.zeros(order + _PIECE, dtype=np.int64)
    uniforms = np.empty(_PIECE, dtype=np.float32)
    log_lam = log64(np.float64(start_lam))
    total, averaged = 0.0, 0
    for piece in range(0, pilot_tokens, _PIECE):
        count = min(_PIECE, pilot_tokens - piece)
        _fill_uniforms(key, piece, uniforms[:count])
        for t in range(count):
            _logits(kind, tables, output, output_bias, history, t, hidden, z)
            factor, top = _softmax(z, vocab_size, exp32(np.float32(log_lam)), weights, lanes, tops)
            history[order + t] = _draw(weights, vocab_size, lanes, uniforms[t])
            mass = lanes[7]
            for j in range(z.size):
                weights[j] *= factor * (z[j] - top)
            _sum_lanes(weights, lanes)
            mean = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]))
            entropy = log64(np.float64(mass)) - np.float64(mean / mass)
            step = piece + t
            log_lam += _GAIN / math.sqrt(1.0 + step / _DECAY) * (entropy - target)
            log_lam = min(max(log_lam, -3.0), 4.0)
            if 4 * step >= pilot_tokens:
                total += log_lam
                averaged += 1
        history[:order] = history[count : count + order]
    return exp32(np.float32(total / averaged))


@kernel
def language_draws(order_keys, target_keys, num_orders, low, high, picks, targets):
    """Fill picks [B] with uniform integers below num_orders and targets [B] with uniforms on [low, high)."""
    word = np.empty(1, dtype=np.uint64)
    for b in range(picks.size):
        bounded_integers(order_keys[b], 0, np.uint64(num_orders), picks[b : b + 1])
        philox_words(target_keys[b], 0, word)
        targets[b] = low + (high - low) * uniform_from_words(word)[0]


@kernel
def make_language(law, order, dims, key, sigma, factors, scale, lam, pilot_tokens, target, pilot_key):
    """Draw a language: theta from `key`, then lam by `calibrate` unless `pilot_tokens` is zero."""
    vocab_size, embedding_dim, hidden_dim = dims
    flat = np.empty(theta_size(law, order, vocab_size, embedding_dim, hidden_dim), dtype=np.float32)
    draw_theta(key, sigma, flat)
    theta = unpack_theta(flat, law, order, vocab_size, embedding_dim, hidden_dim)
    kind, tables = build_tables(law, theta, factors, scale)
    language = (kind, tables, theta[3], theta[4], vocab_size, lam)
    if pilot_tokens > 0:
        lam = calibrate(language, pilot_key, target, pilot_tokens)
        language = (kind, tables, theta[3], theta[4], vocab_size, lam)
    return language


@kernel
def generate(law, dims, orders, keys, sigma, factors, scales, lam, pilot_tokens, targets, tokens, nll, lams):
    """Draw sequences, each from its own language; rows in a run with equal theta keys share one drawing of it.

    Args:
        law: ADDITIVE or JOINT.
        dims: (vocab_size, embedding_dim, hidden_dim).
        orders: int64 [B].
        keys: uint64 [3, B, 2], the keys of the streams "theta", "pilot" and "tokens".
        sigma: Standard deviation of theta.
        factors: float32 [max order + 1, max order]; row n holds the factors of order n.
        scales: float32 [max order + 1]; entry n holds the scale of order n.
        lam: float32, the fixed inverse temperature, or where calibration starts.
        pilot_tokens: Length of the calibration's pilot; zero keeps lam as it is.
        targets: float64 [B], the entropy rates (nats) to calibrate for.
        tokens: Output, unsigned integers [B, T].
        nll: Output, float32 [B, T], or [B, 0] to skip it.
        lams: Output, float32 [B].
    """
    order = orders[0]
    language = make_language(
        law,
        order,
        dims,
        keys[0, 0],
        sigma,
        factors[order, :order],
        scales[order],
        lam,
        pilot_tokens,
        targets[0],
        keys[1, 0],
    )
    for b in range(orders.size):
        if b > 0 and (keys[0, b, 0] != keys[0, b - 1, 0] or keys[0, b, 1] != keys[0, b - 1, 1]):
            order = orders[b]
            language = make_language(
                law,
                order,
                dims,
                keys[0, b],
                sigma,
                factors[order, :order],
                scales[order],
                lam,
                pilot_tokens,
                targets[b],
                keys[1, b],
            )
        lams[b] = language[5]
        sample(language, keys[2, b], 0, np.zeros(order, dtype=np.int64), tokens[b], nll[b])
