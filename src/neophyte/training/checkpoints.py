"""A training run's folder: whose it is, and its checkpoints, which are whole or absent."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from neophyte.core.files import atomic_write, environment, read_json, write_json
from neophyte.models.loading import load_into, newest_checkpoint, save_model

# What may differ between the runs that make up one training: none of it changes a weight.
_FREE_FIELDS = ("log_every", "checkpoint_every", "evaluate_every", "trackers", "device")


def claim_folder(folder: Path, run: dict[str, Any], *, write: bool) -> dict[str, Any]:
    """Make the folder a run's own, or check that it is already; return the run as it was begun.

    Raises:
        ValueError: It holds another run, or files that are no run's.
    """
    path = folder / "run.json"
    if path.exists():
        found = read_json(path)
        kinds = {"config": dict, "train": dict, "data": dict, "threads": int}
        if not isinstance(found, dict) or not all(isinstance(found.get(k), kind) for k, kind in kinds.items()):
            raise ValueError(f"{path}: is not the record of a training run; restore it, or use another folder")
        # More steps go on, unless the schedule's shape depends on how many there are.
        free = (*_FREE_FIELDS, "steps") if run["train"]["schedule"] != "cosine" else _FREE_FIELDS
        for part in ("config", "train", "data"):
            _compare(folder, part, found.get(part, {}), run[part], free)
        for name in ("device", "processes"):
            if found.get(name) != run[name]:
                raise ValueError(f"{name} is {run[name]}, but {folder} was begun with {found.get(name)}: "
                                 "the bits would differ; use the same, or another folder")  # fmt: skip
        return found
    if folder.is_dir() and any(not file.name.startswith(".") for file in folder.iterdir()) and write:
        raise ValueError(f"{folder}: holds files but no run.json; allowed: an empty folder or a run to go on with")
    if write:
        write_json(path, {**run, "environment": environment()})
    return run


def _compare(folder: Path, part: str, found: dict[str, Any], wanted: dict[str, Any], free: Sequence[str]) -> None:
    wanted = json.loads(json.dumps(wanted))
    for name in sorted(found.keys() | wanted.keys()):
        if name not in free and found.get(name) != wanted.get(name):
            raise ValueError(f"{folder}: holds another run ({part} {name} is {found.get(name)!r} there, "
                             f"{wanted.get(name)!r} here); use another folder")  # fmt: skip


def save_checkpoint(
    folder: Path,
    step: int,
    model: nn.Module,
    config: Mapping[str, Any],
    optimizer: torch.optim.Optimizer,
    losses: Sequence[float],
) -> None:
    """Write checkpoints/step-N whole, then remove the older ones; `losses` are those that no metrics line has yet."""
    target = folder / "checkpoints" / f"step-{step:09d}"
    temporary = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    save_model(model, config, temporary)
    random_state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        random_state["cuda"] = torch.cuda.get_rng_state()
    with atomic_write(temporary / "optimizer.pt") as file:
        try:
            torch.save({"optimizer": optimizer.state_dict(), "random_state": random_state}, file)
        except RuntimeError as error:
            if isinstance(error.__context__, OSError):  # such as a full disk, which torch's own error hides
                raise error.__context__ from None
            raise
    write_json(temporary / "training.json", {"step": step, "losses": list(losses)})
    for path in [*temporary.iterdir(), temporary]:
        _sync(path)
    os.replace(temporary, target)
    for old in sorted(target.parent.glob("step-*"))[:-1]:
        shutil.rmtree(old)


def _sync(path: Path) -> None:
    """Force a file, or a folder's list of files, to the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open a folder
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def restore(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, list[float]]:
    """Load the newest checkpoint, if there is one; return the number of steps done and the losses saved with it.

    Raises:
        ValueError: A file of it is missing or damaged.
    """
    checkpoint = newest_checkpoint(folder)
    if checkpoint is None:
        return 0, []
    load_into(model, checkpoint)
    path = checkpoint / "optimizer.pt"
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    except (RuntimeError, OSError, EOFError, pickle.UnpicklingError):
        raise ValueError(f"{path}: is damaged") from None
    progress = read_json(checkpoint / "training.json")
    if not isinstance(progress, dict) or not {"step", "losses"} <= progress.keys():
        raise ValueError(f"{checkpoint / 'training.json'}: is damaged")
    try:
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random_state"]["cpu"])
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{path}: is not this run's optimizer; restore it") from None
    if torch.cuda.is_available() and "cuda" in state["random_state"]:
        torch.cuda.set_rng_state(state["random_state"]["cuda"])
    return progress["step"], progress["losses"]
