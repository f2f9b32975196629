"""The ids of the environments: registered with Gymnasium, if it is installed, without loading what is behind them."""

from __future__ import annotations

import importlib.util
from typing import Any

IDS: dict[str, dict[str, Any]] = {
    "neophyte/MazeWorld-v0": {},
    "neophyte/MazeWorldContinuous-v0": {"actions": "continuous"},
    "neophyte/MazeWorld2D-v0": {"actions": "compass", "view": "2d"},
    "neophyte/MazeSurvival-v0": {"mode": "survival"},
}


def register_ids() -> None:
    """Register the ids with Gymnasium, if it is installed."""
    if importlib.util.find_spec("gymnasium") is None:
        return
    from gymnasium.envs.registration import register

    for name, settings in IDS.items():
        register(
            name,
            entry_point="neophyte.mazeworld.env:MazeEnv",
            vector_entry_point="neophyte.mazeworld.env:MazeVectorEnv",
            kwargs=settings,
        )
