import math

import numpy as np
import pytest

from neophyte.mazeworld import COLOURS, maps, mazes

FLOOR, UNKNOWN = [244, 242, 236], [96, 98, 104]


@pytest.fixture
def task():
    return mazes("15-train")[4]


def middle(image, cell, pixels=16, off=0):
    return image[int((cell[0] + 0.5) * pixels) + off, int((cell[1] + 0.5) * pixels) + off].tolist()


def test_the_whole_map_shows_walls_floors_and_targets(task):
    image = maps.global_map(task)
    assert image.shape == (240, 240, 3)
    assert image.dtype == np.uint8
    targets = {tuple(cell): COLOURS[k] for cell, k in zip(task.target_cells.tolist(), task.target_colours, strict=True)}
    for row in range(15):
        for column in range(15):
            found = middle(image, (row, column))
            if (row, column) in targets:
                assert tuple(found) == targets[row, column]
            elif task.walls[row, column]:
                assert found != FLOOR
                assert max(found) < 170
            else:
                assert found == FLOOR


def test_unknown_cells_are_grey(task):
    known = np.zeros((15, 15), dtype=bool)
    known[:, :7] = True
    image = maps.global_map(task, known=known)
    whole = maps.global_map(task)
    assert (image[:, 7 * 16 :] == UNKNOWN).all()
    np.testing.assert_array_equal(image[:, : 7 * 16], whole[:, : 7 * 16])


@pytest.mark.parametrize("heading", [0.0, math.pi / 2, 2.5])
def test_the_arrow_points_ahead(task, heading):
    x, y = (task.start[1] + 0.5) * 2.0, (task.start[0] + 0.5) * 2.0
    image = maps.global_map(task, pose=(x, y, heading), pixels=64)
    dark = np.argwhere((image == 20).all(axis=-1))
    assert len(dark) > 100
    off = dark + 0.5 - np.array([y / 2.0 * 64, x / 2.0 * 64])
    ahead = off[:, 1] * math.cos(heading) + off[:, 0] * math.sin(heading)
    aside = off[:, 0] * math.cos(heading) - off[:, 1] * math.sin(heading)
    assert ahead.max() > -ahead.min() > 0  # the tip is farther than the tail
    assert abs(aside.mean()) < 0.5
    wide = [np.ptp(aside[np.abs(ahead - at) < 2]) for at in (-10, 15)]
    assert wide[0] > 1.5 * wide[1]


def test_local_maps_turn_with_the_agent(task):
    x, y = (task.start[1] + 0.5) * 2.0, (task.start[0] + 0.5) * 2.0
    up = maps.local_map(task, (x, y, -math.pi / 2), radius=3, pixels=8)
    assert up.shape == (56, 56, 3)
    whole = np.pad(maps.global_map(task, pixels=8), ((32, 32), (32, 32), (0, 0)))
    top, left = task.start[0] * 8 + 32 - 24, task.start[1] * 8 + 32 - 24
    plain = whole[top : top + 56, left : left + 56]
    inside = (plain != 0).any(axis=-1)
    inside[20:36, 20:36] = False  # the arrow
    np.testing.assert_array_equal(up[inside], plain[inside])
    right = maps.local_map(task, (x, y, 0.0), radius=3, pixels=8)  # looks along x, which is now up
    turned = np.rot90(plain)
    agree = (right == turned).all(axis=-1) | ~np.rot90(inside)
    assert agree.mean() > 0.98


def test_trajectories_go_from_green_to_red(task):
    cells = [task.start]
    path = [((c + 0.5) * 2.0, (r + 0.5) * 2.0) for r, c in cells] + [(27.0, 27.0)]
    image = maps.trajectory_map(task, np.linspace(path[0], path[1], 200)).astype(int)
    base = maps.global_map(task).astype(int)
    changed = (image != base).any(axis=-1)
    start, end = image[changed][0], image[changed][-1]
    if task.start[0] > 13:
        start, end = end, start
    assert start[1] > start[0]
    assert end[0] > end[1]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda task: maps.global_map(task, pixels=0), "pixels is 0"),
        (lambda task: maps.global_map(task, known=np.ones((3, 3))), r"known has shape \(3, 3\)"),
        (lambda task: maps.local_map(task, (1, 1, 0), radius=0), "radius is 0"),
        (lambda task: maps.trajectory_map(task, np.zeros(5)), r"path has shape \(5,\)"),
        (lambda task: maps.trajectory_map(task, np.zeros((0, 2))), r"path has shape \(0, 2\)"),
    ],
)
def test_bad_maps_are_refused(task, call, said):
    with pytest.raises(ValueError, match=said):
        call(task)
