"""Play a maze with the keys: what the agent sees, the map, and what it has seen so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from neophyte.mazeworld import maps, motion_kernels, sight_kernels
from neophyte.mazeworld.task import MazeTask
from neophyte.mazeworld.window import Window
from neophyte.mazeworld.world import World

FPS = 30  # a continuous step lasts as long as a frame: the walker is as fast as its clock
PANEL = 480  # pixels along a side of each of the three pictures


@dataclass(frozen=True)
class Played:
    """What came of a game.

    Attributes:
        steps: Steps taken.
        goals: Targets reached.
        reward: Sum of the rewards.
    """

    steps: int
    goals: int
    reward: float


class Game:
    """An episode that a person plays.

    Args:
        task: The maze.
        actions: "turn", "compass" or "continuous".
        mode: "navigation" or "survival".
        max_steps: Steps until it ends.
    """

    def __init__(
        self, task: MazeTask, *, actions: str = "turn", mode: str = "navigation", max_steps: int = 2048
    ) -> None:
        self.task = task
        self.world = World(1, actions=actions, mode=mode, max_steps=max_steps, seconds=1.0 / FPS)
        self.world.load(0, task)
        self.reward = 0.0
        self._seen = np.zeros(self.world.walls.shape, dtype=np.uint8)
        self._look()

    def _look(self) -> None:
        sight_kernels.see(0, 1, self.world.views, self.world.reals, self.world.walls, self._seen)

    def act(self, action: Any) -> None:
        """Take a step."""
        self.world.step(np.asarray([action]))
        self.reward += float(self.world.rewards[0])
        self._look()

    @property
    def ended(self) -> bool:
        """Whether the episode is over."""
        return bool(self.world.terminated[0] or self.world.truncated[0])

    @property
    def played(self) -> Played:
        """What has come of it so far."""
        integers = self.world.integers[0]
        return Played(int(integers[motion_kernels.STEPS]), int(integers[motion_kernels.GOALS]), self.reward)

    def frame(self) -> np.ndarray:
        """Return the view, the map and the memory side by side, uint8 (480, 1440, 3)."""
        pose = tuple(self.world.reals[0, :3])
        known = self._seen[0, : self.task.size, : self.task.size] > 0
        target = int(self.world.integers[0, motion_kernels.TARGET]) if self.world.mode == "navigation" else None
        pixels = PANEL // self.task.size
        drawn = [maps.global_map(self.task, pose=pose, target=target, known=mask, pixels=pixels)
                 for mask in (None, known)]  # fmt: skip
        return np.concatenate([self.world.draw(PANEL, PANEL)[0], *(_fit(image) for image in drawn)], axis=1)


def _fit(image: np.ndarray) -> np.ndarray:
    """Return a map in the middle of a square panel."""
    panel = np.full((PANEL, PANEL, 3), 40, dtype=np.uint8)
    top, left = (PANEL - image.shape[0]) // 2, (PANEL - image.shape[1]) // 2
    panel[top : top + image.shape[0], left : left + image.shape[1]] = image
    return panel


def play(game: Game, *, fps: int = FPS) -> Played:
    """Play in a window until the episode ends, the window is closed or Escape is pressed.

    Arrow keys, or w a s d, act; a key held down acts again. With continuous actions several may be held at once.
    """
    import pygame

    window = Window((PANEL, 3 * PANEL), "neophyte play")
    clock, waited = pygame.time.Clock(), 0
    try:
        window.show(game.frame())
        while not game.ended:
            for event in pygame.event.get():
                if event.type == pygame.QUIT or (event.type == pygame.KEYDOWN and event.key == pygame.K_ESCAPE):
                    return game.played
                if event.type == pygame.KEYDOWN and game.world.actions != "continuous" and not game.ended:
                    action = _action(pygame, {event.key}, game.world.actions)
                    if action is not None:
                        game.act(action)
                        window.show(game.frame())
                        waited = 0
            pressed = pygame.key.get_pressed()
            held = {key for key in _keys(pygame) if pressed[key]}
            waited += 1
            action = _action(pygame, held, game.world.actions)
            if action is not None and (game.world.actions == "continuous" or waited > fps // 3) and not game.ended:
                game.act(action)
                window.show(game.frame())
            clock.tick(fps)
        return game.played
    finally:
        window.close()


def _keys(pygame: Any) -> dict[int, tuple[int, int]]:
    """Return which way each key means: (right, ahead)."""
    arrows = {pygame.K_LEFT: (-1, 0), pygame.K_RIGHT: (1, 0), pygame.K_UP: (0, 1), pygame.K_DOWN: (0, -1)}
    return arrows | {pygame.K_a: (-1, 0), pygame.K_d: (1, 0), pygame.K_w: (0, 1), pygame.K_s: (0, -1)}


def _action(pygame: Any, held: set[int], actions: str) -> Any:
    """Return the action that the keys mean, or None."""
    ways = [_keys(pygame)[key] for key in held if key in _keys(pygame)]
    if actions == "continuous":
        right, ahead = (float(np.clip(sum(part), -1, 1)) for part in zip(*ways, strict=True)) if ways else (0.0, 0.0)
        return (0.5 * right, ahead) if ways else None
    if not ways:
        return None
    table = (
        {(-1, 0): 1, (1, 0): 2, (0, 1): 4, (0, -1): 3}
        if actions == "turn"
        else {(-1, 0): 1, (1, 0): 2, (0, 1): 3, (0, -1): 4}
    )
    return table[ways[0]]
