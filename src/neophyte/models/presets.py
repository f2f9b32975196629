"""Networks by name. They need no torch, so that `neophyte list` can show them without it."""

from __future__ import annotations

from typing import Any

# gpicl Table 1, then the sizes for two cores. The parameters in the paper are rounded; these are exact for 32 tokens.
PRESETS: dict[str, dict[str, int]] = {
    "tiny": {"num_layers": 6, "d_model": 64, "num_heads": 4},  # 303,008 parameters
    "small": {"num_layers": 12, "d_model": 256, "num_heads": 8},  # 9,484,832
    "standard": {"num_layers": 12, "d_model": 1024, "num_heads": 16},  # 151,185,440
    # Two heads of width 32: it begins to learn in context after 600 steps on tiny-train, with four of 16 after 1,000.
    "demo": {"num_layers": 3, "d_model": 64, "num_heads": 2},
    "laptop-2x32": {"num_layers": 2, "d_model": 32, "num_heads": 2},
    "laptop-3x64": {"num_layers": 3, "d_model": 64, "num_heads": 4},
}

_TOKENS, _IMAGES = "neophyte.models.classifiers", "neophyte.models.vision"

# pvr Table 1: the four classifiers of tokens, and thinner ones for two cores; then torchvision's networks for images.
CLASSIFIERS: dict[str, dict[str, Any]] = {
    "mlp": {"model": f"{_TOKENS}:TokenMLP"},  # 1,445,194 parameters
    "mlp-2x": {"model": f"{_TOKENS}:TokenMLP", "widths": [1024, 2048, 1024, 128]},  # 5,052,426
    "transformer": {"model": f"{_TOKENS}:TokenTransformer"},  # 8,429,066
    "mixer": {"model": f"{_TOKENS}:TokenMixer"},  # 8,495,674
    "transformer-64": {"model": f"{_TOKENS}:TokenTransformer", "d_model": 64, "hidden_dim": 128},
    "mixer-64": {
        "model": f"{_TOKENS}:TokenMixer", "d_model": 64, "token_hidden_dim": 96, "channel_hidden_dim": 256
    },
    "resnet18": {"model": f"{_IMAGES}:ResNet18"},  # 11,181,642
    "vgg11-bn": {"model": f"{_IMAGES}:VGG11BN"},  # 128,812,810
}  # fmt: skip
