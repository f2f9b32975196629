"""A run that was stopped ends with the bits of one that was not."""

import dataclasses
import json

import pytest
import torch

from neophyte.training.loop import train
from neophyte.training.metrics import read_metrics
from neophyte.training.spec import TrainSpec

from .toys import DECODER, VOCAB_SIZE, PowerCutError, draw, draw_until

SPEC = TrainSpec(steps=11, batch_size=4, warmup_steps=3, learning_rate=1e-2, device="cpu", log_every=2,
                 checkpoint_every=4)  # fmt: skip
DROPPER = {"model": "tests.training.toys:Dropper", "vocab_size": VOCAB_SIZE}


def run(folder, spec=SPEC, config=DECODER, draw=draw):
    return train(config, spec, draw, folder, data={"task": "toy@1"})


def stop_at(step, folder, spec=SPEC, config=DECODER):
    with pytest.raises(PowerCutError):
        run(folder, spec, config, draw_until(step, spec.batch_size))


def steps_of(folder):
    return [path.name for path in sorted((folder / "checkpoints").iterdir())]


def state_of(folder):
    (checkpoint,) = (folder / "checkpoints").iterdir()
    state = torch.load(checkpoint / "optimizer.pt", weights_only=True)
    progress = json.loads((checkpoint / "training.json").read_text())
    return (checkpoint / "model.safetensors").read_bytes(), state, progress


def timeless(folder):
    lines = read_metrics(folder)
    return [{name: value for name, value in line.items() if name != "tokens_per_second"} for line in lines]


def assert_equal(one, other):
    """Nested states are equal, tensors to the bit."""
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            assert_equal(one[name], other[name])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_equal(a, b)
    else:
        assert one == other


def assert_same_run(one, other):
    (weights, *state), (other_weights, *other_state) = state_of(one), state_of(other)
    assert weights == other_weights
    assert_equal(state, other_state)
    assert timeless(one) == timeless(other)


@pytest.mark.parametrize("config", [DECODER, DROPPER], ids=["decoder", "dropout"])
@pytest.mark.parametrize("stops", [[6], [4], [5, 9], [2, 3], [10]], ids=str)
def test_stop_and_go_is_one_go(tmp_path, stops, config):
    run(tmp_path / "whole", config=config)
    for step in stops:
        stop_at(step, tmp_path / "stopped", config=config)
    run(tmp_path / "stopped", config=config)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.parametrize(("log_every", "stop"), [(2, 4), (5, 10), (7, 7), (20, 10)])
def test_it_is_so_where_a_checkpoint_falls_between_two_lines(tmp_path, log_every, stop):
    spec = dataclasses.replace(SPEC, log_every=log_every, checkpoint_every=3)
    run(tmp_path / "whole", spec)
    stop_at(stop, tmp_path / "stopped", spec)
    run(tmp_path / "stopped", spec)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_it_is_so_with_micro_batches_and_bfloat16(tmp_path):
    spec = dataclasses.replace(SPEC, micro_batch_size=3, dtype="bfloat16")
    run(tmp_path / "whole", spec)
    stop_at(7, tmp_path / "stopped", spec)
    run(tmp_path / "stopped", spec)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_how_often_it_saves_changes_nothing(tmp_path):
    run(tmp_path / "whole")
    often = dataclasses.replace(SPEC, checkpoint_every=1)
    stop_at(6, tmp_path / "stopped", often)
    assert steps_of(tmp_path / "stopped") == ["step-000000006"]
    run(tmp_path / "stopped")
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_it_is_so_where_the_machine_has_another_number_of_threads(tmp_path):
    run(tmp_path / "whole")
    stop_at(6, tmp_path / "stopped")
    torch.set_num_threads(2)
    try:
        run(tmp_path / "stopped")
    finally:
        torch.set_num_threads(1)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_only_what_is_left_is_drawn(tmp_path):
    stop_at(6, tmp_path)
    drawn = []

    def noted(first, count):
        drawn.append((first, count))
        return draw(first, count)

    run(tmp_path, draw=noted)
    assert drawn == [(step * 4, 4) for step in range(4, 11)]


def test_lines_after_the_checkpoint_are_made_again(tmp_path):
    stop_at(7, tmp_path)
    assert steps_of(tmp_path) == ["step-000000004"]
    assert [line["step"] for line in read_metrics(tmp_path)] == [2, 4, 6]
    first = (tmp_path / "metrics.jsonl").read_text().splitlines()
    stop_at(5, tmp_path)
    assert (tmp_path / "metrics.jsonl").read_text().splitlines() == first[:2]
    run(tmp_path)
    assert [line["step"] for line in read_metrics(tmp_path)] == [2, 4, 6, 8, 10, 11]


def test_a_torn_last_line_is_dropped(tmp_path):
    run(tmp_path / "whole")
    stop_at(7, tmp_path / "stopped")
    with open(tmp_path / "stopped" / "metrics.jsonl", "a") as file:
        file.write('{"step": 8, "loss_na')
    assert [line["step"] for line in read_metrics(tmp_path / "stopped")] == [2, 4, 6]
    run(tmp_path / "stopped")
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_a_checkpoint_that_was_cut_short_is_not_used(tmp_path):
    run(tmp_path / "whole")
    stop_at(6, tmp_path / "stopped")
    # What a kill in the middle of the checkpoint of step 8 leaves.
    torn = tmp_path / "stopped" / "checkpoints" / ".step-000000008.tmp"
    torn.mkdir()
    (torn / "model.safetensors").write_bytes(b"torn")
    run(tmp_path / "stopped")
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_a_folder_with_its_run_but_no_checkpoint_starts_over(tmp_path):
    run(tmp_path / "whole")
    stop_at(1, tmp_path / "stopped")
    assert not (tmp_path / "stopped" / "checkpoints").exists()
    run(tmp_path / "stopped")
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_only_the_newest_checkpoint_stays(tmp_path):
    run(tmp_path)
    assert steps_of(tmp_path) == ["step-000000011"]
