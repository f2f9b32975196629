"""Compiled loops of sight: which cells an agent sees."""

from __future__ import annotations

import math

import numpy as np

from neophyte.core.jit import kernel
from neophyte.mazeworld.motion_kernels import HEADING, X, Y, sine_and_cosine
from neophyte.mazeworld.ray_kernels import next_cell, start_ray

RAYS = 128


@kernel
def see(first_world, last_world, views, reals, walls, seen):
    """Set in uint8 `seen` (worlds, n, n) each cell that one of 128 rays enters, and the walls that they hit.

    The rays are those of an image 128 pixels wide, whatever the width of the observation; they end at the view range.
    Arrays as in `render_kernels.render`.
    """
    for w in range(first_world, last_world):
        cell, half_width, view_range = views[w, 0], views[w, 4], views[w, 5]
        x0, y0 = reals[w, X], reals[w, Y]
        ahead_y, ahead_x = sine_and_cosine(reals[w, HEADING])
        seen[w, np.int64(y0 / cell), np.int64(x0 / cell)] = 1
        for number in range(RAYS):
            slope = (2.0 * (number + 0.5) / RAYS - 1.0) * half_width
            limit = view_range / math.sqrt(1.0 + slope * slope)
            ray = start_ray(x0, y0, ahead_x - slope * ahead_y, ahead_y + slope * ahead_x, cell)
            while True:
                ray, depth, _ = next_cell(ray)
                if depth >= limit:
                    break
                seen[w, ray[0], ray[1]] = 1
                if walls[w, ray[0], ray[1]]:
                    break
