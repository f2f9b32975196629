"""Trials on blocks of images: training, the logits of held-out examples, and what a contact sheet shows."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from neophyte.core.spec import to_mapping
from neophyte.evaluation.classification import measure
from neophyte.experiments.pvr.images import dataset
from neophyte.experiments.pvr.trials import fit, make_spec, score_row
from neophyte.models.loading import count_parameters, load_model, model_config
from neophyte.running.trials import Row
from neophyte.training.loop import pick_device, pick_dtype


def train_image_classifier(
    folder: Path,
    needs: dict[str, Path],
    *,
    model: str,
    setting: str,
    task: Mapping[str, Any],
    test: Mapping[str, Any],
    root: str,
    seed: int,
    recipe: Mapping[str, Any],
    evaluations: int,
    curve_examples: int,
) -> list[Row]:
    """Train a classifier on blocks of images and score it; rows are its curve ("curve") and its scores ("result").

    The sets are "train" (the first 10,000 at most) and "test"; under holdout the test set holds the held-out classes.
    """
    source = dataset(task, "train", root, seed)
    sets = {"train": source, "test": dataset(test, "test", root)}
    config = model_config(model, {"num_classes": source.num_classes})
    settings = make_spec(recipe, len(source), seed, evaluations)
    trained, rows = fit(folder, config, settings, source, sets, curve_examples, batch_size=100)
    device = pick_device(settings.device)
    for name, one in sets.items():
        score = measure(trained, one, min(len(one), 10_000), device=device, batch_size=100)
        rows.append(score_row(name, score, constant_accuracy=float(one.label_law().max())))
    about = {
        "model": model,
        "parameters": count_parameters(trained),
        "setting": setting,
        "train_size": len(source),
        "seed": seed,
        "epochs": settings.steps / math.ceil(len(source) / settings.batch_size),
        "dtype": pick_dtype(settings.dtype, device),
    }
    return [{**about, **row} for row in rows]


@torch.no_grad()
def compare_logits(
    folder: Path,
    needs: dict[str, Path],
    *,
    settings: Mapping[str, str],
    test: Mapping[str, Any],
    root: str,
    shown: int,
    examples: int,
) -> list[Row]:
    """Score held-out examples with networks that were trained with and without holdout.

    Rows: "logit" for each class of the first `shown` examples, and for each network "rank": how often the classes that
    are held out of the pointed cell are exactly the lowest, and by how much their mean logit is above the rest's.

    Args:
        folder: The trial's own.
        needs: The trained networks.
        settings: The name of the need by setting, "iid" and "holdout".
        test: The test set under holdout, fields of `VisualSpec`.
        root: Folder of the image banks.
        shown: Examples whose logits are kept.
        examples: Examples of the summary.
    """
    source = dataset(test, "test", root)
    batch = source.batch(np.arange(examples))
    held_out = np.zeros((examples, source.num_classes), dtype=bool)
    for row, pointer in enumerate(batch.pointers):
        held_out[row, list(source.spec.held_out[pointer])] = True
    rows: list[Row] = []
    for setting, need in settings.items():
        model, _ = load_model(needs[need] / "run")
        device = pick_device()
        model.to(device).eval()
        pieces = torch.from_numpy(batch.images).split(100)
        logits = torch.cat([model(piece.to(device)).float().cpu() for piece in pieces]).numpy()
        for example in range(shown):
            about = {"kind": "logit", "setting": setting, "example": example, "label": int(batch.labels[example])}
            rows += [{**about, "class": label, "logit": value, "held_out": bool(held_out[example, label])}
                     for label, value in enumerate(logits[example].tolist())]  # fmt: skip
        # The k-th lowest logit of each example, k the number of held-out classes: none of these may lie above it.
        ranks = logits.argsort(axis=1).argsort(axis=1)
        lowest = (np.where(held_out, ranks, -1).max(axis=1) < held_out.sum(axis=1)).mean()
        gaps = np.array([line[mask].mean() - line[~mask].mean() for line, mask in zip(logits, held_out, strict=True)])
        rows.append({"kind": "rank", "setting": setting, "examples": examples, "lowest": float(lowest),
                     "gap": float(gaps.mean()), "half_width": float(1.96 * gaps.std(ddof=1) / math.sqrt(examples)),
                     "accuracy": float((logits.argmax(axis=1) == batch.labels).mean()),
                     "spec": json.dumps(to_mapping(source.spec)), "root": root})  # fmt: skip
    return rows


def show_examples(
    folder: Path, needs: dict[str, Path], *, tasks: Mapping[str, Mapping[str, Any]], root: str, shown: int
) -> list[Row]:
    """Say what the first examples of some tasks are, for a contact sheet; a row ("example") for each.

    A row has no pixels but the address that they are drawn from: spec, split and root.
    """
    rows: list[Row] = []
    for name, task in tasks.items():
        source = dataset(task, "test" if "test" in name else "train", root)
        batch = source.batch(np.arange(shown))
        address = {"spec": json.dumps(to_mapping(source.spec)), "split": source.split, "root": root}
        pointers = batch.classes[:, source.spec.pointer_cell]
        rows += [{"kind": "example", "set": name, "example": i, "pointer_class": int(pointers[i]),
                  "cell": int(batch.pointers[i]), "label": int(batch.labels[i]), **address}
                 for i in range(shown)]  # fmt: skip
    return rows
