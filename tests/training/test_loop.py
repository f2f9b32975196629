"""The training loop: one step by hand, micro-batches, what is refused, trackers."""

import dataclasses
import json
import math
import shutil
import subprocess
import sys
import threading

import pytest
import torch
from torch import nn

from neophyte.models.loading import build_model, load_model, save_model
from neophyte.training import loop
from neophyte.training.loop import next_token_loss, pick_device, train
from neophyte.training.metrics import read_metrics
from neophyte.training.spec import TrainSpec

from .toys import DECODER, LENGTH, VOCAB_SIZE, draw

DATA = {"task": "toy@1"}
SPEC = TrainSpec(steps=6, batch_size=4, warmup_steps=2, learning_rate=1e-2, seed=3, device="cpu", log_every=2)


def run(folder, spec=SPEC, config=DECODER, draw=draw, data=DATA, **options):
    return train(config, spec, draw, folder, data=data, **options)


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def assert_close(one, other, **tolerance):
    for name in one:
        torch.testing.assert_close(one[name], other[name], msg=lambda text, name=name: f"{name}: {text}", **tolerance)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_loss_feeds_token_0_first():
    torch.manual_seed(0)
    model, tokens = build_model(DECODER), draw(0, 3)
    fed = torch.zeros_like(tokens)
    fed[:, 1:] = tokens[:, :-1]
    logits = model(fed).double()
    total = 0.0
    for row in range(3):
        for t in range(LENGTH):
            total += (logits[row, t].exp().sum().log() - logits[row, t, tokens[row, t]]).item()
    assert next_token_loss(model, tokens).item() == pytest.approx(total / (3 * LENGTH), rel=1e-5)


def by_hand(spec, start):
    """The same training with Adam, clipping and schedule written out."""
    model = build_model(DECODER)
    model.load_state_dict(start)
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in model.parameters()]
    norms = []
    for t in range(1, spec.steps + 1):
        model.zero_grad()
        next_token_loss(model, draw((t - 1) * spec.batch_size, spec.batch_size)).backward()
        norm = math.sqrt(sum((p.grad.double() ** 2).sum().item() for p in model.parameters()))
        norms.append(norm)
        rate = spec.learning_rate * min(t / spec.warmup_steps, (t / spec.warmup_steps) ** -0.5)
        with torch.no_grad():
            for parameter, (mean, square) in zip(model.parameters(), moments, strict=True):
                gradient = parameter.grad * min(1.0, spec.max_gradient_norm / norm)
                mean.mul_(spec.betas[0]).add_((1 - spec.betas[0]) * gradient)
                square.mul_(spec.betas[1]).add_((1 - spec.betas[1]) * gradient**2)
                step = mean / (1 - spec.betas[0] ** t) / ((square / (1 - spec.betas[1] ** t)).sqrt() + 1e-8)
                parameter -= rate * step
    return model, norms


@pytest.mark.parametrize("max_norm", [0.2, 100.0])
def test_training_is_adam_with_clipping_and_schedule(tmp_path, max_norm):
    spec = dataclasses.replace(SPEC, max_gradient_norm=max_norm, log_every=1)
    torch.manual_seed(spec.seed)
    start = weights(build_model(DECODER))
    trained = run(tmp_path, spec)
    expected, norms = by_hand(spec, start)
    assert_close(weights(trained), weights(expected), atol=1e-5, rtol=1e-4)
    lines = read_metrics(tmp_path)
    assert [line["gradient_norm"] for line in lines] == pytest.approx(norms, rel=1e-3)
    assert min(norms) > 0.2
    assert max(norms) < 100


def test_metrics_are_means_over_the_steps_between(tmp_path):
    seen = []
    run(tmp_path / "one", dataclasses.replace(SPEC, log_every=1))
    run(tmp_path / "many", dataclasses.replace(SPEC, log_every=4), progress=seen.append)
    one, many = (read_metrics(tmp_path / name) for name in ("one", "many"))
    assert [line["step"] for line in one] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in many] == [4, 6], "the last step always has a line"
    losses = [line["loss_nats"] for line in one]
    assert [line["loss_nats"] for line in many] == pytest.approx([sum(losses[:4]) / 4, sum(losses[4:]) / 2], rel=1e-6)
    assert [line["learning_rate"] for line in one] == [SPEC.rate(step) for step in range(6)]
    assert [line["gradient_norm"] for line in many] == [one[3]["gradient_norm"], one[5]["gradient_norm"]]
    assert all(line["tokens_per_second"] > 0 for line in one + many)
    assert seen == many


def test_it_learns(tmp_path):
    spec = dataclasses.replace(SPEC, steps=150, batch_size=16, warmup_steps=20, log_every=10)
    model = run(tmp_path, spec)
    losses = [line["loss_nats"] for line in read_metrics(tmp_path)]
    assert losses[0] > 2.0
    # The first token costs ln 11 and the others nothing, once the rule is known.
    assert losses[-1] < math.log(VOCAB_SIZE) / LENGTH + 0.3
    assert next_token_loss(model, draw(10**6, 16)).item() < math.log(VOCAB_SIZE) / LENGTH + 0.4


@pytest.mark.parametrize("micro", [1, 3, 4])
def test_micro_batches_add_to_the_gradient_of_the_whole(micro):
    torch.manual_seed(0)
    model, batch, gradients, losses = build_model(DECODER), draw(0, 8), [], []
    for size in (0, micro):
        model.zero_grad()
        losses.append(loop._accumulate(model, next_token_loss, [batch], 1 / 8, size, "float32").item())
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters()})
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert losses[0] == pytest.approx(next_token_loss(model, batch).item(), rel=1e-6)
    assert_close(*gradients, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("micro", [1, 3])
def test_micro_batches_change_no_weight(tmp_path, micro):
    whole = run(tmp_path / "whole")
    pieces = run(tmp_path / "pieces", dataclasses.replace(SPEC, micro_batch_size=micro))
    assert_close(weights(whole), weights(pieces), atol=1e-4, rtol=1e-4)


def test_the_seed_sets_the_weights(tmp_path):
    models = [run(tmp_path / str(i), dataclasses.replace(SPEC, seed=seed)) for i, seed in enumerate((3, 3, 4))]
    one, again, other = map(weights, models)
    assert_close(one, again, atol=0, rtol=0)
    assert not torch.equal(one["head.weight"], other["head.weight"])


def test_a_trained_model_loads_from_its_run(tmp_path):
    model = run(tmp_path)
    loaded, config = load_model(tmp_path)
    assert config == DECODER
    assert_close(weights(model), weights(loaded), atol=0, rtol=0)


def test_initial_weights_are_those_of_the_folder(tmp_path):
    torch.manual_seed(9)
    first = build_model(DECODER)
    save_model(first, DECODER, tmp_path / "model")
    spec = dataclasses.replace(SPEC, steps=1)
    expected = next_token_loss(first, draw(0, 4)).item()
    for name, initial in (("from folder", tmp_path / "model"), ("from run", tmp_path / "from folder")):
        run(tmp_path / name, spec, initial=initial)
        assert read_metrics(tmp_path / name)[0]["loss_nats"] == pytest.approx(expected, rel=1e-6)
        expected = next_token_loss(load_model(tmp_path / "from folder")[0], draw(0, 4)).item()


def test_initial_weights_do_not_undo_a_resumed_run(tmp_path):
    save_model(build_model(DECODER), DECODER, tmp_path / "model")
    done = run(tmp_path / "run", initial=tmp_path / "model")
    again = run(tmp_path / "run", initial=tmp_path / "model")
    assert_close(weights(done), weights(again), atol=0, rtol=0)


def test_any_loss_will_do(tmp_path):
    def size(model, batch):
        assert batch.shape == (4, LENGTH)
        return sum((parameter**2).mean() for parameter in model.parameters())

    run(tmp_path, loss=size)
    lines = read_metrics(tmp_path)
    assert lines[-1]["loss_nats"] < lines[0]["loss_nats"]


def test_bfloat16_trains_float32_weights(tmp_path):
    for dtype in ("float32", "bfloat16"):
        model = run(tmp_path / dtype, dataclasses.replace(SPEC, dtype=dtype, log_every=1))
        assert {value.dtype for value in model.state_dict().values()} == {torch.float32}
    full, half = ([line["loss_nats"] for line in read_metrics(tmp_path / name)] for name in ("float32", "bfloat16"))
    assert half == pytest.approx(full, rel=0.03)
    assert half != full


@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="torch.compile needs a C++ compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_a_compiled_model_trains_as_one_that_is_not(tmp_path):
    # The smallest of models: it is the compiler that takes the time.
    config = {"model": "tests.training.toys:Dropper", "vocab_size": VOCAB_SIZE, "rate": 0.0}
    spec = dataclasses.replace(SPEC, steps=3, log_every=1)
    plain = run(tmp_path / "plain", spec, config)
    compiled = run(tmp_path / "compiled", dataclasses.replace(spec, compile=True), config)
    assert_close(weights(plain), weights(compiled), atol=1e-4, rtol=1e-4)
    assert_close(weights(plain), weights(load_model(tmp_path / "compiled", trust=True)[0]), atol=1e-4, rtol=1e-4)


def test_a_model_of_another_shape_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"the model returned \(4, 11\) for tokens \(4, 9\); allowed: logits"):
        run(tmp_path, config={"model": "tests.training.toys:Flat", "vocab_size": VOCAB_SIZE})


def test_devices():
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("auto").type in ("cuda", "mps", "cpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match=r"device is 'cuda'; allowed: .*cpu"):
            pick_device("cuda")


def test_batches_are_shared_evenly_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(ValueError, match="batch_size is 4; allowed: a multiple of the 3 processes"):
        run(tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    run(folder)
    return folder


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"spec": dataclasses.replace(SPEC, schedule="cosine")}, r"train schedule is 'noam' there, 'cosine' here"),
        ({"spec": dataclasses.replace(SPEC, batch_size=8)}, r"train batch_size is 4 there, 8 here"),
        ({"spec": dataclasses.replace(SPEC, betas=(0.9, 0.9))}, r"train betas is \[0.9, 0.98\] there, \[0.9, 0.9\]"),
        ({"spec": dataclasses.replace(SPEC, seed=4)}, "train seed is 3 there, 4 here"),
        ({"config": {**DECODER, "d_model": 32}}, "config d_model is 16 there, 32 here"),
        ({"config": {**DECODER, "rope_theta": 5.0}}, "config rope_theta is None there, 5.0 here"),
        ({"data": {"task": "toy@2"}}, "data task is 'toy@1' there, 'toy@2' here"),
    ],
)
def test_another_run_in_the_folder_is_refused(finished, changes, message):
    before = contents(finished)
    with pytest.raises(ValueError, match=f"holds another run .*{message}"):
        run(finished, **changes)
    assert contents(finished) == before


def test_a_cosine_that_would_end_elsewhere_is_another_run(tmp_path):
    spec = dataclasses.replace(SPEC, schedule="cosine")
    run(tmp_path, spec)
    with pytest.raises(ValueError, match=r"holds another run .*train steps is 6 there, 7 here"):
        run(tmp_path, dataclasses.replace(spec, steps=7))


@pytest.mark.parametrize(("name", "value"), [("device", "cuda"), ("processes", 2)])
def test_another_device_or_number_of_processes_is_refused(finished, tmp_path, name, value):
    shutil.copytree(finished, tmp_path / "run")
    path = tmp_path / "run" / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=rf"{name} is .*, but .* was begun with {value}: the bits would differ"):
        run(tmp_path / "run")
    assert contents(tmp_path) == before


def test_a_run_goes_on_with_the_threads_it_was_begun_with_and_leaves_the_process_its_own(finished, tmp_path):
    seen = []

    def loss(model, batch):
        seen.append(torch.get_num_threads())
        return next_token_loss(model, batch)

    shutil.copytree(finished, tmp_path / "run")
    torch.set_num_threads(2)
    try:
        run(tmp_path / "run", spec=dataclasses.replace(SPEC, steps=8), loss=loss)
        assert seen == [1, 1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_more_steps_go_on_where_they_change_no_earlier_rate(finished, tmp_path):
    run(finished, spec=dataclasses.replace(SPEC, steps=9))
    run(tmp_path / "whole", spec=dataclasses.replace(SPEC, steps=9))
    assert weights(load_model(finished)[0]).keys() == weights(load_model(tmp_path / "whole")[0]).keys()
    for name, value in weights(load_model(finished)[0]).items():
        assert torch.equal(value, weights(load_model(tmp_path / "whole")[0])[name])


def test_a_second_process_in_the_same_folder_is_refused(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    program = (
        "import sys\nfrom neophyte.core.files import locked\n"
        "with locked(sys.argv[1], wait=False):\n    print('held', flush=True)\n    sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "run" / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        before = contents(tmp_path / "run")
        with pytest.raises(ValueError, match=r"run: another process is at work in it; wait, or use another folder"):
            run(tmp_path / "run", spec=dataclasses.replace(SPEC, steps=9))
        assert contents(tmp_path / "run") == before
    finally:
        holder.kill()
        holder.communicate()
    run(tmp_path / "run", spec=dataclasses.replace(SPEC, steps=9))  # the lock went with its holder
    assert (tmp_path / "run" / "checkpoints" / "step-000000009").is_dir()


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_last_checkpoint(tmp_path):
    def loss(model, batch):
        value = next_token_loss(model, batch)
        calls.append(1)
        return value * float("nan") if len(calls) > 3 else value

    calls = []
    spec = dataclasses.replace(SPEC, checkpoint_every=2, log_every=1)
    with pytest.raises(FloatingPointError, match=r"the loss is nan .* at step 4; the last checkpoint is kept"):
        run(tmp_path, spec=spec, loss=loss)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-000000002"]
    assert all("nan" not in line.lower() for line in (tmp_path / "metrics.jsonl").read_text().splitlines())


def test_a_finished_run_is_left_as_it_is(finished):
    before = contents(finished)
    model = run(finished, draw=None, progress=None)
    assert contents(finished) == before
    assert_close(weights(model), weights(load_model(finished)[0]), atol=0, rtol=0)


def test_a_folder_of_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match=r"holds files but no run\.json"):
        run(tmp_path)
    assert contents(tmp_path) == {"thesis.tex": b"years of work"}


@pytest.mark.parametrize("content", ["", "{"])
def test_a_damaged_run_is_named(tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(ValueError, match=r"run\.json: not a JSON file"):
        run(tmp_path)
    assert contents(tmp_path) == {"run.json": content.encode()}


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "training.json"])
@pytest.mark.parametrize("damage", ["missing", "half", "other"])
def test_a_damaged_checkpoint_is_named(finished, tmp_path, name, damage):
    shutil.copytree(finished, tmp_path / "run")
    path = next((tmp_path / "run").rglob(name))
    data = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(data[: len(data) // 2] if damage == "half" else b"\x00" * 50)
    with pytest.raises(ValueError, match=name.replace(".", r"\.")):
        run(tmp_path / "run")


def test_tensorboard_gets_every_line(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run(tmp_path, dataclasses.replace(SPEC, trackers=("tensorboard",)))
    (file,) = (tmp_path / "tensorboard").glob("events.out.tfevents.*")
    events = EventAccumulator(str(file))
    events.Reload()
    for name in ("loss_nats", "learning_rate", "gradient_norm", "tokens_per_second"):
        logged = [(scalar.step, scalar.value) for scalar in events.Scalars(name)]
        assert [step for step, _ in logged] == [2, 4, 6]
        expected = [line[name] for line in read_metrics(tmp_path)]
        assert [value for _, value in logged] == pytest.approx(expected, rel=1e-6)


def test_a_tracker_that_is_not_installed_is_one_clear_error(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    threads = threading.active_count()
    with pytest.raises(ValueError, match=r"trackers is .*wandb is not installed; pip install 'neophyte\[trackers\]'"):
        run(tmp_path, dataclasses.replace(SPEC, trackers=("wandb",)))
    assert threading.active_count() == threads
    # And the run goes on without it.
    run(tmp_path)
    assert [line["step"] for line in read_metrics(tmp_path)] == [2, 4, 6]


def test_the_whole_run_leaves_no_thread(tmp_path):
    threads = threading.active_count()
    run(tmp_path)
    assert threading.active_count() == threads
    assert isinstance(build_model(DECODER), nn.Module)
