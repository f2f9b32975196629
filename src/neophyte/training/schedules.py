"""Learning-rate schedules: step -> factor of the peak rate."""

from __future__ import annotations

import math


def noam(step: int, warmup_steps: int) -> float:
    """Return min(t / w, (t / w)^(-1/2)) for t = step + 1 and w = warmup_steps; its peak is 1 (gpicl, appendix 6.1)."""
    progress = (step + 1) / warmup_steps
    return min(progress, progress**-0.5)


def cosine(step: int, warmup_steps: int, steps: int, floor: float = 0.05) -> float:
    """Rise linearly over `warmup_steps`, then fall along half a cosine to `floor` at the last of `steps`."""
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    progress = min(1.0, (step - warmup_steps) / max(1, steps - 1 - warmup_steps))
    return floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * progress))
