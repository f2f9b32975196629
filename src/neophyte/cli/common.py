"""Commands that serve every family: list, verify, certify, run, data fetch."""

from __future__ import annotations

import importlib
import json
import os
import threading
import time
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from rich.markup import escape

from neophyte.cli.display import console, errors, print_json, print_table, progress
from neophyte.cli.options import Json, Quiet


def list_all(*, as_json: Json = False) -> None:
    """List tasks, experiments and model presets."""
    from neophyte.core import registry
    from neophyte.experiments.registry import EXPERIMENTS
    from neophyte.models.presets import CLASSIFIERS, PRESETS
    from neophyte.pvr import VISUAL_PRESETS

    if as_json:
        print_json({
            "tasks": {task.name: task.summary for task in registry.tasks()},
            "experiments": {name: experiment.summary for name, experiment in EXPERIMENTS.items()},
            "models": {**PRESETS, **CLASSIFIERS},
        })  # fmt: skip
        return
    tasks = [[task.name, task.summary] for task in registry.tasks()]
    known = {name.partition("/")[2].partition("@")[0] for name, _ in tasks}
    tasks += [[f"pvr/{name}", f"{preset.summary}; fetch the images first"]
              for name, preset in VISUAL_PRESETS.items() if name not in known]  # fmt: skip
    print_table("Tasks", ["name", "what"], tasks)
    console.print()
    rows = [[name, ", ".join(e.scales), e.summary] for name, e in EXPERIMENTS.items()]
    print_table("Experiments", ["name", "scales", "what"], rows)
    console.print()
    models = [[name, sizes["num_layers"], sizes["d_model"], sizes["num_heads"]] for name, sizes in PRESETS.items()]
    print_table("Language models", ["name", "layers", "width", "heads"], models)
    console.print()
    print_table("Classifiers", ["name", "network"], [[name, sizes["model"]] for name, sizes in CLASSIFIERS.items()])


def verify(folder: Path, *, full: bool = False, quiet: Quiet = False) -> None:
    """Check every shard's sha256, and compare samples with fresh draws from the recipe.

    Parameters
    ----------
    folder
        The data set.
    full
        Compare every sample, not 16 of each shard.
    """
    from neophyte.core.shards import read_manifest, verify_shards

    manifest = read_manifest(folder)
    family = "pvr" if str(manifest["recipe"].get("task")).startswith("pvr") else "metalang"
    drawer = importlib.import_module(f"neophyte.{family}.storage").drawer
    with progress("verify", manifest["count"], "samples", quiet) as advance:
        compared = verify_shards(folder, drawer(manifest["recipe"]), rows=0 if full else 16, progress=advance)
    console.print(
        f"{folder}: {len(manifest['shards'])} shards whole, {compared} of {manifest['count']} samples redrawn: equal"
    )


def certify(
    task: str,
    other: str | None = None,
    *,
    splits: tuple[str, str] | None = None,
    seed: int = 0,
    limit: int = 20_000,
    threads: int = 1,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare a training set with a test set, sample by sample: none of those checked may lie in both.

    Parameters
    ----------
    task
        Name of a registered task, such as metalang/train.
    other
        Name of another one, such as metalang/eval; by default two splits of TASK are compared.
    splits
        The two splits; by default those of TASK and OTHER, or train and eval of TASK.
    seed
        The seed of both.
    limit
        Check at most so many samples of each split; 0 checks all.
    threads
        Threads to draw with.
    """
    from neophyte.core import registry
    from neophyte.core.contract import certify as compare

    first = registry.get(task)
    second = registry.get(other) if other else first
    chosen = splits or ((first.split, second.split) if other else ("train", "eval"))
    sizes = [len(one.dataset()) for one in (first, second)]
    total = sum(min(limit, size) if limit else size for size in sizes)
    with progress("certify", total, "samples", quiet) as advance:
        found = compare(first, chosen, other=second, seed=seed, limit=limit or None, threads=threads, progress=advance)
    if as_json:
        print_json({"tasks": found.tasks, "splits": found.splits, "checked": found.checked, "sizes": found.sizes,
                    "shared": found.shared, "repeated": found.repeated, "disjoint": found.disjoint,
                    "complete": found.complete})  # fmt: skip
    else:
        one, two = (f"{name} {split!r}" for name, split in zip(found.tasks, found.splits, strict=True))
        extent = "all" if found.complete else f"of {found.sizes[1]:,} and {found.sizes[0]:,}"
        console.print(
            f"{found.shared} of {found.checked[1]:,} samples of {two} are among {found.checked[0]:,} of {one} "
            f"({extent}); repeats inside: {found.repeated[1]} and {found.repeated[0]}",
            markup=False,
        )
    if not found.disjoint:
        raise SystemExit(1)


def run(
    experiment: str,
    *,
    scale: Literal["smoke", "laptop", "paper"] = "smoke",
    out: Path = Path("runs"),
    jobs: int = 0,
    threads: int = 0,
    devices: Annotated[list[str], Parameter(consume_multiple=True, negative=())] | None = None,
    download: Annotated[bool, Parameter(negative="")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run an experiment's trials, skipping finished ones, and write its table, figure and claims.

    Parameters
    ----------
    experiment
        Its name; `neophyte list` shows them.
    scale
        smoke takes seconds, laptop minutes to hours on two cores, paper a GPU or many.
    out
        Where to write: OUT/EXPERIMENT, and OUT/trials, which experiments share.
    jobs
        Trials at once; 0 takes one for each of DEVICES, else one at paper scale, else one for each core.
    threads
        Threads of each trial; 0 divides the cores.
    devices
        GPUs to share out among the trials, such as 0 1 2 3: each trial sees one of them.
    download
        Fetch the image banks that it reads and that are missing from ./data.
    """
    from neophyte.core.spec import check_choice, check_integer
    from neophyte.experiments.base import run_experiment
    from neophyte.experiments.registry import EXPERIMENTS

    check_choice("experiment", experiment, EXPERIMENTS)
    check_integer("jobs", jobs, 0, 1024)
    check_integer("threads", threads, 0, 1024)
    chosen = EXPERIMENTS[experiment]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    check_choice("scale", scale, chosen.scales)
    jobs = jobs or len(devices or ()) or (1 if scale == "paper" else min(cores, len(chosen.trials(scale))))
    threads = threads or max(1, cores // jobs)
    if download:
        chosen.fetch(chosen.trials(scale))
    start = time.perf_counter()
    with _Watch(out, quiet) as watch:
        report = run_experiment(chosen, scale, out, jobs=jobs, threads=threads, devices=devices or (), progress=watch)
    claims = [{"claim": c.text, "verdict": c.verdict, "numbers": c.detail} for c in report.claims]
    if as_json:
        print_json(
            {"experiment": experiment, "scale": scale, "claims": claims, "files": [str(f) for f in report.files]}
        )
    else:
        console.print(f"[bold]{experiment}[/bold], {scale} scale: {chosen.summary}")
        for found in claims:
            mark = {"holds": "[green]✓[/green]", "does not hold": "[red]✗[/red]"}.get(found["verdict"], "[dim]·[/dim]")
            console.print(f"  {mark} {escape(found['claim'])}: [bold]{found['verdict']}[/bold]")
            console.print(f"      {found['numbers']}", markup=False)
        for file in report.files:
            console.print(f"  {file}", markup=False)
        console.print(f"  {time.perf_counter() - start:.0f} s")
    if report.failed:
        errors.print("neophyte: the run did not learn what it must", markup=False)
        raise SystemExit(1)


class _Watch:
    """Tell when trials start and end, and in between how far the training ones are."""

    def __init__(self, out: Path, quiet: bool) -> None:
        self.out, self.quiet = out, quiet
        self.running: dict[str, Any] = {}
        self.stopped = threading.Event()

    def __enter__(self) -> Any:
        self.thread = threading.Thread(target=self._report, daemon=True)
        if not self.quiet:
            self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()

    def __call__(self, event: Any) -> None:
        if event.kind == "started":
            self.running[event.trial.key] = event.trial
        else:
            self.running.pop(event.trial.key, None)
        if not self.quiet:
            seconds = f" in {event.seconds:.0f} s" if event.seconds else ""
            errors.print(f"[{event.done}/{event.total}] {event.trial.name} {event.kind}{seconds}", markup=False)

    def _report(self) -> None:
        while not self.stopped.wait(15.0):
            for trial in list(self.running.values()):
                if line := _last_line(trial.folder(self.out) / "run" / "metrics.jsonl"):
                    steps = trial.params.get("settings", {}).get("steps")
                    where = f"step {line['step']}{f' of {steps}' if steps else ''}, loss {line['loss_nats']:.3f} nats"
                    rate = next(name for name in line if name.endswith("_per_second"))
                    said = f"{where}, {line[rate]:,.0f} {rate.removesuffix('_per_second')}/s"
                    errors.print(f"      {trial.name}: {said}", markup=False)


def _last_line(path: Path) -> Any:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError:
        return None
    return json.loads(lines[-2]) if len(lines) > 1 else None


def fetch(
    name: Literal["pg19", "mnist", "fashion-mnist", "cifar10"],
    *,
    out: Path | None = None,
    source: str = "emozilla/pg19-test",
) -> None:
    """Download a data set: natural text for `--text OUT`, or an image bank for `--data OUT`.

    Parameters
    ----------
    name
        pg19 (the PG-19 test set as text files), mnist, fashion-mnist or cifar10.
    out
        Folder to write: by default data/pg19 for the text, data for image banks. What is there already is kept.
    source
        Of pg19: a data set on the Hugging Face hub, or a local folder of Parquet files, with a column "text" and a
        split "test".
    """
    if name == "pg19":
        from neophyte.metalang.fetch import fetch_pg19

        folder = out or Path("data/pg19")
        console.print(f"{folder}: {fetch_pg19(source, folder)} books", markup=False)
        return
    from neophyte.pvr.fetch import fetch_images

    console.print(f"{fetch_images(name, out or Path('data'))}: {name} is complete", markup=False)
