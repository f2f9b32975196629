"""Peak memory and time of the full-size position-curve evaluation: 4,096 sequences x 4,096 tokens with every control.

Prints one JSON object. The predictor costs nothing, so that what is measured is the evaluation itself.
"""

import argparse
import json
import time

import numpy as np

from neophyte import metalang
from neophyte.evaluation.language import corpus_losses
from neophyte.metalang.bench import peak_memory


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=4096)
    parser.add_argument("--context-length", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    corpus = metalang.corpus("eval", context_length=options.context_length)
    before, start = peak_memory(), time.perf_counter()
    losses = corpus_losses(
        {"constant": lambda tokens: np.full(tokens.shape, np.log(32), dtype=np.float32)},
        corpus,
        options.sequences,
        threads=options.threads,
    )
    seconds = time.perf_counter() - start
    result = {
        "sequences": options.sequences,
        "context_length": options.context_length,
        "predictors": sorted(losses.values),
        "seconds": round(seconds, 1),
        "tokens_per_second": round(options.sequences * options.context_length / seconds),
        "peak_bytes": peak_memory(),
        "peak_bytes_before": before,
    }
    print(json.dumps(result, indent=2))  # noqa: T201


if __name__ == "__main__":
    main()
