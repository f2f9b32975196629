"""Measure Maze World: frames, steps and tasks a second."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from neophyte.core.spec import check_integer
from neophyte.mazeworld.dataset import Mazes, mazes
from neophyte.mazeworld.world import World

Key = TypeVar("Key")

TASKS = 500  # drawn in a measurement
_FOREVER = 2**31 - 1


def bench(
    *,
    sizes: Sequence[int] = (64, 128),
    actions: Sequence[str] = ("turn", "continuous"),
    threads: Sequence[int] = (1, 2),
    num_worlds: int = 256,
    steps: int = 20,
    repeats: int = 7,
) -> Iterator[dict[str, Any]]:
    """Yield results {"name", "value", "unit", "threads", "params"}; each value is the median of `repeats` wall times.

    Args:
        sizes: Heights and widths of the observations.
        actions: Ways to act.
        threads: Numbers of threads.
        num_worlds: Worlds in a batch.
        steps: Steps of the batch in a measurement; one environment takes as many steps as the batch does in all.
        repeats: Measurements.

    Raises:
        ValueError: A setting is out of range.
    """
    settings = {"steps": [steps], "repeats": [repeats], "num_worlds": [num_worlds], "threads": threads, "sizes": sizes}
    for name, values in settings.items():
        for value in values:
            check_integer(name, value, 1)
    for way, size in itertools.product(actions, sizes):
        params = {"actions": way, "height": size, "width": size, "n": 15, "num_worlds": num_worlds}
        chosen = _random_actions(way, steps, num_worlds)
        works = {(name, count): partial(_run, begin(way, size, count, num_worlds), chosen)
                 for count in threads for name, begin in _BATCHED.items()}  # fmt: skip
        alone = ("one environment", 1)
        works[alone] = partial(_run, _environment(way, size), _random_actions(way, steps * num_worlds, None))
        for (name, count), seconds in _seconds(works, repeats).items():
            yield {"name": name, "value": num_worlds * steps / seconds, "unit": "frames/s", "threads": count,
                   "params": {**params, "num_worlds": 1} if name == alone[0] else params}  # fmt: skip
    for size in sizes:
        work = partial(_write_frames, num_worlds, size, steps)
        yield {"name": "writing only", "value": num_worlds * steps / _seconds({"": work}, repeats)[""],
               "unit": "frames/s", "threads": 1,
               "params": {"height": size, "width": size, "num_worlds": num_worlds}}  # fmt: skip
    for n in (15, 35):
        work = partial(_draw_tasks, mazes(sizes=(n,)))
        yield {"name": "tasks", "value": TASKS / _seconds({"": work}, repeats)[""], "unit": "tasks/s", "threads": 1,
               "params": {"n": n}}  # fmt: skip


def _seconds(works: Mapping[Key, Callable[[], Any]], repeats: int) -> dict[Key, float]:
    """Return the median time of each work, once it is warm; they take turns, so that their ratios are fair."""
    seconds: dict[Key, list[float]] = {key: [] for key in works}
    for _ in range(repeats + 1):
        for key, work in works.items():
            begun = time.perf_counter()
            work()
            seconds[key].append(time.perf_counter() - begun)
    return {key: statistics.median(found[1:]) for key, found in seconds.items()}


def _random_actions(way: str, steps: int, num_worlds: int | None) -> np.ndarray:
    rng, shape = np.random.default_rng(0), (steps,) if num_worlds is None else (steps, num_worlds)
    return rng.uniform(-1, 1, (*shape, 2)).astype(np.float32) if way == "continuous" else rng.integers(5, size=shape)


def _run(act: Callable[[Any], Any], actions: np.ndarray) -> None:
    for action in actions:
        act(action)


def _worlds(way: str, size: int, threads: int, num_worlds: int) -> Callable[[Any], Any]:
    """Return what lets worlds act and draws them."""
    worlds, source = World(num_worlds, actions=way, threads=threads, max_steps=_FOREVER), mazes("15-train")
    for world in range(num_worlds):
        worlds.load(world, source[world])

    def act(action: np.ndarray) -> None:
        worlds.step(action)
        worlds.draw(size, size)

    return act


def _vector_environment(way: str, size: int, threads: int, num_worlds: int) -> Callable[[Any], Any]:
    """Return the step of environments as `gymnasium.make_vec` gives them."""
    import gymnasium

    envs = gymnasium.make_vec("neophyte/MazeWorld-v0", num_envs=num_worlds, actions=way, height=size, width=size,
                              threads=threads, max_steps=_FOREVER)  # fmt: skip
    envs.reset(seed=0)
    return envs.step


_BATCHED = {"worlds": _worlds, "vector environment": _vector_environment}


def _environment(way: str, size: int) -> Callable[[Any], Any]:
    """Return the step of one environment as `gymnasium.make` gives it."""
    import gymnasium

    env = gymnasium.make("neophyte/MazeWorld-v0", actions=way, height=size, width=size, max_steps=_FOREVER,
                         num_commands=2**20)  # fmt: skip
    env.reset(seed=0)
    return env.step


def _write_frames(num_worlds: int, size: int, steps: int) -> None:
    """Fill as many frames with one value: what memory alone would allow."""
    for _ in range(steps):
        np.empty((num_worlds, size, size, 3), dtype=np.uint8).fill(7)


def _draw_tasks(source: Mazes) -> None:
    for index in range(TASKS):
        source[index]
