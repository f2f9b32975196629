"""Compiled loops of the controls: predictors that learn in context by counting (see `references.py` for what they are).

Contexts are the nodes of a tree: the root is the empty context, and the child of a node by a token is the context one
token longer into the past. Both the children of nodes and the counts of next tokens live in hash tables with the exact
key node * vocab_size + token, so that no two contexts are ever confused.
"""

from __future__ import annotations

import numpy as np

from neophyte.core.jit import inlined, kernel
from neophyte.core.kernels import log64

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@inlined
def _slot(keys, shift, key):
    """The place of `key` in an open-addressing table of 2^(64 - shift) keys; an absent key's place holds zero."""
    mask = keys.size - 1
    place = np.int64((np.uint64(key) * _MULTIPLIER) >> np.uint64(shift))
    while keys[place] != 0 and keys[place] != key:
        place = (place + 1) & mask
    return place


@kernel
def _table_bits(entries):
    bits = 4
    while (1 << bits) < 2 * entries:
        bits += 1
    return bits


@kernel
def unigram(tokens, vocab_size, nll):
    """Fill nll [T]: add-1/2 estimate from the tokens so far."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    for t in range(tokens.size):
        x = tokens[t]
        nll[t] = log64((t + 0.5 * vocab_size) / (counts[x] + 0.5))
        counts[x] += 1


@kernel
def witten_bell(tokens, vocab_size, max_order, nll, mixture):
    """Fill nll [T]: interpolated Witten-Bell estimates of all orders up to `max_order`, from the tokens so far.

    Also fill `mixture` [T], unless it is empty: the experts are the uniform law and the estimates of maximal order 0,
    1, ..., max_order, weighed by Bayes' rule; of all weight, 1 / (t + 2) is shared out anew after each token t.
    """
    entries = tokens.size * (max_order + 1) + 1
    bits = _table_bits(entries)
    shift = 64 - bits
    child_keys, children = np.zeros(1 << bits, dtype=np.int64), np.zeros(1 << bits, dtype=np.int32)
    next_keys, next_counts = np.zeros(1 << bits, dtype=np.int64), np.zeros(1 << bits, dtype=np.int32)
    visits, types = np.zeros(entries, dtype=np.int32), np.zeros(entries, dtype=np.int32)
    places = np.empty(max_order + 1, dtype=np.int64)
    path = np.zeros(max_order + 1, dtype=np.int64)
    experts = max_order + 2
    estimates, weights = np.empty(experts), np.full(experts, 1.0 / experts)
    num_nodes = 1
    for t in range(tokens.size):
        x = np.int64(tokens[t])
        longest = min(max_order, t)
        p = 1.0 / vocab_size
        estimates[0] = p
        for k in range(longest + 1):
            if k > 0:
                key = path[k - 1] * vocab_size + np.int64(tokens[t - k]) + 1
                place = _slot(child_keys, shift, key)
                if child_keys[place] == 0:
                    child_keys[place] = key
                    children[place] = num_nodes
                    num_nodes += 1
                path[k] = children[place]
            node = path[k]
            places[k] = _slot(next_keys, shift, node * vocab_size + x + 1)
            if visits[node] > 0:
                p = (next_counts[places[k]] + types[node] * p) / (visits[node] + types[node])
            estimates[k + 1] = p
        nll[t] = -log64(p)
        if mixture.size > 0:
            estimates[longest + 2 :] = p
            mixed = 0.0
            for k in range(experts):
                mixed += weights[k] * estimates[k]
            mixture[t] = -log64(mixed)
            shared = 1.0 / (t + 2)
            for k in range(experts):
                weights[k] = (1.0 - shared) * weights[k] * estimates[k] / mixed + shared / experts
        for k in range(longest + 1):
            # An insertion for a shorter context may have taken the place found above.
            key = path[k] * vocab_size + x + 1
            place = _slot(next_keys, shift, key)
            if next_keys[place] == 0:
                next_keys[place] = key
                types[path[k]] += 1
            next_counts[place] += 1
            visits[path[k]] += 1


@kernel
def induction(tokens, vocab_size, max_length, nll):
    """Fill nll [T]: copy what followed the latest occurrence of the longest suffix seen before (`max_length` at most).

    The copy is trusted as often as copies after a match of that length were right so far (add-1/2); the other tokens
    share the rest equally.
    """
    entries = tokens.size * max_length + 1
    bits = _table_bits(entries)
    shift = 64 - bits
    child_keys, children = np.zeros(1 << bits, dtype=np.int64), np.zeros(1 << bits, dtype=np.int32)
    followers = np.full(entries, -1, dtype=np.int32)
    path = np.zeros(max_length + 1, dtype=np.int64)
    right, tried = np.full(max_length + 1, 0.5), np.full(max_length + 1, 1.0)
    num_nodes = 1
    for t in range(tokens.size):
        x = np.int64(tokens[t])
        longest = min(max_length, t)
        match = -1
        for k in range(longest + 1):
            if k > 0:
                key = path[k - 1] * vocab_size + np.int64(tokens[t - k]) + 1
                place = _slot(child_keys, shift, key)
                if child_keys[place] == 0:
                    child_keys[place] = key
                    children[place] = num_nodes
                    num_nodes += 1
                path[k] = children[place]
            if followers[path[k]] >= 0:
                match = k
        if match < 0:
            nll[t] = log64(np.float64(vocab_size))
        else:
            hit = followers[path[match]] == x
            trust = right[match] / tried[match]
            nll[t] = -log64(trust if hit else (1.0 - trust) / (vocab_size - 1))
            right[match] += 1.0 if hit else 0.0
            tried[match] += 1.0
        for k in range(longest + 1):
            followers[path[k]] = x
