"""Sizes of the decoder by name. They need no torch, so that `neophyte list` can show them without it."""

from __future__ import annotations

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
