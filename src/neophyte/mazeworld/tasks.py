"""The registered tasks of Maze World: every preset, under a name whose bytes are promised."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

from neophyte.core.registry import Task, register
from neophyte.mazeworld.dataset import Mazes
from neophyte.mazeworld.spec import PRESETS, VERSION, MazeTaskSpec

_REFUSALS: Mapping[str, Mapping[str, Any]] = {
    "sizes": {"sizes": (8,)},
    "wall_density": {"wall_density": (0.6, 0.6)},
    "num_targets": {"num_targets": (16, 16)},
    "eye_height": {"eye_height": (4.0, 4.0)},
    "style": {"style": "cave"},
}


def _load(spec: MazeTaskSpec, split: str, seed: int) -> Mazes:
    return Mazes(spec, split, seed)


for _name, _preset in PRESETS.items():
    register(
        Task(
            name=f"mazeworld/{_name}@{VERSION}",
            summary=_preset.summary,
            split=_preset.split,
            load=partial(_load, _preset.spec),
            change=partial(dataclasses.replace, _preset.spec),
            refusals=_REFUSALS,
        )
    )
