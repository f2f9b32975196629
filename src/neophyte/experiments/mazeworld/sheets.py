"""Sheets of Maze World: observations with a map (left half of Figure 6), and the variants (Figure 14)."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from neophyte.experiments.base import FAILS, HOLDS, Claim
from neophyte.mazeworld import Turn, World, maps, mazes, shortest_steps
from neophyte.mazeworld.motion_kernels import GOALS
from neophyte.mazeworld.references import WAYS
from neophyte.mazeworld.task import MazeTask
from neophyte.plotting.figures import new_figure, save_figure
from neophyte.running.trials import Row, Trial

# Figure 14: what is changed, of the spec, of the task that it draws, and of the world.
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "2D discrete": {"world": {"actions": "compass", "view": "2d"}},
    "SURVIVAL": {"world": {"mode": "survival"}},
    "narrow": {"task": {"cell_length": 1.0}},
    "wide": {"task": {"cell_length": 4.0}},
    "low": {"task": {"wall_height": 2.0, "eye_height": 0.8}},
    "high": {"task": {"wall_height": 6.0, "eye_height": 2.4}},
    "sparse": {"spec": {"wall_density": 0.15}},
    "dense": {"spec": {"wall_density": 0.42}},
    "close-sighted": {"task": {"view_range": 4.0}},
    "far-sighted": {"task": {"view_range": 40.0}},
}
PIXELS = {"smoke": 64, "laptop": 256, "paper": 256}
_PLACE = f"{__name__}:"


def fig14_trials(scale: str) -> list[Trial]:
    """Return the trial of Figure 14."""
    return [Trial("show-variants", f"{_PLACE}show_variants", {"index": 17, "pixels": PIXELS[scale]})]


def fig6_trials(scale: str) -> list[Trial]:
    """Return the trial of Figure 6: what is seen along a short walk."""
    return [Trial("show-walk", f"{_PLACE}show_walk", {"index": 0, "views": 4, "pixels": PIXELS[scale]})]


def show_variants(folder: Path, needs: dict[str, Path], *, index: int, pixels: int) -> list[Row]:
    """Say how each variant's view is drawn: a row ("view") with its address and pose, no pixels."""
    rows: list[Row] = []
    for name, changes in VARIANTS.items():
        task = _variant(index, changes)
        pose = middle_pose(task) if "view" in changes.get("world", {}) else best_pose(task)
        frame = _draw(task, pose, pixels, changes)
        rows.append({"kind": "view", "variant": name, "index": index, "changes": json.dumps(changes),
                     **dict(zip(("x", "y", "heading"), map(float, pose), strict=True)), "pixels": pixels,
                     "mean_level": float(frame.mean()), "contrast": float(frame.std())})  # fmt: skip
    return rows


def show_walk(folder: Path, needs: dict[str, Path], *, index: int, views: int, pixels: int) -> list[Row]:
    """Walk to the first commanded target; the row ("walk") has the address and what came of it, no pixels."""
    task = mazes("15-train")[index]
    actions, world = walk(task), World(1)
    world.load(0, task)
    reward = 0.0
    for action in actions:
        world.step(np.array([action]))
        reward += float(world.rewards[0])
    return [{"kind": "walk", "index": index, "views": views, "pixels": pixels, "actions": len(actions),
             "moves": int(shortest_steps(task)[0]), "goals": int(world.integers[0, GOALS]),
             "reward": reward}]  # fmt: skip


def _variant(index: int, changes: dict[str, dict[str, Any]]) -> MazeTask:
    task = mazes("15-train", **changes.get("spec", {}))[index]
    return dataclasses.replace(task, **changes.get("task", {}))


def best_pose(task: MazeTask) -> tuple[float, float, float]:
    """Return the pose from which the free way ahead is longest, in a cell's middle."""
    best, found = -1, (0, 0, 0)
    for row, column in np.argwhere(task.walls == 0).tolist():
        for quarter, (down, right) in enumerate(WAYS):
            length = 0
            while not task.walls[row + down * (length + 1), column + right * (length + 1)]:
                length += 1
            if length > best:
                best, found = length, (row, column, quarter)
    return (found[1] + 0.5) * task.cell_length, (found[0] + 0.5) * task.cell_length, found[2] * np.pi / 2


def middle_pose(task: MazeTask) -> tuple[float, float, float]:
    """Return a pose in the open cell that is nearest to the middle of the maze."""
    cells = np.argwhere(task.walls == 0)
    row, column = cells[np.abs(cells - task.size // 2).sum(axis=1).argmin()].tolist()
    return (column + 0.5) * task.cell_length, (row + 0.5) * task.cell_length, 0.0


def walk(task: MazeTask) -> list[Turn]:
    """Return the actions of a shortest walk to the first commanded target."""
    distances = task.distances(tuple(task.target_cells[task.commands[0]].tolist()))
    (row, column), quarter = task.start, task.start_heading
    actions = []
    while distances[row, column]:
        nearer = [q for q, (down, right) in enumerate(WAYS)
                  if distances[row + down, column + right] == distances[row, column] - 1]  # fmt: skip
        turn = min(((q - quarter) % 4 for q in nearer), key=lambda turn: min(turn, 4 - turn))
        if turn:
            actions.append(Turn.TURN_LEFT if turn == 3 else Turn.TURN_RIGHT)
            quarter = (quarter + (3 if turn == 3 else 1)) % 4
        else:
            actions.append(Turn.FORWARD)
            row, column = row + WAYS[quarter][0], column + WAYS[quarter][1]
    return actions


def draw_walk(task: MazeTask, path: Path, views: int, pixels: int, caption: str) -> None:
    """Draw what is seen along the shortest walk to the first commanded target, and the map with the agent at its start.

    Args:
        task: The task.
        path: The PNG file to write.
        views: How many views, evenly along the walk.
        pixels: Pixels along a side of each.
        caption: What stands below.
    """
    world, actions = World(1), walk(task)
    world.load(0, task)
    chosen = np.linspace(0, len(actions), views).round().astype(int).tolist()
    frames, pose = [], tuple(world.reals[0, :3].tolist())
    for step in range(len(actions) + 1):
        frames += [world.draw(pixels, pixels)[0]] * chosen.count(step)
        if step < len(actions):
            world.step(np.array([actions[step]]))
    figure, axes = new_figure(1, views + 1, width=2.4, height=2.6)
    whole = maps.global_map(task, pose=pose, target=int(task.commands[0]))
    titles = ["the maze, at step 0", *(f"step {step}" for step in chosen)]
    for axis, image, title in zip(axes[0], [whole, *frames], titles, strict=True):
        axis.imshow(image, interpolation="nearest")
        axis.set_title(title, fontsize=9)
        axis.set_axis_off()
    save_figure(figure, path, f"{caption}; the shortest walk to the first commanded target, ringed on the map")


def _draw(
    task: MazeTask, pose: tuple[float, float, float], pixels: int, changes: dict[str, dict[str, Any]]
) -> np.ndarray:
    """Return a view from a pose, uint8 (pixels, pixels, 3), or a window of the map."""
    settings = dict(changes.get("world", {}))
    flat = settings.pop("view", "3d") == "2d"
    world = World(1, **settings)
    world.load(0, task)
    world.place(0, pose)
    return world.draw_window(5)[0] if flat else world.draw(pixels, pixels)[0]


def _view(row: Row) -> np.ndarray:
    """Draw a row's view again, from its address."""
    changes = json.loads(row["changes"])
    return _draw(_variant(row["index"], changes), (row["x"], row["y"], row["heading"]), row["pixels"], changes)


def draw_fig14(rows: list[Row], path: Path, caption: str) -> None:
    """Draw the views of all variants."""
    figure, axes = new_figure(2, len(rows) // 2, width=2.2, height=2.4)
    for number, row in enumerate(rows):
        axis = axes[number % 2, number // 2]
        axis.imshow(_view(row), interpolation="nearest")
        axis.set_title(row["variant"], fontsize=9)
        axis.set_axis_off()
    save_figure(
        figure,
        path,
        f"{caption}; task {rows[0]['index']} of 15-train, and of its sparse and dense variants",
    )


def draw_fig6(rows: list[Row], path: Path, caption: str) -> None:
    """Draw what is seen along the walk, with the map."""
    row = rows[0]
    task = mazes("15-train")[row["index"]]
    draw_walk(task, path, row["views"], row["pixels"], f"{caption}; {task.name}")


def claims_fig14(rows: list[Row], scale: str) -> list[Claim]:
    """Test that all variants of Figure 14 are there and show something."""
    good = [row["variant"] for row in rows if row["contrast"] > 10.0]
    verdict = HOLDS if len(good) == len(VARIANTS) else FAILS
    return [Claim("All ten variants are drawn", verdict, f"{len(good)} of {len(VARIANTS)} with a contrast above 10")]


def claims_fig6(rows: list[Row], scale: str) -> list[Claim]:
    """Test that the walk shown ends at the commanded target."""
    row = rows[0]
    verdict = HOLDS if row["goals"] == 1 else FAILS
    return [Claim("The walk ends at the commanded target", verdict,
                  f"{row['actions']} actions, {row['moves']} of them moves, reward {row['reward']:.2f}")]  # fmt: skip
