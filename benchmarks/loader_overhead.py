"""What it costs to draw the training data: the tiny model's step with data drawn by the prefetcher, and with one batch.

Both are timed in turn, round by round, in one process with one torch thread. The prefetching thread draws on another
core where there is one. Prints one JSON object; "ratio" is the median time of a step with drawn data over that with the
fixed batch.

    python benchmarks/loader_overhead.py [--rounds 12] [--steps 10]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

import neophyte
from neophyte import metalang
from neophyte.core.files import environment
from neophyte.models.loading import build_model, model_config
from neophyte.training.data import Prefetcher, draw_tokens
from neophyte.training.loop import next_token_loss

BATCH_SIZE, CONTEXT_LENGTH = 8, 512
SETTLING_STEPS = 3  # before the clock starts: they use up what was drawn while the other side was timed


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batches: Iterator[Tensor], steps: int) -> float:
    """Train and return the seconds a step took, on average."""
    start = 0.0
    for number, batch in enumerate(itertools.islice(batches, SETTLING_STEPS + steps)):
        if number == SETTLING_STEPS:
            start = time.perf_counter()
        next_token_loss(model, batch).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return (time.perf_counter() - start) / steps


def measure(rounds: int, steps: int) -> dict[str, list[float]]:
    """Return the seconds of a step in every round, with drawn data and with a fixed batch."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    corpus = metalang.corpus("train", context_length=CONTEXT_LENGTH)
    model = build_model(model_config("tiny", {"vocab_size": corpus.spec.vocab_size}))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def draw(step: int) -> Tensor:
        indices = np.arange(step * BATCH_SIZE, (step + 1) * BATCH_SIZE)
        return torch.from_numpy(draw_tokens(corpus, indices).astype(np.int64))

    prefetcher = Prefetcher(draw, 1, 2**40)
    sides = {"drawn": iter(prefetcher), "fixed": itertools.repeat(draw(0))}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    try:
        for batches in sides.values():
            train(model, optimizer, batches, steps)
        for number in range(rounds):
            # Each side is first in every other round.
            for name in sorted(sides, reverse=number % 2 == 1):
                seconds[name].append(train(model, optimizer, sides[name], steps))
    finally:
        prefetcher.close()
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=10, help="steps in a round, of each side")
    options = parser.parse_args()
    seconds = measure(options.rounds, options.steps)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    params = {"model": "tiny", "batch_size": BATCH_SIZE, "context_length": CONTEXT_LENGTH, "rounds": options.rounds,
              "steps": options.steps}  # fmt: skip
    report = {
        "family": "metalang",
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
