"""Specs of Maze World: the distribution that mazes and their tasks are drawn from, and presets."""

from __future__ import annotations

import math
from dataclasses import dataclass

from neophyte.core.spec import (
    check_boolean,
    check_choice,
    check_integer,
    check_real,
    digest,
    set_plain,
    set_reals,
    to_mapping,
)

VERSION = 1
MIN_SIZE, MAX_SIZE = 7, 255
STYLES = ("tree", "rooms")
DEFAULT_DENSITY = 0.40

# The targets' colours, RGB; a target's number is its place here.
COLOURS: tuple[tuple[int, int, int], ...] = (
    (0, 255, 0), (255, 0, 0), (0, 0, 255), (0, 255, 255), (255, 0, 255),
    (255, 255, 0), (128, 128, 255), (128, 255, 128), (255, 128, 128), (0, 96, 128),
    (96, 0, 128), (0, 128, 96), (96, 128, 0), (128, 96, 0), (128, 0, 96),
)  # fmt: skip

# The quantities that a task draws uniformly from a range: (least, most) allowed.
RANGES: dict[str, tuple[float, float]] = {
    "cell_length": (0.45, 100.0),
    "wall_height": (0.1, 100.0),
    "eye_height": (0.01, 100.0),
    "pitch": (-1.2, 1.2),
    "field_of_view": (0.2, 2.8),
    "view_range": (0.5, 1000.0),
    "step_cost": (0.0, 1e6),
    "collision_cost": (0.0, 1e6),
}


@dataclass(frozen=True, kw_only=True)
class MazeTaskSpec:
    """The distribution of maze tasks (paper, section 3.1). Lengths are in metres, angles in radians.

    A range (low, high) is drawn from uniformly, once a task; a number stands for the range of that number alone.

    Attributes:
        sizes: The sizes n that a maze of n x n cells may have: odd, in [7, 255].
        style: "tree" grows corridors; "rooms" opens rectangles of 2 to 4 cells a side first.
        loops: Open further walls until `wall_density` is reached; without, one path joins any two cells.
        wall_density: Range of the share of inner cells that are walls; by default (empty) the smaller of 0.40 and that
            of a tree. A style or a size may leave fewer.
        cell_length: Range of the length of a cell.
        wall_height: Range of the height of the ceiling.
        eye_height: Range of the height of the eye, below the ceiling.
        pitch: Range of the angle by which the view looks up, in [-1.2, 1.2].
        field_of_view: Range of the horizontal field of view, in [0.2, 2.8].
        view_range: Range of how far the view reaches; from half of it on, it fades to black.
        num_targets: How many potential navigation targets a maze has, (low, high), in [1, 15].
        num_commands: Commands in the sequence of a task.
        allow_repeats: Whether a target may be commanded twice in a row; then commands are independent.
        step_cost: Range of what each step costs.
        goal_reward_scale: Reward for a commanded target, as a multiple of n^1.5 / 100.
        collision_cost: Range of what a blocked or touching move costs.
        mean_value: Mean of a target's value in the survival mode, which is uniform within half of one around it.
        textures: "train" or "unseen" looks of the procedural library, or a folder of images.
        num_looks: Number of looks in the procedural library.
        num_tasks: Size of the set. A stream does not end there: it goes on to fresh tasks.
    """

    sizes: tuple[int, ...] = (15,)
    style: str = "tree"
    loops: bool = True
    wall_density: tuple[float, ...] = ()
    cell_length: tuple[float, float] = (2.0, 2.0)
    wall_height: tuple[float, float] = (3.2, 3.2)
    eye_height: tuple[float, float] = (1.6, 1.6)
    pitch: tuple[float, float] = (0.0, 0.0)
    field_of_view: tuple[float, float] = (0.6 * math.pi, 0.6 * math.pi)
    view_range: tuple[float, float] = (12.0, 12.0)
    num_targets: tuple[int, int] = (5, 5)
    num_commands: int = 200
    allow_repeats: bool = False
    step_cost: tuple[float, float] = (0.01, 0.01)
    goal_reward_scale: float = 1.0
    collision_cost: tuple[float, float] = (0.0, 0.0)
    mean_value: float = 0.4
    textures: str = "train"
    num_looks: int = 64
    num_tasks: int = 12_800

    def __post_init__(self) -> None:
        for field in (*RANGES, "num_targets"):
            value = getattr(self, field)
            if isinstance(value, int | float) and not isinstance(value, bool):
                object.__setattr__(self, field, (value, value))
        for field in ("sizes", "wall_density"):
            value = getattr(self, field)
            if isinstance(value, int | float) and not isinstance(value, bool):
                object.__setattr__(self, field, (value,) if field == "sizes" else (value, value))
        set_plain(self)
        self._check_sizes()
        check_choice("style", self.style, STYLES)
        check_boolean("loops", self.loops)
        for field, (least, most) in RANGES.items():
            self._check_range(field, least, most)
        self._check_range("num_targets", 1, len(COLOURS), whole=True)
        self._check_density()
        if self.eye_height[1] >= self.wall_height[0]:
            raise ValueError(f"eye_height is {self.eye_height}; allowed: below the ceiling, wall_height "
                             f"{self.wall_height[0]:g}")  # fmt: skip
        check_integer("num_commands", self.num_commands, 1, 2**24)
        check_boolean("allow_repeats", self.allow_repeats)
        if self.num_targets[0] < 2 and not self.allow_repeats and self.num_commands > 1:
            raise ValueError(f"num_targets is {self.num_targets}; allowed without allow_repeats: at least 2")
        check_real("goal_reward_scale", self.goal_reward_scale, 0.0, 1e6)
        check_real("mean_value", self.mean_value, -1e3, 1e3)
        check_integer("num_looks", self.num_looks, 1, 4096)
        check_integer("num_tasks", self.num_tasks, 1, 2**48)
        if not isinstance(self.textures, str) or not self.textures:
            raise ValueError(f"textures is {self.textures!r}; allowed: train, unseen or a folder of images")
        set_reals(self, *RANGES, "wall_density", "goal_reward_scale", "mean_value")

    def _check_sizes(self) -> None:
        if not isinstance(self.sizes, tuple) or not self.sizes:
            raise ValueError(f"sizes is {self.sizes!r}; allowed: one or more odd integers in [7, 255]")
        for size in self.sizes:
            check_integer("sizes", size, MIN_SIZE, MAX_SIZE)
            if size % 2 == 0:
                raise ValueError(f"sizes has {size}; allowed: odd integers in [{MIN_SIZE}, {MAX_SIZE}]")

    def _check_range(self, field: str, least: float, most: float, whole: bool = False) -> None:
        value = getattr(self, field)
        if not isinstance(value, tuple) or len(value) != 2:
            raise ValueError(f"{field} is {value!r}; allowed: a number or a range (low, high)")
        for bound in value:
            if whole:
                check_integer(field, bound, int(least), int(most))
            else:
                check_real(field, bound, least, most)
        if value[0] > value[1]:
            raise ValueError(f"{field} is {value!r}; allowed: low at most high")

    def _check_density(self) -> None:
        if self.wall_density == ():
            return
        self._check_range("wall_density", 0.0, 1.0)
        for size in self.sizes:
            if self.loops and self.wall_density[1] > tree_density(size) + 1e-9:
                raise ValueError(f"wall_density is {self.wall_density}; allowed at size {size}: at most "
                                 f"{tree_density(size):.4f}, that of a tree")  # fmt: skip

    def density_range(self, size: int) -> tuple[float, float]:
        """Return the range of the wall density of mazes of that size."""
        if self.wall_density:
            return self.wall_density[0], self.wall_density[1]
        default = min(DEFAULT_DENSITY, tree_density(size))
        return default, default

    @property
    def identity(self) -> str:
        """The task's name in addresses: the family, its version and a hash of every field but the set's size."""
        return self.identity_with(self.textures)

    def identity_with(self, textures: str) -> str:
        """Return the identity with another name for the textures, such as one that tells pixels apart."""
        values = {**to_mapping(self), "textures": textures}
        del values["num_tasks"]
        return f"mazeworld@{VERSION}:{digest(values, 32)}"


def tree_density(size: int) -> float:
    """Return the share of inner cells that are walls in a spanning tree of the cells of odd row and column."""
    inner, nodes = (size - 2) ** 2, ((size - 1) // 2) ** 2
    return (inner - (2 * nodes - 1)) / inner


@dataclass(frozen=True)
class Preset:
    """A named spec.

    Attributes:
        summary: One line that says what it is.
        spec: The spec.
        split: The split that it is drawn from.
    """

    summary: str
    spec: MazeTaskSpec
    split: str


def _presets() -> dict[str, Preset]:
    found = {}
    # As many tasks as the paper's training and validation sets have episodes.
    for split, textures, count in (("train", "train", 12_800), ("eval", "unseen", 720)):
        for size in (15, 25, 35):
            found[f"{size}-{split}"] = Preset(
                f"mazes of {size} x {size}, {textures} looks",
                MazeTaskSpec(sizes=(size,), textures=textures, num_tasks=count),
                split,
            )
        mixture = MazeTaskSpec(sizes=(15, 25, 35), num_commands=2048, textures=textures, num_tasks=count)
        found[f"paper-{split}"] = Preset(f"the paper's mixture of sizes, {textures} looks", mixture, split)
    return found


PRESETS: dict[str, Preset] = _presets()


def preset(name: str) -> Preset:
    """Return a preset by name.

    Raises:
        ValueError: There is none of that name; the message gives the nearest.
    """
    check_choice("preset", name, PRESETS)
    return PRESETS[name]
