"""Commands of Maze World: sample, play, bench."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from cyclopts import Parameter

from neophyte import __version__, mazeworld
from neophyte.cli.display import console, print_json, print_table, progress
from neophyte.cli.options import Json, Quiet, given, options_for
from neophyte.core.spec import check_integer
from neophyte.mazeworld import MazeTask, MazeTaskSpec

if TYPE_CHECKING:
    from typing import Any as MazeOptions
else:
    MazeOptions = options_for(MazeTaskSpec, "Maze")


def _task(index: int, preset: str, split: str | None, seed: int, options: Any, task: Path | None) -> MazeTask:
    if task is not None:
        if given(options):
            raise ValueError(f"task is {task}; allowed with {', '.join(given(options))}: no task file")
        return MazeTask.load(task)
    return mazeworld.mazes(preset, split=split, seed=seed, **given(options)).task(index)


def sample(
    index: int = 0,
    *,
    preset: str = "15-train",
    split: str | None = None,
    seed: int = 0,
    out: Path = Path("maze.png"),
    views: int = 6,
    size: int = 240,
    save: Path | None = None,
    options: MazeOptions = None,
    as_json: Json = False,
) -> None:
    """Draw a maze: its map, and what is seen on the shortest walk to the first commanded target.

    Parameters
    ----------
    index
        Which task.
    preset
        Which tasks: 15-train, 25-train, 35-train, paper-train, or -eval for unseen looks.
    split
        Split of the tasks; by default the preset's own.
    seed
        Seed of the tasks.
    out
        Where the picture goes.
    views
        How many views.
    size
        Pixels along a side of each.
    save
        Also write the task itself to this .json or .npz file.
    """
    from neophyte.experiments.mazeworld.sheets import draw_walk
    from neophyte.plotting.figures import style

    check_integer("views", views, 1, 16)
    check_integer("size", size, 16, 2048)
    task = _task(index, preset, split, seed, options, None)
    if save:
        task.save(save)
    steps = mazeworld.shortest_steps(task)
    if as_json:
        print_json({"task": task.name, "size": task.size, "walls": task.walls.tolist(), "start": list(task.start),
                    "start_heading": task.start_heading, "target_cells": task.target_cells.tolist(),
                    "target_colours": task.target_colours.tolist(), "commands": task.commands.tolist(),
                    "shortest_steps": steps.tolist()})  # fmt: skip
        return
    with style():
        draw_walk(task, out, views, size, task.name)
    console.print(f"{out}: {task.name}, {task.size} x {task.size} cells, {(task.walls == 0).sum()} open, "
                  f"{len(task.target_cells)} targets; the first commanded one is {steps[0]} moves away, the others "
                  f"{np.mean(steps[1:]) if len(steps) > 1 else 0:.1f} on average", markup=False)  # fmt: skip


def play(
    index: int = 0,
    *,
    preset: str = "15-train",
    split: str | None = None,
    seed: int = 0,
    task: Path | None = None,
    actions: str = "turn",
    mode: str = "navigation",
    max_steps: int = 2048,
    options: MazeOptions = None,
) -> None:
    """Walk through a maze with the arrow keys: the view, the map and what has been seen so far. Escape ends it.

    Parameters
    ----------
    index
        Which task.
    preset
        Which tasks, such as 15-train.
    split
        Split of the tasks; by default the preset's own.
    seed
        Seed of the tasks.
    task
        A task file to play instead.
    actions
        turn, compass or continuous.
    mode
        navigation or survival.
    max_steps
        Steps until it ends.
    """
    from neophyte.mazeworld.play import Game
    from neophyte.mazeworld.play import play as run

    game = Game(_task(index, preset, split, seed, options, task), actions=actions, mode=mode, max_steps=max_steps)
    played = run(game)
    console.print(f"{played.steps} steps, {played.goals} targets reached, reward {played.reward:.2f}", markup=False)


def bench(
    *,
    size: Annotated[list[int], Parameter(consume_multiple=True)] | None = None,
    actions: Annotated[list[str], Parameter(consume_multiple=True)] | None = None,
    threads: Annotated[list[int], Parameter(consume_multiple=True)] | None = None,
    worlds: int = 256,
    steps: int = 20,
    repeats: int = 7,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure worlds and environments, batched and alone, each observed at every step, and the drawing of tasks.

    Parameters
    ----------
    size
        Heights and widths of the observations.
    actions
        Ways to act.
    threads
        Numbers of threads.
    worlds
        Worlds in a batch.
    steps
        Steps of the batch in a measurement.
    repeats
        Measurements; the median counts.
    """
    from neophyte.core.files import environment
    from neophyte.mazeworld.bench import bench as measure

    sizes, ways, counts = size or [64, 128], actions or ["turn", "continuous"], threads or [1, 2]
    results = []
    total = len(sizes) * len(ways) * (2 * len(counts) + 1) + len(sizes) + 2
    with progress("bench", total, "results", quiet) as advance:
        for result in measure(
            sizes=sizes, actions=ways, threads=counts, num_worlds=worlds, steps=steps, repeats=repeats
        ):
            results.append(result)
            advance(1)
    if as_json:
        print_json({"family": "mazeworld", "version": __version__, "machine": environment(), "results": results})
        return
    rows = []
    for r in results:
        pixels = r["value"] * r["params"].get("height", 0) * r["params"].get("width", 0) / 1e6
        rows.append([r["name"], r["params"].get("actions", ""), r["params"].get("height", r["params"].get("n", "")),
                     r["threads"], f"{r['value']:,.0f}", r["unit"], f"{pixels:,.0f}" if pixels else ""])  # fmt: skip
    print_table("Maze World", ["what", "actions", "size", "threads", "value", "unit", "megapixels/s"], rows)
