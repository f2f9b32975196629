"""What the trials of the Meta-Language experiments do, each in a worker process."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import torch

from neophyte.core.addressing import Space
from neophyte.core.spec import from_mapping
from neophyte.evaluation.curves import load_losses, mean_interval, save_losses, span_means
from neophyte.evaluation.generation import judge, make_probe
from neophyte.evaluation.language import corpus_losses, loss_rows
from neophyte.evaluation.networks import continue_tokens, model_predictor
from neophyte.metalang import Corpus, CorpusSpec, TextCorpus
from neophyte.models.loading import build_model, count_parameters, load_model, model_config
from neophyte.models.presets import PRESETS
from neophyte.running.trials import Row
from neophyte.training.data import corpus_batches
from neophyte.training.loop import pick_device, train
from neophyte.training.metrics import read_metrics
from neophyte.training.spec import TrainSpec

LOSSES_FILE = "losses.npz"


def train_language_model(
    folder: Path, needs: dict[str, Path], *, model: str, corpus: Mapping[str, Any], settings: Mapping[str, Any]
) -> list[Row]:
    """Train a model on a corpus; rows are the lines of its metrics.

    A need, if there is one, is the trained model to start from (the paper's warm-up on easier languages).
    """
    spec = from_mapping(CorpusSpec, corpus)
    draw, data = corpus_batches(Corpus(spec, "train"))
    run = folder / "run"
    train(
        model_config(model, {"vocab_size": spec.vocab_size}),
        from_mapping(TrainSpec, settings),
        draw,
        run,
        data=data,
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
    save_losses(losses, folder / LOSSES_FILE)
    return loss_rows(losses, label)


def compare_language_models(folder: Path, needs: dict[str, Path], *, labels: list[str]) -> list[Row]:
    """Compare every pair of models over the last quarter of the context, on the sequences that both have scored.

    The needs are their evaluations, "evaluate-LABEL"; a row ("difference") for each pair and group.
    """
    losses = {label: load_losses(needs[f"evaluate-{label}"] / LOSSES_FILE) for label in labels}
    rows = []
    for one, other in combinations(labels, 2):
        for group in dict.fromkeys(losses[one].groups):
            late = [span_means(losses[name], name, group, 0.75, 1.0) for name in (one, other)]
            mean, half_width = mean_interval(late[0] - late[1])
            rows.append(
                {
                    "kind": "difference",
                    "predictor": one,
                    "other": other,
                    "group": str(group),
                    "late_difference": float(mean),
                    "half_width": float(half_width),
                    "sequences": len(late[0]),
                }
            )
    return rows


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
