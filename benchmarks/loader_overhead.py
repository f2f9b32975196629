"""What it costs to draw the training data: a model's step with data drawn by the prefetcher, and with one batch.

Both are timed in turn, round by round, in one process with one torch thread. The prefetching thread draws on another
core where there is one. Prints one JSON object; "ratio" is the median time of a step with drawn data over that with the
fixed batch.

    python benchmarks/loader_overhead.py [--family pvr] [--rounds 12] [--steps 10]

metalang: the tiny decoder on 8 sequences of 512 tokens. pvr: the MLP on 1,024 examples, m = 2, of a shuffled set of a
million.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

import neophyte
from neophyte import metalang, pvr
from neophyte.core.files import environment
from neophyte.models.loading import build_model, model_config
from neophyte.training.data import Prefetcher, corpus_batches, example_batches
from neophyte.training.loop import classification_loss, next_token_loss

# Model, samples in a batch, and tokens of a sequence of metalang.
SIDES: dict[str, dict[str, Any]] = {
    "metalang": {"model": "tiny", "batch_size": 8, "context_length": 512},
    "pvr": {"model": "mlp", "batch_size": 1024, "window": 3, "num_examples": 1_000_000},
}
SETTLING_STEPS = 3  # before the clock starts: they use up what was drawn while the other side was timed


def train(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Callable[[torch.nn.Module, Any], torch.Tensor],
    batches: Iterator[Any],
    steps: int,
) -> float:
    """Train and return the seconds a step took, on average."""
    start = 0.0
    for number, batch in enumerate(itertools.islice(batches, SETTLING_STEPS + steps)):
        if number == SETTLING_STEPS:
            start = time.perf_counter()
        loss(model, batch).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return (time.perf_counter() - start) / steps


def measure(family: str, rounds: int, steps: int) -> dict[str, list[float]]:
    """Return the seconds of a step in every round, with drawn data and with a fixed batch."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sizes = SIDES[family]
    draw: Callable[[int, int], Any]
    loss: Callable[[torch.nn.Module, Any], torch.Tensor]
    if family == "metalang":
        corpus = metalang.corpus("train", context_length=sizes["context_length"])
        (draw, _), loss, arguments = corpus_batches(corpus, 1), next_token_loss, {"vocab_size": corpus.spec.vocab_size}
    else:
        task = pvr.tokens(window=sizes["window"], num_examples=sizes["num_examples"])
        (draw, _), loss, arguments = example_batches(task, threads=1), classification_loss, {}
    model = build_model(model_config(sizes["model"], arguments))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    size = sizes["batch_size"]
    prefetcher = Prefetcher(lambda step: draw(step * size, size), 1, 900)
    sides = {"drawn": iter(prefetcher), "fixed": itertools.repeat(draw(0, size))}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    try:
        for batches in sides.values():
            train(model, optimizer, loss, batches, steps)
        for number in range(rounds):
            # Each side is first in every other round.
            for name in sorted(sides, reverse=number % 2 == 1):
                seconds[name].append(train(model, optimizer, loss, sides[name], steps))
    finally:
        prefetcher.close()
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=list(SIDES), default="metalang")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=10, help="steps in a round, of each side")
    options = parser.parse_args()
    seconds = measure(options.family, options.rounds, options.steps)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    params = {**SIDES[options.family], "rounds": options.rounds, "steps": options.steps}
    report = {
        "family": options.family,
        "version": neophyte.__version__,
        "machine": environment(),
        "results": [
            {"name": f"step_{name}", "value": 1 / medians[name], "unit": "steps/s", "threads": 1, "params": params}
            for name in seconds
        ],
        "ratio": medians["drawn"] / medians["fixed"],
        "ratios_by_round": [a / b for a, b in zip(seconds["drawn"], seconds["fixed"], strict=True)],
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
