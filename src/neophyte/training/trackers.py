"""Experiment trackers, both opt-in: TensorBoard and Weights & Biases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from neophyte.core.spec import digest


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


def make_tracker(names: Iterable[str], folder: Path, config: Mapping[str, Any], start: int = 0) -> Tracker:
    """Open the trackers of these names ("tensorboard", "wandb"), which write below `folder`, after step `start`.

    Raises:
        ValueError: One of them is not installed.
    """
    tracker = Tracker()
    try:
        if "tensorboard" in names:
            from torch.utils.tensorboard import SummaryWriter

            tracker._tensorboard = SummaryWriter(str(folder / "tensorboard"), purge_step=start + 1)
        if "wandb" in names:
            import wandb

            run = digest(str(folder.resolve()))  # a run that goes on is the same run there
            tracker._wandb = wandb.init(
                project="neophyte", dir=str(folder), config=dict(config), id=run, resume="allow"
            )
    except ImportError as error:
        raise ValueError(
            f"trackers is {tuple(names)}: {error.name} is not installed; pip install 'neophyte[trackers]'"
        ) from None
    return tracker
