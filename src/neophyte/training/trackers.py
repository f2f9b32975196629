"""Experiment trackers, both opt-in: TensorBoard and Weights & Biases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


class Tracker:
    """Sends metric lines to any number of writers; none by default."""

    def __init__(self) -> None:
        self._tensorboard: Any = None
        self._wandb: Any = None

    def log(self, line: Mapping[str, float]) -> None:
        """Send one line of metrics."""
        step = int(line["step"])
        for name, value in line.items():
            if self._tensorboard and name != "step":
                self._tensorboard.add_scalar(name, value, step)
        if self._wandb:
            self._wandb.log(dict(line), step=step)

    def close(self) -> None:
        """Flush and close the writers."""
        if self._tensorboard:
            self._tensorboard.close()
        if self._wandb:
            self._wandb.finish()


def make_tracker(names: Iterable[str], folder: Path, config: Mapping[str, Any]) -> Tracker:
    """Open the trackers of these names ("tensorboard", "wandb"), which write below `folder`.

    Raises:
        ValueError: One of them is not installed.
    """
    tracker = Tracker()
    try:
        if "tensorboard" in names:
            from torch.utils.tensorboard import SummaryWriter

            tracker._tensorboard = SummaryWriter(str(folder / "tensorboard"))
        if "wandb" in names:
            import wandb

            tracker._wandb = wandb.init(project="neophyte", dir=str(folder), config=dict(config))
    except ImportError as error:
        raise ValueError(
            f"trackers is {tuple(names)}: {error.name} is not installed; pip install 'neophyte[trackers]'"
        ) from None
    return tracker
