"""An independent renderer: plain NumPy, one ray a pixel, every wall cell tried against it. Slow and meant to be read.

It knows the rules, not the kernels: a pinhole camera whose horizon is sheared for the pitch; boxes, a floor and a
ceiling; a texture of one metre a side, from the copy whose texels are no smaller than a pixel; light that falls from
half the view range to its end; beams, each a glass prism that mixes 30 % of its colour in.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from neophyte.mazeworld import COLOURS

SHADES = {"x": 256, "y": 205, "floor": 236, "ceiling": 200}


def mip_levels(image):
    """The image and its halvings down to 2 x 2, each rounded, from the unrounded one above."""
    levels, level = [], image.astype(float)
    while len(level) >= 2:
        levels.append(np.floor(level + 0.5).astype(int))
        level = level.reshape(len(level) // 2, 2, len(level) // 2, 2, 3).mean(axis=(1, 3))
    return levels


@lru_cache(maxsize=8)
def copies_of(library):
    return [mip_levels(image) for image in library.images]


def texel(levels, u, v, footprint):
    """The texel at (u, v) metres of the copy that suits pixels of `footprint` metres."""
    level = 0
    while footprint * len(levels[0]) / 2**level > 1.0 and level < len(levels) - 1:
        level += 1
    image = levels[level]
    side = len(image)
    return image[math.floor((v % 1.0) * side) % side, math.floor((u % 1.0) * side) % side]


def fog(distance, view_range):
    return min(max(2.0 - 2.0 * distance / view_range, 0.0), 1.0)


def hit_box(x, y, dx, dy, left, top, right, bottom):
    """The depth at which a ray enters a box on the map and the axis of the face, or None."""
    near, far, axis = -math.inf, math.inf, None
    for start, step, low, high, name in ((x, dx, left, right, "x"), (y, dy, top, bottom, "y")):
        if step == 0.0:
            if not low <= start < high:
                return None
            continue
        first, second = sorted(((low - start) / step, (high - start) / step))
        if first > near:
            near, axis = first, name
        far = min(far, second)
    if near >= far or near < 0.0:
        return None
    return near, axis


def render(task, library, pose, height, width, finest_only=False):
    """Draw the view from a pose (x, y, heading), without the bar: uint8 (height, width, 3).

    finest_only: take all texels from the textures themselves, as a renderer without smaller copies would.
    """
    x, y, heading = pose
    n, cell = task.size, task.cell_length
    ahead, right = (math.cos(heading), math.sin(heading)), (-math.sin(heading), math.cos(heading))
    focal = width / 2 / math.tan(task.field_of_view / 2)
    horizon = height / 2 + focal * math.tan(task.pitch)
    copies = [levels[:1] if finest_only else levels for levels in copies_of(library)]
    out = np.zeros((height, width, 3), dtype=int)
    home = (int(y // cell), int(x // cell))
    for column in range(width):
        slope = (column + 0.5 - width / 2) / focal
        dx, dy = ahead[0] + slope * right[0], ahead[1] + slope * right[1]
        secant = math.sqrt(1 + slope * slope)
        best = None
        for row in range(n):
            for line in range(n):
                if task.walls[row, line]:
                    found = hit_box(x, y, dx, dy, line * cell, row * cell, (line + 1) * cell, (row + 1) * cell)
                    if found and (best is None or found[0] < best[0]):
                        best = (*found, row, line)
        if best and best[0] * secant >= task.view_range:
            best = None
        beams = []
        for k, (row, line) in enumerate(task.target_cells.tolist()):
            if (row, line) == home:
                continue
            found = hit_box(x, y, dx, dy, line * cell, row * cell, (line + 1) * cell, (row + 1) * cell)
            if found and (best is None or found[0] < best[0]) and found[0] * secant < task.view_range:
                beams.append((found[0], k))
        beams.sort(reverse=True)
        for line in range(height):
            rise = (horizon - line - 0.5) / focal  # metres up for each metre ahead
            colour = pixel_colour(task, copies, (x, y), (dx, dy), ahead, right, slope, rise, focal, best, secant)
            for depth, k in beams:
                if 0.0 < task.eye_height + rise * depth <= task.wall_height:
                    glow = int(256 * fog(depth * secant, task.view_range) + 0.5)
                    beam = np.array(COLOURS[task.target_colours[k]]) * glow >> 8
                    colour = (colour * 179 + beam * 77) >> 8
            out[line, column] = colour
    return out.astype(np.uint8)


def pixel_colour(task, copies, place, ray, ahead, right, slope, rise, focal, hit, secant):
    """What is seen behind all beams."""
    (x, y), (dx, dy) = place, ray
    if hit:
        depth, axis, row, line = hit
        z = task.eye_height + rise * depth
        if 0.0 < z <= task.wall_height:
            along = y + depth * dy if axis == "x" else x + depth * dx
            # Seen from the front, a texture is not mirrored.
            flip = dx < 0 if axis == "x" else dy > 0
            slant = abs(right[1] - dy / dx * right[0]) if axis == "x" else abs(right[0] - dx / dy * right[1])
            footprint = depth / focal * max(slant, 1.0)
            factor = int(SHADES[axis] * fog(depth * secant, task.view_range) + 0.5)
            return texel(copies[task.wall_looks[row, line]], -along if flip else along, -z, footprint) * factor >> 8
    down = rise < 0
    away = task.eye_height if down else task.wall_height - task.eye_height
    depth = away / max(abs(rise), 1e-12)
    if depth >= task.view_range:
        return np.zeros(3, dtype=int)
    look = task.floor_look if down else task.ceiling_look
    left = 512 - math.floor(512 * depth / task.view_range * secant)
    factor = min(max(left, 0), 256) * SHADES["floor" if down else "ceiling"] >> 8
    footprint = depth / focal * max(depth / away, 1.0)
    return texel(copies[look], x + depth * dx, y + depth * dy, footprint) * factor >> 8
