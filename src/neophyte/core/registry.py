"""The registry of versioned tasks: every data set that the package promises to keep, byte for byte, under its name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from neophyte.core.contract import TaskDataset
from neophyte.core.spec import suggestion


@dataclass(frozen=True)
class Task:
    """A registered task.

    Attributes:
        name: "family/name@version", such as "metalang/eval@1". Bytes that change come with a new version.
        summary: One line that says what it is.
        split: The split that it is drawn from.
        load: Makes its data set from (split, seed).
        refusals: Changes to its spec that must be refused, each with the field that the error names.
        change: Makes the spec with some fields changed; raises ValueError for a bad one.
    """

    name: str
    summary: str
    split: str
    load: Callable[[str, int], TaskDataset] = field(repr=False)
    change: Callable[..., Any] = field(repr=False)
    refusals: Mapping[str, Mapping[str, Any]] = field(repr=False, default_factory=dict)

    @property
    def family(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]

    def dataset(self, split: str | None = None, seed: int = 0) -> TaskDataset:
        """Return the task's data set, from its own split unless another is named."""
        return self.load(split or self.split, seed)


_families: dict[str, str] = {}
_tasks: dict[str, Task] = {}


def register_family(name: str, module: str) -> None:
    """Say that importing `module` registers the tasks of the family `name`."""
    _families[name] = module


def register(task: Task) -> Task:
    """Add a task.

    Raises:
        ValueError: The name has no family or version, or is taken.
    """
    family, slash, rest = task.name.partition("/")
    name, at, version = rest.partition("@")
    if not (family and slash and name and at and version.isdigit()):
        raise ValueError(f"name is {task.name!r}; allowed: family/name@version")
    if task.name in _tasks:
        raise ValueError(f"name is {task.name!r}, which is registered already; allowed: a new name or version")
    _tasks[task.name] = task
    return task


def tasks(family: str | None = None) -> list[Task]:
    """Return all registered tasks, or those of one family, by name."""
    for name, module in _families.items():
        if family in (None, name):
            importlib.import_module(module)
    return [task for name, task in sorted(_tasks.items()) if family in (None, task.family)]


def get(name: str) -> Task:
    """Return a task by name; without "@version" the newest.

    Raises:
        ValueError: There is none of that name; the message gives the nearest.
    """
    known = {task.name: task for task in tasks()}
    if name in known:
        return known[name]
    versions = [task for task in known.values() if task.name.partition("@")[0] == name]
    if not versions:
        raise ValueError(f"task is {name!r}; allowed: {', '.join(known)}{suggestion(name, known)}")
    return max(versions, key=lambda task: int(task.name.partition("@")[2]))
