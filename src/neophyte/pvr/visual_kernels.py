"""Compiled loops of the visual tasks: from random words to images in a grid.

An example takes one word a cell of each of its block's streams, so that none depends on another. A word is the fraction
of a choice: its product with the number of choices has the choice as its high word. The bias is below the number of
choices over 2^64.
"""

from __future__ import annotations

import numpy as np

from neophyte.core.jit import kernel
from neophyte.core.kernels import multiply_high, philox_words

# Examples in a block, which share a stream.
BLOCK = 256


@kernel
def pick_images(keys, key_rows, places, pool, starts, counts, picks):
    """Fill int32 `picks` (batch, cells): which image of its bank each cell holds.

    keys: uint64 (blocks, 2). key_rows, places: int64 (batch,), the block of each example and its place there.
    pool: int32, positions of images; a cell may hold those from `starts` on, `counts` of them, int64 (cells,).
    """
    cells = starts.size
    words = np.empty(cells, dtype=np.uint64)
    for e in range(places.size):
        philox_words(keys[key_rows[e]], places[e] * cells, words)
        for c in range(cells):
            picks[e, c] = pool[starts[c] + np.int64(multiply_high(words[c], np.uint64(counts[c])))]


@kernel
def pick_offsets(keys, key_rows, places, rooms, offsets):
    """Fill int32 `offsets` (batch, cells, 2): rows and columns of pixels above and before each image in its cell.

    keys, key_rows, places: as above. rooms: int64 (cells, 2), how many offsets there are.
    """
    cells = len(rooms)
    words = np.empty(cells, dtype=np.uint64)
    for e in range(places.size):
        philox_words(keys[key_rows[e]], places[e] * cells, words)
        for c in range(cells):
            word, down = words[c], np.uint64(rooms[c, 0])
            offsets[e, c, 0] = np.int32(multiply_high(word, down))
            # What is left of the fraction chooses the column.
            offsets[e, c, 1] = np.int32(multiply_high(word * down, np.uint64(rooms[c, 1])))


@kernel
def compose(images, cells, columns, cell, channels, copies, picks, offsets, out):
    """Copy one bank's images into uint8 `out` (batch, height, width * channels).

    images: uint8 (count, height, width * their channels). cells: int64, those that hold images of this bank.
    columns: cells in a row. cell: its size in pixels. channels: those of out. copies: how many values of out each value
    of an image fills, 1 or 3. picks: int32 (batch, all cells). offsets: int32 (batch, all cells, 2).
    """
    height, width = images.shape[1], images.shape[2]
    for e in range(len(out)):
        for c in cells:
            pick = picks[e, c]
            top = (c // columns) * cell + offsets[e, c, 0]
            left = ((c % columns) * cell + offsets[e, c, 1]) * channels
            for i in range(height):
                source = images[pick, i]
                row = out[e, top + i, left : left + width * copies]
                if copies == 1:
                    for j in range(width):
                        row[j] = source[j]
                else:  # grey in colour
                    for j in range(width):
                        value = source[j]
                        row[3 * j], row[3 * j + 1], row[3 * j + 2] = value, value, value
