"""What the commands print: plain lines, tables and progress."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

console = Console(highlight=False, soft_wrap=True)
errors = Console(stderr=True, highlight=False, soft_wrap=True)

PLAIN_SECONDS = 15.0  # between lines of progress where there is no terminal


def print_json(value: Any) -> None:
    """Print a JSON value for a program to read; JSON has no infinity and no NaN, which become null."""
    console.print(json.dumps(_finite(value), indent=2, allow_nan=False), markup=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_table(title: str, columns: list[str], rows: list[list[Any]]) -> None:
    """Print a table; numbers stand to the right."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for i, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[i], int | float) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row))
    console.print(table)


@contextmanager
def progress(what: str, total: int | None, unit: str, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show progress with rate and time left, a bar on a terminal, else a line now and then; yields `advance(count)`."""
    if quiet:
        yield lambda _: None
    elif errors.is_terminal:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
        )
        start = time.perf_counter()
        with Progress(*columns, console=errors) as bar:
            task = bar.add_task(what, total=total, rate="")

            def advance(count: int) -> None:
                done = bar.tasks[0].completed + count
                bar.update(task, advance=count, rate=f"{done / (time.perf_counter() - start):.1f} {unit}/s")

            yield advance
    else:
        yield _plain(what, total, unit)


def step_watcher(advance: Callable[[int], None]) -> Callable[[dict[str, float]], None]:
    """Return what the training loop calls with each line of metrics: it advances a progress by the steps since."""
    shown = 0

    def show(line: dict[str, float]) -> None:
        nonlocal shown
        advance(int(line["step"]) - shown)
        shown = int(line["step"])

    return show


def _plain(what: str, total: int | None, unit: str) -> Callable[[int], None]:
    start, done, shown = time.perf_counter(), 0, time.perf_counter()

    def advance(count: int) -> None:
        nonlocal done, shown
        done += count
        now = time.perf_counter()
        if now - shown >= PLAIN_SECONDS:
            shown = now
            rate = done / (now - start)
            left = f", {(total - done) / rate:.0f} s left" if total else ""
            errors.print(f"{what}: {done} of {total} {unit}, {rate:.1f}/s{left}", markup=False)

    return advance
