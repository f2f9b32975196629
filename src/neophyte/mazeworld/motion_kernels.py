"""Compiled loops of movement: turning, walking and sliding, on the grid and freely."""

from __future__ import annotations

import math

import numpy as np

from neophyte.core.jit import inlined, kernel
from neophyte.mazeworld.maze_kernels import fill_distances

_HALF_PI = 1.5707963267948966
_HALF_PI_LOW = 6.123233995736766e-17


@inlined
def sine_and_cosine(angle):
    """sin and cos of a float64 in [-1000, 1000], within two units in the last place; exact at quarter turns.

    The angle less the nearest quarter turn, then the polynomials of the freely distributable math library.
    """
    quarter = math.floor(angle / _HALF_PI + 0.5)
    r = angle - quarter * _HALF_PI
    r -= quarter * _HALF_PI_LOW if r != 0.0 else 0.0
    z = r * r
    tail = -2.50507602534068634195e-08 + z * 1.58969099521155010221e-10
    tail = -1.98412698298579493134e-04 + z * (2.75573137070700676789e-06 + z * tail)
    sine = r + r * z * (-1.66666666666666324348e-01 + z * (8.33333333332248946124e-03 + z * tail))
    tail = 2.08757232129817482790e-09 + z * -1.13596475577881948265e-11
    tail = 2.48015872894767294178e-05 + z * (-2.75573143513906633035e-07 + z * tail)
    cosine = 1.0 - 0.5 * z + z * z * (4.16666666666666019037e-02 + z * (-1.38888888888741095749e-03 + z * tail))
    turn = np.int64(quarter) & 3
    if turn == 0:
        return sine, cosine
    if turn == 1:
        return cosine, -sine
    if turn == 2:
        return -sine, -cosine
    return -cosine, sine


# Columns of a world's integers and of its real numbers.
ROW, COLUMN, QUARTER, STEPS, GOALS, COMMAND, COLLIDED, TARGET, DISTANCE = range(9)
SIZE, NUM_COMMANDS, NUM_TARGETS, FLOOR_LOOK, CEILING_LOOK = range(9, 14)
X, Y, HEADING, LIFE = range(4)
STEP_COST, GOAL_REWARD, COLLISION_COST, CELL_LENGTH = range(4)
# Ways to act.
TURN_AND_WALK, COMPASS, STEER = 0, 1, 2

MAX_LIFE = 3.0
HIDDEN_STEPS = 200
RADIUS = 0.20  # metres
_WALK, _BACK = 1.0, 0.5  # m/s
_TURN_RATE = math.pi  # rad/s
_TWO_PI = 2.0 * math.pi
_SUBSTEPS = 10
_NEARLY = 1.0 - 1e-12  # a body that was pushed off a corner may lie an ulp too near
_LONGEST = 0.5 * RADIUS  # no substep is longer, so that none leaps over a corner


@inlined
def _walk_grid(w, action, compass, walls, integers, reals, cell):
    """Turn or move by one cell; a blocked move leaves all as it is. Returns whether it was blocked."""
    row, column, quarter = integers[w, ROW], integers[w, COLUMN], integers[w, QUARTER]
    down = right = 0
    if compass:
        right, down = (action == 2) - (action == 1), (action == 4) - (action == 3)
    elif action == 1 or action == 2:
        quarter = (quarter + (1 if action == 2 else 3)) & 3
    elif action > 2:
        sign = 1 if action == 4 else -1
        right, down = sign * ((quarter == 0) - (quarter == 2)), sign * ((quarter == 1) - (quarter == 3))
    blocked = walls[w, row + down, column + right] != 0
    if not blocked:
        row, column = row + down, column + right
    integers[w, ROW], integers[w, COLUMN], integers[w, QUARTER] = row, column, quarter
    reals[w, X], reals[w, Y], reals[w, HEADING] = (column + 0.5) * cell, (row + 0.5) * cell, quarter * _HALF_PI
    return blocked


@inlined
def _push_out(x, y, walls, w, cell):
    """Move a body out of the walls about the open cell that its centre is in: along the nearest normal."""
    column, row = np.int64(x / cell), np.int64(y / cell)
    left, top = column * cell, row * cell
    right, bottom = left + cell, top + cell
    touched = False
    if walls[w, row, column - 1] and x < left + RADIUS:
        x, touched = left + RADIUS, True
    if walls[w, row, column + 1] and x > right - RADIUS:
        x, touched = right - RADIUS, True
    if walls[w, row - 1, column] and y < top + RADIUS:
        y, touched = top + RADIUS, True
    if walls[w, row + 1, column] and y > bottom - RADIUS:
        y, touched = bottom - RADIUS, True
    # A cell is wider than the body, so that it can overlap one corner at most.
    corner_x, side = (left, -1) if x - left < right - x else (right, 1)
    corner_y, end = (top, -1) if y - top < bottom - y else (bottom, 1)
    if walls[w, row + end, column + side]:
        dx, dy = x - corner_x, y - corner_y
        square = dx * dx + dy * dy
        if square < _NEARLY * RADIUS * RADIUS:
            away = math.sqrt(square)
            if away > 0.0:
                x, y = corner_x + dx * (RADIUS / away), corner_y + dy * (RADIUS / away)
            else:
                x, y = corner_x - side * RADIUS, corner_y - end * RADIUS
            touched = True
    return x, y, touched


@kernel
def touches_wall(x, y, walls, w, cell):
    """Whether a body there, in an open cell, touches a wall."""
    return _push_out(x, y, walls, w, cell)[2]


@inlined
def _steer(w, turn, walk, seconds, walls, integers, reals, cell):
    """Turn and walk for some time in small substeps, sliding along what is touched. Returns whether anything was."""
    speed = walk * (_WALK if walk > 0.0 else _BACK)
    substeps = max(_SUBSTEPS, np.int64(math.ceil(abs(speed) * seconds / _LONGEST)))
    x, y, heading = reals[w, X], reals[w, Y], reals[w, HEADING]
    angle, length = turn * _TURN_RATE * seconds / substeps, speed * seconds / substeps
    touched = False
    for _ in range(substeps):
        heading += angle
        heading -= _TWO_PI * math.floor(heading / _TWO_PI)
        sine, cosine = sine_and_cosine(heading)
        x, y, touches = _push_out(x + length * cosine, y + length * sine, walls, w, cell)
        touched |= touches
    reals[w, X], reals[w, Y], reals[w, HEADING] = x, y, heading
    integers[w, ROW], integers[w, COLUMN] = np.int64(y / cell), np.int64(x / cell)
    return touched


@inlined
def _settle_survival(w, integers, reals, marks, cells, values, hidden):
    """Collect the value of the target in the agent's cell, and let hidden ones shine again. Returns the value."""
    gained = 0.0
    for k in range(integers[w, NUM_TARGETS]):
        row, column = cells[w, k, 0], cells[w, k, 1]
        if hidden[w, k] and integers[w, STEPS] >= hidden[w, k]:
            hidden[w, k] = 0
            marks[w, row, column] = k + 1
        if not hidden[w, k] and row == integers[w, ROW] and column == integers[w, COLUMN]:
            gained = values[w, k]
            hidden[w, k] = integers[w, STEPS] + HIDDEN_STEPS
            marks[w, row, column] = 0
    reals[w, LIFE] = min(reals[w, LIFE] + gained, MAX_LIFE)
    return gained


@kernel
def aim(w, integers, commands, cells, walls, distances, queue):
    """Take up the command of world w: its target, and how far all cells are from it."""
    k = np.int64(commands[w, integers[w, COMMAND]])
    integers[w, TARGET] = k
    fill_distances(walls[w], integers[w, SIZE], cells[w, k, 0], cells[w, k, 1], distances[w], queue)
    integers[w, DISTANCE] = distances[w, integers[w, ROW], integers[w, COLUMN]]


@kernel
def step(
    first, last, acting, survival, seconds, max_steps, moves, steering, integers, reals, costs, walls, marks, cells,
    values, hidden, commands, distances, rewards, terminated, truncated,
):  # fmt: skip
    """Let the worlds `first` to `last` act once.

    acting: a way to act; moves int64 (worlds,) or steering float64 (worlds, 2) says what. seconds: how long a
    steered step lasts. The rest are the arrays of `world.World`; rewards float64, terminated and truncated bool.
    """
    queue = np.empty(walls.shape[1] * walls.shape[2], dtype=np.int32)
    for w in range(first, last):
        cell = costs[w, CELL_LENGTH]
        if acting == STEER:
            collided = _steer(w, steering[w, 0], steering[w, 1], seconds, walls, integers, reals, cell)
        else:
            collided = _walk_grid(w, moves[w], acting == COMPASS, walls, integers, reals, cell)
        integers[w, COLLIDED] = collided
        integers[w, STEPS] += 1
        reward, ended = -costs[w, STEP_COST], False
        if collided:
            reward -= costs[w, COLLISION_COST]
        if survival:
            reals[w, LIFE] -= costs[w, STEP_COST]
            reward += _settle_survival(w, integers, reals, marks, cells, values, hidden)
            ended = reals[w, LIFE] < 0.0
        else:
            integers[w, DISTANCE] = distances[w, integers[w, ROW], integers[w, COLUMN]]
            if integers[w, DISTANCE] == 0:
                reward += costs[w, GOAL_REWARD]
                integers[w, GOALS] += 1
                if integers[w, COMMAND] + 1 == integers[w, NUM_COMMANDS]:
                    ended = True
                else:
                    integers[w, COMMAND] += 1
                    aim(w, integers, commands, cells, walls, distances, queue)
        rewards[w] = reward
        terminated[w] = ended
        truncated[w] = not ended and integers[w, STEPS] >= max_steps
