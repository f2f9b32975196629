"""The registered tasks of Meta-Language: every preset, under a name whose bytes are promised."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

from neophyte.core.registry import Task, register
from neophyte.metalang.dataset import Corpus
from neophyte.metalang.spec import PRESETS, VERSION, CorpusSpec

_REFUSALS: Mapping[str, Mapping[str, Any]] = {
    "vocab_size": {"vocab_size": 65_537},
    "order": {"orders": (0,)},
    "entropy_band": {"entropy_band": (1.0, 0.5)},
    "law": {"law": "adaptive"},
    "context_length": {"context_length": 0},
}


def _load(spec: CorpusSpec, split: str, seed: int) -> Corpus:
    return Corpus(spec, split, seed)


for _name, _preset in PRESETS.items():
    register(
        Task(
            name=f"metalang/{_name}@{VERSION}",
            summary=_preset.summary,
            split=_preset.split,
            load=partial(_load, _preset.spec),
            change=partial(dataclasses.replace, _preset.spec),
            refusals=_REFUSALS,
        )
    )
