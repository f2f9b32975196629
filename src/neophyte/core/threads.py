"""Work shared out among threads: the kernels hold no GIL."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_PARTS = 4  # a thread; they are taken as each gets free


def in_threads(work: Callable[[slice], None], size: int, threads: int) -> None:
    """Call work(slice) on the parts of range(size), in so many threads; in this one where there is one part."""
    parts = min(_PARTS * threads, size) if threads > 1 else 1
    if parts <= 1:
        work(slice(0, size))
        return
    edges = [size * part // parts for part in range(parts + 1)]
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work, slice(a, b)) for a, b in itertools.pairwise(edges)]:
            done.result()
