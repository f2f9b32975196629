"""Rays through the grid of cells, from face to face (J. Amanatides, A. Woo: A fast voxel traversal algorithm, 1987)."""

from __future__ import annotations

import math

import numpy as np

from neophyte.core.jit import inlined


@inlined
def start_ray(x, y, dx, dy, cell):
    """A ray from (x, y) metres along (dx, dy): (row, column, their steps, next depths of a face, depths between).

    Depths are multiples of (dx, dy). Of each pair, the first belongs to faces across x, the second to those across y.
    """
    row, column = np.int64(y / cell), np.int64(x / cell)
    step_row, step_column = (1 if dy > 0.0 else -1), (1 if dx > 0.0 else -1)
    next_x = ((column + (dx > 0.0)) * cell - x) / dx if dx != 0.0 else math.inf
    next_y = ((row + (dy > 0.0)) * cell - y) / dy if dy != 0.0 else math.inf
    between_x = abs(cell / dx) if dx != 0.0 else math.inf
    between_y = abs(cell / dy) if dy != 0.0 else math.inf
    return row, column, step_row, step_column, next_x, next_y, between_x, between_y


@inlined
def next_cell(ray):
    """The ray after it has entered the next cell; the depth of the face that it went through; whether across x."""
    row, column, step_row, step_column, next_x, next_y, between_x, between_y = ray
    if next_x < next_y:
        after = (row, column + step_column, step_row, step_column, next_x + between_x, next_y, between_x, between_y)
        return after, next_x, True
    after = (row + step_row, column, step_row, step_column, next_x, next_y + between_y, between_x, between_y)
    return after, next_y, False
