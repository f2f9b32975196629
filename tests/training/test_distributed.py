"""Two processes train what one trains."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import neophyte.core
from neophyte.cli import main
from neophyte.models.loading import load_model
from neophyte.training.metrics import read_metrics

SOURCES = Path(neophyte.core.__file__).parents[2]
DEADLINE_SECONDS = 240
COMMAND = ["train", "metalang", "--model", "laptop-2x32", "--context-length", "32", "--steps", "6", "--batch-size", "8",
           "--micro-batch-size", "2", "--schedule", "cosine", "--warmup-steps", "2", "--learning-rate", "1e-3",
           "--log-every", "2", "--device", "cpu", "--quiet"]  # fmt: skip


def torchrun(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "neophyte"]
    return subprocess.run(
        [*command, *arguments], env=environment, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )


def test_two_processes_train_what_one_trains(tmp_path):
    alone, pair = tmp_path / "alone", tmp_path / "pair"
    with pytest.raises(SystemExit) as end:
        main([*COMMAND, "--out", str(alone)])
    assert end.value.code == 0
    done = torchrun(*COMMAND, "--out", str(pair))
    # Judged by its results: gloo can abort at exit after right ones.
    assert (pair / "checkpoints" / "step-000000006").is_dir(), done.stderr
    assert done.stdout.count("6 steps, loss") == 1, "one of the two says it"
    assert json.loads((pair / "run.json").read_text())["processes"] == 2
    for (name, one), (_, two) in zip(
        load_model(alone)[0].state_dict().items(), load_model(pair)[0].state_dict().items(), strict=True
    ):
        torch.testing.assert_close(one, two, atol=1e-5, rtol=0, msg=lambda text, name=name: f"{name}: {text}")
    for field in ("step", "loss_nats", "gradient_norm", "learning_rate"):
        values = [[line[field] for line in read_metrics(folder)] for folder in (alone, pair)]
        assert values[1] == pytest.approx(values[0], rel=1e-4), field
