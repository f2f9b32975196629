"""Measure the generators: token examples and images a second."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from neophyte.core.spec import check_integer
from neophyte.pvr.banks import load_bank
from neophyte.pvr.dataset import TokenDataset, tokens
from neophyte.pvr.visual import VisualDataset, images
from neophyte.pvr.visual_spec import preset

_BATCH = 32_768  # token examples drawn at once: they stay in the cache
_IMAGES = 1_000


def bench(
    *,
    windows: Sequence[int] = (1, 3, 6),
    aggregations: Sequence[str] = ("mod_sum", "median", "maj_vote", "min", "max"),
    threads: Sequence[int] = (1, 2),
    blocks: Sequence[str] = ("digits-iid-train",),
    root: str | Path = "data",
    examples: int = 4_000_000,
    repeats: int = 5,
) -> Iterator[dict[str, Any]]:
    """Yield results {"name", "value", "unit", "threads", "params"}; each value is the median of `repeats` wall times.

    Args:
        windows: Window sizes of the token tasks.
        aggregations: Their aggregations.
        threads: Numbers of threads.
        blocks: Presets of visual tasks.
        root: Folder of the image banks.
        examples: Token examples in a measurement; a hundredth of it for images.
        repeats: Measurements.

    Raises:
        ValueError: A setting is out of range, or an image bank is missing.
    """
    for name, values in {"examples": [examples], "repeats": [repeats], "threads": threads}.items():
        for value in values:
            check_integer(name, value, 1)
    for name in blocks:  # what is missing, say first
        spec = preset(name).spec
        for bank in {spec.pointer_bank, *spec.cell_banks}:
            load_bank(bank, root, spec.bank_part)
    for aggregation in aggregations:
        for window in windows:
            source = tokens(window=window, aggregation=aggregation)
            params = {"window": window, "aggregation": aggregation, "n": source.spec.num_values}
            for count in threads:
                rate = _rate(source, count, _BATCH * count, examples, repeats)
                yield {"name": "tokens", "value": rate, "unit": "examples/s", "threads": count, "params": params}
    for name in blocks:
        pictures = images(name, root=root)
        height, width, channels = pictures.image_shape
        params = {"preset": name, "height": height, "width": width, "channels": channels}
        for count in threads:
            rate = _rate(pictures, count, _IMAGES, examples // 100, repeats)
            yield {"name": "images", "value": rate, "unit": "images/s", "threads": count, "params": params}


def _rate(source: TokenDataset | VisualDataset, threads: int, batch: int, total: int, repeats: int) -> float:
    """Return samples a second, drawn in batches; a first round of them is left out: there all is still cold."""
    batches = max(1, total // batch)
    seconds = []
    for repeat in range(repeats + 1):
        begun = time.perf_counter()
        for number in range(batches):
            first = (repeat * batches + number) * batch
            source.batch(np.arange(first, first + batch), threads=threads)
        seconds.append(time.perf_counter() - begun)
    return batches * batch / statistics.median(seconds[1:])
