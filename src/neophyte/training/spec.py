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
        batch_size: Samples in a step, over all processes.
        micro_batch_size: Samples in a forward pass; 0 takes each process's whole share at once. The gradient is the
            same, but for networks with batch normalisation.
        epoch_size: Samples in an epoch, whose last step may take fewer; 0 for a stream without end.
        optimizer: "adam", "sgd", "adagrad" or "lamb".
        learning_rate: Peak rate.
        schedule: "noam" (gpicl's), "cosine" or "constant".
        warmup_steps: Steps until the peak.
        final_rate: Where the cosine ends, as a share of the peak.
        betas: Decay rates of Adam and LAMB.
        momentum: Of SGD.
        weight_decay: Times the weights, added to the gradients; of LAMB to the direction.
        max_gradient_norm: Gradients are scaled down to this norm; 0 leaves them as they are.
        seed: Seed of the initial weights.
        device: "auto", "cpu", "cuda" or "mps".
        dtype: "float32", "bfloat16" for autocast, or "auto": bfloat16 where the device has matrix units for it.
        compile: Run the network through torch.compile.
        evaluate_every: Steps between evaluations, where the run has one; 0 evaluates after the last step only.
        log_every: Steps between lines of metrics.jsonl.
        checkpoint_every: Steps between checkpoints; the last step always writes one.
        trackers: Any of "tensorboard" and "wandb".
    """

    steps: int = 1000
    batch_size: int = 8
    micro_batch_size: int = 0
    epoch_size: int = 0
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    schedule: str = "noam"
    warmup_steps: int = 1000
    final_rate: float = 0.05
    betas: tuple[float, float] = (0.9, 0.98)
    momentum: float = 0.9
    weight_decay: float = 0.0
    max_gradient_norm: float = 1.0
    seed: int = 0
    device: str = "auto"
    dtype: str = "float32"
    compile: bool = False
    evaluate_every: int = 0
    log_every: int = 10
    checkpoint_every: int = 500
    trackers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        set_plain(self)
        for name in ("steps", "batch_size", "warmup_steps", "log_every", "checkpoint_every"):
            check_integer(name, getattr(self, name), 1)
        check_integer("micro_batch_size", self.micro_batch_size, 0, self.batch_size)
        check_integer("epoch_size", self.epoch_size, 0)
        check_integer("evaluate_every", self.evaluate_every, 0)
        check_choice("optimizer", self.optimizer, ("adam", "sgd", "adagrad", "lamb"))
        check_integer("seed", self.seed, 0, 2**63 - 1)
        check_real("learning_rate", self.learning_rate, 0.0, 10.0, open_low=True)
        check_real("final_rate", self.final_rate, 0.0, 1.0)
        check_real("momentum", self.momentum, 0.0, 0.999999)
        check_real("weight_decay", self.weight_decay, 0.0, 1.0)
        check_real("max_gradient_norm", self.max_gradient_norm, 0.0)
        if not isinstance(self.betas, tuple) or len(self.betas) != 2:
            raise ValueError(f"betas is {self.betas!r}; allowed: two numbers")
        for beta in self.betas:
            check_real("betas", beta, 0.0, 0.999999)
        check_choice("schedule", self.schedule, ("noam", "cosine", "constant"))
        check_choice("device", self.device, ("auto", "cpu", "cuda", "mps"))
        check_choice("dtype", self.dtype, ("auto", "float32", "bfloat16"))
        check_boolean("compile", self.compile)
        for tracker in self.trackers:
            check_choice("trackers", tracker, ("tensorboard", "wandb"))

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        if self.schedule == "noam":
            return self.learning_rate * noam(step, self.warmup_steps)
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * cosine(step, self.warmup_steps, self.steps, self.final_rate)

    def span(self, step: int) -> tuple[int, int]:
        """Return the first sample of a step, numbered through all epochs, and how many samples it takes."""
        if not self.epoch_size:
            return step * self.batch_size, self.batch_size
        epoch, place = divmod(step, -(-self.epoch_size // self.batch_size))
        first = place * self.batch_size
        return epoch * self.epoch_size + first, min(self.batch_size, self.epoch_size - first)
