"""The training loop: any network, any batch, one process or many, resumable to the bit."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from neophyte.core.files import locked
from neophyte.core.spec import check_choice, to_mapping
from neophyte.models.loading import build_model, load_into, newest_checkpoint
from neophyte.training.checkpoints import claim_folder, restore, save_checkpoint
from neophyte.training.data import Prefetcher
from neophyte.training.metrics import MetricsLog
from neophyte.training.spec import TrainSpec


def next_token_loss(model: nn.Module, tokens: Tensor) -> Tensor:
    """Return the mean -log p (nats) of tokens (batch, time), fed token 0 and then all but the last of them."""
    logits = model(F.pad(tokens[:, :-1], (1, 0)))
    if logits.shape[:2] != tokens.shape:
        raise ValueError(f"the model returned {tuple(logits.shape)} for tokens {tuple(tokens.shape)}; "
                         "allowed: logits (batch, time, vocab_size)")  # fmt: skip
    return F.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())


def pick_device(name: str = "auto") -> torch.device:
    """Return the device of that name; "auto" takes CUDA, then MPS, then the CPU.

    Raises:
        ValueError: The device is not there.
    """
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(kind for kind, found in there.items() if found)
    check_choice("device", name, [kind for kind, found in there.items() if found])
    if name != "cuda":
        return torch.device(name)
    # torchrun numbers the processes of a machine; one that binds each to a GPU of its own shows it that GPU only.
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())


@dataclass
class Processes:
    """This process among those of the run: one, unless `torchrun` started more."""

    rank: int = field(default_factory=lambda: int(os.environ.get("RANK", 0)))
    world_size: int = field(default_factory=lambda: int(os.environ.get("WORLD_SIZE", 1)))

    @contextlib.contextmanager
    def joined(self, device: torch.device) -> Iterator[None]:
        """Join the process group while the block runs."""
        if self.world_size == 1:
            yield
            return
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        try:
            yield
            dist.barrier()
        finally:
            dist.destroy_process_group()


def train(
    config: Mapping[str, Any],
    spec: TrainSpec,
    draw: Callable[[int, int], Tensor],
    folder: str | Path,
    *,
    data: Mapping[str, Any],
    loss: Callable[[nn.Module, Tensor], Tensor] = next_token_loss,
    initial: Path | None = None,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> nn.Module:
    """Train a network; a run that was stopped goes on from its newest checkpoint, on the CPU to the same bits.

    Args:
        config: What to build (see `models.loading`).
        spec: How to train.
        draw: (first, count) -> the batch of samples first, ..., first + count - 1, on the CPU. Called in a thread.
        folder: Where run.json, metrics.jsonl and checkpoints go.
        data: JSON values that say what `draw` draws; a run goes on only with the same.
        loss: (network, batch) -> scalar mean loss over the batch.
        initial: A model folder or run whose weights to start from.
        progress: Called with each line of metrics.

    Returns:
        The trained network, on the device.

    Raises:
        ValueError: The folder holds another run (the message names what differs), or another process trains in it.
    """
    folder, processes, device = Path(folder), Processes(), pick_device(spec.device)
    if spec.batch_size % processes.world_size:
        raise ValueError(
            f"batch_size is {spec.batch_size}; allowed: a multiple of the {processes.world_size} processes"
        )
    with processes.joined(device):
        run = {"config": dict(config), "train": to_mapping(spec), "data": dict(data), "device": device.type,
               "threads": torch.get_num_threads(), "processes": processes.world_size}  # fmt: skip
        torch.manual_seed(spec.seed)
        model = build_model(config).to(device)
        begun = claim_folder(folder, run, write=processes.rank == 0)  # after what bad arguments fail in
        lock = locked(folder / ".lock", wait=False) if processes.rank == 0 else contextlib.nullcontext()
        with lock, _threads(begun["threads"]):
            optimizer = torch.optim.Adam(model.parameters(), lr=spec.learning_rate, betas=spec.betas)
            step, losses = restore(folder, model, optimizer)
            if step == 0 and initial is not None:
                load_into(model, newest_checkpoint(initial) or initial)
            if processes.rank > 0:  # each process drops units of its own, where the network has dropout
                torch.manual_seed(hash((spec.seed, processes.rank, step)))
            if step < spec.steps:
                _run_steps(
                    model, optimizer, config, spec, draw, folder, loss, progress, processes, device, step, losses
                )
    return model


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let torch use that many threads while the block runs: sums on the CPU depend on it, to the bit."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _run_steps(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    config: Mapping[str, Any],
    spec: TrainSpec,
    draw: Callable[[int, int], Tensor],
    folder: Path,
    loss: Callable[[nn.Module, Tensor], Tensor],
    progress: Callable[[dict[str, float]], None] | None,
    processes: Processes,
    device: torch.device,
    start: int,
    losses: list[float],
) -> None:
    share = spec.batch_size // processes.world_size
    wrapped: nn.Module = torch.compile(model) if spec.compile else model  # type: ignore[assignment]
    if processes.world_size > 1:
        wrapped = DistributedDataParallel(wrapped)
    model.train()
    metrics = None
    if processes.rank == 0:
        metrics = MetricsLog(folder, start, losses, spec.log_every, spec.trackers, to_mapping(spec))
    batches = Prefetcher(lambda step: draw(step * spec.batch_size + processes.rank * share, share), start, spec.steps)
    try:
        for step, batch in enumerate(batches, start):
            for group in optimizer.param_groups:
                group["lr"] = spec.rate(step)
            value = _accumulate(wrapped, loss, batch.to(device, non_blocking=True), spec)
            norm = nn.utils.clip_grad_norm_(model.parameters(), spec.max_gradient_norm)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if processes.world_size > 1:
                dist.reduce(value, 0)  # the batch's loss, not this process's share of it
                value /= processes.world_size
            if metrics is None:
                continue
            last, tokens = step + 1 == spec.steps, batch.numel() * processes.world_size
            saves = last or (step + 1) % spec.checkpoint_every == 0
            if (saves or (step + 1) % spec.log_every == 0) and not torch.isfinite(value + norm):
                raise FloatingPointError(
                    f"the loss is {value.item()} and the gradient's norm {norm.item()} at step {step + 1}; the last "
                    "checkpoint is kept, try a lower learning_rate"
                )
            if (line := metrics.add(step, value, norm, spec.rate(step), tokens, last)) and progress:
                progress(line)
            if saves:
                save_checkpoint(folder, step + 1, model, config, optimizer, metrics.losses())
    finally:
        batches.close()
        if metrics:
            metrics.close()


def _precision(device: str, dtype: str) -> contextlib.AbstractContextManager[Any]:
    """Return what a forward pass runs in: autocast to bfloat16, or nothing."""
    return torch.autocast(device, torch.bfloat16) if dtype == "bfloat16" else contextlib.nullcontext()


def _accumulate(
    model: nn.Module, loss: Callable[[nn.Module, Tensor], Tensor], batch: Tensor, spec: TrainSpec
) -> Tensor:
    """Add the gradient of the mean loss over the batch, in micro-batches; return that loss."""
    pieces = batch.split(spec.micro_batch_size or len(batch))
    total = torch.zeros((), device=batch.device)
    for number, piece in enumerate(pieces):
        # Gradients are shared between processes once, with the last piece.
        waits = isinstance(model, DistributedDataParallel) and number + 1 < len(pieces)
        with model.no_sync() if waits else contextlib.nullcontext():  # type: ignore[operator]
            with _precision(batch.device.type, spec.dtype):
                value = loss(model, piece)
            weighted = value * (len(piece) / len(batch))
            weighted.backward()
        total += weighted.detach()
    return total
