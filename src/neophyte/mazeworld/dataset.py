"""Maze tasks without end: index -> task, in any order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from neophyte.core.addressing import MAX_INDEX, Space, check_indices
from neophyte.core.contract import Field
from neophyte.core.spec import change, check_integer
from neophyte.mazeworld import references
from neophyte.mazeworld.spec import COLOURS, MazeTaskSpec, preset
from neophyte.mazeworld.task import MazeTask, draw_task
from neophyte.mazeworld.textures import PARTS, folder

# The real numbers of a task, in the order of the array "quantities".
QUANTITIES = ("cell_length", "wall_height", "eye_height", "pitch", "field_of_view", "view_range", "step_cost",
              "goal_reward", "collision_cost")  # fmt: skip


class Mazes:
    """Tasks of a spec, each a pure function of (spec, split, seed, index).

    Args:
        spec: The distribution.
        split: Name of the split; different splits are independent.
        seed: Integer in [0, 2^63); different seeds are independent.

    Example:
        >>> from neophyte import mazeworld
        >>> mazeworld.mazes("15-train", seed=3)[7]
        MazeTask(15 x 15, 5 targets, 200 commands, mazeworld@1:f899dd1b/train/3/7)
    """

    def __init__(self, spec: MazeTaskSpec, split: str = "train", seed: int = 0) -> None:
        self.spec, self.split, self.seed = spec, split, seed
        own = spec.textures not in PARTS
        library = folder(Path(spec.textures)) if own else None
        self._textures = str(Path(spec.textures).resolve()) if own else f"{spec.textures}:{spec.num_looks}"
        self._num_looks = len(library) if library else spec.num_looks
        # Of images of one's own the pixels are part of the address, not the place where they lie.
        self._space = Space(spec.identity_with(library.name if library else spec.textures), split, seed)

    def __repr__(self) -> str:
        return f"Mazes({self.spec}, split={self.split!r}, seed={self.seed})"

    def __len__(self) -> int:
        return self.spec.num_tasks

    def __getitem__(self, index: int) -> MazeTask:
        """Return one task of the set."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"index is {index}; allowed: [0, {len(self)})")
        return self.task(int(index) % len(self))

    def task(self, index: int) -> MazeTask:
        """Return the task at any address, of the set or beyond it: index in [0, 2^63)."""
        check_integer("index", index, 0, MAX_INDEX)
        return draw_task(self.spec, self._space, index, self._textures, self._num_looks)

    def stream(self, *, start: int = 0) -> Iterator[MazeTask]:
        """Yield the tasks start, start + 1, ..., without end or repeats of an address."""
        for index in itertools.count(start):
            yield self.task(index)

    # What the task contract (core/contract.py) asks of every data set.

    def fields(self) -> dict[str, Field]:
        """Declare dtype, shape and range of each array of a sample; smaller mazes are padded with walls."""
        n, targets = max(self.spec.sizes), self.spec.num_targets[1]
        return {
            "walls": Field(np.dtype(np.uint8), (n, n), 0, 1),
            "wall_looks": Field(np.dtype(np.uint16), (n, n), 0, 65_535),
            "flat_looks": Field(np.dtype(np.uint16), (2,), 0, 65_535),
            "start": Field(np.dtype(np.int16), (3,), 0, n - 2),
            "target_cells": Field(np.dtype(np.int16), (targets, 2), -1, n - 2),
            "target_colours": Field(np.dtype(np.uint8), (targets,), 0, len(COLOURS) - 1),
            "target_values": Field(np.dtype(np.float64), (targets,), -1e3, 1e3),
            "commands": Field(np.dtype(np.uint8), (self.spec.num_commands,), 0, targets - 1),
            "quantities": Field(np.dtype(np.float64), (len(QUANTITIES),), -1e9, 1e9),
        }

    def arrays(self, indices: Any, threads: int = 1) -> dict[str, np.ndarray]:
        """Return the tasks' arrays by name, batch axis first; targets that a task lacks have the cell -1."""
        check_integer("threads", threads, 1, 1024)
        indices = check_indices(indices)
        padding = {"walls": 1, "target_cells": -1}
        found = {name: np.full((len(indices), *field.shape), padding.get(name, 0), dtype=field.dtype)
                 for name, field in self.fields().items()}  # fmt: skip
        for i, index in enumerate(indices.tolist()):
            task = self.task(index)
            packed = {"flat_looks": (task.floor_look, task.ceiling_look), "start": (*task.start, task.start_heading),
                      "quantities": [getattr(task, name) for name in QUANTITIES]}  # fmt: skip
            for name, array in found.items():
                value = packed[name] if name in packed else getattr(task, name)
                array[i][tuple(slice(length) for length in np.shape(value))] = value
        return found

    def losses(self, indices: Any) -> dict[str, np.ndarray]:
        """Return the moves to the first commanded target, the least ("oracle") and those of the controls, float64."""
        tasks = [self.task(int(index)) for index in check_indices(indices)]
        ways = {"oracle": lambda task: references.shortest_steps(task)[0], "random_walk": references.random_walk_steps,
                "wall_follower": references.wall_follower_steps}  # fmt: skip
        return {name: np.array([way(task) for task in tasks], dtype=np.float64) for name, way in ways.items()}

    def canonical(self, indices: Any, threads: int = 1) -> np.ndarray:
        """Return the walls, starts and targets of the tasks, a row of bytes for each."""
        found = self.arrays(indices, threads)
        parts = [
            found[name].reshape(len(found[name]), -1).view(np.uint8) for name in ("walls", "start", "target_cells")
        ]
        return np.concatenate(parts, axis=1)


def mazes(
    name_or_spec: str | MazeTaskSpec | None = None, *, split: str | None = None, seed: int = 0, **changes: Any
) -> Mazes:
    """Return maze tasks by preset name, spec, or the fields of one.

    Args:
        name_or_spec: A preset such as "15-train" (`mazeworld.PRESETS`), or a `MazeTaskSpec`; by default its defaults.
        split: Name of the split; by default the preset's own, or "train" for a spec.
        seed: Integer in [0, 2^63).
        **changes: Fields of `MazeTaskSpec` to change, such as sizes=(25,).
    """
    if isinstance(name_or_spec, str):
        chosen = preset(name_or_spec)
        spec, split = chosen.spec, split or chosen.split
    else:
        spec = name_or_spec or MazeTaskSpec()
    return Mazes(change(spec, **changes), split or "train", seed)
