"""Work shared out among threads: the kernels hold no GIL."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache


@lru_cache
def _pool(helpers: int, process: int) -> ThreadPoolExecutor:
    """Return the helpers of a process: they wait for the next call. (A forked process has none of its parent's.)"""
    return ThreadPoolExecutor(helpers, thread_name_prefix="neophyte")


def _parts(size: int, threads: int, least: int) -> list[slice]:
    """Return parts of range(size), each a share of what is left: the last are small, so that all end together."""
    parts, first = [], 0
    while first < size:
        last = min(first + max((size - first) // (2 * threads), least), size)
        parts.append(slice(first, last))
        first = last
    return parts


def in_threads(work: Callable[[slice], None], size: int, threads: int, *, least: int = 1) -> None:
    """Call work(slice) on the parts of range(size), in this thread and helpers, so many together.

    Args:
        work: What to do.
        size: Items to share out.
        threads: Threads; the caller's is one of them.
        least: Items that are worth a part.
    """
    if threads == 1 or size < 2 * least:
        work(slice(0, size))
        return
    parts = iter(_parts(size, threads, least))

    def take() -> None:
        for part in parts:  # one thread at a time gets the next
            work(part)

    helpers = [_pool(threads - 1, os.getpid()).submit(take) for _ in range(min(threads, size // least) - 1)]
    try:
        take()
    finally:
        for helper in helpers:
            if not helper.cancel():
                helper.result()
