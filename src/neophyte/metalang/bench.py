"""Measure the generator: tokens a second by order, law and threads, calibration apart, and peak memory."""

from __future__ import annotations

import dataclasses
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from neophyte.core.spec import check_integer
from neophyte.metalang.dataset import Corpus, corpus
from neophyte.metalang.references import score_controls
from neophyte.metalang.spec import CorpusSpec


def bench(
    *,
    orders: Sequence[int] = (2, 4, 6, 8),
    laws: Sequence[str] = ("additive", "joint"),
    threads: Sequence[int] = (1, 2),
    context_length: int = 4096,
    sequences: int = 64,
    repeats: int = 5,
) -> Iterator[dict[str, Any]]:
    """Yield results {"name", "value", "unit", "threads", "params"}; each value is the median of `repeats` wall times.

    Languages are drawn inside the measurement. "generate" keeps lam fixed, "generate_calibrated" solves for it, and
    "controls" scores all controls.
    """
    for name, values in {"sequences": [sequences], "repeats": [repeats], "threads": threads}.items():
        for value in values:
            check_integer(name, value, 1)
    for law in laws:
        for order in orders:
            spec = CorpusSpec(orders=(order,), law=law, context_length=context_length)
            params = {"law": law, "order": order, "vocab_size": spec.vocab_size, "hidden_dim": spec.hidden_dim,
                      "context_length": context_length}  # fmt: skip
            for count in threads:
                for name, calibrate in (("generate", False), ("generate_calibrated", True)):
                    source = corpus(dataclasses.replace(spec, calibrate=calibrate))
                    rate = _tokens_per_second(source, sequences, count, repeats)
                    yield {"name": name, "value": rate, "unit": "tokens/s", "threads": count, "params": params}
    batch = corpus("eval", context_length=context_length).batch(np.arange(14))
    score_controls(batch.tokens[:1], 32, orders=batch.orders[:1])
    start = time.perf_counter()
    scored = score_controls(batch.tokens, 32, orders=batch.orders)
    rate = batch.tokens.size / (time.perf_counter() - start)
    params = {"vocab_size": 32, "context_length": context_length, "controls": len(scored)}
    yield {"name": "controls", "value": rate, "unit": "tokens/s", "threads": 1, "params": params}
    yield {"name": "peak_memory", "value": peak_memory(), "unit": "bytes", "threads": max(threads), "params": {}}


def _tokens_per_second(source: Corpus, sequences: int, threads: int, repeats: int) -> float:
    source.batch(np.arange(threads), threads=threads)  # compiles, or reads the cache
    seconds = []
    for repeat in range(repeats):
        start = time.perf_counter()
        source.batch(np.arange(sequences) + repeat * sequences, threads=threads)
        seconds.append(time.perf_counter() - start)
    return sequences * source.spec.context_length / statistics.median(seconds)


def peak_memory() -> int:
    """Return the peak resident memory of this process in bytes, or 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)
