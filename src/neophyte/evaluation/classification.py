"""Classifiers on labelled examples: accuracy with its interval, and features."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from neophyte.core.contract import TaskDataset, inputs_and_labels
from neophyte.core.spec import check_integer


@dataclass(frozen=True)
class Accuracy:
    """How often a classifier is right.

    Attributes:
        correct: Examples with the right label.
        examples: Examples asked.
        loss_nats: Mean -log p of the right label.
        low: Lower end of the 95 % interval of the accuracy (Wilson).
        high: Upper end.
    """

    correct: int
    examples: int
    loss_nats: float
    low: float
    high: float

    @property
    def accuracy(self) -> float:
        """Share of right labels."""
        return self.correct / self.examples


def wilson(correct: int, examples: int, z: float = 1.959964) -> tuple[float, float]:
    """Return the 95 % interval of a share (E. B. Wilson, 1927): it stays inside [0, 1], also at 0 and 1."""
    share, scale = correct / examples, 1 + z * z / examples
    centre = (share + z * z / (2 * examples)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / examples + z * z / (4 * examples * examples))
    # At the ends the formula is exact, and its rounding is not.
    low = max(0.0, centre - half) if correct else 0.0
    high = min(1.0, centre + half) if correct < examples else 1.0
    return low, high


def each_batch(
    source: TaskDataset, count: int, device: torch.device, batch_size: int = 2000, start: int = 0
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield inputs and labels of `count` examples of a source, from `start` on, on the device."""
    check_integer("count", count, 1)
    for first in range(start, start + count, batch_size):
        indices = np.arange(first, min(first + batch_size, start + count))
        inputs, labels = inputs_and_labels(source.arrays(indices))
        yield torch.from_numpy(inputs).to(device), torch.from_numpy(labels.astype(np.int64)).to(device)


@torch.no_grad()
def measure(
    model: nn.Module, source: TaskDataset, count: int, *, device: torch.device, batch_size: int = 2000, start: int = 0
) -> Accuracy:
    """Score a classifier on the examples start, ..., start + count - 1 of a source.

    Args:
        model: Maps inputs (batch, ...) to logits (batch, classes); it is put in evaluation mode.
        source: Where the examples come from.
        count: How many.
        device: Where the model is.
        batch_size: Examples in a forward pass.
        start: The first example.
    """
    model.eval()
    correct, loss = 0, 0.0
    for inputs, labels in each_batch(source, count, device, batch_size, start):
        logits = model(inputs).float()
        correct += int((logits.argmax(dim=1) == labels).sum())
        loss += float(F.cross_entropy(logits, labels, reduction="sum"))
    return Accuracy(correct, count, loss / count, *wilson(correct, count))


def feature_batches(
    model: nn.Module, source: TaskDataset, count: int, *, device: torch.device, batch_size: int = 2000
) -> Callable[[], Iterator[np.ndarray]]:
    """Return a function that yields the model's features, float64 (batch, width), of the first examples of a source.

    Features are what its last linear layer sees: the output of `model.features`.
    """
    model.eval()

    @torch.no_grad()
    def batches() -> Iterator[np.ndarray]:
        for inputs, _ in each_batch(source, count, device, batch_size):
            yield model.features(inputs).cpu().double().numpy()  # type: ignore[operator]

    return batches
