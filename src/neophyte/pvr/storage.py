"""Token tasks on disk: shards that `generate` writes, and the recipe that draws them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from neophyte.core.shards import check_recipe, write_shards
from neophyte.core.spec import check_integer, from_mapping, to_mapping
from neophyte.pvr.dataset import TokenDataset
from neophyte.pvr.spec import VERSION, TokenSpec

TASK = f"pvr-tokens@{VERSION}"
SHARD_SIZE = 1_000_000


def recipe(dataset: TokenDataset) -> dict[str, Any]:
    """Return the JSON values from which `drawer` draws the set again."""
    return {"task": TASK, "spec": to_mapping(dataset.spec), "split": dataset.split, "seed": dataset.seed}


def drawer(recipe: Mapping[str, Any], threads: int = 1) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function from indices (batch,) to rows uint8 (batch, length + 1): the tokens, and last the label.

    Raises:
        ValueError: The recipe is of another task or version.
    """
    check_recipe(recipe, TASK)
    dataset = TokenDataset(from_mapping(TokenSpec, recipe["spec"]), recipe["split"], recipe["seed"])

    def draw(indices: np.ndarray) -> np.ndarray:
        found = dataset.batch(indices, threads=threads)
        return np.column_stack([found.tokens, found.labels])

    return draw


def generate(
    dataset: TokenDataset,
    folder: str | Path,
    *,
    shard_size: int | None = None,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Write a set as shards uint8 (examples, length + 1), the label last, and a manifest (`core.shards.write_shards`).

    Args:
        dataset: What to write.
        folder: Where to; empty, or an unfinished one of the same set.
        shard_size: Examples in a shard; by default a million.
        threads: Threads to draw with.
        progress: Called with the number of examples done after each block of them.

    Returns:
        The manifest.
    """
    check_integer("threads", threads, 1, 1024)
    source = recipe(dataset)
    size = SHARD_SIZE if shard_size is None else shard_size
    return write_shards(folder, source, drawer(source, threads), len(dataset), shard_size=size, progress=progress)
