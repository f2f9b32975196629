"""Draws samples of every kind of kernel, here or (run as a script: `draw_samples.py FILE.npz`) in another process."""

import sys

import numpy as np
from numba.core.registry import cpu_target

from neophyte import metalang
from neophyte.core.addressing import Space

SMALL = {"context_length": 300, "pilot_tokens": 256}

CORPORA = {
    "additive": {"orders": (1, 2, 5, 8), **SMALL},
    "published": {"orders": (2, 3), "position_weights": "published", "sigma": 0.7, **SMALL},
    "joint": {"orders": (1, 2, 5, 8), "law": "joint", **SMALL},
    "wide": {"orders": (2, 3), "vocab_size": 600, "hidden_dim": 24, **SMALL},
    "wide joint": {"orders": (2, 3), "vocab_size": 600, "hidden_dim": 24, "law": "joint", **SMALL},
    "odd": {"orders": (3,), "vocab_size": 13, "hidden_dim": 9, "calibrate": False, **SMALL},
}


def samples() -> dict[str, np.ndarray]:
    """Return samples by name."""
    arrays = {}
    for name, fields in CORPORA.items():
        batch = metalang.corpus(metalang.CorpusSpec(**fields), split="test", seed=5).batch(np.arange(8), nll=True)
        arrays |= {f"{name} tokens": batch.tokens, f"{name} nll": batch.nll, f"{name} lam": batch.lam}
        if name == "additive":
            for control, nll in metalang.score_controls(batch.tokens, 32, orders=batch.orders).items():
                arrays[f"control {control}"] = nll
    stream = Space("test@1", "test").stream("numbers", 0)
    arrays |= {
        "normals": stream.normal(5000),
        "integers": stream.integers(10**12, 100),
        "order": stream.permutation(99),
    }
    return arrays


def processor() -> str:
    """Return the processor and the features that kernels are compiled for."""
    return str(cpu_target.target_context.codegen().magic_tuple())


if __name__ == "__main__":
    np.savez(sys.argv[1], processor=processor(), **samples())
