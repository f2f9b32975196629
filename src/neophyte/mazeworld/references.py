"""What is known exactly of a maze: shortest ways, and how long a blind walk takes."""

from __future__ import annotations

import numpy as np

from neophyte.mazeworld.task import MazeTask

_MOST_CELLS = 4000  # their equations take 128 MB
# One cell on, (down, right), by the quarter turns of the heading.
WAYS = ((0, 1), (1, 0), (0, -1), (-1, 0))


def shortest_steps(task: MazeTask) -> np.ndarray:
    """Return the moves between cells that each command needs at least, from the start or the target before, int64."""
    fields = [task.distances((int(row), int(column))) for row, column in task.target_cells]
    places = [task.start, *(tuple(task.target_cells[k]) for k in task.commands[:-1])]
    return np.array([fields[k][place] for k, place in zip(task.commands, places, strict=True)], dtype=np.int64)


def random_walk_steps(task: MazeTask, cell: tuple[int, int] | None = None) -> float:
    """Return the expected moves of a random walk from the start to a cell, the first commanded target by default.

    At each move the walk goes one of the four ways at random; a blocked one leaves it where it is. Exact: the solution
    of the linear equations of the hitting times.
    """
    goal = tuple(task.target_cells[task.commands[0]]) if cell is None else cell
    if goal == task.start:
        return 0.0
    task.distances(goal)  # refuses what is no open cell
    if (task.walls == 0).sum() > _MOST_CELLS:
        raise ValueError(f"the maze has {(task.walls == 0).sum()} open cells; allowed: at most {_MOST_CELLS}")
    cells = [tuple(place) for place in np.argwhere(task.walls == 0) if tuple(place) != tuple(goal)]
    number = {place: i for i, place in enumerate(cells)}
    system = np.zeros((len(cells), len(cells)))
    for place, i in number.items():
        for down, right in WAYS:
            other = (place[0] + down, place[1] + right)
            if not task.walls[other]:
                system[i, i] += 0.25
                if other in number:
                    system[i, number[other]] -= 0.25
    return float(np.linalg.solve(system, np.ones(len(cells)))[number[task.start]])


def wall_follower_steps(task: MazeTask, limit: int = 1_000_000) -> int:
    """Return the moves of a walker that keeps its right hand on the wall until the first commanded target.

    Where a loop keeps it from the target it walks until `limit`.
    """
    goal = tuple(task.target_cells[task.commands[0]])
    (row, column), quarter = task.start, task.start_heading
    seen = set()
    for step in range(limit):
        if (row, column) == goal:
            return step
        if (row, column, quarter) in seen:
            return limit
        seen.add((row, column, quarter))
        for turn in (1, 0, 3, 2):
            down, right = WAYS[(quarter + turn) % 4]
            if not task.walls[row + down, column + right]:
                quarter = (quarter + turn) % 4
                row, column = row + down, column + right
                break
    return limit
