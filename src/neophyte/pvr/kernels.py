"""Compiled loops of the token tasks: from random words to tokens, windows and labels.

An example takes `W` consecutive words of its block's stream; when it is rejected, it takes the words of its next
attempt. So no example depends on another.
"""

from __future__ import annotations

import numpy as np

from neophyte.core.jit import inlined, kernel
from neophyte.core.kernels import multiply_high, philox_block

# Examples in a block, which share a stream.
BLOCK_BITS = 12
BLOCK = 1 << BLOCK_BITS

# Aggregations, numbered; OTHER leaves the labels to the caller.
MOD_SUM, MEDIAN, MAJ_VOTE, MIN, MAX, PARITY, OTHER = 0, 1, 2, 3, 4, 5, 6
LOWER, UPPER, MEAN = 0, 1, 2
SMALLEST, LARGEST, FIRST = 0, 1, 2
# What is done about held-out windows: nothing, examples with one rejected, one of them written in, others rejected.
KEEP, REJECT, WRITE, REQUIRE = 0, 1, 2, 3


@inlined
def _is_held_out(code, held_out):
    """Whether `code` is among the sorted int64 `held_out`."""
    low, high = 0, held_out.size
    while low < high:
        middle = (low + high) >> 1
        if held_out[middle] < code:
            low = middle + 1
        else:
            high = middle
    return low < held_out.size and held_out[low] == code


@inlined
def _ranked(window, size, rank):
    """The value of that rank, from 0, among the first `size`: by counting, without branches hard to foretell."""
    found = np.int64(0)
    for i in range(size):
        below = 0
        for j in range(size):
            below += (window[j] < window[i]) | ((window[j] == window[i]) & (j < i))
        found += window[i] * (below == rank)
    return found


@inlined
def _median(window, size, rule):
    """The median of the first `size` values."""
    if size == 3:
        low, high = min(window[0], window[1]), max(window[0], window[1])
        return max(low, min(high, window[2]))
    lower = _ranked(window, size, (size - 1) >> 1)
    if size & 1 or rule == LOWER:
        return lower
    upper = _ranked(window, size, size >> 1)
    return upper if rule == UPPER else (lower + upper) >> 1


@inlined
def _mode(window, size, rule):
    """The most frequent of the first `size` values: the largest of count and precedence in one number."""
    best = np.int64(-1)
    for i in range(size):
        count = np.int64(0)
        for j in range(size):
            count += window[j] == window[i]
        precedence = window[i] if rule == LARGEST else (255 - window[i] if rule == SMALLEST else size - 1 - i)
        best = max(best, (count << 20) | precedence)
    precedence = best & ((1 << 20) - 1)
    if rule == FIRST:
        return window[size - 1 - precedence]
    return precedence if rule == LARGEST else 255 - precedence


@inlined
def _label(window, size, alphabet, aggregation, rule):
    """The label of the first `size` values of int64 `window`."""
    if aggregation == MOD_SUM:
        total = np.int64(0)
        for i in range(size):
            total += window[i]
        return np.int64(np.uint32(total) % np.uint32(alphabet))
    if aggregation == MEDIAN:
        return _median(window, size, rule)
    if aggregation == MAJ_VOTE:
        return _mode(window, size, rule)
    found = window[0]
    if aggregation == MIN:
        for i in range(1, size):
            found = min(found, window[i])
    elif aggregation == MAX:
        for i in range(1, size):
            found = max(found, window[i])
    else:
        found = np.int64(1)
        for i in range(size):
            found ^= window[i] == 0
    return found


@kernel
def draw_examples(keys, places, attempts, last_attempt, rule, layout, slots, holdout, tokens, labels):
    """Fill uint8 `tokens` (batch, length) and `labels` (batch,).

    Attempt a of the example at place p of its block takes the words (a * BLOCK + p) * W, ... of the block's stream.

    keys: uint64 (blocks, 2). places: int64 (batch,), each example's row of keys times BLOCK, plus its place there.
    attempts: int64 (batch,), where each example's attempts begin; on return the one that was kept.
    last_attempt: the last to make. rule: (aggregation, its variant, alphabet, num_starts, hops, cyclic).
    layout: (num_values, pointer_position, pointer_length, window, variable_window).
    slots: bounds uint64 (slots,), first slot of each word int64 (words + 1,), rejection thresholds uint64 (words,).
    holdout: mode, sorted codes int64, windows int64 (count, w), frozen position or -1, its value, whether it has it.
    Returns the number of examples without a kept attempt.
    """
    aggregation, variant, alphabet, num_starts, hops, cyclic = rule
    num_values, pointer_position, pointer_length, window, variable_window = layout
    bounds, word_starts, thresholds = slots
    mode, codes, windows, frozen, frozen_value, has = holdout
    num_words = thresholds.size
    drawn = np.empty(bounds.size, dtype=np.int64)
    chosen = np.empty(window, dtype=np.int64)
    first = (mode == WRITE) + 1 + variable_window  # the slot of the first value
    header = pointer_length + variable_window
    cached_row, cached_counter = np.int64(-1), np.uint64(0)
    w0 = w1 = w2 = w3 = np.uint64(0)
    failures = 0
    for e in range(places.size):
        row, attempt, kept = places[e] >> BLOCK_BITS, attempts[e], False
        while not kept and attempt <= last_attempt:
            position = ((attempt << BLOCK_BITS) + (places[e] & (BLOCK - 1))) * num_words
            attempt += 1
            fair = True
            for w in range(num_words):
                counter = np.uint64((position + w) >> 2) + np.uint64(1)
                if row != cached_row or counter != cached_counter:
                    w0, w1, w2, w3 = philox_block(keys[row, 0], keys[row, 1], counter)
                    cached_row, cached_counter = row, counter
                lane = (position + w) & 3
                word = (w0 if lane == 0 else w1) if lane < 2 else (w2 if lane == 2 else w3)
                # Digits of a fraction in a mixed base: each bound takes the whole part, and leaves the rest.
                for slot in range(word_starts[w], word_starts[w + 1]):
                    drawn[slot] = np.int64(multiply_high(word, bounds[slot]))
                    word *= bounds[slot]
                fair &= word >= thresholds[w]
            if not fair:
                continue
            if frozen >= 0:
                if has:
                    drawn[first + frozen] = frozen_value
                else:
                    drawn[first + frozen] += drawn[first + frozen] >= frozen_value
            pointer, size = drawn[first - 1 - variable_window], np.int64(window)
            if mode == WRITE:
                if variable_window:
                    drawn[first - 1] = window - 1
            elif variable_window:
                size = drawn[first - 1] + 1
            start = pointer
            for _ in range(hops - 1):
                start = drawn[first + start] % num_starts
            if not cyclic:
                size = min(size, num_values - start)
            code, place = np.int64(0), first + start
            for i in range(size):
                if place == first + num_values:
                    place = first
                if mode == WRITE:
                    drawn[place] = windows[drawn[0], i]
                chosen[i] = drawn[place]
                code = code * alphabet + drawn[place]
                place += 1
            if mode == REJECT:
                kept = size < window or not _is_held_out(code, codes)
            elif mode == REQUIRE:
                kept = size == window and _is_held_out(code, codes)
            else:
                kept = True
        attempts[e] = attempt - 1
        if not kept:
            failures += 1
            continue
        for i in range(pointer_position):
            tokens[e, i] = drawn[first + i]
        for i in range(pointer_position, num_values):
            tokens[e, header + i] = drawn[first + i]
        rest = pointer
        for i in range(pointer_length - 1, -1, -1):
            tokens[e, pointer_position + i] = rest % alphabet
            rest //= alphabet
        if variable_window:
            tokens[e, pointer_position + pointer_length] = drawn[first - 1]
        if aggregation != OTHER:
            labels[e] = _label(chosen, size, alphabet, aggregation, variant)
    return failures


@inlined
def _wrapped(column, length):
    """The column, or after the last one the first value's: without a branch, which would be hard to foretell."""
    return column - (length - 1) * (column >= length)


@kernel
def draw_digits(keys, places, rule, window, held_out, groups, answers, tokens, labels):
    """What `draw_examples` draws where tokens are plain digits, the pointer first, that share one word; twice as fast.

    rule: (aggregation, its variant, alphabet, cyclic). held_out: sorted codes int64 to reject.
    answers: where the windows of each size begin, int64 (w + 1,), and the label of every window by its code, uint8; or
    no labels: then each is computed.
    groups: how many numbers of four digits there are, and of those that are left, and their ratio; the threshold below
    which a word is rejected; table uint32 of the digits of every number, a byte each, the first the lowest.
    keys, places, tokens and labels as there.
    """
    aggregation, variant, alphabet, cyclic = rule
    bound, last_bound, scale, threshold, table = groups
    starts, known = answers
    length = tokens.shape[1]
    chosen = np.empty(window, dtype=np.int64)
    cached = np.int64(-1)
    w0 = w1 = w2 = w3 = np.uint64(0)
    for e in range(places.size):
        place = places[e]
        row, offset = place >> BLOCK_BITS, place & (BLOCK - 1)
        attempt = np.int64(0)
        while True:
            position = (attempt << BLOCK_BITS) + offset
            if attempt > 0 or (place >> 2) != cached:
                w0, w1, w2, w3 = philox_block(keys[row, 0], keys[row, 1], np.uint64(position >> 2) + np.uint64(1))
                cached = place >> 2 if attempt == 0 else np.int64(-1)
            lane = position & 3
            word = (w0 if lane == 0 else w1) if lane < 2 else (w2 if lane == 2 else w3)
            column = np.int64(0)
            while column + 4 <= length:
                digits = table[np.int64(multiply_high(word, bound))]
                word *= bound
                tokens[e, column] = digits & np.uint32(255)
                tokens[e, column + 1] = (digits >> np.uint32(8)) & np.uint32(255)
                tokens[e, column + 2] = (digits >> np.uint32(16)) & np.uint32(255)
                tokens[e, column + 3] = digits >> np.uint32(24)
                column += 4
            digits = table[np.int64(multiply_high(word, last_bound)) * scale]
            word *= last_bound
            while column < length:
                tokens[e, column] = digits & np.uint32(255)
                digits >>= np.uint32(8)
                column += 1
            first = np.int64(tokens[e, 0]) + 1
            size = np.int64(window) if cyclic else min(np.int64(window), length - first)
            code = np.int64(0)
            if known.size or held_out.size:
                for i in range(size):
                    code = code * alphabet + tokens[e, _wrapped(first + i, length)]
            if word >= threshold and (held_out.size == 0 or size < window or not _is_held_out(code, held_out)):
                break
            attempt += 1
        if known.size:
            labels[e] = known[starts[size] + code]
        elif aggregation == MOD_SUM:
            total = np.int64(0)
            for i in range(size):
                total += tokens[e, _wrapped(first + i, length)]
            labels[e] = np.uint32(total) % np.uint32(alphabet)
        elif aggregation != OTHER:
            for i in range(size):
                chosen[i] = tokens[e, _wrapped(first + i, length)]
            labels[e] = _label(chosen, size, alphabet, aggregation, variant)


@kernel
def first_words(keys, words):
    """Fill uint64 `words` (batch, 4) with the first words of each stream with keys uint64 (batch, 2)."""
    for e in range(len(keys)):
        words[e, 0], words[e, 1], words[e, 2], words[e, 3] = philox_block(keys[e, 0], keys[e, 1], np.uint64(1))
