"""The ids of the environments: registered when Gymnasium is there, without loading anything heavy."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_IDS: dict[str, dict[str, Any]] = {
    "neophyte/MazeWorld-v0": {},
    "neophyte/MazeWorldContinuous-v0": {"actions": "continuous"},
    "neophyte/MazeWorld2D-v0": {"actions": "compass", "view": "2d"},
    "neophyte/MazeSurvival-v0": {"mode": "survival"},
}


def register() -> None:
    """Register the ids with Gymnasium, which is loaded if it is not."""
    registration = importlib.import_module("gymnasium.envs.registration")
    for name, settings in _IDS.items():
        if name not in registration.registry:
            registration.register(
                name,
                entry_point="neophyte.mazeworld.env:MazeEnv",
                vector_entry_point="neophyte.mazeworld.env:MazeVectorEnv",
                kwargs=settings,
            )


def register_when_loaded() -> None:
    """Register the ids as soon as Gymnasium is imported, by whomever: it takes longer to load than this package."""
    if "gymnasium" in sys.modules:
        register()
    else:
        sys.meta_path.insert(0, _Waiting())


class _Waiting(MetaPathFinder):
    """Finds Gymnasium as others do, and has the ids registered once it is loaded."""

    def __init__(self) -> None:
        self._searching = False

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "gymnasium" or self._searching:
            return None
        self._searching = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._searching = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Registering(self, spec.loader)
        return spec


class _Registering(Loader):
    """Loads as the loader that it stands for, registers the ids, and then steps aside."""

    def __init__(self, finder: MetaPathFinder, loader: Loader) -> None:
        self._finder, self._loader = finder, loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        register()
