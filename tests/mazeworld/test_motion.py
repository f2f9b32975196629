import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from neophyte.mazeworld import MazeTaskSpec, World, mazes
from neophyte.mazeworld.motion_kernels import RADIUS, sine_and_cosine

BOTH = njit(lambda angle: sine_and_cosine(angle))
WAYS = ((0, 1), (1, 0), (0, -1), (-1, 0))


@given(st.floats(-1000, 1000))
def test_sine_and_cosine_are_those_of_the_library(angle):
    sine, cosine = BOTH(angle)
    assert sine == pytest.approx(math.sin(angle), abs=2e-13)
    assert cosine == pytest.approx(math.cos(angle), abs=2e-13)


@given(st.floats(-math.pi, 2 * math.pi))
def test_within_a_turn_to_the_last_bits(angle):
    sine, cosine = BOTH(angle)
    assert abs(sine - math.sin(angle)) <= 1e-15
    assert abs(cosine - math.cos(angle)) <= 1e-15


@pytest.mark.parametrize("quarter", range(5))
def test_quarter_turns_are_exact(quarter):
    sine, cosine = BOTH(quarter * (math.pi / 2))
    assert (sine, cosine) == (
        float(round(math.sin(quarter * math.pi / 2))),
        float(round(math.cos(quarter * math.pi / 2))),
    )


def worlds(count, actions, seed=0, seconds=0.1, **fields):
    source = mazes(MazeTaskSpec(**fields), seed=seed)
    made = World(count, actions=actions, seconds=seconds)
    for world in range(count):
        made.load(world, source[world])
    return made


@given(st.integers(0, 1000), st.lists(st.integers(0, 4), min_size=1, max_size=60))
def test_turning_and_walking_by_the_plain_rule(seed, actions):
    made = worlds(1, "turn", seed, sizes=7)
    task = made.tasks[0]
    (row, column), quarter = task.start, task.start_heading
    for action in actions:
        made.step(np.array([action]))
        blocked = False
        if action in (1, 2):
            quarter = (quarter + {1: -1, 2: 1}[action]) % 4
        elif action in (3, 4):
            sign = {3: -1, 4: 1}[action]
            wanted = row + sign * WAYS[quarter][0], column + sign * WAYS[quarter][1]
            blocked = bool(task.walls[wanted])
            row, column = (row, column) if blocked else wanted
        assert made.integers[0, :3].tolist() == [row, column, quarter]
        assert made.reals[0, :3].tolist() == [(column + 0.5) * 2.0, (row + 0.5) * 2.0, quarter * (math.pi / 2)]
        assert bool(made.integers[0, 6]) == blocked


@given(st.integers(0, 1000), st.lists(st.integers(0, 4), min_size=1, max_size=60))
def test_the_compass_by_the_plain_rule(seed, actions):
    made = worlds(1, "compass", seed, sizes=7)
    task = made.tasks[0]
    row, column = task.start
    for action in actions:
        made.step(np.array([action]))
        down, right = {0: (0, 0), 1: (0, -1), 2: (0, 1), 3: (-1, 0), 4: (1, 0)}[action]
        blocked = bool(task.walls[row + down, column + right])
        row, column = (row, column) if blocked else (row + down, column + right)
        assert made.integers[0, :2].tolist() == [row, column]
        assert bool(made.integers[0, 6]) == blocked


def clearance(task, x, y):
    """The distance from a point to the nearest wall, 0 inside one."""
    rows, columns = np.nonzero(task.walls)
    cell = task.cell_length
    dx = np.maximum(np.maximum(columns * cell - x, x - (columns + 1) * cell), 0.0)
    dy = np.maximum(np.maximum(rows * cell - y, y - (rows + 1) * cell), 0.0)
    return np.hypot(dx, dy).min()


ACTIONS = st.lists(st.tuples(st.floats(-1, 1), st.sampled_from([-1.0, -0.3, 0.0, 0.9, 1.0]), st.integers(1, 12)),
                   min_size=1, max_size=25)  # fmt: skip


@settings(max_examples=200)
@given(
    st.integers(0, 10**6), st.sampled_from([0.45, 0.5, 0.77, 1.0, 2.0, 5.0]),
    st.sampled_from([0.001, 0.1, 0.7, 5.0, 59.0]),
    st.sampled_from(["tree", "rooms"]), st.sampled_from([0.05, 0.3]), ACTIONS,
)  # fmt: skip
def test_a_body_never_enters_a_wall(seed, cell_length, seconds, style, density, actions):
    made = worlds(1, "continuous", seed, seconds, sizes=7, cell_length=cell_length, style=style, wall_density=density)
    task = made.tasks[0]
    for turn, walk, repeats in actions:
        for _ in range(repeats):
            made.step(np.array([[turn, walk]]))
            x, y = made.reals[0, :2]
            assert clearance(task, x, y) >= RADIUS - 1e-9
            assert made.integers[0, :2].tolist() == [int(y / cell_length), int(x / cell_length)]
            assert not task.walls[int(y / cell_length), int(x / cell_length)]
            assert 0.0 <= made.reals[0, 2] < 2 * math.pi + 1e-12


def empty_world(heading, place=(7.0, 7.0), seconds=0.1):
    """A maze without inner walls, the agent somewhere in it."""
    made = worlds(1, "continuous", 0, seconds, sizes=7, wall_density=0.0)
    made.place(0, (*place, heading))
    return made


@pytest.mark.parametrize("heading", [0.0, 0.4, math.pi / 2, 2.2, 4.0])
def test_free_walking_has_the_stated_speeds(heading):
    for walk, speed in ((1.0, 1.0), (0.5, 0.5), (-1.0, -0.5), (-0.4, -0.2)):
        made = empty_world(heading)
        made.step(np.array([[0.0, walk]]))
        x, y = made.reals[0, :2]
        assert x - 7.0 == pytest.approx(0.1 * speed * math.cos(heading), abs=1e-12)
        assert y - 7.0 == pytest.approx(0.1 * speed * math.sin(heading), abs=1e-12)
        assert not made.integers[0, 6]


def test_turning_has_the_stated_rate():
    made = empty_world(0.0)
    for _ in range(20):
        made.step(np.array([[0.5, 0.0]]))
    assert made.reals[0, 2] % (2 * math.pi) == pytest.approx(math.pi, abs=1e-12)  # 20 * 0.1 s * 0.5 pi rad/s


def test_walking_round_a_circle_comes_back():
    made = empty_world(0.0)
    for _ in range(20):  # a whole turn in 2 s at 1 m/s
        made.step(np.array([[1.0, 1.0]]))
    assert made.reals[0, :2] == pytest.approx([7.0, 7.0], abs=1e-9)


def test_a_body_slides_along_a_wall():
    made = empty_world(math.pi / 4, place=(7.0, 12.0 - RADIUS))  # the wall begins at y = 12
    made.step(np.array([[0.0, 1.0]]))
    assert made.reals[0, 1] == 12.0 - RADIUS
    assert made.reals[0, 0] == pytest.approx(7.0 + 0.1 * math.cos(math.pi / 4), abs=1e-12)
    assert made.integers[0, 6]


def test_a_body_that_walks_straight_at_a_wall_stands():
    made = empty_world(0.0, place=(12.0 - RADIUS, 7.0))
    made.step(np.array([[0.0, 1.0]]))
    assert made.reals[0, :2].tolist() == [12.0 - RADIUS, 7.0]


@pytest.mark.parametrize("seconds", [0.1, 1.0, 10.0, 60.0])
def test_no_step_is_long_enough_to_leap_over_a_wall(seconds):
    made = empty_world(0.3, seconds=seconds)
    for _ in range(5):
        made.step(np.array([[0.0, 1.0]]))
    assert 2.0 + RADIUS <= made.reals[0, 0] <= 12.0 - RADIUS
    assert 2.0 + RADIUS <= made.reals[0, 1] <= 12.0 - RADIUS
