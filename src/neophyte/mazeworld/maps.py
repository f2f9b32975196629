"""Maps as images: the whole maze, the surroundings of an agent, what it remembers, the way that it took."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from neophyte.core.spec import check_integer
from neophyte.mazeworld.spec import COLOURS
from neophyte.mazeworld.task import MazeTask
from neophyte.mazeworld.textures import library_of

_FLOOR = np.array([244, 242, 236], dtype=np.uint8)
_UNKNOWN = np.array([96, 98, 104], dtype=np.uint8)
_AGENT = np.array([20, 20, 20], dtype=np.uint8)
_EARLY, _LATE = np.array([0.0, 170.0, 60.0]), np.array([215.0, 30.0, 30.0])


def global_map(
    task: MazeTask,
    *,
    pose: tuple[float, float, float] | None = None,
    known: np.ndarray | None = None,
    target: int | None = None,
    pixels: int = 16,
) -> np.ndarray:
    """Return a map of the whole maze: walls in the colour of their texture, targets in theirs, the agent as an arrow.

    Args:
        task: The task.
        pose: Where the agent is: x and y in metres, heading in radians; no agent by default.
        known: bool (n, n), the cells that are shown; the others are grey: an agent's memory (paper, Fig. 6b).
        target: Target to put a ring around.
        pixels: Pixels along a cell.

    Returns:
        uint8 (n * pixels, n * pixels, 3).
    """
    check_integer("pixels", pixels, 1, 256)
    cells = _cell_colours(task)
    if known is not None:
        if np.shape(known) != task.walls.shape:
            raise ValueError(f"known has shape {np.shape(known)}; allowed: {task.walls.shape}, that of walls")
        cells = np.where(np.asarray(known, dtype=bool)[..., None], cells, _UNKNOWN)
    image = cells.repeat(pixels, axis=0).repeat(pixels, axis=1)
    for k, (row, column) in enumerate(task.target_cells.tolist()):
        if known is None or known[row, column]:
            colour = np.array(COLOURS[task.target_colours[k]], dtype=np.uint8)
            _disc(image, (column + 0.5) * pixels, (row + 0.5) * pixels, 0.36 * pixels, colour)
            if k == target:
                _ring(image, (column + 0.5) * pixels, (row + 0.5) * pixels, 0.48 * pixels, 0.1 * pixels + 0.5)
    if pose is not None:
        _arrow(image, pose[0] / task.cell_length * pixels, pose[1] / task.cell_length * pixels, pose[2], pixels)
    return image


def local_map(
    task: MazeTask,
    pose: tuple[float, float, float],
    *,
    radius: int = 4,
    known: np.ndarray | None = None,
    pixels: int = 16,
) -> np.ndarray:
    """Return a map of what lies around an agent, which looks up; outside the maze it is grey.

    Args:
        task: The task.
        pose: Where the agent is: x and y in metres, heading in radians.
        radius: Cells that the map reaches.
        known: bool (n, n), the cells that are shown.
        pixels: Pixels along a cell.

    Returns:
        uint8 (side, side, 3), side = (2 radius + 1) pixels.
    """
    check_integer("radius", radius, 1, 128)
    whole = global_map(task, known=known, pixels=pixels)
    side = (2 * radius + 1) * pixels
    offset = np.arange(side) + 0.5 - side / 2
    right, back = offset[None, :], offset[:, None]
    sine, cosine = math.sin(pose[2]), math.cos(pose[2])
    x = np.floor(pose[0] / task.cell_length * pixels - right * sine - back * cosine).astype(int)
    y = np.floor(pose[1] / task.cell_length * pixels + right * cosine - back * sine).astype(int)
    inside = (x >= 0) & (y >= 0) & (x < len(whole)) & (y < len(whole))
    image = np.where(inside[..., None], whole[y.clip(0, len(whole) - 1), x.clip(0, len(whole) - 1)], _UNKNOWN)
    _arrow(image, side / 2, side / 2, -math.pi / 2, pixels)
    return image


def trajectory_map(task: MazeTask, path: Any, *, pixels: int = 16) -> np.ndarray:
    """Return a map with the way that an agent took, from green at its beginning to red at its end (paper, Fig. 13).

    Args:
        task: The task.
        path: float (steps, 2 or more), x and y in metres at each step.
        pixels: Pixels along a cell.

    Returns:
        uint8 (n * pixels, n * pixels, 3).
    """
    image = global_map(task, pixels=pixels)
    points = np.asarray(path, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] < 2 or not len(points):
        raise ValueError(f"path has shape {points.shape}; allowed: (steps, 2)")
    places = points[:, :2] / task.cell_length * pixels
    # A steady shift by time keeps ways that are walked twice apart.
    share = np.linspace(0.0, 1.0, len(places))
    places = places + (share - 0.5)[:, None] * 0.4 * pixels
    for i in range(len(places) - 1):
        colour = (_EARLY + (_LATE - _EARLY) * share[i]).astype(np.uint8)
        length = float(np.abs(places[i + 1] - places[i]).max())
        for t in np.linspace(0.0, 1.0, int(length) + 2):
            x, y = places[i] + (places[i + 1] - places[i]) * t
            _disc(image, x, y, max(0.05 * pixels, 0.7), colour)
    return image


def _cell_colours(task: MazeTask) -> np.ndarray:
    """Return the colour of each cell, uint8 (n, n, 3): walls that of their texture, darkened."""
    library = library_of(task.textures)
    library.check_looks(task.wall_looks)
    return np.where(task.walls[..., None], (library.means * 0.62)[task.wall_looks].astype(np.uint8), _FLOOR)


def _window(image: np.ndarray, x: float, y: float, reach: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the part of an image within reach of a point, and the distances of its pixels from it in x and y."""
    left, top = max(int(x - reach - 1), 0), max(int(y - reach - 1), 0)
    part = image[top : int(y + reach + 2), left : int(x + reach + 2)]
    return part, np.arange(part.shape[1])[None, :] + left + 0.5 - x, np.arange(part.shape[0])[:, None] + top + 0.5 - y


def _disc(image: np.ndarray, x: float, y: float, radius: float, colour: np.ndarray) -> None:
    part, dx, dy = _window(image, x, y, radius)
    part[dx * dx + dy * dy <= radius * radius] = colour


def _ring(image: np.ndarray, x: float, y: float, radius: float, width: float) -> None:
    part, dx, dy = _window(image, x, y, radius)
    away = np.sqrt(dx * dx + dy * dy)
    part[(away <= radius) & (away >= radius - width)] = _AGENT


def _arrow(image: np.ndarray, x: float, y: float, heading: float, pixels: int) -> None:
    """Draw an arrowhead with its middle at a point."""
    part, dx, dy = _window(image, x, y, pixels)
    ahead = (dx * math.cos(heading) + dy * math.sin(heading)) / pixels
    aside = np.abs(dy * math.cos(heading) - dx * math.sin(heading)) / pixels
    inside = (ahead > -0.36) & (aside < 0.62 * (0.42 - ahead) * 0.62) & (aside > (-0.18 - ahead) * 1.2)
    part[inside] = _AGENT
