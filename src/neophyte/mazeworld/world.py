"""A batch of worlds in arrays: tasks in, actions in, observations out. Environments are thin dresses of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np

from neophyte.core.jit import tell_of_compiling
from neophyte.core.spec import check_choice, check_integer, check_real
from neophyte.core.threads import in_threads
from neophyte.mazeworld import motion_kernels as motion
from neophyte.mazeworld import render_kernels
from neophyte.mazeworld.spec import COLOURS
from neophyte.mazeworld.task import MazeTask
from neophyte.mazeworld.textures import Library, library_of

ACTIONS = {"turn": motion.TURN_AND_WALK, "compass": motion.COMPASS, "continuous": motion.STEER}
MODES = ("navigation", "survival")
# Columns of `World.views`.
VIEW_FIELDS = ("cell_length", "wall_height", "eye_height", "tan pitch", "tan half field of view", "view_range")
_PACKED = np.array([r | g << 8 | b << 16 for r, g, b in COLOURS], dtype=np.uint32)
_STEPS_A_PART = 256  # worlds whose step takes about as long as waking a thread
# What changes while an episode runs; all else follows from the task.
_MUTABLE = ("integers", "reals", "marks", "hidden", "distances", "rewards", "terminated", "truncated")


class Turn(IntEnum):
    """Actions of "turn": by quarter turns and whole cells, in the first person."""

    STOP = 0
    TURN_LEFT = 1
    TURN_RIGHT = 2
    BACKWARD = 3
    FORWARD = 4


class Compass(IntEnum):
    """Actions of "compass": by whole cells, on the map."""

    STOP = 0
    LEFT = 1
    RIGHT = 2
    UP = 3
    DOWN = 4


class World:
    """Worlds that act in step, each in a task of its own.

    Args:
        num_worlds: How many.
        actions: "turn" (stop, turn left, turn right, backward, forward), "compass" (stop, left, right, up, down) or
            "continuous" (turn, walk).
        mode: "navigation" or "survival".
        max_steps: Steps until an episode is truncated.
        seconds: How long a continuous step lasts.
        threads: Threads to step and draw with; the bytes do not depend on it.

    Attributes:
        rewards: float64 (worlds,), of the last step.
        terminated: bool (worlds,), after the last step.
        truncated: bool (worlds,), after the last step.
    """

    walls: np.ndarray
    looks: np.ndarray
    marks: np.ndarray
    distances: np.ndarray
    cells: np.ndarray
    values: np.ndarray
    hidden: np.ndarray
    colours: np.ndarray
    colour_numbers: np.ndarray
    commands: np.ndarray

    def __init__(
        self, num_worlds: int = 1, *, actions: str = "turn", mode: str = "navigation", max_steps: int = 2048,
        seconds: float = 0.1, threads: int = 1,
    ) -> None:  # fmt: skip
        check_integer("num_worlds", num_worlds, 1, 2**20)
        check_choice("actions", actions, ACTIONS)
        check_choice("mode", mode, MODES)
        check_integer("max_steps", max_steps, 1, 2**31 - 1)
        check_real("seconds", seconds, 0.0, 60.0, open_low=True)
        check_integer("threads", threads, 1, 1024)
        self.num_worlds, self.actions, self.mode = num_worlds, actions, mode
        self.max_steps, self.seconds, self.threads = max_steps, float(seconds), threads
        self.tasks: list[MazeTask | None] = [None] * num_worlds
        self.integers = np.zeros((num_worlds, 14), dtype=np.int64)
        self.reals = np.zeros((num_worlds, 4))
        self.costs = np.zeros((num_worlds, 4))
        self.views = np.zeros((num_worlds, len(VIEW_FIELDS)))
        self._reserve(0, 0, 0)
        self.rewards = np.zeros(num_worlds)
        self.terminated = np.zeros(num_worlds, dtype=bool)
        self.truncated = np.zeros(num_worlds, dtype=bool)
        self._steering = np.zeros((num_worlds, 2))
        self._moves = np.zeros(num_worlds, dtype=np.int64)
        self._libraries: dict[str, int] = {}  # each with its first look
        self._texels = np.zeros(0, dtype=np.uint32)
        self._num_looks = 0
        self._ready = False  # whether each world has a task

    def _reserve(self, size: int, targets: int, commands: int) -> None:
        """Make room for mazes of that size, and for so many targets and commands; what there is stays."""
        b = self.num_worlds
        square = (b, size, size)
        shapes: dict[str, tuple[tuple[int, ...], Any]] = {
            "walls": (square, np.uint8), "looks": (square, np.uint32), "marks": (square, np.uint8),
            "distances": (square, np.int32), "cells": ((b, targets, 2), np.int16),
            "values": ((b, targets), np.float64), "hidden": ((b, targets), np.int64),
            "colours": ((b, targets), np.uint32), "colour_numbers": ((b, targets), np.uint8),
            "commands": ((b, commands), np.uint8),
        }  # fmt: skip
        for name, (shape, dtype) in shapes.items():
            old = getattr(self, name, np.zeros((b,) + (0,) * (len(shape) - 1), dtype=dtype))
            if any(a > b for a, b in zip(shape, old.shape, strict=True)):
                new = np.zeros(np.maximum(shape, old.shape), dtype=dtype)
                new[tuple(slice(length) for length in old.shape)] = old
                setattr(self, name, new)
            else:
                setattr(self, name, old)

    def load(self, world: int, task: MazeTask) -> None:
        """Put a world at the beginning of a task.

        Raises:
            ValueError: The task has a look that its library lacks, or the library is not there.
        """
        n, count = task.size, len(task.target_cells)
        if self.tasks[world] is not task:
            first = self._first_look(task)
            self._reserve(n, count, len(task.commands))
            self.tasks[world] = task
            self.walls[world, :n, :n] = task.walls
            self.looks[world, :n, :n] = task.wall_looks + np.uint32(first)
            self.cells[world, :count] = task.target_cells
            self.values[world, :count] = task.target_values
            self.colours[world, :count] = _PACKED[task.target_colours]
            self.colour_numbers[world, :count] = task.target_colours
            self.commands[world, : len(task.commands)] = task.commands
            self.costs[world] = task.step_cost, task.goal_reward, task.collision_cost, task.cell_length
            self.views[world] = (
                task.cell_length, task.wall_height, task.eye_height, math.tan(task.pitch),
                math.tan(0.5 * task.field_of_view), task.view_range,
            )  # fmt: skip
            self.integers[world, motion.FLOOR_LOOK :] = first + task.floor_look, first + task.ceiling_look
            self.integers[world, motion.SIZE : motion.FLOOR_LOOK] = n, len(task.commands), count
        row, column = task.start
        self.integers[world, : motion.SIZE] = row, column, task.start_heading, 0, 0, 0, 0, 0, 0
        self.reals[world] = (
            (column + 0.5) * task.cell_length, (row + 0.5) * task.cell_length, task.start_heading * (math.pi / 2), 1.0,
        )  # fmt: skip
        self.hidden[world] = 0
        self.marks[world] = 0
        self.marks[world, task.target_cells[:, 0], task.target_cells[:, 1]] = np.arange(1, count + 1)
        motion.aim(world, self.integers, self.commands, self.cells, self.walls, self.distances,
                   np.empty(self.walls[0].size, dtype=np.int32))  # fmt: skip
        self.rewards[world], self.terminated[world], self.truncated[world] = 0.0, False, False
        if not self._ready:
            self._ready = all(task is not None for task in self.tasks)
            self._compile()

    def _first_look(self, task: MazeTask) -> int:
        """Return the number of the first look of a task's library among those of this batch, which learns it."""
        library: Library = library_of(task.textures)
        library.check_looks(np.append(task.wall_looks, [task.floor_look, task.ceiling_look]))
        if library.name not in self._libraries:
            self._libraries[library.name] = self._num_looks
            self._texels = np.concatenate([self._texels, library.texels]) if self._num_looks else library.texels
            self._num_looks += len(library)
        return self._libraries[library.name]

    def _require_loaded(self) -> None:
        if not self._ready:
            missing = [world for world, task in enumerate(self.tasks) if task is None]
            raise ValueError(f"worlds {missing} have no task; allowed: load one into each first")

    def place(self, world: int, pose: tuple[float, float, float]) -> None:
        """Put an agent somewhere in its maze: x and y in metres, heading in radians.

        Raises:
            ValueError: The body would touch a wall; or actions are not continuous, and this is not the middle of a
                cell, or the heading no quarter turn.
        """
        self._require_loaded()
        task = self.tasks[world]
        assert task is not None
        x, y, heading = (float(part) for part in pose)
        if not (math.isfinite(heading) and 0.0 < x < task.size * task.cell_length
                and 0.0 < y < task.size * task.cell_length):  # fmt: skip
            raise ValueError(f"pose is {pose}; allowed: a place in the maze")
        heading %= 2 * math.pi
        row, column = int(y / task.cell_length), int(x / task.cell_length)
        quarter = round(heading / (math.pi / 2)) % 4
        if task.walls[row, column] or motion.touches_wall(x, y, self.walls, world, task.cell_length):
            raise ValueError(f"pose is {pose}; allowed: a place {motion.RADIUS} m away from every wall")
        if self.actions != "continuous":
            middle = (column + 0.5) * task.cell_length, (row + 0.5) * task.cell_length, quarter * (math.pi / 2)
            if max(abs(x - middle[0]), abs(y - middle[1]), abs(heading - middle[2])) > 1e-9:
                raise ValueError(f"pose is {pose}; allowed with {self.actions} actions: the middle of a cell and a "
                                 f"quarter turn, such as {middle}")  # fmt: skip
            x, y, heading = middle
        self.integers[world, : motion.QUARTER + 1] = row, column, quarter
        self.reals[world, : motion.LIFE] = x, y, heading
        self.integers[world, motion.DISTANCE] = self.distances[world, row, column]

    def step(self, actions: Any) -> None:
        """Let all worlds act once; `rewards`, `terminated` and `truncated` say what came of it.

        Args:
            actions: Integers in [0, 5), (worlds,), or with continuous actions reals in [-1, 1], (worlds, 2): turn and
                walk, as shares of pi rad/s and of 1 m/s, half that backward.

        Raises:
            ValueError: An action is outside the space.
        """
        self._require_loaded()
        self._read_actions(actions)
        in_threads(self._step_some, self.num_worlds, self.threads, least=_STEPS_A_PART)

    def _step_some(self, worlds: slice) -> None:
        motion.step(
            worlds.start, worlds.stop, ACTIONS[self.actions], self.mode == "survival", self.seconds, self.max_steps,
            self._moves, self._steering, self.integers, self.reals, self.costs, self.walls, self.marks, self.cells,
            self.values, self.hidden, self.commands, self.distances, self.rewards, self.terminated, self.truncated,
        )  # fmt: skip

    def _read_actions(self, actions: Any) -> None:
        array = np.asarray(actions)
        if self.actions == "continuous":
            if array.shape != self._steering.shape or array.dtype.kind not in "fiu":
                raise ValueError(f"action has shape {array.shape} and dtype {array.dtype}; allowed: reals, "
                                 f"{self._steering.shape}")  # fmt: skip
            self._steering[:] = array
            if not np.abs(self._steering).max() <= 1.0:  # NaN is not either
                raise ValueError(f"action is {array.tolist()}; allowed: reals in [-1, 1]")
            return
        if array.shape != self._moves.shape or array.dtype.kind not in "iu":
            raise ValueError(f"action has shape {array.shape} and dtype {array.dtype}; allowed: integers, "
                             f"{self._moves.shape}")  # fmt: skip
        if array.min() < 0 or array.max() > 4:
            raise ValueError(f"action is {array.tolist()}; allowed: integers in [0, 4]")
        self._moves[:] = array

    def draw(
        self, height: int = 128, width: int = 128, *, bar: bool = True, out: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the first-person views, uint8 (worlds, height, width, 3).

        Args:
            height: Pixels.
            width: Pixels.
            bar: Show the command, or the life, near the top.
            out: Where to draw, of that shape; a new array by default.

        Raises:
            ValueError: A world has no task, or `out` is not of that shape, uint8, contiguous and writeable.
        """
        self._require_loaded()
        check_integer("height", height, 1, 16_384)
        check_integer("width", width, 1, 16_384)
        shape = (self.num_worlds, height, width, 3)
        if out is None:
            out = np.empty(shape, dtype=np.uint8)
        elif out.shape != shape or out.dtype != np.uint8 or not (out.flags.c_contiguous and out.flags.writeable):
            raise ValueError(f"out has shape {out.shape} and dtype {out.dtype}; allowed: uint8 {shape}, contiguous and "
                             "writeable")  # fmt: skip
        shown = (render_kernels.SHOW_LIFE if self.mode == "survival" else render_kernels.SHOW_COMMAND) if bar else 0
        in_threads(partial(self._draw_some, shown, out), self.num_worlds, self.threads)
        return out

    def _draw_some(self, shown: int, out: np.ndarray, worlds: slice) -> None:
        render_kernels.render(
            worlds.start, worlds.stop, shown, self.views, self.reals, self.integers, self.walls, self.looks, self.marks,
            self.colours, self._texels, out,
        )  # fmt: skip

    def _compile(self) -> None:
        """Compile what steps and draws, or load it from the cache, on no worlds at all."""
        with tell_of_compiling(motion.step, render_kernels.render):
            self._step_some(slice(0, 0))
            self._draw_some(0, np.empty((1, 1, 1, 3), dtype=np.uint8), slice(0, 0))

    def draw_depth(self, height: int = 128, width: int = 128) -> np.ndarray:
        """Return the depths of the first-person views, float32 (worlds, height, width).

        Metres along the axis of the view to what is seen, beams apart; at most the view range.
        """
        self._require_loaded()
        check_integer("height", height, 1, 16_384)
        check_integer("width", width, 1, 16_384)
        out = np.empty((self.num_worlds, height, width), dtype=np.float32)

        def work(worlds: slice) -> None:
            render_kernels.draw_depths(worlds.start, worlds.stop, self.views, self.reals, self.walls, out)

        in_threads(work, self.num_worlds, self.threads)
        return out

    def draw_window(self, radius: int = 1) -> np.ndarray:
        """Return maps of the cells around the agents, uint8 (worlds, 2 radius + 1, 2 radius + 1, 3)."""
        self._require_loaded()
        check_integer("radius", radius, 1, 128)
        out = np.empty((self.num_worlds, 2 * radius + 1, 2 * radius + 1, 3), dtype=np.uint8)
        render_kernels.draw_windows(0, self.num_worlds, radius, self.mode == "survival", self.reals, self.integers,
                                    self.marks, self.walls, self.colours, out)  # fmt: skip
        return out

    def state(self) -> dict[str, Any]:
        """Return all that a run depends on from here on: copies."""
        return {"tasks": list(self.tasks), **{name: getattr(self, name).copy() for name in _MUTABLE}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to what `state` returned, of a batch of as many worlds."""
        if len(state["tasks"]) != self.num_worlds:
            raise ValueError(f"state has {len(state['tasks'])} worlds; allowed: {self.num_worlds}")
        for world, task in enumerate(state["tasks"]):
            if task is None:
                self.tasks[world], self._ready = None, False
            else:
                self.load(world, task)
        self._reserve(state["marks"].shape[1], state["hidden"].shape[1], 0)
        for name in _MUTABLE:
            value = state[name]
            getattr(self, name)[tuple(slice(length) for length in value.shape)] = value

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_texels": None}  # textures are made again from the tasks

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._libraries, self._num_looks, self._texels = {}, 0, np.zeros(0, dtype=np.uint32)
        saved, tasks = self.state(), self.tasks
        self.tasks, self._ready = [None] * self.num_worlds, False
        self.restore({**saved, "tasks": tasks})
