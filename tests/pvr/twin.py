"""A slow twin of the token tasks, written from the specification with nothing but Python loops and exact fractions.

Only the random words come from outside: from NumPy's own Philox.
"""

import functools
import itertools
from fractions import Fraction

import numpy as np

from neophyte.core.addressing import Space

BLOCK = 4096  # examples that share a stream
WORD_LIMIT = 2**50  # choices share a word while there are at most so many combinations


# The rule: tokens -> pointer, path, window, label.


def num_starts(spec):
    """How many positions a pointer can name."""
    if not spec.pointer:
        return 1
    return spec.num_values - spec.window + 1 if spec.window_end == "fit" else spec.num_values


def read(sequence, spec):
    """Return the pointer, the window's width and the values of one sequence."""
    rest = [int(token) for token in sequence]
    values = rest[: spec.pointer_position]
    rest = rest[spec.pointer_position :]
    pointer = 0
    for _ in range(spec.pointer_length):
        pointer = spec.alphabet * pointer + rest.pop(0)
    width = 1 + rest.pop(0) if spec.variable_window else spec.window
    return pointer, width, values + rest


def value_column(value, spec):
    """Where a value stands among the tokens."""
    if value < spec.pointer_position:
        return value
    return value + spec.pointer_length + (1 if spec.variable_window else 0)


def follow(pointer, values, spec):
    """Return the positions whose values are read as pointers, and where the window begins."""
    path = []
    for _ in range(spec.hops - 1):
        path.append(pointer)
        pointer = values[pointer] % num_starts(spec)
    return path, pointer


def window_positions(start, width, spec):
    """Return the positions of the values in the window."""
    found = []
    for offset in range(width):
        position = start + offset
        if position >= spec.num_values:
            if spec.window_end != "cyclic":
                break
            position -= spec.num_values
        found.append(position)
    return found


def variables(sequence, spec):
    """Return (pointer, path, start, columns of the window, its values) of one sequence."""
    pointer, width, values = read(sequence, spec)
    path, start = follow(pointer, values, spec)
    positions = window_positions(start, width, spec)
    return pointer, path, start, [value_column(x, spec) for x in positions], [values[x] for x in positions]


def aggregate(window, spec, own=None):
    """Return the label of one window; `own` is a user's function of a list."""
    window = [int(value) for value in window]
    if own is not None:
        return own(window)
    if spec.aggregation == "mod_sum":
        return sum(window) % spec.alphabet
    if spec.aggregation == "min":
        return min(window)
    if spec.aggregation == "max":
        return max(window)
    if spec.aggregation == "parity":
        product = 1
        for bit in window:
            product *= 1 if bit else -1
        return 1 if product == 1 else 0
    if spec.aggregation == "median":
        ordered = sorted(window)
        half = len(ordered) // 2
        if len(ordered) % 2:
            return ordered[half]
        lower, upper = ordered[half - 1], ordered[half]
        return {"lower": lower, "upper": upper, "mean": (lower + upper) // 2}[spec.median]
    assert spec.aggregation == "maj_vote"
    most = max(window.count(value) for value in window)
    modes = [value for value in window if window.count(value) == most]
    return {"smallest": min(modes), "largest": max(modes), "first": modes[0]}[spec.mode_tie]


def label(sequence, spec, own=None):
    """Return the label of one sequence."""
    return aggregate(variables(sequence, spec)[-1], spec, own)


# What is held out.


@functools.cache
def held_out(spec):
    """Return the windows that training never shows, as tuples."""
    if spec.holdout == "permutations":
        return sorted(itertools.permutations(range(spec.window)))[: spec.holdout_count]
    if spec.holdout != "balanced":
        return []
    # Windows drawn one by one; a new one is kept while its label lacks some.
    stream = Space("pvr-holdout@1", "holdout", spec.holdout_seed).stream("windows", 0)
    each, found = spec.holdout_count // spec.alphabet, []
    while len(found) < spec.holdout_count:
        window = tuple(stream.integers(spec.alphabet, spec.window).tolist())
        if window not in found and [aggregate(x, spec) for x in found].count(aggregate(window, spec)) < each:
            found.append(window)
    return found


def belongs(sequence, spec, predicate=None):
    """Whether the spec's part may hold a sequence."""
    if spec.part == "all":
        return True
    if spec.holdout == "frozen":
        held = read(sequence, spec)[2][spec.frozen_position] != spec.frozen_value
    elif spec.holdout == "predicate":
        held = predicate(sequence, variables(sequence, spec)[-1])
    else:
        windows = held_out(spec)
        if spec.part == "first":
            windows = windows[:1]
        held = tuple(variables(sequence, spec)[-1]) in windows
    return held != (spec.part == "train")


def sequences(spec, predicate=None):
    """Return every sequence of a part, each as likely as every other."""
    digits = range(spec.alphabet)
    found = []
    for number in range(num_starts(spec)):
        pointer, rest = (), number
        for _ in range(spec.pointer_length):
            rest, digit = divmod(rest, spec.alphabet)
            pointer = (digit, *pointer)
        for width in range(spec.window) if spec.variable_window else [None]:
            head = pointer if width is None else (*pointer, width)
            for values in itertools.product(digits, repeat=spec.num_values):
                whole = (*values[: spec.pointer_position], *head, *values[spec.pointer_position :])
                if belongs(whole, spec, predicate):
                    found.append(whole)
    return found


# The draw: address -> words -> tokens.


def words(spec, split, seed, block, first, count):
    """Return `count` raw words of a block's stream, from the word `first` on, as Python integers."""
    key = Space(spec.identity, split, seed).keys("examples", np.array([block]))[0]
    generator = np.random.Philox(key=key)
    generator.advance(first // 4)
    return [int(word) for word in generator.random_raw(first % 4 + count)[first % 4 :]]


def choices(spec):
    """Return the number of alternatives of every random choice of an example, in order."""
    frozen = spec.holdout == "frozen" and spec.part != "all"
    if writes(spec):
        whole = spec.num_values if spec.window_end == "cyclic" else spec.num_values - spec.window + 1
        bounds = [1 if spec.part == "first" else len(held_out(spec)), whole if spec.pointer else 1]
    else:
        bounds = [num_starts(spec)]
    if spec.variable_window:
        bounds.append(spec.window)
    for value in range(spec.num_values):
        if frozen and value == spec.frozen_position:
            bounds.append(1 if spec.part == "train" else spec.alphabet - 1)
        else:
            bounds.append(spec.alphabet)
    return bounds


def writes(spec):
    """Whether a held-out window is written into the example, rather than waited for."""
    return spec.holdout in ("permutations", "balanced") and spec.part in ("test", "first") and spec.hops == 1


def packs(bounds):
    """Share the choices out among words, in order."""
    groups, product = [[]], 1
    for bound in bounds:
        if product * bound > WORD_LIMIT:
            groups.append([])
            product = 1
        groups[-1].append(bound)
        product *= bound
    return groups


def digits(word, bounds):
    """Return the digits of the fraction word / 2^64 in the mixed base `bounds`, or None for a word to reject.

    The remainder after all digits, again in units of 2^-64, must be at least 2^64 modulo the number of combinations.
    """
    fraction, found, combinations = Fraction(word, 2**64), [], 1
    for bound in bounds:
        fraction *= bound
        digit = fraction.numerator // fraction.denominator
        fraction -= digit
        found.append(digit)
        combinations *= bound
    return None if fraction * 2**64 < 2**64 % combinations else found


def example(spec, split, seed, index, predicate=None):
    """Return the tokens of one example as a list."""
    groups = packs(choices(spec))
    block, place = divmod(index, BLOCK)
    attempt = 0
    while True:
        # All examples' first attempts lie side by side in the stream, then all second ones, and so on.
        first = (attempt * BLOCK + place) * len(groups)
        attempt += 1
        drawn = []
        for word, bounds in zip(words(spec, split, seed, block, first, len(groups)), groups, strict=True):
            found = digits(word, bounds)
            if found is None:
                break
            drawn += found
        else:
            sequence = assemble(drawn, spec)
            if belongs(sequence, spec, predicate):
                return sequence


def assemble(drawn, spec):
    """Return the tokens that an example's choices make."""
    drawn = list(drawn)
    window = None
    if writes(spec):
        window = held_out(spec)[drawn.pop(0)]
    pointer = drawn.pop(0)
    width = None
    if spec.variable_window:
        width = drawn.pop(0)
        if window is not None:
            width = spec.window - 1
    values = drawn
    if spec.holdout == "frozen" and spec.part == "train":
        values[spec.frozen_position] = spec.frozen_value
    elif spec.holdout == "frozen" and spec.part == "test" and values[spec.frozen_position] >= spec.frozen_value:
        values[spec.frozen_position] += 1  # any but the frozen one
    if window is not None:
        for position, value in zip(window_positions(pointer, spec.window, spec), window, strict=True):
            values[position] = value
    head, rest = [], pointer
    for _ in range(spec.pointer_length):
        rest, digit = divmod(rest, spec.alphabet)
        head.insert(0, digit)
    if width is not None:
        head.append(width)
    return values[: spec.pointer_position] + head + values[spec.pointer_position :]
