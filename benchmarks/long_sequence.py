"""Speed and memory of a very long sequence, drawn in pieces and then scored in pieces by its language's exact law.

Prints one JSON object: tokens a second for each, and by how much the resident memory grew at its peak, over what it was
when the kernels had been compiled and had run once.

    python benchmarks/long_sequence.py [--length 1000000] [--piece 16384]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import neophyte
from neophyte import metalang
from neophyte.core.files import environment
from neophyte.metalang import Corpus
from neophyte.metalang.bench import peak_memory


def resident() -> int:
    """Return the resident memory of this process in bytes, or its peak so far where the system tells that alone."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return peak_memory()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def read(corpus: Corpus, index: int, piece: int) -> dict[str, float]:
    """Draw sequence `index` in pieces, score each again, and return seconds, mean nats and the largest memory seen."""
    language = corpus.language(index)
    drawn, scored, total, most = 0.0, 0.0, 0.0, 0
    context = None
    pieces = corpus.pieces(index, piece)
    while True:
        start = time.perf_counter()
        part = next(pieces, None)
        drawn += time.perf_counter() - start
        if part is None:
            break
        start = time.perf_counter()
        nll = language.nll(part.tokens, context)
        scored += time.perf_counter() - start
        if not np.array_equal(nll, part.nll):
            raise AssertionError("the score of a piece differs from what came with it")
        context, total, most = part.context.copy(), total + float(nll.sum()), max(most, resident())
    return {"drawn": drawn, "scored": scored, "nats": total / corpus.spec.context_length, "peak": most}


def measure(length: int, piece: int, **changes: Any) -> tuple[dict[str, float], int]:
    """Return what `read` finds for a sequence of `length` tokens, and the bytes by which memory grew."""
    read(metalang.corpus("train", context_length=4 * piece, **changes), 0, piece)
    before = resident()
    found = read(metalang.corpus("train", context_length=length, **changes), 1, piece)
    return found, int(found["peak"]) - before


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=1_000_000)
    parser.add_argument("--piece", type=int, default=16_384)
    options = parser.parse_args()
    results = []
    for law in ("additive", "joint"):
        found, growth = measure(options.length, options.piece, law=law)
        params = {"law": law, "context_length": options.length, "piece": options.piece, "mean_nll_nats": found["nats"]}
        for name in ("drawn", "scored"):
            value = options.length / found[name]
            results.append({"name": name, "value": value, "unit": "tokens/s", "threads": 1, "params": params})
        results.append({"name": "peak_growth", "value": growth, "unit": "bytes", "threads": 1, "params": params})
    report = {
        "family": "metalang",
        "version": neophyte.__version__,
        "machine": environment(),
        "results": results,
        "peak_memory_bytes": peak_memory(),
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
