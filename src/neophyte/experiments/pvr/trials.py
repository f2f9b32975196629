"""What the trials of the Pointer Value Retrieval experiments do, each in a worker process."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from neophyte.core.contract import TaskDataset
from neophyte.core.spec import check_integer, from_mapping
from neophyte.evaluation.classification import Accuracy, each_batch, measure
from neophyte.models.loading import build_model, count_parameters, model_config
from neophyte.pvr import TokenDataset, TokenSpec, held_out_windows, memorisation, overlap, variables
from neophyte.pvr.references import task_law
from neophyte.running.trials import Row
from neophyte.training.data import ExampleSource, example_batches
from neophyte.training.loop import classification_loss, pick_device, pick_dtype, train
from neophyte.training.metrics import read_metrics
from neophyte.training.spec import TrainSpec


def make_spec(recipe: Mapping[str, Any], size: int, seed: int, evaluations: int) -> TrainSpec:
    """Return how to train on a set of that size.

    Args:
        recipe: Fields of `TrainSpec`, and "epochs", "warmup_epochs" and "min_steps" (at least so many, for tiny sets),
            from which "steps" and "warmup_steps" follow where they are not given.
        size: Examples in the training set.
        seed: Seed of the weights.
        evaluations: How often to evaluate during training.
    """
    fields = dict(recipe)
    epochs, warmup, least = (fields.pop(name) for name in ("epochs", "warmup_epochs", "min_steps"))
    per_epoch = math.ceil(size / fields["batch_size"])
    steps = fields.pop("steps", max(epochs * per_epoch, least))
    check_integer("steps", steps, 1)
    rises = min(warmup * per_epoch, steps // 2)  # the paper's 10 of 200 epochs; a short run falls too
    every = max(1, steps // evaluations)
    return from_mapping(TrainSpec, {
        "steps": steps, "epoch_size": size, "warmup_steps": max(1, rises), "seed": seed,
        "evaluate_every": every, "log_every": min(every, 100), "checkpoint_every": 1000, **fields,
    })  # fmt: skip


def fit(
    folder: Path,
    config: Mapping[str, Any],
    spec: TrainSpec,
    source: ExampleSource,
    sets: Mapping[str, TaskDataset],
    examples: int,
    batch_size: int = 2000,
) -> tuple[nn.Module, list[Row]]:
    """Train a classifier and return it with its learning curve: a row ("curve") for each evaluation.

    Args:
        folder: The trial's folder; the run goes into its "run".
        config: The network.
        spec: How to train.
        source: The training set.
        sets: What to evaluate on while training, by name.
        examples: The first so many of each set, at most.
        batch_size: Examples in a forward pass of an evaluation.
    """
    device = pick_device(spec.device)

    def evaluate(model: nn.Module) -> dict[str, float]:
        found = {
            name: measure(model, one, min(examples, len(one)), device=device, batch_size=batch_size)
            for name, one in sets.items()
        }
        return {f"{name}_accuracy": score.accuracy for name, score in found.items()}

    draw, data = example_batches(source, shuffle_seed=spec.seed)
    run = folder / "run"
    model = train(config, spec, draw, run, data=data, loss=classification_loss, evaluate=evaluate)
    per_epoch = math.ceil(len(source) / spec.batch_size)
    curve = [
        {"kind": "curve", "step": line["step"], "epoch": line["step"] / per_epoch, "loss_nats": line["loss_nats"],
         **{name: value for name, value in line.items() if name.endswith("_accuracy")}}
        for line in read_metrics(run)
        if any(name.endswith("_accuracy") for name in line)
    ]  # fmt: skip
    return model, curve


def score_row(name: str, score: Accuracy, **more: Any) -> Row:
    """Return the row ("result") of a classifier's accuracy on the set of that name."""
    return {"kind": "result", "set": name, "accuracy": score.accuracy, "low": score.low, "high": score.high,
            "loss_nats": score.loss_nats, "examples": score.examples, **more}  # fmt: skip


def train_token_classifier(
    folder: Path,
    needs: dict[str, Path],
    *,
    model: str,
    task: Mapping[str, Any],
    seed: int,
    recipe: Mapping[str, Any],
    evaluations: int,
    curve_examples: int,
    test_examples: int,
) -> list[Row]:
    """Train a classifier on a token task and score it; rows are its curve ("curve") and its scores ("result").

    The sets are "train" (all of it, or the first `test_examples`), "test" (fresh examples of the training
    distribution), and where windows are held out "first" (the paper's test: the first of them), "held_out" (all of
    them) and one named by each of them.
    """
    spec = from_mapping(TokenSpec, task)
    source = TokenDataset(spec, "train", seed)
    sets = {"train": source, "test": _test_set(spec, spec.part, test_examples)}
    if spec.holdout != "none":
        sets["held_out"] = _test_set(spec, "test", test_examples)
    if spec.holdout == "permutations":
        sets["first"] = _test_set(spec, "first", test_examples)
    config = model_config(model, {"length": spec.length, "alphabet": spec.alphabet, "num_classes": spec.classes})
    settings = make_spec(recipe, len(source), seed, evaluations)
    trained, rows = fit(folder, config, settings, source, sets, curve_examples)
    device = pick_device(settings.device)
    for name, one in sets.items():
        score = measure(trained, one, min(len(one), test_examples), device=device)
        rows.append(score_row(name, score, constant_accuracy=float(task_law(one).max())))
    if spec.holdout in ("permutations", "balanced"):
        rows += _each_window(trained, sets["held_out"], device)
    seen = overlap(source, sets["test"])
    test = next(row for row in rows if row.get("set") == "test")
    test["seen_cases"] = seen.cases / seen.test
    if spec.holdout == "none" and spec.hops == 1:
        test["memorisation"] = memorisation(spec, len(source))
    about = {
        "model": model,
        "parameters": count_parameters(trained),
        "neighbours": spec.window - 1,
        "aggregation": spec.aggregation,
        "pointer": spec.pointer,
        "holdout": spec.holdout,
        "holdout_count": spec.holdout_count,
        "train_size": len(source),
        "seed": seed,
        "optimizer": settings.optimizer,
        "learning_rate": settings.learning_rate,
        "batch_size": settings.batch_size,
        "epochs": settings.steps / math.ceil(len(source) / settings.batch_size),
        "dtype": pick_dtype(settings.dtype, device),
    }
    return [{**about, **row} for row in rows]


def _test_set(spec: TokenSpec, part: str, examples: int) -> TokenDataset:
    """Return fresh examples; they are the same for every training seed."""
    return TokenDataset(dataclasses.replace(spec, part=part, num_examples=examples), "test", 0)


@torch.no_grad()
def _each_window(model: nn.Module, source: TokenDataset, device: torch.device) -> list[Row]:
    """Return a row for each held-out window: the accuracy on the examples of `source` that have it."""
    windows = held_out_windows(source.spec)
    correct, counts = np.zeros(len(windows), dtype=int), np.zeros(len(windows), dtype=int)
    names = {tuple(window): number for number, window in enumerate(windows.tolist())}
    for inputs, labels in each_batch(source, len(source), device):
        right = (model(inputs).argmax(dim=1) == labels).cpu().numpy()
        shown = variables(inputs.cpu().numpy(), source.spec).windows.tolist()
        which = np.array([names[tuple(window)] for window in shown])
        np.add.at(correct, which, right)
        np.add.at(counts, which, 1)
    return [
        {"kind": "result", "set": "window " + " ".join(map(str, window)), "accuracy": float(correct[n] / counts[n]),
         "examples": int(counts[n])}
        for window, n in names.items() if counts[n]
    ]  # fmt: skip


def count_table(folder: Path, needs: dict[str, Path], *, published: Mapping[str, int]) -> list[Row]:
    """Build the networks of Table 1 and count their parameters."""
    return [
        {"model": name, "parameters": count_parameters(build_model(model_config(name, {}))), "published_count": count}
        for name, count in published.items()
    ]
