"""Maze World: random textured mazes to explore, remember and navigate (General Purpose In-Context Learning, sec. 3)."""

from neophyte.mazeworld.dataset import Mazes, mazes
from neophyte.mazeworld.references import random_walk_steps, shortest_steps, wall_follower_steps
from neophyte.mazeworld.spec import COLOURS, PRESETS, VERSION, MazeTaskSpec
from neophyte.mazeworld.task import MazeTask
from neophyte.mazeworld.world import Compass, Turn, World

__all__ = [
    "COLOURS",
    "PRESETS",
    "VERSION",
    "Compass",
    "MazeTask",
    "MazeTaskSpec",
    "Mazes",
    "Turn",
    "World",
    "mazes",
    "random_walk_steps",
    "shortest_steps",
    "wall_follower_steps",
]
