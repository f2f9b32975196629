"""The registered tasks of Pointer Value Retrieval: every preset, under a name whose bytes are promised."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

from neophyte.core.registry import Task, register
from neophyte.pvr.dataset import TokenDataset
from neophyte.pvr.spec import PRESETS, VERSION, TokenSpec
from neophyte.pvr.visual import VisualDataset
from neophyte.pvr.visual_spec import PRESETS as VISUAL_PRESETS
from neophyte.pvr.visual_spec import VERSION as VISUAL_VERSION
from neophyte.pvr.visual_spec import VisualSpec

_TOKEN_REFUSALS: Mapping[str, Mapping[str, Any]] = {
    "window": {"window": 101},
    "aggregation": {"aggregation": "mean"},
    "alphabet": {"alphabet": 1},
    "part": {"part": "validation"},
    "num_examples": {"num_examples": 0},
}
_IMAGE_REFUSALS: Mapping[str, Mapping[str, Any]] = {
    "window": {"window": 12},
    "cell": {"cell": 4},
    "pointer_map": {"pointer_map": (0, 1)},
    "part": {"part": "validation"},
}
# Banks that are there without a download.
_ALWAYS = ("digits",)


def _tokens(spec: TokenSpec, split: str, seed: int) -> TokenDataset:
    return TokenDataset(spec, split, seed)


def _images(spec: VisualSpec, split: str, seed: int) -> VisualDataset:
    return VisualDataset(spec, split, seed)


for _name, _preset in PRESETS.items():
    register(
        Task(
            name=f"pvr/{_name}@{VERSION}",
            summary=_preset.summary,
            split=_preset.split,
            load=partial(_tokens, _preset.spec),
            change=partial(dataclasses.replace, _preset.spec),
            refusals=_TOKEN_REFUSALS,
        )
    )

for _name, _visual in VISUAL_PRESETS.items():
    if all(bank in _ALWAYS for bank in (_visual.spec.pointer_bank, *_visual.spec.value_banks)):
        register(
            Task(
                name=f"pvr/{_name}@{VISUAL_VERSION}",
                summary=_visual.summary,
                split=_visual.split,
                load=partial(_images, _visual.spec),
                change=partial(dataclasses.replace, _visual.spec),
                refusals=_IMAGE_REFUSALS,
            )
        )
