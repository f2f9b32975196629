"""`TrainSpec`: how to train. It needs no torch, so that the command line can show it at once."""

from __future__ import annotations

from dataclasses import dataclass

from neophyte.core.spec import check_boolean, check_choice, check_integer, check_real, set_plain
from neophyte.training.schedules import cosine, noam


@dataclass(frozen=True, kw_only=True)
class TrainSpec:
    """How to train.

    Attributes:
        steps: Optimiser steps.
        batch_size: Sequences in a step, over all processes.
        micro_batch_size: Sequences in a forward pass; 0 takes each process's whole share at once.
        learning_rate: Peak rate of Adam.
        schedule: "noam" (the paper's) or "cosine".
        warmup_steps: Steps until the peak.
        betas: Adam's decay rates.
        max_gradient_norm: Gradients are scaled down to this norm.
        seed: Seed of the initial weights.
        device: "auto", "cpu", "cuda" or "mps".
        dtype: "float32", or "bfloat16" for autocast.
        compile: Run the network through torch.compile.
        log_every: Steps between lines of metrics.jsonl.
        checkpoint_every: Steps between checkpoints; the last step always writes one.
        trackers: Any of "tensorboard" and "wandb".
    """

    steps: int = 1000
    batch_size: int = 8
    micro_batch_size: int = 0
    learning_rate: float = 1e-3
    schedule: str = "noam"
    warmup_steps: int = 1000
    betas: tuple[float, float] = (0.9, 0.98)
    max_gradient_norm: float = 1.0
    seed: int = 0
    device: str = "auto"
    dtype: str = "float32"
    compile: bool = False
    log_every: int = 10
    checkpoint_every: int = 500
    trackers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        set_plain(self)
        for name in ("steps", "batch_size", "warmup_steps", "log_every", "checkpoint_every"):
            check_integer(name, getattr(self, name), 1)
        check_integer("micro_batch_size", self.micro_batch_size, 0, self.batch_size)
        check_integer("seed", self.seed, 0, 2**63 - 1)
        check_real("learning_rate", self.learning_rate, 0.0, 10.0, open_low=True)
        check_real("max_gradient_norm", self.max_gradient_norm, 0.0, open_low=True)
        if not isinstance(self.betas, tuple) or len(self.betas) != 2:
            raise ValueError(f"betas is {self.betas!r}; allowed: two numbers")
        for beta in self.betas:
            check_real("betas", beta, 0.0, 0.999999)
        check_choice("schedule", self.schedule, ("noam", "cosine"))
        check_choice("device", self.device, ("auto", "cpu", "cuda", "mps"))
        check_choice("dtype", self.dtype, ("float32", "bfloat16"))
        check_boolean("compile", self.compile)
        for tracker in self.trackers:
            check_choice("trackers", tracker, ("tensorboard", "wandb"))

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        if self.schedule == "noam":
            return self.learning_rate * noam(step, self.warmup_steps)
        return self.learning_rate * cosine(step, self.warmup_steps, self.steps)
