"""Corpora on disk: shards that `generate` writes, and the recipe that draws them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from neophyte.core.shards import check_recipe, write_shards
from neophyte.core.spec import check_integer, from_mapping, to_mapping
from neophyte.metalang.dataset import Corpus
from neophyte.metalang.language import token_dtype
from neophyte.metalang.spec import VERSION, CorpusSpec

TASK = f"metalang@{VERSION}"


def recipe(corpus: Corpus) -> dict[str, Any]:
    """Return the JSON values from which `drawer` draws the corpus again."""
    return {"task": TASK, "spec": to_mapping(corpus.spec), "split": corpus.split, "seed": corpus.seed}


def drawer(recipe: Mapping[str, Any], threads: int = 1) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function from indices (batch,) to tokens (batch, time) of a recipe.

    Raises:
        ValueError: The recipe is of another task or version.
    """
    check_recipe(recipe, TASK)
    corpus = Corpus(from_mapping(CorpusSpec, recipe["spec"]), recipe["split"], recipe["seed"])
    return lambda indices: corpus.batch(indices, threads=threads).tokens


def generate(
    corpus: Corpus,
    folder: str | Path,
    *,
    shard_size: int | None = None,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Write a corpus as shards of uint8 (uint16) tokens and a manifest (see `core.shards.write_shards`).

    Args:
        corpus: What to write.
        folder: Where to; empty, or an unfinished one of the same corpus.
        shard_size: Sequences in a shard; by default 8,192, or as many as make a quarter of a gigabyte if that is fewer.
        threads: Threads to draw with.
        progress: Called with the number of sequences done after each block of them.

    Returns:
        The manifest.
    """
    check_integer("threads", threads, 1, 1024)
    source = recipe(corpus)
    if shard_size is None:
        width = corpus.spec.context_length * token_dtype(corpus.spec.vocab_size).itemsize
        shard_size = max(1, min(8192, 2**28 // width))
    return write_shards(folder, source, drawer(source, threads), len(corpus), shard_size=shard_size, progress=progress)
