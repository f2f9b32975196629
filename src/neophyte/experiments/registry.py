"""All experiments by name."""

from __future__ import annotations

from neophyte.experiments.base import Experiment
from neophyte.experiments.mazeworld import EXPERIMENTS as MAZEWORLD
from neophyte.experiments.metalang import EXPERIMENTS as METALANG
from neophyte.experiments.pvr import EXPERIMENTS as PVR

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in (*METALANG, *MAZEWORLD, *PVR)}
