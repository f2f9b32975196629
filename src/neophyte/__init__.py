"""Benchmarks for models that begin knowing nothing and must learn in context: a language, a world, a rule."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from neophyte.core.registry import register_family
from neophyte.gymnasium_ids import register_ids

if TYPE_CHECKING:
    from neophyte import mazeworld, metalang, pvr

__version__ = "0.1.0"
__all__ = ["__version__", "mazeworld", "metalang", "pvr"]

register_family("mazeworld", "neophyte.mazeworld.tasks")
register_family("metalang", "neophyte.metalang.tasks")
register_family("pvr", "neophyte.pvr.tasks")

register_ids()


def __getattr__(name: str) -> Any:
    # The worlds compile kernels: they are imported where they are used.
    if name in ("mazeworld", "metalang", "pvr"):
        return importlib.import_module(f"neophyte.{name}")
    raise AttributeError(f"module 'neophyte' has no attribute {name!r}")
