"""The renderer: first-person views of a batch of worlds, one ray a column and one sweep a row, all pixels in integers.

A column's ray finds the wall that it hits; a row of the floor or the ceiling lies at one depth. Each pixel then takes
one texel, from the copy of the texture whose texels are about as large as the pixel, and is dimmed by distance. A row
is made in three short loops (which texel, fetch, dim) that the compiler turns into vector code for any machine.

Texture coordinates are metres modulo one in 32-bit fixed point, where adding wraps around by itself.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from neophyte.core.jit import inlined, kernel
from neophyte.mazeworld.motion_kernels import (
    CEILING_LOOK,
    COLUMN,
    FLOOR_LOOK,
    HEADING,
    LIFE,
    MAX_LIFE,
    ROW,
    SIZE,
    TARGET,
    X,
    Y,
    sine_and_cosine,
)
from neophyte.mazeworld.ray_kernels import next_cell, start_ray

# The cache of compiled kernels notices changes of this file only, so that these constants live here.
SIDE_BITS = 7
_SIDE = np.float64(1 << SIDE_BITS)
_LAST_LEVEL = SIDE_BITS - 1  # 2 x 2 texels: a shift by all 32 bits would have no meaning
TEXELS = np.int64((4 ** (SIDE_BITS + 1) - 4) // 3)  # of a texture with all its copies
_TURN = 2.0**32
# Fixed point of the fog: a depth is a share of the view range times 2^15, a column's secant times 2^10.
_DEPTH_ONE, _SECANT_ONE, _FOG_SHIFT = 2.0**15, 2.0**10, np.uint32(16)
_FULL = np.uint32(256)  # the factor of a pixel that is not dimmed
# Faces that look along x, those that look along y, the floor and the ceiling: so edges show between equal textures.
_SHADE_X, _SHADE_Y, _SHADE_FLOOR, _SHADE_CEILING = 256.0, 205.0, np.uint32(236), np.uint32(200)
_BEAM, _BEHIND = np.uint32(77), np.uint32(179)  # 30 % and the rest of 256
_RED_BLUE, _GREEN, _EIGHT, _LOW, _SIXTEEN = (np.uint32(v) for v in (0xFF00FF, 0x00FF00, 8, 255, 16))
_FOG_FULL, _ZERO = np.uint32(512), np.uint32(0)
_LIFE_COLOUR = np.uint32(0x0000FF)
_NO_BEAM = -1.0
SHOW_COMMAND, SHOW_LIFE = 1, 2


def _operation(name):
    """An intrinsic for a 32-bit operation: Numba's own widen to 64 bits, which halves the vectors."""

    @intrinsic
    def operation(typing_context, a, b):
        signature = types.uint32(types.uint32, types.uint32)

        def generate(context, builder, signature, arguments):
            return getattr(builder, name)(*arguments)

        return signature, generate

    return operation


_add, _sub, _mul = _operation("add"), _operation("sub"), _operation("mul")
_shr, _shl, _and, _or = _operation("lshr"), _operation("shl"), _operation("and_"), _operation("or_")


@intrinsic
def _below(typing_context, a, b):
    """a < b for uint32."""
    signature = types.boolean(types.uint32, types.uint32)

    def generate(context, builder, signature, arguments):
        return builder.icmp_unsigned("<", *arguments)

    return signature, generate


@intrinsic
def _choose(typing_context, condition, a, b):
    """`a` if the condition holds, else `b`, for uint32."""
    signature = types.uint32(types.boolean, types.uint32, types.uint32)

    def generate(context, builder, signature, arguments):
        condition, a, b = arguments
        if condition.type != ir.IntType(1):
            condition = builder.trunc(condition, ir.IntType(1))
        return builder.select(condition, a, b)

    return signature, generate


@inlined
def _fixed(metres):
    """Metres modulo one as a 32-bit fraction; |metres| below 2^30."""
    return np.uint32(np.int64(math.floor(metres * _TURN)))


@inlined
def _level(footprint):
    """Which copy of a texture has texels at least as large as a pixel that covers so many metres."""
    texels, level = footprint * _SIDE, 0
    while texels > 1.0 and level < _LAST_LEVEL:
        texels *= 0.5
        level += 1
    return level


@inlined
def _level_start(level):
    """Where a copy begins in a texture."""
    return TEXELS - (np.int64(4) ** (SIDE_BITS - level + 1) - 4) // 3


@inlined
def _dimmed(colour, factor):
    """A packed colour times factor / 256."""
    red_blue = _and(_shr(_mul(_and(colour, _RED_BLUE), factor), _EIGHT), _RED_BLUE)
    return _or(red_blue, _and(_shr(_mul(_and(colour, _GREEN), factor), _EIGHT), _GREEN))


@inlined
def _fog(distance, view_range):
    """How much light is left at a distance, in [0, 1]: all up to half the view range, none from its end on."""
    return min(max(2.0 - 2.0 * distance / view_range, 0.0), 1.0)


@inlined
def _span(depth, focal, horizon, up, down, height):
    """The rows [top, bottom) that an upright surface at that depth covers, clipped to the image."""
    top = math.ceil(horizon - focal * up / depth - 0.5)
    bottom = math.ceil(horizon + focal * down / depth - 0.5)
    return np.int64(min(max(top, 0.0), height)), np.int64(min(max(bottom, 0.0), height))


@kernel
def render(first_world, last_world, bar, views, states, integers, walls, looks, marks, colours, texels, rgb):
    """Draw the first-person views of the worlds `first_world` to `last_world` into uint8 `rgb` (worlds, H, W, 3).

    bar: what it shows, SHOW_COMMAND, SHOW_LIFE or 0, nothing. views: float64 (worlds, 6), see `world.VIEW_FIELDS`.
    states: float64 (worlds, 4): x, y, heading, life.
    walls: uint8 (worlds, n, n). looks: uint16 (worlds, n, n).
    marks: uint8 (worlds, n, n), 1 + the target that shines in each cell, or 0.
    colours: uint32 (worlds, targets), packed. integers: see `motion_kernels`.
    texels: uint32, the library's (see `textures.Library`).
    """
    height, width = rgb.shape[1], rgb.shape[2]
    num_targets = colours.shape[1]
    top, tall = np.empty(width, np.uint32), np.empty(width, np.uint32)
    base, shift = np.empty(width, np.uint32), np.empty(width, np.uint32)
    v_first, v_step = np.empty(width, np.uint32), np.empty(width, np.uint32)
    light, secant = np.empty(width, np.uint32), np.empty(width, np.uint32)
    index, factor, row = np.empty(width, np.uint32), np.empty(width, np.uint32), np.empty(width, np.uint32)
    beams = np.empty((num_targets, width), np.float64)
    beam_top, beam_tall = np.empty((num_targets, width), np.uint32), np.empty((num_targets, width), np.uint32)
    beam_colour = np.empty((num_targets, width), np.uint32)
    order = np.empty(num_targets, np.int64)
    first, last = np.empty(num_targets, np.int64), np.empty(num_targets, np.int64)
    ranks = np.empty(num_targets, np.int64)
    bar_top, bar_bottom = (height * 10 + 50) // 100, max((height * 15 + 50) // 100, (height * 10 + 50) // 100 + 1)
    bar_left, bar_right = (width + 2) // 4, (3 * width + 2) // 4

    for w in range(first_world, last_world):
        cell, ceiling, eye = views[w, 0], views[w, 1], views[w, 2]
        horizon_shift, half_width, view_range = views[w, 3], views[w, 4], views[w, 5]
        x0, y0 = states[w, X], states[w, Y]
        ahead_y, ahead_x = sine_and_cosine(states[w, HEADING])
        right_x, right_y = -ahead_y, ahead_x
        focal = 0.5 * width / half_width
        horizon = 0.5 * height + focal * horizon_shift
        up, down = ceiling - eye, eye
        home_row, home_column = np.int64(y0 / cell), np.int64(x0 / cell)
        num_beams = 0
        for k in range(num_targets):
            ranks[k] = -1

        # Columns.
        for x in range(width):
            slope = (x + 0.5 - 0.5 * width) / focal
            dx, dy = ahead_x + slope * right_x, ahead_y + slope * right_y
            length = math.sqrt(1.0 + slope * slope)
            secant[x] = np.uint32(length * _SECANT_ONE)
            limit = view_range / length
            ray = start_ray(x0, y0, dx, dy, cell)
            hit = False
            while True:
                ray, depth, across = next_cell(ray)
                line, column = ray[0], ray[1]
                if depth >= limit:
                    break
                if walls[w, line, column]:
                    hit = True
                    break
                mark = np.int64(marks[w, line, column]) - 1
                if mark >= 0:
                    if ranks[mark] < 0:
                        ranks[mark] = abs(line - home_row) + abs(column - home_column)
                        order[num_beams] = mark
                        num_beams += 1
                        first[mark] = x
                        beams[mark, :] = _NO_BEAM
                    last[mark] = x + 1
                    beams[mark, x] = depth
            if not hit:
                top[x], tall[x] = _ZERO, _ZERO
                continue
            begin, end = _span(depth, focal, horizon, up, down, height)
            top[x], tall[x] = np.uint32(begin), np.uint32(end - begin)
            if across:
                along_wall = y0 + depth * dy
                u = _fixed(along_wall) if dx > 0.0 else _fixed(-along_wall)
                slant = abs(right_y - dy / dx * right_x)
                shade = _SHADE_X
            else:
                along_wall = x0 + depth * dx
                u = _fixed(-along_wall) if dy > 0.0 else _fixed(along_wall)
                slant = abs(right_x - dx / dy * right_y)
                shade = _SHADE_Y
            pixel = depth / focal
            level = _level(pixel * max(slant, 1.0))
            bits = np.uint32(SIDE_BITS - level)
            shift[x] = np.uint32(32 - SIDE_BITS + level)
            place = np.int64(looks[w, line, column]) * TEXELS + _level_start(level)
            base[x] = np.uint32(place + (np.int64(_shr(u, shift[x])) << np.int64(bits)))
            v_first[x] = _fixed(-(eye + (horizon - 0.5) * pixel))
            v_step[x] = _fixed(pixel)
            light[x] = np.uint32(shade * _fog(depth * length, view_range) + 0.5)

        # Beams, the farthest first: every cell on a ray is one step farther than the one before.
        for i in range(1, num_beams):
            j = i
            while j > 0 and ranks[order[j]] > ranks[order[j - 1]]:
                order[j], order[j - 1] = order[j - 1], order[j]
                j -= 1
        for i in range(num_beams):
            k = order[i]
            for x in range(first[k], last[k]):
                depth = beams[k, x]
                if depth == _NO_BEAM:
                    beam_top[k, x], beam_tall[k, x] = _ZERO, _ZERO
                    continue
                begin, end = _span(depth, focal, horizon, up, down, height)
                beam_top[k, x], beam_tall[k, x] = np.uint32(begin), np.uint32(end - begin)
                slope = (x + 0.5 - 0.5 * width) / focal
                glow = _fog(depth * math.sqrt(1.0 + slope * slope), view_range)
                beam_colour[k, x] = _dimmed(colours[w, k], np.uint32(256.0 * glow + 0.5))

        # Rows.
        half = 0.5 * width
        for y in range(height):
            below = y + 0.5 - horizon
            if below > 0.0:
                depth, look, shade = focal * down / below, integers[w, FLOOR_LOOK], _SHADE_FLOOR
            else:
                depth, look, shade = focal * up / max(-below, 1e-9), integers[w, CEILING_LOOK], _SHADE_CEILING
            if depth < view_range:
                pixel = depth / focal
                level = _level(pixel * max(depth / (down if below > 0.0 else up), 1.0))
                left = (0.5 - half) * pixel
                u_first = _fixed(x0 + depth * ahead_x + left * right_x)
                w_first = _fixed(y0 + depth * ahead_y + left * right_y)
                u_step, w_step = _fixed(pixel * right_x), _fixed(pixel * right_y)
                far = np.uint32(depth / view_range * _DEPTH_ONE)
            else:
                level, u_first, w_first, u_step, w_step = _LAST_LEVEL, _ZERO, _ZERO, _ZERO, _ZERO
                far = np.uint32(_DEPTH_ONE)
            flat_shift, flat_bits = np.uint32(32 - SIDE_BITS + level), np.uint32(SIDE_BITS - level)
            flat_base = np.uint32(look * TEXELS + _level_start(level))
            this = np.uint32(y)
            for x in range(width):
                place = np.uint32(x)
                is_wall = _below(_sub(this, top[x]), tall[x])
                on_wall = _add(base[x], _shr(_add(v_first[x], _mul(this, v_step[x])), shift[x]))
                u = _shr(_add(u_first, _mul(place, u_step)), flat_shift)
                v = _shr(_add(w_first, _mul(place, w_step)), flat_shift)
                flat = _add(flat_base, _add(_shl(u, flat_bits), v))
                faded = _shr(_mul(far, secant[x]), _FOG_SHIFT)
                left_over = _choose(_below(faded, _FOG_FULL), _sub(_FOG_FULL, faded), _ZERO)
                left_over = _choose(_below(_FULL, left_over), _FULL, left_over)
                dim = _shr(_mul(left_over, shade), _EIGHT)
                index[x] = _choose(is_wall, on_wall, flat)
                factor[x] = _choose(is_wall, light[x], dim)
            for x in range(width):
                row[x] = texels[index[x]]
            for x in range(width):
                row[x] = _dimmed(row[x], factor[x])
            for i in range(num_beams):
                k = order[i]
                for x in range(first[k], last[k]):
                    inside = _below(_sub(this, beam_top[k, x]), beam_tall[k, x])
                    behind, beam = row[x], beam_colour[k, x]
                    mixed = _add(_mul(_and(behind, _RED_BLUE), _BEHIND), _mul(_and(beam, _RED_BLUE), _BEAM))
                    green = _add(_mul(_and(behind, _GREEN), _BEHIND), _mul(_and(beam, _GREEN), _BEAM))
                    both = _or(_and(_shr(mixed, _EIGHT), _RED_BLUE), _and(_shr(green, _EIGHT), _GREEN))
                    row[x] = _choose(inside, both, behind)
            if bar and bar_top <= y < bar_bottom:
                if bar == SHOW_LIFE:
                    share = min(max(states[w, LIFE] / MAX_LIFE, 0.0), 1.0)
                    row[bar_left : bar_left + np.int64((bar_right - bar_left) * share + 0.5)] = _LIFE_COLOUR
                else:
                    row[bar_left:bar_right] = colours[w, integers[w, TARGET]]
            out = rgb[w, y]
            for x in range(width):
                colour = row[x]
                out[x, 0] = np.uint8(colour)
                out[x, 1] = np.uint8(_shr(colour, _EIGHT))
                out[x, 2] = np.uint8(_shr(colour, _SIXTEEN))


@kernel
def draw_windows(first_world, last_world, radius, survival, states, integers, marks, walls, colours, rgb):
    """Draw maps of the cells around the agents into uint8 `rgb` (worlds, 2 radius + 1, 2 radius + 1, 3).

    Walls, and what lies outside the maze, are black, the floor is white, targets have their colours; the pixel in the
    middle has the commanded colour, or the life in red. The arrays are those of `render` and of `motion_kernels.step`.
    """
    for w in range(first_world, last_world):
        size = integers[w, SIZE]
        for i in range(2 * radius + 1):
            for j in range(2 * radius + 1):
                row, column = integers[w, ROW] + i - radius, integers[w, COLUMN] + j - radius
                inside = 0 <= row < size and 0 <= column < size
                if not inside or walls[w, row, column]:
                    colour = _ZERO
                elif marks[w, row, column]:
                    colour = colours[w, marks[w, row, column] - 1]
                else:
                    colour = np.uint32(0xFFFFFF)
                if i == radius and j == radius:
                    share = min(max(states[w, LIFE] / MAX_LIFE, 0.0), 1.0)
                    colour = np.uint32(255.0 * share + 0.5) if survival else colours[w, integers[w, TARGET]]
                rgb[w, i, j, 0] = np.uint8(colour)
                rgb[w, i, j, 1] = np.uint8(colour >> _EIGHT)
                rgb[w, i, j, 2] = np.uint8(colour >> _SIXTEEN)


@kernel
def draw_depths(first_world, last_world, views, states, walls, depths):
    """Fill float32 `depths` (worlds, H, W) with metres along the view's axis to what is seen, at most the view range.

    The arrays are those of `render`.
    """
    height, width = depths.shape[1], depths.shape[2]
    for w in range(first_world, last_world):
        cell, ceiling, eye, view_range = views[w, 0], views[w, 1], views[w, 2], views[w, 5]
        focal = 0.5 * width / views[w, 4]
        horizon = 0.5 * height + focal * views[w, 3]
        ahead_y, ahead_x = sine_and_cosine(states[w, HEADING])
        for x in range(width):
            slope = (x + 0.5 - 0.5 * width) / focal
            ray = start_ray(states[w, X], states[w, Y], ahead_x - slope * ahead_y, ahead_y + slope * ahead_x, cell)
            wall = 0.0
            while wall < view_range:
                ray, wall, _ = next_cell(ray)
                if walls[w, ray[0], ray[1]]:
                    break
            for y in range(height):
                below = y + 0.5 - horizon
                flat = focal * (eye if below > 0.0 else ceiling - eye) / max(abs(below), 1e-9)
                depths[w, y, x] = min(wall, flat, view_range)
