"""Pointer Value Retrieval: a pointer says where to look, and the label is made of what stands there."""

from neophyte.pvr.complexity import noise_sensitivity, sampled_noise_sensitivity
from neophyte.pvr.dataset import Examples, TokenDataset, Twins, signs, tokens
from neophyte.pvr.references import Overlap, controls, memorisation, overlap
from neophyte.pvr.rule import Variables, best_constant, held_out_windows, labels, variables
from neophyte.pvr.spec import PRESETS, RuleSpec, TokenSpec, boolean
from neophyte.pvr.visual import ImageExamples, VisualDataset, images
from neophyte.pvr.visual_spec import PRESETS as VISUAL_PRESETS
from neophyte.pvr.visual_spec import VisualSpec

__all__ = [
    "PRESETS",
    "VISUAL_PRESETS",
    "Examples",
    "ImageExamples",
    "Overlap",
    "RuleSpec",
    "TokenDataset",
    "TokenSpec",
    "Twins",
    "Variables",
    "VisualDataset",
    "VisualSpec",
    "best_constant",
    "boolean",
    "controls",
    "held_out_windows",
    "images",
    "labels",
    "memorisation",
    "noise_sensitivity",
    "overlap",
    "sampled_noise_sensitivity",
    "signs",
    "tokens",
    "variables",
]
