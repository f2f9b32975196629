"""The experiments of Maze World."""

from __future__ import annotations

from neophyte.experiments.base import Experiment
from neophyte.experiments.mazeworld import sheets

EXPERIMENTS = (
    Experiment("gpicl-fig6", "observations along a walk, and the map of the maze",
               sheets.fig6_trials, sheets.draw_fig6, sheets.claims_fig6),
    Experiment("gpicl-fig14", "the variants: 2-D, survival, narrow, wide, low, high, sparse, dense, near and far sight",
               sheets.fig14_trials, sheets.draw_fig14, sheets.claims_fig14),
)  # fmt: skip
