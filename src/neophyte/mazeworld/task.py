"""One task: a maze with its looks, targets and commands; drawn from a spec, resampled, saved and loaded."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import zipfile
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from neophyte.core.addressing import Space, Stream
from neophyte.core.files import atomic_write, read_json, write_json
from neophyte.core.jit import tell_of_compiling
from neophyte.core.spec import check_choice, check_integer, check_real
from neophyte.mazeworld import maze_kernels
from neophyte.mazeworld.motion_kernels import RADIUS
from neophyte.mazeworld.spec import COLOURS, MAX_SIZE, MIN_SIZE, VERSION, MazeTaskSpec

_LENGTHS = ("cell_length", "wall_height", "eye_height", "field_of_view", "view_range")
_REALS = {**dict.fromkeys(_LENGTHS, (0.0, 1e6)), "field_of_view": (0.0, 2.8), "pitch": (-1.2, 1.2),
          **dict.fromkeys(("step_cost", "goal_reward", "collision_cost"), (0.0, 1e9))}  # fmt: skip

# What `MazeTask.resample` can draw anew, and the streams that decide it.
RESAMPLED = ("start", "targets", "colours", "commands")
_ARRAYS = {"walls": np.uint8, "wall_looks": np.uint16, "target_cells": np.int16, "target_colours": np.uint8,
           "target_values": np.float64, "commands": np.uint8}  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class MazeTask:
    """A maze with all that an episode in it needs. Cells are [row, column]; x runs along columns, y along rows.

    Two tasks are equal if all of this is.

    Attributes:
        walls: uint8 (n, n), 1 where a wall stands; the border is wall, the open cells are connected.
        wall_looks: uint16 (n, n), the texture of each wall cell.
        floor_look: Texture of the floor.
        ceiling_look: Texture of the ceiling.
        textures: The library that looks are numbers in: "train:64", "unseen:64" or a folder of images.
        start: Cell [row, column] at which episodes begin.
        start_heading: Quarter turns, in [0, 4): 0 looks along x, 1 along y.
        target_cells: int16 (targets, 2), the cells of the targets; none is the start.
        target_colours: uint8 (targets,), what each looks like, in `COLOURS`; all different.
        target_values: float64 (targets,), what each is worth in the survival mode.
        commands: uint8 (commands,), the targets to walk to, in order.
        cell_length: Metres.
        wall_height: Metres.
        eye_height: Metres.
        pitch: Radians upwards.
        field_of_view: Radians, horizontal.
        view_range: Metres.
        step_cost: What a step costs.
        goal_reward: What reaching a commanded target earns.
        collision_cost: What a blocked or touching move costs.
        name: The task's address, or "" for one of your own.
    """

    walls: np.ndarray
    wall_looks: np.ndarray
    floor_look: int
    ceiling_look: int
    textures: str
    start: tuple[int, int]
    start_heading: int
    target_cells: np.ndarray
    target_colours: np.ndarray
    target_values: np.ndarray
    commands: np.ndarray
    cell_length: float
    wall_height: float
    eye_height: float
    pitch: float
    field_of_view: float
    view_range: float
    step_cost: float
    goal_reward: float
    collision_cost: float
    name: str = ""

    def __post_init__(self) -> None:
        for field, dtype in _ARRAYS.items():
            array = _as_array(field, getattr(self, field), np.dtype(dtype))
            array.flags.writeable = False
            object.__setattr__(self, field, array)
        self._check_walls()
        self._check_targets()
        for field, most in (("start_heading", 3), ("floor_look", 65_535), ("ceiling_look", 65_535)):
            check_integer(field, getattr(self, field), 0, most)
            object.__setattr__(self, field, int(getattr(self, field)))
        for field, (low, high) in _REALS.items():
            check_real(field, getattr(self, field), low, high, open_low=low == 0.0 and field in _LENGTHS)
            object.__setattr__(self, field, float(getattr(self, field)))
        if self.cell_length <= 2 * RADIUS:
            raise ValueError(f"cell_length is {self.cell_length}; allowed: above {2 * RADIUS} m, the body's width")
        if self.eye_height >= self.wall_height:
            raise ValueError(f"eye_height is {self.eye_height}; allowed: below the ceiling, wall_height "
                             f"{self.wall_height}")  # fmt: skip
        for field in ("textures", "name"):
            if not isinstance(getattr(self, field), str):
                raise ValueError(f"{field} is {getattr(self, field)!r}; allowed: a string")

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False  # pickles do not remember it
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MazeTask) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        what = f"{self.size} x {self.size}, {len(self.target_cells)} targets, {len(self.commands)} commands"
        return f"MazeTask({what}{', ' + self.name if self.name else ''})"

    def _key(self) -> tuple[Any, ...]:
        values = (getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "name")
        return tuple((v.shape, v.tobytes()) if isinstance(v, np.ndarray) else v for v in values)

    @property
    def size(self) -> int:
        """Cells along a side, n."""
        return len(self.walls)

    def _check_walls(self) -> None:
        walls = self.walls
        n = len(walls) if walls.ndim else 0
        if walls.shape != (n, n) or not MIN_SIZE <= n <= MAX_SIZE or n % 2 == 0:
            raise ValueError(f"walls has shape {walls.shape}; allowed: (n, n), n odd, in [{MIN_SIZE}, {MAX_SIZE}]")
        if walls.max() > 1:
            raise ValueError(f"walls has the value {walls.max()}; allowed: 0, open, and 1, a wall")
        if not (walls[0].all() and walls[-1].all() and walls[:, 0].all() and walls[:, -1].all()):
            raise ValueError("walls is open at the border; allowed: walls all round")
        if self.wall_looks.shape != walls.shape:
            raise ValueError(f"wall_looks has shape {self.wall_looks.shape}; allowed: {walls.shape}, that of walls")
        object.__setattr__(self, "start", _cell("start", self.start, n))
        if walls[self.start]:
            raise ValueError(f"start is {self.start}, a wall; allowed: an open cell")
        if (self._distances(self.start) < 0).sum() != int(walls.sum()):
            raise ValueError("walls has open cells that cannot be reached from the start; allowed: one component")

    def _check_targets(self) -> None:
        cells = self.target_cells
        count = len(cells) if cells.ndim else 0
        if cells.ndim != 2 or cells.shape[1] != 2 or not 1 <= count <= len(COLOURS):
            raise ValueError(
                f"target_cells has shape {cells.shape}; allowed: (targets, 2), 1 to {len(COLOURS)} targets"
            )
        places = [_cell("target_cells", cell, self.size) for cell in cells.tolist()]
        if any(self.walls[place] for place in places) or len({*places, self.start}) != count + 1:
            raise ValueError(
                f"target_cells is {places}; allowed: different open cells other than the start {self.start}"
            )
        for field in ("target_colours", "target_values"):
            if getattr(self, field).shape != (count,):
                raise ValueError(f"{field} has shape {getattr(self, field).shape}; allowed: ({count},), one a target")
        colours = self.target_colours.tolist()
        if len(set(colours)) != count or max(colours) >= len(COLOURS):
            raise ValueError(f"target_colours is {colours}; allowed: different numbers below {len(COLOURS)}")
        if not (np.abs(self.target_values) <= 1e6).all():  # NaN is not either
            raise ValueError(f"target_values is {self.target_values.tolist()}; allowed: numbers in [-1e6, 1e6]")
        if self.commands.ndim != 1 or not len(self.commands) or self.commands.max() >= count:
            most = self.commands.max(initial=0)
            raise ValueError(f"commands has shape {self.commands.shape} and numbers up to {most}; allowed: "
                             f"(commands,), numbers below {count}")  # fmt: skip

    def distances(self, cell: tuple[int, int]) -> np.ndarray:
        """Return the moves from every open cell to one of them, int32 (n, n); walls have -1.

        Raises:
            ValueError: The cell is a wall, or outside.
        """
        cell = _cell("cell", cell, self.size)
        if self.walls[cell]:
            raise ValueError(f"cell is {cell}, a wall; allowed: an open cell")
        return self._distances(cell)

    def _distances(self, cell: tuple[int, int]) -> np.ndarray:
        found = np.empty(self.walls.shape, dtype=np.int32)
        maze_kernels.fill_distances(self.walls, self.size, *cell, found, np.empty(self.walls.size, dtype=np.int32))
        return found

    def resample(
        self,
        what: tuple[str, ...] = ("start", "targets", "commands"),
        *,
        seed: int,
        index: int = 0,
        allow_repeats: bool = False,
    ) -> MazeTask:
        """Return a task in the same maze with some of it drawn anew.

        Args:
            what: Any of "start" (cell and heading), "targets" (their cells), "colours" and "commands".
            seed: Integer in [0, 2^63).
            index: Which of the tasks of that seed.
            allow_repeats: Whether new commands may name a target twice in a row.
        """  # fmt: skip
        if isinstance(what, str):
            raise ValueError(f"what is {what!r}; allowed: a tuple of {', '.join(RESAMPLED)}")
        for part in what:
            check_choice("what", part, RESAMPLED)
        maze = hashlib.blake2b(self.walls.tobytes(), digest_size=16).hexdigest()
        space = Space(f"mazeworld-resample@{VERSION}:{maze}", "resample", seed)
        changes: dict[str, Any] = {"name": f"{self.name or 'maze'}/{'+'.join(what)}/{seed}/{index}"}
        start, count = self.start, len(self.target_cells)
        taken = [] if "targets" in what else [tuple(cell) for cell in self.target_cells.tolist()]
        if "start" in what:
            start, heading = _draw_start(space.stream("start", index), self.walls, taken)
            changes |= {"start": start, "start_heading": heading}
        if "targets" in what:
            changes["target_cells"] = _draw_cells(space.stream("targets", index), self.walls, count, [start])
        if "colours" in what:
            changes["target_colours"] = space.stream("colours", index).permutation(len(COLOURS))[:count]
        if "commands" in what:
            stream = space.stream("commands", index)
            changes["commands"] = _draw_commands(stream, count, len(self.commands), allow_repeats)
        return dataclasses.replace(self, **changes)

    # Files.

    def save(self, path: str | Path) -> None:
        """Write the task to a file that ends in .json or .npz, whole or not at all."""
        path = Path(path)
        plain, arrays = self._parts()
        if path.suffix == ".json":
            write_json(path, {**plain, **{name: array.tolist() for name, array in arrays.items()}})
            return
        _check_suffix(path)
        with atomic_write(path) as file:
            np.savez_compressed(file, **{"header": np.array(json.dumps(plain)), **arrays})  # type: ignore[arg-type]

    def _parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        arrays = {name: values.pop(name) for name in _ARRAYS}
        return {"format": f"mazeworld@{VERSION}", **values}, arrays

    @classmethod
    def load(cls, path: str | Path) -> MazeTask:
        """Read a task from a file that `save` wrote.

        Raises:
            ValueError: The file is missing, damaged or of another version; the message names it.
        """
        path = Path(path)
        if path.suffix == ".json":
            values = read_json(path)
        else:
            _check_suffix(path)
            try:
                with path.open("rb") as file, np.load(file) as stored:
                    arrays = {name: stored[name] for name in stored.files}
                values = {**json.loads(str(arrays.pop("header"))), **arrays}
            except FileNotFoundError:
                raise ValueError(f"{path}: no such file") from None
            except (
                OSError,
                ValueError,
                KeyError,
                TypeError,
                AttributeError,
                EOFError,
                zipfile.BadZipFile,
                zlib.error,
            ) as e:
                raise ValueError(f"{path}: not a task file ({e})") from None
        found = values.pop("format", None) if isinstance(values, dict) else None
        if found != f"mazeworld@{VERSION}":
            raise ValueError(f"{path}: its format is {found!r}; allowed: 'mazeworld@{VERSION}'")
        fields = {field.name for field in dataclasses.fields(cls)}
        if fields != values.keys():
            wrong = ", ".join(sorted(fields ^ values.keys()))
            raise ValueError(f"{path}: not a whole task file: {wrong} is missing or unknown")
        try:
            return cls(**values)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: {error}") from None


def _check_suffix(path: Path) -> None:
    if path.suffix != ".npz":
        raise ValueError(f"{path}: allowed: a name that ends in .json or .npz")


def _as_array(field: str, value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    array = np.array(value)
    if array.dtype.kind not in ("fiub" if dtype.kind == "f" else "iub"):
        raise ValueError(f"{field} has dtype {array.dtype}; allowed: {dtype}")
    if dtype.kind != "f" and array.size and not (array.min() >= 0 and array.max() <= np.iinfo(dtype).max):
        raise ValueError(f"{field} lies in [{array.min()}, {array.max()}]; allowed: [0, {np.iinfo(dtype).max}]")
    return array.astype(dtype)


def _cell(field: str, value: Any, size: int) -> tuple[int, int]:
    """Return a cell as a tuple of two integers inside the maze."""
    if not isinstance(value, tuple | list | np.ndarray) or len(value) != 2:
        raise ValueError(f"{field} is {value!r}; allowed: a cell (row, column)")
    for part in value:
        check_integer(field, part, 0, size - 1)
    return int(value[0]), int(value[1])


# How a task is drawn: each part from its own stream.

_NAMED = len(f"mazeworld@{VERSION}:") + 8  # of a task's identity, the part that stands in names


def draw_task(spec: MazeTaskSpec, space: Space, index: int, textures: str, num_looks: int) -> MazeTask:
    """Return the task at `index` of a space of addresses.

    Args:
        spec: The distribution.
        space: The addresses (`Mazes`).
        index: Integer in [0, 2^63).
        textures: What the task's `textures` says.
        num_looks: How many looks that library has.
    """
    _compile()
    shape = space.stream("shape", index)
    size = spec.sizes[int(shape.integers(len(spec.sizes), 1)[0])]
    share = dict(zip(("wall_density", *_QUANTITIES, "num_targets"), shape.uniform(len(_QUANTITIES) + 2), strict=True))

    def within(bounds: tuple[float, float], name: str) -> float:
        return bounds[0] + (bounds[1] - bounds[0]) * float(share[name])

    walls = draw_walls(space.stream("walls", index), size, spec, within(spec.density_range(size), "wall_density"))
    start, heading = _draw_start(space.stream("start", index), walls, [])
    low, high = spec.num_targets
    count = low + int((high - low + 1) * float(share["num_targets"]))
    chosen = space.stream("looks", index).integers(num_looks, size * size + 2)
    values = space.stream("values", index).uniform(count) - 0.5 + spec.mean_value
    return MazeTask(
        walls=walls,
        wall_looks=chosen[2:].reshape(size, size),
        floor_look=int(chosen[0]),
        ceiling_look=int(chosen[1]),
        textures=textures,
        start=start,
        start_heading=heading,
        target_cells=_draw_cells(space.stream("targets", index), walls, count, [start]),
        target_colours=space.stream("colours", index).permutation(len(COLOURS))[:count],
        target_values=values,
        commands=_draw_commands(space.stream("commands", index), count, spec.num_commands, spec.allow_repeats),
        goal_reward=spec.goal_reward_scale * size * math.sqrt(size) * 0.01,
        name=f"{space.task[:_NAMED]}/{space.split}/{space.seed}/{index}",
        **{name: within(getattr(spec, name), name) for name in _QUANTITIES},
    )


_QUANTITIES = ("cell_length", "wall_height", "eye_height", "pitch", "field_of_view", "view_range", "step_cost",
               "collision_cost")  # fmt: skip


@lru_cache(maxsize=1)
def _compile() -> None:
    """Compile what draws tasks, or load it from the cache: once a process, on the smallest maze."""
    with tell_of_compiling(maze_kernels.carve_maze, maze_kernels.choose):
        stream = Space(f"mazeworld-compile@{VERSION}", "train").stream("walls", 0)
        walls = draw_walls(stream, MIN_SIZE, MazeTaskSpec(sizes=(MIN_SIZE,)), 0.0)
        _draw_cells(stream, walls, 1, [])


def draw_walls(stream: Stream, size: int, spec: MazeTaskSpec, density: float) -> np.ndarray:
    """Return the walls of a maze, uint8 (n, n)."""
    walls = np.ones((size, size), dtype=np.uint8)
    if spec.style == "rooms":
        stream.position = maze_kernels.carve_rooms(stream.key, stream.position, walls)
    most = int(density * (size - 2) ** 2 + 1e-9)
    stream.position = maze_kernels.carve_maze(stream.key, stream.position, walls, spec.loops, most)
    return walls


def _draw_cells(stream: Stream, walls: np.ndarray, count: int, taken: list[Any]) -> np.ndarray:
    """Return `count` different open cells, none of those taken, int64 (count, 2)."""
    allowed = walls == 0
    for cell in taken:
        allowed[cell] = False
    free = np.flatnonzero(allowed)
    stream.position = maze_kernels.choose(stream.key, stream.position, free, count)
    return np.stack(np.divmod(free[:count], len(walls)), axis=1)


def _draw_start(stream: Stream, walls: np.ndarray, taken: list[Any]) -> tuple[tuple[int, int], int]:
    heading = int(stream.integers(4, 1)[0])
    row, column = _draw_cells(stream, walls, 1, taken)[0].tolist()
    return (row, column), heading


def _draw_commands(stream: Stream, num_targets: int, count: int, allow_repeats: bool) -> np.ndarray:
    """Return `count` commands: independent, or else uniform among the targets other than the one before."""
    if allow_repeats or num_targets == 1:
        return stream.integers(num_targets, count)
    steps = 1 + stream.integers(num_targets - 1, count)
    steps[0] = stream.integers(num_targets, 1)[0]
    return np.cumsum(steps) % num_targets
