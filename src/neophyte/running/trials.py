"""Trials: one function call each, in a folder of its own that says what was called and keeps the rows it returned.

root/trials/train-tiny-0f3a…/   the folder is named by a digest of function, parameters and needs
    trial.json                  the call, written before it is made
    lock                        held by the process that makes it; one line an attempt
    log.txt                     what it prints
    manifest.json               the call again, with what it ran on and what it cost
    rows.json                   the rows; written last, so its presence means that the trial is finished
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from neophyte.core.files import atomic_write, read_json, write_json
from neophyte.core.spec import digest

TRIAL_FILE = "trial.json"
LOCK_FILE = "lock"
LOG_FILE = "log.txt"
MANIFEST_FILE = "manifest.json"
ROWS_FILE = "rows.json"

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Trial:
    """One call of one function, and the trials that must finish before it.

    The function is called as `function(folder, needs, **params)`: `folder` is the trial's own, free for checkpoints
    and kept when the trial is tried again; `needs` maps the name of each needed trial to its folder; the result is
    the trial's rows, a list of flat dicts of JSON values.

    Trials with the same fields are the same trial, so experiments share what they have in common. The function's code
    is no field: a change of it that changes results wants a changed parameter, such as a version.

    Attributes:
        name: What readers call the trial; the first part of its folder's name.
        function: "package.module:function", imported by the process that runs the trial.
        params: JSON values by argument name; kept as JSON gives them back, so tuples become lists.
        needs: The trials that must finish first; no two of one name.

    Raises:
        ValueError: A field is not of this form; the message names it.
    """

    name: str
    function: str
    params: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[Trial, ...] = ()

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\w[\w.-]*", self.name):
            raise ValueError(f"name is {self.name!r}; allowed: letters, digits, '_' and, not first, '.' and '-'")
        if not re.fullmatch(r"[\w.]+:\w+", self.function) or self.function.startswith("__main__:"):
            raise ValueError(
                f"function is {self.function!r}; allowed: 'package.module:function' in an importable module"
            )
        try:
            params = json.loads(json.dumps(dict(self.params)))
        except (TypeError, ValueError) as error:
            raise ValueError(f"params of {self.name} are not JSON values: {error}") from None
        object.__setattr__(self, "needs", tuple(self.needs))
        names = [need.name for need in self.needs]
        if len(set(names)) < len(names):
            raise ValueError(f"needs of {self.name} are {', '.join(names)}; allowed: each name once")
        object.__setattr__(self, "params", params)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trial) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def call(self) -> dict[str, Any]:
        """Return what the trial calls as JSON: function, parameters and the key of each need by its name."""
        needs = {need.name: need.key for need in self.needs}
        return {"function": self.function, "params": self.params, "needs": needs}

    @cached_property
    def key(self) -> str:
        """The trial's name and a digest of its call."""
        return f"{self.name}-{digest(self.call())}"

    def folder(self, root: str | Path) -> Path:
        """Return the trial's folder under `root`, which need not exist yet."""
        return Path(root).absolute() / "trials" / self.key


def prepare(trial: Trial, root: str | Path) -> None:
    """Make the trial's folder and write into it what the trial calls, unless it is there already."""
    path = trial.folder(root) / TRIAL_FILE
    if not path.exists():
        write_json(path, trial.call())


def is_finished(trial: Trial, root: str | Path) -> bool:
    """Return whether the trial's rows are there, and good.

    Raises:
        ValueError: A file of the folder is corrupt or belongs to another trial; the message names it.
    """
    folder = trial.folder(root)
    finished = (folder / ROWS_FILE).exists()
    if (folder / TRIAL_FILE).exists():
        _check_call(trial, folder / TRIAL_FILE)
    if finished or (folder / MANIFEST_FILE).exists():
        _check_call(trial, folder / MANIFEST_FILE)
    if finished:
        load_rows(folder)
    return finished


def _check_call(trial: Trial, path: Path) -> None:
    """Raise ValueError unless the JSON file says that its folder is the trial's."""
    remedy = "move its folder away, or use another root"
    if not path.exists():
        raise ValueError(f"{path}: missing, so the rows beside it may be another trial's; {remedy}")
    recorded = read_json(path)
    expected = trial.call()
    # Digests, since a parameter that is not a number (NaN) does not equal itself.
    if not isinstance(recorded, dict) or digest({name: recorded.get(name) for name in expected}) != digest(expected):
        raise ValueError(f"{path}: written by another trial than {trial.name}; {remedy}")


def check_rows(rows: Any) -> list[Row]:
    """Return `rows` as plain JSON values, NumPy and torch scalars converted.

    Raises:
        ValueError: They are not a list of flat dicts, or one has a field "trial", which `collect` adds.
    """
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("rows are not a list of dicts")
    return [{name: _check_cell(name, value) for name, value in row.items()} for row in rows]


def _check_cell(name: Any, value: Any) -> Any:
    """Return one value of a row as a plain JSON scalar."""
    if not isinstance(name, str) or name == "trial":
        raise ValueError(f"a row has a field {name!r}; allowed: strings other than 'trial'")
    if getattr(value, "shape", None) == ():
        value = value.item()
    if value is not None and not isinstance(value, str | int | float):
        raise ValueError(f"{name} of a row is a {type(value).__name__}; allowed: a string, number, boolean or None")
    return value


def load_rows(folder: str | Path) -> list[Row]:
    """Return the rows of the finished trial in `folder`.

    Raises:
        ValueError: The trial is not finished or its rows are corrupt; the message names the file.
    """
    path = Path(folder) / ROWS_FILE
    if not path.exists():
        raise ValueError(f"{path}: no such file; the trial is not finished, run it first")
    rows = read_json(path)
    try:
        return check_rows(rows)
    except ValueError as error:
        raise ValueError(f"{path}: {error}; remove it to run the trial again, or restore it") from None


def collect(root: str | Path, trials: Iterable[Trial]) -> list[Row]:
    """Return the rows of all `trials`, in order, each with its trial's name under "trial".

    Raises:
        ValueError: A trial is not finished, or its folder is corrupt or another trial's.
    """
    rows = []
    for trial in trials:
        is_finished(trial, root)
        rows += [{"trial": trial.name, **row} for row in load_rows(trial.folder(root))]
    return rows


def write_table(path: str | Path, rows: Iterable[Row]) -> None:
    """Write `rows` as CSV, whole or not at all.

    Args:
        path: The file to write.
        rows: Flat dicts. The columns are their fields in order of first appearance; a field that a row lacks, or that
            is None, is empty; floats have all their digits (`repr`).
    """
    rows = list(rows)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with atomic_write(path, "w") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
