"""The training loop: any network, any batch, one process or many, resumable to the bit."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from neophyte.training.optimizers import make_optimizer
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


def pick_dtype(name: str, device: torch.device) -> str:
    """Return the precision of matrix products by name; "auto" takes bfloat16 where the device has units for it."""
    if name != "auto":
        return name
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    has_units = getattr(torch.cpu, "_is_amx_tile_supported", bool)  # older versions of torch do not tell
    return "bfloat16" if device.type == "cpu" and has_units() else "float32"


@dataclass
class Processes:
    """This process among those of the run: one, unless `torchrun` started more."""

    rank: int = field(default_factory=lambda: int(os.environ.get("RANK", 0)))
    world_size: int = field(default_factory=lambda: int(os.environ.get("WORLD_SIZE", 1)))

    def share(self, first: int, count: int) -> tuple[int, int]:
        """Return this process's part of the samples first, ..., first + count - 1."""
        low, high = (count * rank // self.world_size for rank in (self.rank, self.rank + 1))
        return first + low, high - low

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


Batch = Tensor | tuple[Tensor, ...]  # axis 0 of each is the sample


def classification_loss(model: nn.Module, batch: Batch) -> Tensor:
    """Return the mean -log p (nats) of the labels (batch,) of a pair (inputs, labels)."""
    inputs, labels = batch
    logits = model(inputs)
    if logits.shape[:-1] != labels.shape:
        raise ValueError(f"the model returned {tuple(logits.shape)} for {len(labels)} inputs; allowed: logits "
                         "(batch, num_classes)")  # fmt: skip
    return F.cross_entropy(logits.float(), labels)


def train(
    config: Mapping[str, Any],
    spec: TrainSpec,
    draw: Callable[[int, int], Batch],
    folder: str | Path,
    *,
    data: Mapping[str, Any],
    loss: Callable[[nn.Module, Any], Tensor] = next_token_loss,
    evaluate: Callable[[nn.Module], Mapping[str, float]] | None = None,
    initial: Path | None = None,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> nn.Module:
    """Train a network; a run that was stopped goes on from its newest checkpoint, on the CPU to the same bits.

    Args:
        config: What to build (see `models.loading`).
        spec: How to train.
        draw: (first, count) -> the batch of samples first, ..., first + count - 1, on the CPU: a tensor, or several.
            They are numbered on from epoch to epoch, and a batch lies in one epoch. Called in a thread.
        folder: Where run.json, metrics.jsonl and checkpoints go.
        data: JSON values that say what `draw` draws; a run goes on only with the same.
        loss: (network, batch) -> scalar mean loss over the batch.
        evaluate: (network) -> values by name, which join the metrics of every `evaluate_every`-th step and the last.
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
    if 0 < spec.epoch_size % spec.batch_size < processes.world_size:
        raise ValueError(f"epoch_size is {spec.epoch_size}; allowed: one whose last step has a sample for each of the "
                         f"{processes.world_size} processes")  # fmt: skip
    with processes.joined(device):
        settings = {**to_mapping(spec), "dtype": pick_dtype(spec.dtype, device)}
        run = {"config": dict(config), "train": settings, "data": dict(data), "device": device.type,
               "threads": torch.get_num_threads(), "processes": processes.world_size}  # fmt: skip
        torch.manual_seed(spec.seed)
        model = build_model(config).to(device)
        begun = claim_folder(folder, run, write=processes.rank == 0)  # after what bad arguments fail in
        lock = locked(folder / ".lock", wait=False) if processes.rank == 0 else contextlib.nullcontext()
        with lock, _threads(begun["threads"]):
            optimizer = make_optimizer(model.parameters(), spec)
            step, losses = restore(folder, model, optimizer)
            if step == 0 and initial is not None:
                load_into(model, newest_checkpoint(initial) or initial)
            if processes.rank > 0:  # each process drops units of its own, where the network has dropout
                torch.manual_seed(hash((spec.seed, processes.rank, step)))
            if step < spec.steps:
                _run_steps(
                    model, optimizer, config, spec, draw, folder, loss, evaluate, progress, processes, device, step,
                    losses,
                )  # fmt: skip
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
    draw: Callable[[int, int], Batch],
    folder: Path,
    loss: Callable[[nn.Module, Any], Tensor],
    evaluate: Callable[[nn.Module], Mapping[str, float]] | None,
    progress: Callable[[dict[str, float]], None] | None,
    processes: Processes,
    device: torch.device,
    start: int,
    losses: list[float],
) -> None:
    precision = pick_dtype(spec.dtype, device)
    wrapped: nn.Module = torch.compile(model) if spec.compile else model  # type: ignore[assignment]
    if processes.world_size > 1:
        wrapped = DistributedDataParallel(wrapped)
    model.train()
    metrics = None
    if processes.rank == 0:
        metrics = MetricsLog(folder, start, losses, spec.log_every, spec.trackers, to_mapping(spec))
    batches = Prefetcher(lambda step: draw(*processes.share(*spec.span(step))), start, spec.steps)
    try:
        for step, batch in enumerate(batches, start):
            for group in optimizer.param_groups:
                group["lr"] = spec.rate(step)
            parts = [part.to(device, non_blocking=True) for part in _parts(batch)]
            weight = processes.world_size / spec.span(step)[1]  # of a sample: shares need not be equal
            value = _accumulate(wrapped, loss, parts, weight, spec.micro_batch_size, precision)
            norm = nn.utils.clip_grad_norm_(model.parameters(), spec.max_gradient_norm or math.inf)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if processes.world_size > 1:
                dist.reduce(value, 0)  # the batch's loss, not this process's share of it
                value /= processes.world_size
            if metrics is None:
                continue
            last = step + 1 == spec.steps
            saves = last or (step + 1) % spec.checkpoint_every == 0
            evaluates = evaluate and (last or (spec.evaluate_every and (step + 1) % spec.evaluate_every == 0))
            if (saves or evaluates or (step + 1) % spec.log_every == 0) and not torch.isfinite(value + norm):
                raise FloatingPointError(
                    f"the loss is {value.item()} and the gradient's norm {norm.item()} at step {step + 1}; the last "
                    "checkpoint is kept, try a lower learning_rate"
                )
            found = _evaluated(model, evaluate) if evaluate and evaluates else {}
            size, unit = _size(batch, spec.span(step)[1])
            if (line := metrics.add(step, value, norm, spec.rate(step), size, unit, last, found)
                ) and progress:  # fmt: skip
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


def _parts(batch: Batch) -> tuple[Tensor, ...]:
    """Return the tensors of a batch."""
    return (batch,) if isinstance(batch, Tensor) else batch


def _size(batch: Batch, samples: int) -> tuple[int, str]:
    """Return the size of a step of so many samples for its rate: in tokens of token sequences, else in examples."""
    return (samples * batch.shape[1:].numel(), "tokens") if isinstance(batch, Tensor) else (samples, "examples")


def _evaluated(model: nn.Module, evaluate: Callable[[nn.Module], Mapping[str, float]]) -> dict[str, float]:
    """Evaluate the network in evaluation mode; nothing of the training changes by it."""
    device = next(model.parameters()).device
    model.eval()
    # Not inference_mode: what a model keeps of its last call must serve the training too.
    with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.no_grad():
        found = {name: float(value) for name, value in evaluate(model).items()}
    model.train()
    return found


def _accumulate(
    model: nn.Module,
    loss: Callable[[nn.Module, Any], Tensor],
    parts: Sequence[Tensor],
    weight: float,
    micro_batch_size: int,
    precision: str,
) -> Tensor:
    """Add the gradient of the loss, `weight` for each sample, in micro-batches; return that loss."""
    pieces = list(zip(*(part.split(micro_batch_size or len(part)) for part in parts), strict=True))
    device = parts[0].device
    total = torch.zeros((), device=device)
    for number, piece in enumerate(pieces):
        # Gradients are shared between processes once, with the last piece.
        waits = isinstance(model, DistributedDataParallel) and number + 1 < len(pieces)
        with model.no_sync() if waits else contextlib.nullcontext():  # type: ignore[operator]
            with _precision(device.type, precision):
                value = loss(model, piece if len(parts) > 1 else piece[0])
            weighted = value * (len(piece[0]) * weight)
            weighted.backward()
        total += weighted.detach()
    return total
