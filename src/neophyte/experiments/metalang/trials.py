"""What the trials of the Meta-Language experiments do, each in a worker process."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from neophyte import metalang
from neophyte.core.addressing import Space
from neophyte.core.spec import from_mapping
from neophyte.evaluation.curves import Losses, model_predictor, power_law
from neophyte.evaluation.generation import continue_tokens, judge, make_probe
from neophyte.evaluation.language import TEXT, corpus_losses
from neophyte.metalang import Corpus, CorpusSpec, TextCorpus
from neophyte.models.decoder import PRESETS
from neophyte.models.loading import build_model, count_parameters, load_model, model_config
from neophyte.running.trials import Row
from neophyte.training.data import draw_tokens
from neophyte.training.loop import pick_device, train
from neophyte.training.metrics import read_metrics
from neophyte.training.spec import TrainSpec


def train_language_model(
    folder: Path, needs: dict[str, Path], *, model: str, corpus: Mapping[str, Any], settings: Mapping[str, Any]
) -> list[Row]:
    """Train a model on a corpus; rows are the lines of its metrics.

    A need, if there is one, is the trained model to start from (the paper's warm-up on easier languages).
    """
    spec = from_mapping(CorpusSpec, corpus)
    source = Corpus(spec, "train")
    run = folder / "run"
    train(
        model_config(model, {"vocab_size": spec.vocab_size}),
        from_mapping(TrainSpec, settings),
        lambda first, count: torch.from_numpy(
            draw_tokens(source, np.arange(first, first + count)).astype(np.int64, copy=False)
        ),
        run,
        data={"task": spec.identity, "context_length": spec.context_length, "split": "train", "seed": 0},
        initial=next(iter(needs.values())) / "run" if needs else None,
    )
    return [{"kind": "metrics", "model": model, **line} for line in read_metrics(run)]


def evaluate_language_model(
    folder: Path,
    needs: dict[str, Path],
    *,
    label: str,
    corpus: Mapping[str, Any],
    sequences: int,
    text: str,
    text_sequences: int,
) -> list[Row]:
    """Score a trained model (the only need) by position; rows are curves ("curve"), fits ("fit") and drops ("drop")."""
    source = Corpus(from_mapping(CorpusSpec, corpus), "eval")
    model, _ = load_model(next(iter(needs.values())) / "run")
    natural = TextCorpus(text, context_length=source.spec.context_length, vocab_size=source.spec.vocab_size)
    losses = corpus_losses(
        {label: model_predictor(model, pick_device())},
        source,
        sequences * len(source.spec.orders),
        text=natural.first(text_sequences),
        batch_size=16,
    )
    return loss_rows(losses, label)


def loss_rows(losses: Losses, label: str) -> list[Row]:
    """Return a predictor's curves and the controls' (kind "curve"), its power-law fits ("fit") and falls ("drop")."""
    groups = list(dict.fromkeys(losses.groups))
    fits = [power_law(losses, label, group) for group in groups if group != TEXT]
    rows = [{"kind": "curve", **row} for row in losses.rows()]
    rows += [{"kind": "fit", **fit} for fit in fits if fit]
    rows += [
        {"kind": "drop", "predictor": label, "group": str(group), **drop(losses, label, group)} for group in groups
    ]
    return rows


def drop(losses: Losses, predictor: str, group: Any) -> dict[str, Any]:
    """Return how far the loss falls from the first sixteenth of the context to its last quarter, and what beats it.

    Returns:
        early, late and their difference "fall" with its 95 % half-width over sequences, in nats; "late_unigram" and
        "late_oracle" (None for text) over the same last quarter.
    """
    length = losses.edges[-1]
    widths = np.diff(losses.edges)
    early, late = losses.edges[1:] <= max(1, length // 16), losses.edges[:-1] >= length * 3 // 4

    def mean(name: str, bins: np.ndarray) -> np.ndarray:
        return np.average(losses.select(name, group)[:, bins].astype(np.float64), axis=1, weights=widths[bins])

    fall = mean(predictor, early) - mean(predictor, late)
    half_width = 1.96 * fall.std(ddof=1) / np.sqrt(len(fall)) if len(fall) > 1 else float("inf")
    oracle = float(mean("oracle", late).mean()) if group != TEXT else None
    gap = mean("unigram", late) - mean(predictor, late)
    return {
        "early": float(mean(predictor, early).mean()),
        "late": float(mean(predictor, late).mean()),
        "fall": float(fall.mean()),
        "half_width": float(half_width),
        "late_unigram": float(mean("unigram", late).mean()),
        "late_oracle": oracle,
        "gap_to_unigram_half_width": float(1.96 * gap.std(ddof=1) / np.sqrt(len(gap)))
        if len(gap) > 1
        else float("inf"),
        "sequences": len(fall),
    }


def generate_items(
    folder: Path, needs: dict[str, Path], *, task: str, num_items: int, length: int, temperature: float, draws: int
) -> list[Row]:
    """Let a trained model (the only need) continue lists of items; a row for each draw and context length."""
    model, config = load_model(next(iter(needs.values())) / "run")
    device = pick_device()
    model.to(device)
    rows = []
    for part in ("half", "full"):
        count = num_items if part == "full" else num_items // 2
        probes = [make_probe(task, count, index, vocab_size=config["vocab_size"]) for index in range(draws)]
        seeds = Space(f"generation@1:{task}:{part}", "eval").stream("sampling", 0).integers(2**62, draws)
        for index, probe in enumerate(probes):
            tokens = torch.from_numpy(probe.encode())[None].to(device)
            written = continue_tokens(model, tokens, length, temperature, int(seeds[index]))
            generated = probe.decode(written[0].cpu().numpy())
            rows.append(
                {
                    "kind": "draw",
                    "task": task,
                    "context": part,
                    "draw": index,
                    "context_items": count,
                    "context_tokens": tokens.shape[1],
                    **judge(generated, probe),
                    "context_text": probe.text if index == 0 else None,
                    "generated_text": generated if index == 0 else None,
                }
            )
    return rows


def count_table(folder: Path, needs: dict[str, Path]) -> list[Row]:
    """Build the language models of Table 1 and count their parameters."""
    return [
        {
            "model": f"Meta-Language Model ({name})",
            "layers": PRESETS[name]["num_layers"],
            "d_model": PRESETS[name]["d_model"],
            "num_heads": PRESETS[name]["num_heads"],
            "parameters": count_parameters(build_model(model_config(name, {"vocab_size": 32}))),
            "paper": paper,
            "published_count": exact,
            "batch_tokens": batch,
        }
        for name, paper, exact, batch in (
            ("tiny", "303k", 303_008, 32_768),
            ("small", "9.5m", 9_484_832, 32_768),
            ("standard", "151m", 151_185_440, 65_536),
        )
    ]


def corpus_mapping(preset: str, **changes: Any) -> dict[str, Any]:
    """Return a preset's spec with changes, as JSON values for a trial's parameters."""
    return dataclasses.asdict(dataclasses.replace(metalang.PRESETS[preset].spec, **changes))
