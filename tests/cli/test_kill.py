"""What is killed half-way and run again ends with the bytes of one go."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import neophyte.core
from neophyte.training.metrics import read_metrics

from .conftest import contents

SOURCES = Path(neophyte.core.__file__).parents[2]
DEADLINE_SECONDS = 120.0

# Long pilots make each sequence slow: 20 shards take a second or two.
GENERATE = ("generate", "metalang", "--num-sequences", 400, "--context-length", 64, "--pilot-tokens", 16_384,
            "--shard-size", 20, "--quiet")  # fmt: skip
TRAIN = ("train", "metalang", "--model", "laptop-2x32", "--context-length", 32, "--pilot-tokens", 256, "--steps", 100,
         "--batch-size", 4, "--checkpoint-every", 7, "--log-every", 5, "--device", "cpu", "--quiet")  # fmt: skip


def kill_when(condition, arguments, folder):
    """Start a command, and kill it as soon as the condition holds."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "neophyte", *map(str, arguments)]
    process = subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            assert process.poll() is None, process.stdout.read().decode()
            assert time.monotonic() < deadline
            time.sleep(0.002)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert process.returncode == -signal.SIGKILL, "it ended before it was killed"


def test_generate(cli, tmp_path):
    out = tmp_path / "killed"
    manifest = out / "manifest.json"

    def shards():
        return len(json.loads(manifest.read_text())["shards"]) if manifest.exists() else 0

    kill_when(lambda: shards() >= 2, (*GENERATE, "--out", "killed"), tmp_path)
    assert 2 <= shards() < 20
    assert not json.loads(manifest.read_text())["complete"]
    result = cli("verify", "killed")
    assert result.code == 2
    assert "killed: is unfinished" in result.err
    assert cli(*GENERATE, "--out", "killed").code == 0
    assert cli(*GENERATE, "--out", "whole").code == 0
    killed = {path: data for path, data in contents(out).items() if not path.endswith(".tmp")}
    assert killed == contents(tmp_path / "whole")
    assert cli("verify", "killed", "--full").code == 0


def test_train(cli, tmp_path):
    checkpoints = tmp_path / "killed" / "checkpoints"

    def steps():
        return max((int(path.name[5:]) for path in checkpoints.glob("step-*")), default=0)

    kill_when(lambda: steps() >= 14, (*TRAIN, "--out", "killed"), tmp_path)
    assert 14 <= steps() < 100
    assert cli(*TRAIN, "--out", "killed").code == 0
    assert cli(*TRAIN, "--out", "whole").code == 0
    one, other = contents(tmp_path / "killed"), contents(tmp_path / "whole")
    weights = "checkpoints/step-000000100/model.safetensors"
    assert one[weights] == other[weights]
    assert "run.json" in one
    states = [
        torch.load(tmp_path / name / "checkpoints" / "step-000000100" / "optimizer.pt") for name in ("killed", "whole")
    ]
    moments = [[state["optimizer"]["state"][i]["exp_avg_sq"] for i in range(len(state["optimizer"]["state"]))]
               for state in states]  # fmt: skip
    assert all(torch.equal(a, b) for a, b in zip(*moments, strict=True))
    lines = [
        [(line["step"], line["loss_nats"], line["gradient_norm"]) for line in read_metrics(tmp_path / name)]
        for name in ("killed", "whole")
    ]
    assert lines[0] == lines[1]
    assert [step for step, *_ in lines[0]] == list(range(5, 101, 5))


def test_an_interrupted_command_says_how_to_go_on(cli, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("neophyte.metalang.storage.write_shards", interrupted)
    result = cli(*GENERATE, "--out", "data")
    assert result.code == 130
    assert result.err == "neophyte: interrupted; run the same command again to go on\n"


@pytest.mark.parametrize(("command", "status"), [(("list", "--json"), 0), (("sample", "metalang", "--order", 0), 2)])
def test_under_torchrun_a_process_ends_without_clean_up(cli, monkeypatch, command, status):
    # Where gloo's threads can abort it after all its work is done.
    ended = []

    def leave(code):
        ended.append(code)
        raise SystemExit(code)

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(os, "_exit", leave)
    assert cli(*command).code == status
    assert ended == [status]


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_no_arguments_show_the_help(cli, arguments):
    result = cli(*arguments)
    assert result.code == 0
    assert "generate" in result.out
