"""Gymnasium environments. The batch is the implementation; the single environment is a batch of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from neophyte.core.addressing import MAX_SEED
from neophyte.core.spec import check_boolean, check_choice, check_integer
from neophyte.mazeworld import motion_kernels as motion
from neophyte.mazeworld.dataset import Mazes, mazes
from neophyte.mazeworld.spec import COLOURS
from neophyte.mazeworld.task import MazeTask
from neophyte.mazeworld.world import World

# An episode's index is its number in its lane of a batch, plus the lane's number times this.
LANE = 2**40
_MOST_LOST, _FARTHEST = 2e9, 1e6  # what no task exceeds: Gymnasium wants finite spaces
_RGB = np.array(COLOURS, dtype=np.uint8)
RENDER_MODES = ("rgb_array", "human")


class _Batch:
    """What both environments are made of: worlds, the tasks that they go through, and what is seen of them."""

    def __init__(
        self, num_envs: int, *, preset: str = "15-train", split: str | None = None, actions: str = "turn",
        mode: str = "navigation", view: str = "3d", height: int = 128, width: int = 128, radius: int = 1,
        max_steps: int = 2048, seconds: float = 0.1, channels_first: bool = False, dictionary: bool = False,
        depth: bool = False, threads: int = 1, **changes: Any,
    ) -> None:  # fmt: skip
        check_choice("view", view, ("3d", "2d"))
        check_integer("height", height, 1, 16_384)
        check_integer("width", width, 1, 16_384)
        check_integer("radius", radius, 1, 128)
        for field, value in {"channels_first": channels_first, "dictionary": dictionary, "depth": depth}.items():
            check_boolean(field, value)
        if depth and not (dictionary and view == "3d"):
            raise ValueError("depth is True; allowed without dictionary and the 3d view: False")
        self.world = World(num_envs, actions=actions, mode=mode, max_steps=max_steps, seconds=seconds, threads=threads)
        self.view, self.channels_first, self.dictionary, self.depth = view, channels_first, dictionary, depth
        side = 2 * radius + 1
        self.height, self.width, self.radius = (height, width, radius) if view == "3d" else (side, side, radius)
        self.preset, self.split, self.changes = preset, split, changes
        self.lanes = np.arange(num_envs) * LANE
        self.episodes = np.full(num_envs, -1)
        self.sources: list[Mazes] = [mazes(preset, split=split, **changes)] * num_envs  # refuses bad settings now
        self.seeded = np.zeros(num_envs, dtype=bool)

    def action_space(self) -> gymnasium.Space[Any]:
        if self.world.actions == "continuous":
            return gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        return gymnasium.spaces.Discrete(5)

    def observation_space(self) -> gymnasium.Space[Any]:
        shape = (self.height, self.width, 3)
        image = gymnasium.spaces.Box(0, 255, (shape[2], *shape[:2]) if self.channels_first else shape, np.uint8)
        if not self.dictionary:
            return image
        parts: dict[str, gymnasium.Space[Any]] = {"image": image}
        if self.world.mode == "survival":
            parts["life"] = gymnasium.spaces.Box(-_MOST_LOST, motion.MAX_LIFE, (1,), np.float64)
        else:
            parts["command"] = gymnasium.spaces.Discrete(len(COLOURS))
        if self.depth:
            parts["depth"] = gymnasium.spaces.Box(0.0, _FARTHEST, shape[:2], np.float32)
        return gymnasium.spaces.Dict(parts)

    def seed(
        self, chosen: np.ndarray, seeds: Sequence[int | None], lanes: Sequence[int], draw: Callable[[], int]
    ) -> None:
        """Start the lanes that are chosen and have a seed at its first episode; those that never had one draw one."""
        for i in np.flatnonzero(chosen).tolist():
            seed = seeds[i]
            if seed is None and not self.seeded[i]:
                seed = draw()
            if seed is not None:
                check_integer("seed", seed, 0, MAX_SEED)
                self.sources[i] = mazes(self.preset, split=self.split, seed=int(seed), **self.changes)
                self.lanes[i], self.episodes[i], self.seeded[i] = lanes[i] * LANE, -1, True

    def begin(self, i: int, options: dict[str, Any]) -> None:
        """Load the next task of lane i, or that of the options."""
        unknown = options.keys() - {"task", "index"}
        if unknown:
            raise ValueError(f"options has {sorted(unknown)}; allowed: task, a MazeTask, or index, an integer")
        if "task" in options:
            task = options["task"]
            if not isinstance(task, MazeTask):
                raise ValueError(f"task is {task!r}; allowed: a MazeTask")
        elif "index" in options:
            task = self.sources[i].task(options["index"])
        else:
            self.episodes[i] += 1
            task = self.sources[i].task(int(self.lanes[i] + self.episodes[i]))
        self.world.load(i, task)

    def observe(self) -> Any:
        """Return the observations of all worlds, batch axis first; a new array each time."""
        if self.view == "2d":
            image = self.world.draw_window(self.radius)
        else:
            image = self.world.draw(self.height, self.width, bar=not self.dictionary)
        if self.channels_first:
            image = np.ascontiguousarray(image.transpose(0, 3, 1, 2))
        if not self.dictionary:
            return image
        parts = {"image": image}
        if self.world.mode == "survival":
            parts["life"] = self.world.reals[:, motion.LIFE :].copy()
        else:
            parts["command"] = self.commands()
        if self.depth:
            parts["depth"] = self.world.draw_depth(self.height, self.width)
        return parts

    def frames(self) -> np.ndarray:
        """Return pictures for people, uint8 (worlds, height, width, 3), about 256 pixels high."""
        if self.view == "3d":
            return self.world.draw(256, 256)
        pixels = max(256 // self.height, 1)
        return self.world.draw_window(self.radius).repeat(pixels, axis=1).repeat(pixels, axis=2)

    def commands(self) -> np.ndarray:
        """Return the number of the colour that each world's command names, int64 (worlds,)."""
        world = self.world
        return world.colour_numbers[np.arange(world.num_worlds), world.integers[:, motion.TARGET]].astype(np.int64)

    def info(self) -> dict[str, np.ndarray]:
        """Return what can be known of each world, batch axis first."""
        world = self.world
        integers = world.integers.T.copy()
        found = {
            "pose": world.reals[:, : motion.LIFE].copy(),
            "cell": world.integers[:, : motion.COLUMN + 1].copy(),
            "steps": integers[motion.STEPS],
            "goals": integers[motion.GOALS],
            "collision": integers[motion.COLLIDED] > 0,
        }
        if world.mode == "survival":
            return {**found, "life": world.reals[:, motion.LIFE].copy()}
        return {
            **found,
            "target": integers[motion.TARGET],
            "command": self.commands(),
            "command_colour": _RGB[self.commands()],
            "distance": integers[motion.DISTANCE],
        }

    def single_info(self) -> dict[str, Any]:
        """Return the same of a batch of one, without the batch axis: quicker, for every step waits for it."""
        world = self.world
        integers, reals = world.integers[0].tolist(), world.reals[0]
        found = {
            "pose": reals[: motion.LIFE].copy(),
            "cell": np.array(integers[: motion.COLUMN + 1]),
            "steps": integers[motion.STEPS],
            "goals": integers[motion.GOALS],
            "collision": integers[motion.COLLIDED] > 0,
        }
        if world.mode == "survival":
            return {**found, "life": float(reals[motion.LIFE])}
        command = int(world.colour_numbers[0, integers[motion.TARGET]])
        return {
            **found,
            "target": integers[motion.TARGET],
            "command": command,
            "command_colour": _RGB[command].copy(),
            "distance": integers[motion.DISTANCE],
        }

    def state(self) -> dict[str, Any]:
        """Return all that the batch depends on from here on."""
        return {"world": self.world.state(), "sources": list(self.sources),
                **{name: getattr(self, name).copy() for name in ("lanes", "episodes", "seeded")}}  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to what `state` returned."""
        self.world.restore(state["world"])
        self.sources = list(state["sources"])
        for name in ("lanes", "episodes", "seeded"):
            setattr(self, name, state[name].copy())


def _draw_seed(random: np.random.Generator) -> int:
    return int(random.integers(2**62))


class MazeVectorEnv(gymnasium.vector.VectorEnv[Any, Any, np.ndarray]):
    """Worlds that are stepped and drawn together.

    Args:
        num_envs: How many.
        autoreset_mode: When an environment that has ended begins its next episode.
        render_mode: "rgb_array" or None.
        **settings: As of `MazeEnv`; and `threads`, to step and draw with.
    """

    def __init__(
        self, num_envs: int = 1, *, autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        check_choice("render_mode", render_mode, (None, "rgb_array"))
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 10, "autoreset_mode": self.autoreset_mode}
        self.render_mode, self.num_envs = render_mode, num_envs
        self.batch = _Batch(num_envs, **settings)
        self.single_action_space, self.single_observation_space = (
            self.batch.action_space(), self.batch.observation_space(),
        )  # fmt: skip
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._ended = np.zeros(num_envs, dtype=bool)

    def reset(  # type: ignore[override]
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes.

        Args:
            seed: An integer gives environment i the i-th lane of that seed; a list gives each a seed of its own, with
                the episodes of a single environment of that seed.
            options: {"task": MazeTask} or {"index": i} for all environments, or lists of them; {"reset_mask": bool
                (num_envs,)} resets only some.
        """
        options = dict(options or {})
        mask = options.pop("reset_mask", None)
        chosen = np.ones(self.num_envs, dtype=bool) if mask is None else np.asarray(mask)
        if chosen.shape != (self.num_envs,) or chosen.dtype != bool:
            raise ValueError(f"reset_mask has shape {chosen.shape}, {chosen.dtype}; allowed: bool ({self.num_envs},)")
        if not chosen.all() and any(task is None for task in self.batch.world.tasks):
            raise ValueError("reset_mask leaves out environments that never began; allowed: reset all first")
        for name, value in options.items():
            if isinstance(value, list | tuple | np.ndarray) and len(value) != self.num_envs:
                raise ValueError(f"{name} has {len(value)} entries; allowed: one, or {self.num_envs}")
        self._seed(seed, chosen)
        for i in np.flatnonzero(chosen).tolist():
            each = (list, tuple, np.ndarray)
            self.batch.begin(i, {k: v[i] if isinstance(v, each) else v for k, v in options.items()})
        self._ended[chosen] = False
        return self.batch.observe(), self._info()

    def _seed(self, seed: int | Sequence[int | None] | None, chosen: np.ndarray) -> None:
        if seed is None or isinstance(seed, int | np.integer | float | str):
            if seed is None and not self.batch.seeded.any():
                seed = _draw_seed(self.np_random)  # one seed for all, as if it had been given
            if seed is not None:
                check_integer("seed", seed, 0, MAX_SEED)
                super().reset(seed=int(seed))
            seeds: list[int | None] = [None if seed is None else int(seed)] * self.num_envs
            lanes = list(range(self.num_envs))
        else:
            if len(seed) != self.num_envs:
                raise ValueError(f"seed has {len(seed)} entries; allowed: {self.num_envs}")
            seeds, lanes = list(seed), [0] * self.num_envs
        self.batch.seed(chosen, seeds, lanes, lambda: _draw_seed(self.np_random))

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Act in all environments; see `World.step` and the autoreset mode."""
        world = self.batch.world
        if any(task is None for task in world.tasks):
            raise gymnasium.error.ResetNeeded("step was called before reset; allowed: reset first")
        starting = self._ended.copy()
        if starting.any() and self.autoreset_mode is AutoresetMode.DISABLED:
            raise gymnasium.error.ResetNeeded(f"environments {np.flatnonzero(starting).tolist()} have ended; allowed: "
                                              "reset them first")  # fmt: skip
        world.step(actions)
        for i in np.flatnonzero(starting).tolist():  # this step is their reset; their action counts for nothing
            self.batch.begin(i, {})
        ended = world.terminated | world.truncated
        rewards, terminated, truncated = world.rewards.copy(), world.terminated.copy(), world.truncated.copy()
        final: dict[str, Any] = {}
        if ended.any() and self.autoreset_mode is AutoresetMode.SAME_STEP:
            final = self._final(ended)
            for i in np.flatnonzero(ended).tolist():
                self.batch.begin(i, {})
            ended = np.zeros_like(ended)
        self._ended = ended
        return self.batch.observe(), rewards, terminated, truncated, {**self._info(), **final}

    def _final(self, ended: np.ndarray) -> dict[str, Any]:
        """Return the last observations and infos of the environments that have ended, as Gymnasium's own envs do."""
        seen = self.batch.observe()
        last = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(ended).tolist():
            last[i] = {name: part[i] for name, part in seen.items()} if isinstance(seen, dict) else seen[i]
        infos = {name: value if name.startswith("_") else value.copy() for name, value in self._info().items()}
        for name in [name for name in infos if name.startswith("_")]:
            infos[name] = ended.copy()
        return {"final_obs": last, "_final_obs": ended.copy(), "final_info": infos, "_final_info": ended.copy()}

    def _info(self) -> dict[str, Any]:
        found: dict[str, Any] = self.batch.info()
        found["task"] = np.array([task.name if task else "" for task in self.batch.world.tasks], dtype=object)
        return found | {f"_{name}": np.ones(self.num_envs, dtype=bool) for name in found}

    def render(self) -> tuple[Any, ...] | None:
        """Return a frame for each environment, uint8 (256, 256, 3) or so: what it sees."""
        return tuple(self.batch.frames()) if self.render_mode else None

    def get_state(self) -> dict[str, Any]:
        """Return all that the environments depend on from here on."""
        return {"batch": self.batch.state(), "ended": self._ended.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go back to what `get_state` returned."""
        self.batch.restore(state["batch"])
        self._ended = state["ended"].copy()


class MazeEnv(gymnasium.Env[Any, Any]):
    """One world.

    Args:
        preset: Preset that tasks are drawn from.
        split: Split of the tasks; by default the preset's own.
        actions: "turn", "compass" or "continuous" (`World`).
        mode: "navigation" or "survival".
        view: "3d", first-person, or "2d", a window of the map.
        height: Pixels of the first-person view.
        width: Pixels of the first-person view.
        radius: Cells that the window reaches, so that it is 2 radius + 1 wide.
        max_steps: Steps until an episode is truncated.
        seconds: How long a continuous step lasts.
        channels_first: Images (3, height, width).
        dictionary: Observations {"image", "command"}, or {"image", "life"} to survive, instead of a bar in the image.
        depth: With `dictionary`, also "depth", metres along the view's axis.
        render_mode: "rgb_array", "human" (a window), or None.
        **changes: Fields of `MazeTaskSpec` to change.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array", "human"], "render_fps": 10}  # type: ignore[misc]

    def __init__(self, *, render_mode: str | None = None, **settings: Any) -> None:
        check_choice("render_mode", render_mode, (None, *RENDER_MODES))
        self.render_mode = render_mode
        self.batch = _Batch(1, **settings)
        self.action_space, self.observation_space = self.batch.action_space(), self.batch.observation_space()
        self._ended = True
        self._window: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode: the first of the seed, if there is one, else the next.

        Args:
            seed: Integer in [0, 2^63).
            options: {"task": MazeTask} or {"index": i}, a task of the seed's.
        """
        super().reset(seed=seed)
        self.batch.seed(np.ones(1, dtype=bool), [seed], [0], lambda: _draw_seed(self.np_random))
        self.batch.begin(0, options or {})
        self._ended = False
        return self._seen()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Act once; see `World.step`."""
        world = self.batch.world
        if world.tasks[0] is None:
            raise gymnasium.error.ResetNeeded("step was called before reset; allowed: reset first")
        if self._ended:
            raise gymnasium.error.ResetNeeded("step was called after the episode's end; allowed: reset first")
        world.step(np.asarray(action)[None])
        terminated, truncated = bool(world.terminated[0]), bool(world.truncated[0])
        self._ended = terminated or truncated
        observation, info = self._seen()
        return observation, float(world.rewards[0]), terminated, truncated, info

    def _seen(self) -> tuple[Any, dict[str, Any]]:
        seen = self.batch.observe()
        observation = {name: part[0] for name, part in seen.items()} if isinstance(seen, dict) else seen[0]
        task = self.batch.world.tasks[0]
        assert task is not None
        if self.render_mode == "human":
            self.render()
        return observation, {**self.batch.single_info(), "task": task.name}

    def render(self) -> Any:
        """Return what is seen, uint8 (256, 256, 3) or so, or show it in a window, at the pace of `render_fps`."""
        if self.render_mode is None or self.batch.world.tasks[0] is None:
            return None
        frame = self.batch.frames()[0]
        if self.render_mode == "rgb_array":
            return frame
        from neophyte.mazeworld.window import Window

        self._window = self._window or Window(frame.shape[:2])
        self._window.show(frame, fps=self.metadata["render_fps"])
        return None

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window.close()
            self._window = None

    def get_state(self) -> dict[str, Any]:
        """Return all that the environment depends on from here on."""
        return {"batch": self.batch.state(), "ended": self._ended}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go back to what `get_state` returned."""
        self.batch.restore(state["batch"])
        self._ended = state["ended"]
