import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neophyte.mazeworld import COLOURS, MazeTaskSpec, World, mazes
from neophyte.mazeworld.textures import library_of

from . import slow_renderer

VARIED = {
    "num_looks": 16, "pitch": (-0.5, 0.5), "eye_height": (0.5, 2.0), "wall_height": (2.2, 4.0),
    "field_of_view": (0.8, 2.4), "cell_length": (0.8, 3.0), "view_range": (3.0, 20.0),
    "num_targets": (2, 8), "num_commands": 5,
}  # fmt: skip


def world_at(task, pose):
    """A world with its eye anywhere in an open cell, nearer to walls than a body could be too."""
    world = World(1, actions="continuous")
    world.load(0, task)
    world.reals[0, :3] = pose
    world.integers[0, :2] = int(pose[1] / task.cell_length), int(pose[0] / task.cell_length)
    return world


def random_pose(task, rng):
    row, column = rng.choice(np.argwhere(task.walls == 0))
    x, y = (part + rng.uniform(0.05, 0.95) for part in (column, row))
    return x * task.cell_length, y * task.cell_length, rng.uniform(0, 2 * math.pi)


EXTREMES = {
    "steep": {"pitch": -1.2, "field_of_view": 0.2}, "steep up": {"pitch": 1.2, "field_of_view": 0.2},
    "wide": {"field_of_view": 2.8}, "low eye": {"eye_height": 0.01}, "high eye": {"eye_height": 3.1999},
    "endless": {"view_range": 1000.0, "wall_density": 0.0}, "tiny cells": {"cell_length": 0.45},
    "huge cells": {"cell_length": 100.0, "view_range": 1000.0}, "many targets": {"num_targets": 15},
}  # fmt: skip


@pytest.mark.parametrize("extreme", EXTREMES)
def test_extreme_views_are_those_of_the_slow_renderer(extreme):
    source = mazes(MazeTaskSpec(**{"sizes": (7,), "num_looks": 16, "num_commands": 3, **EXTREMES[extreme]}))
    rng = np.random.default_rng(0)
    wrong = 0
    for index in range(20):
        pose = random_pose(source[index], rng)
        fast = world_at(source[index], pose).draw(12, 18, bar=False)[0].astype(int)
        slow = slow_renderer.render(source[index], library_of(source[index].textures), pose, 12, 18).astype(int)
        wrong += int((np.abs(fast - slow).max(axis=-1) > 1).sum())
    assert wrong <= 3  # of 4,320


@settings(max_examples=60)
@given(st.integers(0, 2**40), st.sampled_from([(9, 16), (16, 9), (1, 20), (13, 1), (12, 12)]))
def test_frames_are_those_of_the_slow_renderer(seed, size):
    rng = np.random.default_rng(seed)
    task = mazes(MazeTaskSpec(sizes=(7, 9), wall_density=float(rng.choice([0.0, 0.15, 0.3])), **VARIED), seed=seed)[0]
    pose = random_pose(task, rng)
    fast = world_at(task, pose).draw(*size, bar=False)[0].astype(int)
    slow = slow_renderer.render(task, library_of(task.textures), pose, *size).astype(int)
    # Where a coordinate lies on the edge of a texel or a face, the last bit decides which side is seen.
    assert (np.abs(fast - slow).max(axis=-1) > 1).sum() <= 1


def test_thousands_of_poses_are_those_of_the_slow_renderer():
    rng = np.random.default_rng(0)
    source = mazes(MazeTaskSpec(sizes=(7, 9), wall_density=(0.0, 0.3), **VARIED), seed=1)
    wrong = 0
    for index in range(2500):
        task = source[index]
        pose = random_pose(task, rng)
        fast = world_at(task, pose).draw(5, 7, bar=False)[0].astype(int)
        slow = slow_renderer.render(task, library_of(task.textures), pose, 5, 7).astype(int)
        wrong += int((np.abs(fast - slow).max(axis=-1) > 1).sum())
    assert wrong <= 3  # of 87,500: coordinates on the edges of texels


@pytest.mark.parametrize("heading", range(4))
def test_the_four_headings_are_those_of_the_slow_renderer(heading):
    task = mazes(MazeTaskSpec(sizes=7, num_looks=16))[heading]
    # Off the middle: there, coordinates would lie on the edges of texels, where the last bit decides.
    pose = ((task.start[1] + 0.5) * 2.0 + 0.0137, (task.start[0] + 0.5) * 2.0 - 0.0171, heading * math.pi / 2)
    fast = world_at(task, pose).draw(24, 24, bar=False)[0].astype(int)
    slow = slow_renderer.render(task, library_of(task.textures), pose, 24, 24).astype(int)
    assert (np.abs(fast - slow).max(axis=-1) > 1).sum() <= 2


def hall(**fields):
    """A maze without inner walls, all surfaces of known brightness where light is full."""
    return mazes(MazeTaskSpec(sizes=7, wall_density=0.0, num_looks=16, view_range=1000.0, **fields))[0]


def depths_of(task, pose, height, width):
    return world_at(task, pose).draw_depth(height, width)[0]


@given(st.floats(2.5, 11.5), st.floats(1.0, 2.6), st.floats(0.3, 0.9), st.floats(2.7, 5.0))
def test_a_wall_is_as_high_as_projected(x, field_of_view, share, ceiling):
    # Looking along x at the wall that begins at 12 m, in the middle column: rows from the closed form.
    eye = share * ceiling
    task = hall(field_of_view=field_of_view, eye_height=eye, wall_height=ceiling)
    height, width = 200, 101
    found = depths_of(task, (x, 7.0, 0.0), height, width)[:, 50]
    focal = width / 2 / math.tan(field_of_view / 2)
    depth = 12.0 - x
    wall = np.abs(found - depth) < 1e-4
    top, bottom = height / 2 - focal * (ceiling - eye) / depth, height / 2 + focal * eye / depth
    rows = np.flatnonzero(wall)
    expected = [row for row in range(height) if top <= row + 0.5 < bottom]
    # A pixel of the floor next to the wall may be as deep as it, within the tolerance.
    assert set(expected) <= set(rows)
    assert len(rows) <= len(expected) + 2
    below = np.arange(rows.max() + 1, height)
    np.testing.assert_allclose(found[below], focal * eye / (below + 0.5 - height / 2), rtol=1e-5)


@pytest.mark.parametrize("pitch", [-0.4, 0.0, 0.3])
def test_the_horizon_is_where_the_pitch_puts_it(pitch):
    task = hall(pitch=pitch, field_of_view=1.5)
    found = depths_of(task, (3.0, 7.0, 0.0), 400, 101)[:, 50]
    focal = 101 / 2 / math.tan(0.75)
    rows = np.flatnonzero(np.abs(found - 9.0) < 1e-4)
    # Eye 1.6 m and ceiling 3.2 m: the horizon is the middle of the wall.
    assert (rows.min() + rows.max() + 1) / 2 == pytest.approx(200 + focal * math.tan(pitch), abs=1.0)


def test_pixels_are_square():
    task = hall(field_of_view=1.2)
    wide, high = (depths_of(task, (3.0, 7.0, 0.0), *size) for size in ((100, 300), (300, 300)))
    np.testing.assert_array_equal(wide, high[100:200])


def beam_task(view_range=1000.0, **fields):
    """The hall with its only beam straight ahead of (3, 7) along x, in the cell from 6 to 8 m."""
    task = hall(**fields)
    return dataclasses.replace(
        task, target_cells=[[3, 3]], target_colours=[0], target_values=[0.5], commands=[0], start=(1, 1),
        view_range=view_range,
    )  # fmt: skip


def test_a_beam_mixes_thirty_percent_of_its_colour_in():
    task = beam_task()
    with_beam = world_at(task, (3.0, 7.0, 0.0))
    seen = with_beam.draw(96, 96, bar=False)[0].astype(int)
    with_beam.marks[:] = 0
    behind = with_beam.draw(96, 96, bar=False)[0].astype(int)
    green = np.array(COLOURS[0])
    mixed = (behind * 179 + green * 77) >> 8
    changed = (seen != behind).any(axis=-1)
    np.testing.assert_array_equal(seen[changed], mixed[changed])
    # It covers the columns between its near edges, 3 m ahead and 1 m to each side, and is gone from the agent's cell.
    focal = 48 / math.tan(0.3 * math.pi)
    columns = np.flatnonzero(changed[48])
    assert columns.min() == pytest.approx(48 - focal / 3.0, abs=1)
    assert columns.max() == pytest.approx(48 + focal / 3.0, abs=1)
    inside = world_at(task, (7.0, 7.0, 0.0))
    seen = inside.draw(64, 64, bar=False)
    inside.marks[:] = 0
    np.testing.assert_array_equal(seen, inside.draw(64, 64, bar=False))


def test_beams_are_hidden_by_walls():
    task = mazes("15-train", num_targets=15)[0]
    rng = np.random.default_rng(0)
    for _ in range(20):
        pose = random_pose(task, rng)
        world = world_at(task, pose)
        seen = world.draw(48, 48, bar=False)[0].astype(int)
        visible = set()
        depth = world.draw_depth(48, 48)[0]
        walls_at = depth.max(axis=0)  # floors and ceilings are nearer
        world.marks[:] = 0
        plain = world.draw(48, 48, bar=False)[0].astype(int)
        for row, column in task.target_cells.tolist():
            x, y = (column + 0.5) * 2.0 - pose[0], (row + 0.5) * 2.0 - pose[1]
            ahead = x * math.cos(pose[2]) + y * math.sin(pose[2])
            aside = y * math.cos(pose[2]) - x * math.sin(pose[2])
            pixel = 24 + 24 / math.tan(0.3 * math.pi) * aside / ahead if ahead > 0 else -1
            home = [int(pose[1] // 2.0), int(pose[0] // 2.0)] == [row, column]
            if not home and 0 <= pixel < 48 and depth[24, int(pixel)] > ahead and math.hypot(x, y) < 10.0:
                visible.add(int(pixel))
        changed = (seen != plain).any(axis=(0, 2))
        assert all(changed[pixel] for pixel in visible)
        # Any column that changed looks into the cell of a target before it looks at a wall.
        for pixel in np.flatnonzero(changed):
            slope = (pixel + 0.5 - 24) / 24 * math.tan(0.3 * math.pi)
            direction = np.array(
                [math.cos(pose[2]) - slope * math.sin(pose[2]), math.sin(pose[2]) + slope * math.cos(pose[2])]
            )
            passed = {tuple(((np.array(pose[:2]) + t * direction) // 2.0).astype(int)[::-1])
                      for t in np.arange(0.0, walls_at[pixel] + 0.01, 0.005)}  # fmt: skip
            assert passed & {tuple(place) for place in task.target_cells.tolist()}


def test_light_falls_from_half_the_view_range_to_none():
    task = dataclasses.replace(hall(), view_range=8.0)
    near = dataclasses.replace(task, view_range=1000.0)

    def middle(task, x):
        world = world_at(task, (x, 7.0, 0.0))
        world.marks[:] = 0  # no beam stands in the way
        return world.draw(51, 51, bar=False)[0, 25, 25].astype(int)

    for x, share in ((9.0, 1.0), (7.0, 0.75), (5.0, 0.25), (3.9, 0.0)):
        np.testing.assert_allclose(middle(task, x), middle(near, x) * share, atol=1.5)


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (64, 64), (37, 129)])
def test_frames_of_every_size_are_drawn(size):
    frame = World(1)
    frame.load(0, mazes("15-train")[0])
    assert frame.draw(*size).shape == (1, *size, 3)


def test_the_command_bar_stands_where_it_should():
    world = World(2)
    for index in range(2):
        world.load(index, mazes("15-train")[index])
    with_bar, without = world.draw(128, 128).astype(int), world.draw(128, 128, bar=False).astype(int)
    for index in range(2):
        task = world.tasks[index]
        colour = COLOURS[task.target_colours[task.commands[0]]]
        changed = np.zeros((128, 128), dtype=bool)
        changed[13:19, 32:96] = True  # 10-15 % of the height, 25-75 % of the width
        assert (with_bar[index][changed] == colour).all()
        np.testing.assert_array_equal(with_bar[index][~changed], without[index][~changed])


@pytest.mark.parametrize("life", [0.0, 0.4, 1.5, 3.0])
def test_the_life_bar_is_as_long_as_the_life(life):
    world = World(1, mode="survival")
    world.load(0, mazes("15-train")[0])
    world.reals[0, 3] = life
    bar = (world.draw(100, 100)[0, 12] == [255, 0, 0]).all(axis=-1)
    assert bar.sum() == pytest.approx(50 * life / 3.0, abs=1)
    assert not bar[:25].any()


def test_threads_change_no_byte():
    source = mazes("15-train")
    frames = []
    for threads in (1, 2, 3):
        world = World(7, threads=threads)
        for index in range(7):
            world.load(index, source[index])
        world.step(np.array([0, 1, 2, 3, 4, 4, 1]))
        frames.append(world.draw(40, 56))
    np.testing.assert_array_equal(frames[0], frames[1])
    np.testing.assert_array_equal(frames[0], frames[2])


def test_distant_floors_do_not_shimmer():
    # Steps of a millimetre move no texture by a pixel: what changes is noise. Without smaller copies there is much.
    task = dataclasses.replace(hall(), view_range=1000.0)
    poses = [(3.0 + 0.001 * i, 7.0, 0.3) for i in range(4)]
    library = library_of(task.textures)

    def noise(frames):
        return np.abs(np.diff(np.array(frames, dtype=int), axis=0))[:, 36:52].mean()  # the floor beyond 4 m

    ours = noise([world_at(task, pose).draw(64, 64, bar=False)[0] for pose in poses])
    without = noise([slow_renderer.render(task, library, pose, 64, 64, finest_only=True) for pose in poses])
    assert ours < 0.25 * without
    assert ours < 1.0
