"""Noise sensitivity of a rule: how often its label changes when the bits of its input are flipped (paper, section 4.1).

A token of an alphabet of K is written in D bits, the fewest with K <= 2^D, and read as an unsigned integer modulo K
(paper, appendix C). All bits of x are uniform, the pointer's too; y is x with every bit flipped with probability delta.

Exact values: the pointers p of x and q of y make two windows, which share some positions. A shared one holds a pair of
tokens with the law J of a token and its noisy copy, all others hold independent tokens, and the noise sensitivity is
1 - sum over p, q of P(p, q) P(equal labels | the positions that only x's window, both, and only y's have).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from neophyte.core.addressing import Space
from neophyte.core.spec import check_integer, check_real, digest
from neophyte.pvr.agreements import SAMPLED, agreement_of, minds_order
from neophyte.pvr.rule import labels
from neophyte.pvr.spec import VERSION, RuleSpec

DELTAS = np.exp(np.linspace(-7.0, -1.0, 25))  # of the paper's figure 5
DELTAS.flags.writeable = False

_MAX_STARTS = 1024  # the exact law goes through all pairs of pointers
_BLOCK_DELTAS = 32
_BLOCK_BITS = 2**20  # bits sampled at once


def noise_sensitivity(spec: RuleSpec, deltas: Any) -> np.ndarray:
    """Return the exact probability that noise changes the label.

    `agreements.py` has the methods: mod_sum and parity by characters of the integers modulo K, min and max in closed
    form, median by counting, maj_vote and the mean median on multisets, maj_vote with ties to the first by enumeration.

    Args:
        spec: The rule; one hop, windows of one size, and every token of the alphabet must name a start. What a
            `TokenSpec` holds out plays no part.
        deltas: Probabilities that a bit is flipped, (deltas,), in [0, 1]; at most 1/2 for maj_vote with ties to the
            smallest or largest and for the mean median.

    Returns:
        float64 (deltas,), in [0, 1], to about 1e-12.

    Raises:
        ValueError: The deltas are not of this form, or there is no exact method for the rule (your own aggregation; a
            window that is too long), in which case `sampled_noise_sensitivity` may serve.

    Source: paper, equation 1, figure 5 and appendix C.

    >>> noise_sensitivity(RuleSpec(window=3), [0.0, 0.1, 0.5]).round(4).tolist()
    [0.0, 0.7482, 0.9]
    """
    deltas = _check_deltas(deltas)
    _check_every_token_points(spec)
    _check_exact(spec)
    agreement = agreement_of(spec, largest_delta=deltas.max())
    keys, pair_keys = _pairs(spec)
    found = np.zeros(len(deltas))
    for first in range(0, len(deltas), _BLOCK_DELTAS):
        block = slice(first, first + _BLOCK_DELTAS)
        joints = np.array([joint_law(spec.alphabet, delta) for delta in deltas[block].tolist()])
        laws = np.array([np.bincount(pair_keys, _pointer_law(spec, joint), len(keys)) for joint in joints])
        for key, weights in zip(keys, laws.T, strict=True):
            found[block] += weights * (1.0 - agreement(spec, joints, key))
    return np.clip(found, 0.0, 1.0)


def mean_noise_sensitivity(spec: RuleSpec) -> float:
    """Return the exact noise sensitivity averaged over `DELTAS` (paper, figure 5b).

    Raises:
        ValueError: As `noise_sensitivity`.
    """
    return float(noise_sensitivity(spec, DELTAS).mean())


def joint_law(alphabet: int, delta: float) -> np.ndarray:
    """Return the joint law J of a token and its noisy copy (paper, appendix C).

    Args:
        alphabet: Number of tokens K, in [2, 256].
        delta: Probability that a bit is flipped, in [0, 1].

    Returns:
        float64 (K, K), symmetric, of sum 1: J[a, b] = P(token is a, copy is b). Its marginals are not uniform unless K
        is a power of two: of ten, 0, ..., 5 have probability 1/8 and 6, ..., 9 have 1/16.

    Raises:
        ValueError: An argument is out of range.
    """
    check_integer("alphabet", alphabet, 2, 256)
    check_real("delta", delta, 0, 1)
    bits = _bits(alphabet)
    words = np.arange(2**bits)
    distances = np.array([word.bit_count() for word in words.tolist()])[words[:, None] ^ words]
    tokens = words % alphabet
    cells = (tokens[:, None] * alphabet + tokens) * (bits + 1) + distances
    pairs = np.bincount(cells.ravel(), minlength=alphabet**2 * (bits + 1)).reshape(alphabet, alphabet, bits + 1)
    flipped = np.arange(bits + 1)
    return (pairs * (delta**flipped * (1.0 - delta) ** (bits - flipped) / len(words))).sum(axis=2)


def sampled_noise_sensitivity(
    spec: RuleSpec, deltas: Any, *, samples: int = 10_000, runs: int = 10, seed: int = 0
) -> np.ndarray:
    """Return estimates of the noise sensitivity from random inputs, as the paper's.

    Run r reads the streams "bits" and "flips" at index r. An input of L tokens has B = L D bits and takes the next
    ceil(B / 64) words of "bits", of which bit b is bit b % 64 (from the lowest) of word b // 64; token t is made of the
    bits t D, ..., t D + D - 1, the lowest first. Bit b is flipped where the input's number b of B uniform numbers of
    "flips" lies below delta. Without a pointer, its tokens are then set to 0.

    The same inputs and numbers serve all deltas: an estimate does not depend on which others are asked for, and those
    of one run are correlated. Each alone is a mean of `samples` independent cases.

    Args:
        spec: The rule, with any aggregation, number of hops and pointer tokens; every decoded token must be in range.
        deltas: Probabilities that a bit is flipped, (deltas,), in [0, 1].
        samples: Inputs a run, at least 1.
        runs: Number of runs, at least 1.
        seed: Seed, in [0, 2^63).

    Returns:
        float64 (runs, deltas), in [0, 1]: the share of inputs whose label changes.

    Raises:
        ValueError: An argument is out of range, or some tokens are not in the range of the rule.

    Source: paper, section 4.1, figure 5 and appendix C.
    """
    deltas = _check_deltas(deltas)
    check_integer("samples", samples, 1)
    check_integer("runs", runs, 1)
    _check_every_token_points(spec)
    if spec.variable_window and spec.window != spec.alphabet:
        raise ValueError(f"window is {spec.window}; allowed for noise sensitivity with variable_window: the alphabet, "
                         f"{spec.alphabet}, so that every token names a width")  # fmt: skip
    rule = {field.name: getattr(spec, field.name) for field in dataclasses.fields(RuleSpec)}
    space = Space(f"pvr-noise@{VERSION}:{digest(rule, 32)}", "noise", seed)
    return np.array([_changed(spec, deltas, space, run, samples) for run in range(runs)]) / samples


def _changed(spec: RuleSpec, deltas: np.ndarray, space: Space, run: int, samples: int) -> np.ndarray:
    """Return how many of a run's inputs change their label at each delta."""
    bits, flips = space.stream("bits", run), space.stream("flips", run)
    width = _bits(spec.alphabet)
    size = spec.length * width
    decoded = (np.arange(256) % spec.alphabet).astype(np.uint8)
    pointer = slice(spec.pointer_position, spec.pointer_position + spec.pointer_length)

    def label(words: np.ndarray) -> np.ndarray:
        tokens = decoded[words]
        if not spec.pointer:
            tokens[:, pointer] = 0
        return labels(tokens, spec)

    def packed(flags: np.ndarray) -> np.ndarray:  # the bits of every token to one byte
        return np.packbits(flags.reshape(-1, spec.length, width), axis=2, bitorder="little")[:, :, 0]

    changed = np.zeros(len(deltas))
    block = max(1, _BLOCK_BITS // size)
    for first in range(0, samples, block):
        batch = min(block, samples - first)
        raw = bits.words(batch * -(-size // 64)).astype("<u8").view(np.uint8).reshape(batch, -1)
        words = packed(np.unpackbits(raw, axis=1, count=size, bitorder="little"))
        clean = label(words)
        chances = flips.uniform(batch * size)
        for d, delta in enumerate(deltas.tolist()):
            masks = packed(chances < delta)
            hit = np.flatnonzero(masks.any(axis=1))
            if len(hit):  # your own function need not take an empty batch
                changed[d] += (label(words[hit] ^ masks[hit]) != clean[hit]).sum()
    return changed


def _bits(alphabet: int) -> int:
    return (alphabet - 1).bit_length()


def _check_deltas(deltas: Any) -> np.ndarray:
    array = np.asarray(deltas)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "fiu":
        raise ValueError(f"deltas has shape {array.shape} and dtype {array.dtype}; allowed: real numbers, (deltas,)")
    wrong = array[~((array >= 0) & (array <= 1))]
    if len(wrong):
        raise ValueError(f"deltas is {wrong[0]}; allowed: a number in [0, 1]")
    return array.astype(np.float64)


def _check_every_token_points(spec: RuleSpec) -> None:
    pointers = spec.alphabet**spec.pointer_length
    if not spec.pointer or pointers == spec.num_starts:
        return
    if spec.window_end == "fit" and pointers == spec.num_values:
        raise ValueError(f"window_end is 'fit'; allowed for noise sensitivity: cyclic, truncate, since a noisy pointer "
                         f"takes all {pointers} values, and {spec.num_starts} windows are whole")  # fmt: skip
    values = pointers + (spec.window - 1 if spec.window_end == "fit" else 0)
    raise ValueError(f"num_values is {spec.num_values}; allowed for noise sensitivity: {values}, since a noisy pointer "
                     f"takes all {pointers} values")  # fmt: skip


def _check_exact(spec: RuleSpec) -> None:
    for field, only in (("hops", 1), ("variable_window", False)):
        if getattr(spec, field) != only:
            raise ValueError(f"{field} is {getattr(spec, field)}; allowed for the exact noise sensitivity: {only}; "
                             f"{SAMPLED}")  # fmt: skip
    if spec.num_starts > _MAX_STARTS:
        raise ValueError(f"num_values is {spec.num_values}; allowed for the exact noise sensitivity: at most "
                         f"{_MAX_STARTS}; {SAMPLED}")  # fmt: skip


def _pointer_law(spec: RuleSpec, joint: np.ndarray) -> np.ndarray:
    """Return the joint law of the two pointers, float64 (starts^2,)."""
    if not spec.pointer:
        return np.ones(1)
    return functools.reduce(np.kron, [joint] * spec.pointer_length).ravel()


def _pairs(spec: RuleSpec) -> tuple[list[tuple[int, int, int]], np.ndarray]:
    """Return the different keys of pairs of windows, and which key each pair of pointers has, int64 (starts^2,).

    The key is what the agreement depends on: the number of positions in x's window only, in both, and in y's only; or,
    where order matters, the sizes of both windows and how far the second begins after the first, modulo n.
    """
    starts = np.arange(spec.num_starts)
    n, w = spec.num_values, spec.window
    ends = starts + (w if spec.window_end == "cyclic" else np.minimum(w, n - starts))
    size_x, size_y = np.broadcast_arrays((ends - starts)[:, None], ends - starts)
    if spec.window_end == "cyclic":
        distance = abs(starts[:, None] - starts)
        shared = np.maximum(0, w - distance) + np.maximum(0, w + distance - n)
    else:
        shared = np.maximum(0, np.minimum.outer(ends, ends) - np.maximum.outer(starts, starts))
    # Which window is x's makes no difference.
    columns = [np.minimum(size_x, size_y) - shared, shared, np.maximum(size_x, size_y) - shared]
    if minds_order(spec):
        columns = [size_x, size_y, (starts - starts[:, None]) % n]
    keys, pair_keys = np.unique(np.stack(columns, axis=-1).reshape(-1, 3), axis=0, return_inverse=True)
    return [(a, b, c) for a, b, c in keys.tolist()], pair_keys.ravel()
