"""Compiled loops of maze generation: walls with one component of open cells, and distances between cells."""

from __future__ import annotations

import numpy as np

from neophyte.core.jit import inlined, kernel
from neophyte.core.kernels import bounded_integers, shuffle

_ROOM_SIDE_LOW, _ROOM_SIDES = 2, 3  # sides of 2, 3 or 4 cells
_ROOM_SHARE = 16  # a room for so many inner cells, at most


@inlined
def _find(parents, cell):
    """The root of a cell's component; the path to it is halved on the way."""
    while parents[cell] != cell:
        parents[cell] = parents[parents[cell]]
        cell = parents[cell]
    return cell


@inlined
def _open_neighbours(walls, cell, steps, found):
    """Fill `found` with the open ones of the four neighbours of an inner cell; return how many there are."""
    count = 0
    for i in range(4):
        if not walls[cell + steps[i]]:
            found[count] = cell + steps[i]
            count += 1
    return count


@kernel
def _below(key, position, bound, drawn):
    """Put an integer below `bound` into int64 `drawn` (1,); return the position after the last word."""
    return bounded_integers(key, position, np.uint64(bound), drawn)


@kernel
def choose(key, position, items, count):
    """Move `count` uniformly chosen ones of int64 `items` to its front; return the position after the last word."""
    drawn = np.empty(1, dtype=np.int64)
    for i in range(count):
        position = _below(key, position, items.size - i, drawn)
        other = i + drawn[0]
        items[i], items[other] = items[other], items[i]
    return position


@kernel
def carve_rooms(key, position, walls):
    """Open rectangles in uint8 `walls` (n, n) with a wall between any two; return the position after the last word."""
    n = walls.shape[0]
    drawn = np.empty(1, dtype=np.int64)
    taken = np.zeros((n, n), dtype=np.uint8)
    for _ in range((n - 2) * (n - 2) // _ROOM_SHARE):
        position = _below(key, position, _ROOM_SIDES, drawn)
        height = min(_ROOM_SIDE_LOW + drawn[0], n - 2)
        position = _below(key, position, _ROOM_SIDES, drawn)
        width = min(_ROOM_SIDE_LOW + drawn[0], n - 2)
        position = _below(key, position, n - 1 - height, drawn)
        top = 1 + drawn[0]
        position = _below(key, position, n - 1 - width, drawn)
        left = 1 + drawn[0]
        if taken[top : top + height, left : left + width].any():
            continue
        walls[top : top + height, left : left + width] = 0
        taken[top - 1 : top + height + 1, left - 1 : left + width + 1] = 1
    return position


@kernel
def carve_maze(key, position, walls, loops, most_walls):
    """Open a spanning tree over the cells of odd row and column in uint8 `walls` (n, n), and `loops` further walls.

    Walls may hold open cells already, such as rooms. Every inner wall that would join two components is equally likely
    to be opened next (Kruskal's algorithm); with `loops`, so is then every inner wall between two open cells or more,
    until there are no more than `most_walls` inner walls. Returns the position after the last word.
    """
    n = walls.shape[0]
    flat = walls.reshape(n * n)
    steps = np.array([-n, -1, 1, n])
    near = np.empty(4, dtype=np.int64)
    parents = np.arange(n * n)
    for row in range(1, n, 2):
        for column in range(1, n, 2):
            walls[row, column] = 0
    edges = np.empty((n - 2) * (n - 2), dtype=np.int64)
    num_edges = 0
    for row in range(1, n - 1):
        for column in range(1, n - 1):
            cell = row * n + column
            if not flat[cell]:
                for step in (1, n):
                    if not flat[cell + step]:
                        parents[_find(parents, cell + step)] = _find(parents, cell)
            elif (row + column) & 1:
                edges[num_edges] = cell
                num_edges += 1
    position = shuffle(key, position, edges[:num_edges])
    for cell in edges[:num_edges]:
        count = _open_neighbours(flat, cell, steps, near)
        joins = False
        for i in range(1, count):
            joins |= _find(parents, near[i]) != _find(parents, near[0])
        if joins:
            flat[cell] = 0
            for i in range(count):
                parents[_find(parents, near[i])] = _find(parents, cell)
    if not loops:
        return position
    left = 0
    for row in range(1, n - 1):
        for column in range(1, n - 1):
            if walls[row, column]:
                edges[left] = row * n + column
                left += 1
    drawn = np.empty(1, dtype=np.int64)
    while left > most_walls:
        position = _below(key, position, left, drawn)
        cell = edges[drawn[0]]
        if _open_neighbours(flat, cell, steps, near) >= 2:
            flat[cell] = 0
            left -= 1
            edges[drawn[0]] = edges[left]
    return position


@kernel
def fill_distances(walls, size, row, column, distances, queue):
    """Fill int32 `distances` (n, n) with the steps from each open cell of the first `size` rows and columns to a cell.

    Walls, and what cannot be reached, get -1. queue: int32, room for all cells.
    """
    for r in range(size):
        for c in range(size):
            distances[r, c] = -1
    distances[row, column] = 0
    queue[0] = row * size + column
    head, tail = 0, 1
    while head < tail:
        r, c = queue[head] // size, queue[head] % size
        head += 1
        further = distances[r, c] + 1
        for step in range(4):
            rr = r + (step == 3) - (step == 0)
            cc = c + (step == 2) - (step == 1)
            if not walls[rr, cc] and distances[rr, cc] < 0:
                distances[rr, cc] = further
                queue[tail] = rr * size + cc
                tail += 1
