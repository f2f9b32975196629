"""What an experiment is, and how it is run: trials -> rows -> table, figure and claims."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from neophyte.core.files import environment, read_json, write_json
from neophyte.core.spec import check_choice
from neophyte.plotting.figures import style
from neophyte.running.engines import TrialEvent, run_trials
from neophyte.running.trials import MANIFEST_FILE, Row, Trial, collect, write_table

SCALES = ("smoke", "laptop", "paper")
HOLDS, FAILS, UNDECIDED, UNTESTED = "holds", "does not hold", "undecided", "not tested at this scale"


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, or of the demo, and what our run says of it.

    Attributes:
        text: The statement.
        verdict: HOLDS, FAILS, UNDECIDED (the interval allows both) or UNTESTED.
        detail: The numbers behind the verdict.
    """

    text: str
    verdict: str
    detail: str = ""


def claim(text: str, scale: str, verdict: str, detail: str) -> Claim:
    """Return a claim with its verdict; smoke scale tests none."""
    return Claim(text, UNTESTED if scale == "smoke" else verdict, detail)


def above(value: float, half_width: float, threshold: float = 0.0) -> str:
    """Judge whether a value with a 95 % interval lies above a threshold: UNDECIDED if the interval holds it."""
    if value - half_width > threshold:
        return HOLDS
    return FAILS if value + half_width <= threshold else UNDECIDED


def within(value: float, half_width: float, margin: float) -> str:
    """Judge whether a difference with a 95 % interval is no more than `margin` either way, as a test of equivalence."""
    if abs(value) + half_width <= margin:
        return HOLDS
    return FAILS if abs(value) - half_width > margin else UNDECIDED


def all_of(verdicts: Iterable[str]) -> str:
    """Return the worst of the verdicts."""
    found = set(verdicts)
    return next(verdict for verdict in (FAILS, UNDECIDED, HOLDS) if verdict in found)


@dataclass(frozen=True)
class Experiment:
    """A figure or table.

    Attributes:
        name: Such as "gpicl-fig3".
        summary: One line that says what comes out.
        trials: Scale -> the trials whose rows it is made from.
        draw: (rows, path, caption) -> None; draws the figure into the PNG file `path`. None where there is no figure.
        claims: (rows, scale) -> what the rows say of the paper's statements.
        check: (trials) -> None; raises ValueError where something that they read is not there.
        fetch: (trials) -> None; downloads what they read and is missing.
        required: Whether a claim that does not hold, or is undecided, is a failure of the command.
        scales: The scales it can be run at.
    """

    name: str
    summary: str
    trials: Callable[[str], list[Trial]]
    draw: Callable[[list[Row], Path, str], None] | None
    claims: Callable[[list[Row], str], list[Claim]]
    check: Callable[[list[Trial]], None] = lambda trials: None
    fetch: Callable[[list[Trial]], None] = lambda trials: None
    required: bool = False
    scales: tuple[str, ...] = SCALES


@dataclass(frozen=True)
class Report:
    """What a run of an experiment left.

    Attributes:
        rows: All rows.
        claims: The claims and their verdicts.
        files: The files written.
        failed: Whether a required claim does not hold or is undecided.
    """

    rows: list[Row]
    claims: list[Claim]
    files: list[Path]
    failed: bool


def run_experiment(
    experiment: Experiment,
    scale: str,
    out: str | Path,
    *,
    jobs: int = 1,
    threads: int = 1,
    devices: Sequence[str] = (),
    progress: Callable[[TrialEvent], None] | None = None,
) -> Report:
    """Run an experiment's trials below `out`/trials, skipping finished ones, and write its table, figure and claims.

    Experiments with the same `out` share trials, such as a trained model.

    Raises:
        ValueError: The scale is unknown, or `out` holds this experiment at another scale.
    """
    check_choice("scale", scale, experiment.scales)
    folder = Path(out) / experiment.name
    manifest = folder / "manifest.json"
    if manifest.exists():
        found = read_json(manifest)
        if not isinstance(found, dict) or "scale" not in found:
            raise ValueError(f"{manifest}: is not an experiment's manifest; remove it, or use another --out")
        if found["scale"] != scale:
            raise ValueError(f"{folder}: holds the scale {found['scale']!r}; allowed: {found['scale']!r} again, or "
                             f"another --out for {scale!r}")  # fmt: skip
    trials = experiment.trials(scale)
    # What is missing, say before hours of training.
    if experiment.draw:
        importlib.import_module("matplotlib")
    experiment.check(trials)
    run_trials(trials, out, jobs=jobs, threads=threads, devices=devices, progress=progress)
    return write_report(experiment, scale, out, trials)


def write_report(experiment: Experiment, scale: str, out: str | Path, trials: Sequence[Trial]) -> Report:
    """Write table, figure, claims and manifest of an experiment from the rows of its finished trials."""
    folder = Path(out) / experiment.name
    rows = collect(out, trials)
    files = [folder / "table.csv", folder / "claims.json", folder / "manifest.json"]
    write_table(files[0], rows)
    if experiment.draw:
        figure = folder / f"{experiment.name}.png"
        with style():
            experiment.draw(rows, figure, f"{experiment.name}, {scale} scale")
        files.insert(0, figure)
    claims = experiment.claims(rows, scale)
    write_json(files[-2], [asdict(claim) for claim in claims])
    details: dict[str, Any] = {
        "experiment": experiment.name,
        "scale": scale,
        "trials": {trial.key: {**trial.call(), **_cost(trial, out)} for trial in _with_needs(trials)},
        "drawn_with": environment(),
    }
    write_json(files[-1], details)
    failed = experiment.required and any(claim.verdict in (FAILS, UNDECIDED) for claim in claims)
    return Report(rows, claims, files, failed)


def _with_needs(trials: Iterable[Trial]) -> Iterator[Trial]:
    """Yield the trials and all that they need, such as the training of what they evaluate."""
    for trial in trials:
        yield trial
        yield from _with_needs(trial.needs)


def _cost(trial: Trial, out: str | Path) -> dict[str, Any]:
    """Return what a finished trial took and what it ran on."""
    path = trial.folder(out) / MANIFEST_FILE
    if not path.exists():  # a training run that was removed after its evaluation
        return {}
    found = read_json(path)
    return {name: found[name] for name in ("wall_seconds", "cpu_seconds", "threads", "environment") if name in found}
