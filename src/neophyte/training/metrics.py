"""metrics.jsonl: what a training run measured, a JSON object a line."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from neophyte.core.files import atomic_write
from neophyte.training.trackers import make_tracker


class MetricsLog:
    """metrics.jsonl, a JSON object a line, and the trackers that were asked for."""

    def __init__(
        self,
        folder: Path,
        start: int,
        losses: Iterable[float],
        log_every: int,
        trackers: Iterable[str],
        settings: Mapping[str, Any],
    ) -> None:
        self._tracker = make_tracker(trackers, folder, settings, start)
        path = folder / "metrics.jsonl"
        # Lines after the checkpoint are about to be made again.
        kept = [line for line in _read_lines(path) if _parse(line, path)["step"] <= start]
        with atomic_write(path, "w") as file:
            file.writelines(line + "\n" for line in kept)
        self._file = path.open("a", encoding="utf-8")
        self._log_every = log_every
        self._losses: list[Tensor] = [torch.tensor(loss) for loss in losses]
        self._size = 0
        self._since = time.perf_counter()

    def add(
        self,
        step: int,
        loss: Tensor,
        gradient_norm: Tensor,
        learning_rate: float,
        size: int,
        unit: str,
        last: bool,
        evaluated: Mapping[str, float],
    ) -> dict[str, float] | None:
        """Note a step of `size` units; write a line and return it every `log_every` steps, at the last, and where the
        step was evaluated."""
        self._losses.append(loss)
        self._size += size
        if (step + 1) % self._log_every and not last and not evaluated:
            return None
        line = {
            "step": step + 1,
            "loss_nats": torch.stack([loss.to(self._losses[-1].device) for loss in self._losses]).mean().item(),
            "learning_rate": learning_rate,
            "gradient_norm": gradient_norm.item(),
            f"{unit}_per_second": self._size / (time.perf_counter() - self._since),
        }
        if taken := line.keys() & evaluated.keys():
            raise ValueError(f"evaluate returned {', '.join(sorted(taken))}; allowed: other names than the training's")
        line |= evaluated
        self._losses, self._size, self._since = [], 0, time.perf_counter()
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        self._tracker.log(line)
        return line

    def losses(self) -> list[float]:
        """Return the losses since the last line, which a checkpoint keeps."""
        return [loss.item() for loss in self._losses]

    def close(self) -> None:
        """Close the file and the trackers."""
        self._file.close()
        self._tracker.close()


def _read_lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    return lines[:-1]  # what follows the last newline was cut short by a kill


def read_metrics(folder: str | Path) -> list[dict[str, float]]:
    """Return the lines of a run's metrics.jsonl.

    Raises:
        ValueError: A line is damaged.
    """
    path = Path(folder) / "metrics.jsonl"
    return [_parse(line, path) for line in _read_lines(path)]


def _parse(line: str, path: Path) -> dict[str, float]:
    try:
        values = json.loads(line)
    except json.JSONDecodeError:
        values = None
    if not isinstance(values, dict) or not {"step", "loss_nats"} <= values.keys():
        raise ValueError(f"{path}: holds the damaged line {line[:60]!r}; restore it, or remove the line")
    return values
