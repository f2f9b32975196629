"""Training on labelled examples in epochs: the orders, the loss, the evaluations, resumption, several processes."""

import contextlib
import dataclasses
import json
import math
import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

import neophyte.core
from neophyte import pvr
from neophyte.core.addressing import Space
from neophyte.core.contract import inputs_and_labels
from neophyte.core.spec import to_mapping
from neophyte.evaluation.classification import measure
from neophyte.models.classifiers import TokenMixer, TokenMLP, TokenTransformer
from neophyte.models.loading import build_model, load_model, model_config
from neophyte.training import loop
from neophyte.training.data import ExampleDataset, draw_examples, example_batches
from neophyte.training.loop import Processes, classification_loss, pick_dtype, train
from neophyte.training.metrics import read_metrics
from neophyte.training.spec import TrainSpec

from .test_resume import assert_equal, state_of
from .toys import PowerCutError

# Chance of a false alarm of each statistical test, had its fixed seed been drawn at random.
ALARM = 1e-6
SOURCES = Path(neophyte.core.__file__).parents[2]
DEADLINE_SECONDS = 240

SOURCE = pvr.TokenDataset(pvr.TokenSpec(window=1, num_examples=45))
CONFIG = model_config("mlp", {"embedding_dim": 8, "widths": [24, 16]})
# Three steps an epoch, of 16, 16 and 13 examples; checkpoints in the middle of epochs.
SPEC = TrainSpec(
    steps=11, batch_size=16, epoch_size=45, optimizer="sgd", learning_rate=0.05, schedule="cosine", warmup_steps=3,
    final_rate=0.0, weight_decay=1e-3, max_gradient_norm=0.0, device="cpu", log_every=2, checkpoint_every=4,
)  # fmt: skip
DRAW, DATA = example_batches(SOURCE)


class Noisy(nn.Module):
    """A classifier with everything that evaluation could disturb: dropout's random numbers, running statistics."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 6)
        self.layers = nn.Sequential(
            nn.Linear(66, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 10)
        )

    def forward(self, tokens):
        return self.layers(self.embedding(tokens.long()).flatten(1))


NOISY = {"model": f"{__name__}:Noisy"}


class Remembering(nn.Module):
    """A classifier that keeps a table between calls, as rotary embeddings often do, and enlarges it."""

    def __init__(self):
        super().__init__()
        self.embedding, self.table = nn.Embedding(10, 10), torch.zeros(0, 10)

    def forward(self, tokens):
        if len(self.table) < len(tokens):
            self.table = torch.ones(len(tokens), 10)
        return self.embedding(tokens[:, 0].long()) * self.table[: len(tokens)]


class Numbered:
    """A source whose example i holds i, to show what was drawn; it notes the threads it was given."""

    def __init__(self, size, split="train", identity="numbered@1"):
        self.size, self.split, self.seed = size, split, 3
        self.spec = SimpleNamespace(identity=identity)
        self.threads = []

    def __len__(self):
        return self.size

    def arrays(self, indices, threads=1):
        self.threads.append(threads)
        indices = np.asarray(indices)
        inputs = np.stack([indices // 256, indices % 256], axis=1).astype(np.uint8)
        return {"things": inputs, "labels": (indices % 7).astype(np.uint8)}


def indices_of(batch):
    inputs, labels = batch
    indices = inputs[:, 0].long() * 256 + inputs[:, 1].long()
    assert torch.equal(labels, indices % 7), "inputs and labels go together"
    return indices.tolist()


def run(folder, spec=SPEC, config=CONFIG, draw=DRAW, data=DATA, **options):
    return train(config, spec, draw, folder, data=data, loss=classification_loss, **options)


def probe(model):
    return {"probe": float(next(model.parameters()).double().sum())}


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def assert_same_weights(one, other, **tolerance):
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(
            one[name], other[name], msg=lambda text, name=name: f"{name}: {text}", **{"atol": 0, "rtol": 0, **tolerance}
        )


def timeless(folder):
    return [{name: v for name, v in line.items() if not name.endswith("_per_second")} for line in read_metrics(folder)]


def assert_same_run(one, other):
    (model, *state), (other_model, *other_state) = state_of(one), state_of(other)
    assert model == other_model
    assert_equal(state, other_state)
    assert timeless(one) == timeless(other)


# The orders of the epochs.


@given(st.integers(1, 300), st.integers(0, 6), st.integers(1, 50), st.integers(0, 2**63 - 1))
def test_an_epoch_is_a_permutation_of_the_set(size, epoch, batch_size, shuffle_seed):
    draw, _ = example_batches(Numbered(size), shuffle_seed=shuffle_seed)
    spec = TrainSpec(epoch_size=size, batch_size=batch_size)
    per_epoch = math.ceil(size / batch_size)
    drawn = [indices_of(draw(*spec.span(step))) for step in range(epoch * per_epoch, (epoch + 1) * per_epoch)]
    assert sorted(i for part in drawn for i in part) == list(range(size))


@given(st.integers(2, 200), st.data())
def test_a_batch_depends_on_its_place_alone(size, data):
    draw, _ = example_batches(Numbered(size))
    epoch = data.draw(st.integers(0, 5))
    first = data.draw(st.integers(0, size - 1))
    count = data.draw(st.integers(1, size - first))
    whole = indices_of(draw(epoch * size, size))
    assert indices_of(draw(epoch * size + first, count)) == whole[first : first + count]


def order(epoch=0, size=100, shuffle_seed=0, **source):
    draw, _ = example_batches(Numbered(size, **source), shuffle_seed=shuffle_seed)
    return indices_of(draw(epoch * size, size))


def test_every_epoch_seed_split_and_task_has_an_order_of_its_own():
    orders = [order(), order(1), order(2), order(shuffle_seed=1), order(1, shuffle_seed=1), order(split="other"),
              order(identity="numbered@2"), list(range(100))]  # fmt: skip
    assert order() == orders[0]
    for i, one in enumerate(orders):
        for other in orders[:i]:
            # Two random orders agree in one place on average; 12 have a chance of 1e-9 (Poisson).
            assert sum(a == b for a, b in zip(one, other, strict=True)) < 12


def test_what_an_epoch_begins_with_is_uniform():
    draw, _ = example_batches(Numbered(7))
    first = [indices_of(draw(7 * epoch, 1))[0] for epoch in range(2000)]
    assert stats.chisquare(np.bincount(first, minlength=7)).pvalue > ALARM


def test_a_batch_that_would_lie_in_two_epochs_is_refused():
    draw, _ = example_batches(Numbered(10))
    with pytest.raises(ValueError, match="first is 8 and count 4; allowed: a batch in one epoch of 10"):
        draw(8, 4)


def test_a_bad_shuffle_seed_is_refused():
    with pytest.raises(ValueError, match="seed is -1"):
        example_batches(Numbered(10), shuffle_seed=-1)


def test_the_data_says_what_is_drawn():
    _, data = example_batches(SOURCE, shuffle_seed=5)
    assert data == {"task": SOURCE.spec.identity, "num_examples": 45, "split": "train", "seed": 0, "shuffle_seed": 5}
    assert json.loads(json.dumps(data)) == data


def test_threads_are_those_asked_for_or_the_engines(monkeypatch):
    monkeypatch.delenv("NEOPHYTE_THREADS", raising=False)
    source = Numbered(10)
    example_batches(source)[0](0, 3)
    example_batches(source, threads=2)[0](0, 3)
    monkeypatch.setenv("NEOPHYTE_THREADS", "5")
    example_batches(source)[0](0, 3)
    assert source.threads == [1, 2, 5]


def test_a_data_sets_epoch_holds_each_of_its_examples_once():
    source = pvr.TokenDataset(pvr.TokenSpec(window=2, num_examples=130), "train", 4)
    draw, _ = example_batches(source)
    inputs, labels = draw(130, 130)
    assert (inputs.dtype, labels.dtype, inputs.shape, labels.shape) == (torch.uint8, torch.int64, (130, 11), (130,))
    whole = source.batch(np.arange(130))
    rows = np.concatenate([inputs.numpy(), labels.numpy()[:, None]], axis=1)
    expected = np.concatenate([whole.tokens, whole.labels[:, None]], axis=1)
    assert not np.array_equal(rows, expected)
    np.testing.assert_array_equal(rows[np.lexsort(rows.T)], expected[np.lexsort(expected.T)])


class Redrawn(Numbered):
    """Examples with a part that is drawn anew in each epoch: it says which."""

    def __init__(self, size, redraw):
        super().__init__(size)
        self.spec.redraw = redraw

    def arrays(self, indices, threads=1, *, epoch=0):
        found = super().arrays(indices, threads)
        return {**found, "labels": np.full(len(indices), epoch)}


@pytest.mark.parametrize("redraw", [True, False])
def test_what_is_redrawn_is_told_its_epoch(redraw):
    draw, _ = example_batches(Redrawn(10, redraw))
    for epoch in (0, 1, 7):
        assert draw(10 * epoch + 4, 6)[1].tolist() == [epoch if redraw else 0] * 6


def test_jitter_is_redrawn_where_the_task_says_so():
    pytest.importorskip("sklearn")
    fields = {"cell": 12, "pointer_bank": "digits", "value_banks": ("digits",), "num_examples": 12}
    for redraw in (True, False):
        source = pvr.VisualDataset(pvr.VisualSpec(redraw=redraw, **fields))
        draw, _ = example_batches(source)
        epochs = []
        for epoch in range(3):
            images, labels = draw(12 * epoch, 12)
            expected = source.batch(order_of(source, epoch), epoch=epoch)
            np.testing.assert_array_equal(images.numpy(), expected.images)
            np.testing.assert_array_equal(labels.numpy(), expected.labels)
            epochs.append(sorted(map(bytes, images.numpy())))
        assert (epochs[0] == epochs[1] == epochs[2]) is not redraw


def order_of(source, epoch):
    return Space(source.spec.identity, source.split, 0).shuffled("epochs", epoch, len(source), np.arange(len(source)))


# As torch data sets.


def test_a_dataset_draws_what_its_source_holds():
    dataset, whole = ExampleDataset(SOURCE), SOURCE.batch(np.arange(45))
    assert len(dataset) == len(list(dataset)) == 45
    tokens, label = dataset[17]
    assert (tokens.dtype, tokens.shape, label.dtype, label.shape) == (torch.uint8, (11,), torch.int64, ())
    assert tokens.tolist() == whole.tokens[17].tolist()
    assert label.item() == whole.labels[17]
    for index in (45, -1):
        with pytest.raises(IndexError, match=rf"index is {index}; allowed: \[0, 45\)"):
            dataset[index]
    batches = list(DataLoader(pickle.loads(pickle.dumps(dataset)), batch_size=20))
    assert [len(labels) for _, labels in batches] == [20, 20, 5]
    np.testing.assert_array_equal(torch.cat([tokens for tokens, _ in batches]).numpy(), whole.tokens)
    np.testing.assert_array_equal(torch.cat([labels for _, labels in batches]).numpy(), whole.labels)


def test_a_loader_draws_a_batch_at_once():
    source = Numbered(50)
    loader = DataLoader(ExampleDataset(source), batch_size=20, shuffle=True, generator=torch.Generator().manual_seed(1))
    drawn = [index for batch in loader for index in indices_of(batch)]
    assert sorted(drawn) == list(range(50))
    assert drawn != list(range(50))
    assert len(source.threads) == 3


def test_inputs_are_whatever_is_no_label():
    assert inputs_and_labels({"labels": 1, "images": 2}) == (2, 1)
    inputs, labels = draw_examples(Numbered(500), [3, 299])
    assert inputs.tolist() == [[0, 3], [1, 43]]
    assert labels.tolist() == [3, 5]
    assert labels.dtype == torch.int64


# The loss, and its gradient in pieces.


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_loss_is_the_mean_of_the_labels_nats(dtype):
    generator = torch.Generator().manual_seed(0)
    logits = (3 * torch.randn(20, 5, generator=generator)).to(dtype)
    labels = torch.randint(0, 5, (20,), generator=generator)
    table = logits.double().numpy()
    expected = np.mean([np.log(np.exp(row).sum()) - row[label] for row, label in zip(table, labels, strict=True)])
    loss = classification_loss(lambda inputs: inputs, (logits, labels))
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("logits", "labels"),
    [((4,), (4,)), ((4, 3, 5), (4,)), ((4, 5), (3,)), ((4, 5), (4, 1)), ((), (4,)), ((1, 4, 5), (4,))],
    ids=str,
)
def test_logits_of_another_shape_are_refused(logits, labels):
    batch = (torch.zeros(logits), torch.zeros(labels, dtype=torch.int64))
    message = (
        rf"the model returned \({', '.join(map(str, logits))},?\) for {labels[0]} inputs; allowed: logits \(batch, n"
    )
    with pytest.raises(ValueError, match=message):
        classification_loss(lambda inputs: inputs, batch)


TOKEN_MODELS = {
    "mlp": lambda: TokenMLP(embedding_dim=8, widths=(24, 16)),
    "transformer": lambda: TokenTransformer(d_model=16, num_layers=2, hidden_dim=24),
    "mixer": lambda: TokenMixer(d_model=16, num_layers=2, token_hidden_dim=12, channel_hidden_dim=24),
}


def gradient_of(model, loss, parts, weight, micro):
    model.zero_grad()
    value = loop._accumulate(model, loss, parts, weight, micro, "float32")
    return value, {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def mean_loss(model, batch):
    inputs, labels = batch
    return F.cross_entropy(model(inputs), labels)


@pytest.mark.parametrize("name", TOKEN_MODELS)
@pytest.mark.parametrize(("size", "micro"), [(16, 4), (13, 4), (13, 1), (13, 13), (13, 20), (1, 4)])
def test_micro_batches_add_to_the_gradient_of_the_whole(name, size, micro):
    torch.manual_seed(0)
    model, batch = TOKEN_MODELS[name](), draw_examples(SOURCE, np.arange(size))
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        model.to(dtype).zero_grad()
        # In float64 the loss must not pass through float32.
        loss = mean_loss if dtype == torch.float64 else classification_loss
        expected = mean_loss(model, batch)
        expected.backward()
        whole = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
        value, pieces = gradient_of(model, loss, batch, 1 / size, micro)
        assert value.item() == pytest.approx(expected.item(), rel=1e-6)
        assert_same_weights(pieces, whole, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("count", [13, 3, 8])
@pytest.mark.parametrize("micro", [0, 2])
def test_the_shares_gradients_average_to_that_of_the_whole(count, micro):
    torch.manual_seed(0)
    model, batch = TOKEN_MODELS["mlp"]().double(), draw_examples(SOURCE, np.arange(count))
    _, whole = gradient_of(model, mean_loss, batch, 1 / count, 0)
    shares, values = [], []
    for rank in range(3):
        first, size = Processes(rank, 3).share(0, count)
        value, gradient = gradient_of(
            model, mean_loss, [part[first : first + size] for part in batch], 3 / count, micro
        )
        shares.append(gradient)
        values.append(value.item())
    average = {name: torch.stack([share[name] for share in shares]).mean(dim=0) for name in whole}
    assert_same_weights(average, whole, atol=1e-12, rtol=1e-12)
    assert np.mean(values) == pytest.approx(mean_loss(model, batch).item(), rel=1e-6)


@given(st.integers(1, 9), st.integers(0, 100), st.integers(0, 10**9))
def test_shares_tile_the_batch(world_size, count, first):
    shares = [Processes(rank, world_size).share(first, count) for rank in range(world_size)]
    samples = [sample for low, size in shares for sample in range(low, low + size)]
    assert samples == list(range(first, first + count))
    sizes = [size for _, size in shares]
    assert max(sizes) - min(sizes) <= 1
    if count % world_size == 0:
        assert shares == [(first + rank * count // world_size, count // world_size) for rank in range(world_size)]


@pytest.mark.parametrize(
    ("epoch_size", "batch_size", "fits"), [(14, 6, False), (2, 6, False), (15, 6, True), (12, 6, True)]
)
def test_each_process_has_a_part_in_each_step(tmp_path, monkeypatch, epoch_size, batch_size, fits):
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setattr(Processes, "joined", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(loop, "_run_steps", lambda *_: None)
    spec = dataclasses.replace(SPEC, epoch_size=epoch_size, batch_size=batch_size)
    if fits:
        run(tmp_path / "run", spec)
        return
    with pytest.raises(ValueError, match=rf"epoch_size is {epoch_size}; allowed: .* each of the 3 processes"):
        run(tmp_path / "run", spec)
    assert not (tmp_path / "run").exists()


# Training.


def by_hand(spec, start):
    """The same training with SGD written out, on the examples in the order of their epochs."""
    model = build_model(CONFIG)
    model.load_state_dict(start)
    speeds = [torch.zeros_like(parameter) for parameter in model.parameters()]
    norms, losses = [], []
    for step in range(spec.steps):
        epoch, place = divmod(step, 3)
        inputs, labels = DRAW(45 * epoch + 16 * place, (16, 16, 13)[place])
        model.zero_grad()
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        losses.append(loss.item())
        norms.append(math.sqrt(sum((p.grad.double() ** 2).sum().item() for p in model.parameters())))
        clip = min(1.0, spec.max_gradient_norm / norms[-1]) if spec.max_gradient_norm else 1.0
        rate = 0.05 * ((step + 1) / 3 if step < 3 else 0.5 * (1 + math.cos(math.pi * (step - 3) / 7)))
        with torch.no_grad():
            for parameter, speed in zip(model.parameters(), speeds, strict=True):
                speed.mul_(0.9).add_(clip * parameter.grad + 1e-3 * parameter)
                parameter -= rate * speed
    return model, norms, losses


@pytest.mark.parametrize("max_norm", [0.0, 0.1])
@pytest.mark.parametrize("micro", [0, 5])
def test_training_is_sgd_over_whole_epochs(tmp_path, max_norm, micro):
    spec = dataclasses.replace(SPEC, max_gradient_norm=max_norm, micro_batch_size=micro, log_every=1)
    torch.manual_seed(spec.seed)
    start = weights(build_model(CONFIG))
    trained = run(tmp_path, spec)
    expected, norms, losses = by_hand(spec, start)
    assert_same_weights(weights(trained), weights(expected), atol=1e-6, rtol=1e-5)
    moved = max((value - start[name]).abs().max().item() for name, value in weights(trained).items())
    assert moved > 1e-3
    assert min(norms) > 0.1, "clipping would change every step"
    lines = read_metrics(tmp_path)
    assert [line["gradient_norm"] for line in lines] == pytest.approx(norms, rel=1e-4)
    assert [line["loss_nats"] for line in lines] == pytest.approx(losses, rel=1e-5)
    assert lines[-1]["learning_rate"] == 0.0
    assert all(line["examples_per_second"] > 0 and "tokens_per_second" not in line for line in lines)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_without_clipping_gradients_stay_as_they_are(tmp_path, monkeypatch, scale):
    seen = []

    def scaled(model, batch):
        return scale * classification_loss(model, batch)

    class Looking(torch.optim.SGD):
        def step(self):
            seen.append([parameter.grad.clone() for group in self.param_groups for parameter in group["params"]])

    monkeypatch.setattr(loop, "make_optimizer", lambda parameters, spec: Looking(parameters, lr=0.0))
    model = train(CONFIG, dataclasses.replace(SPEC, steps=1), DRAW, tmp_path, data=DATA, loss=scaled)
    model.zero_grad()
    weighted = scaled(model, DRAW(0, 16)) * (16 * (1 / 16))
    weighted.backward()
    assert all(torch.equal(a, parameter.grad) for a, parameter in zip(seen[0], model.parameters(), strict=True))


def test_it_learns_its_examples(tmp_path):
    source = pvr.TokenDataset(pvr.TokenSpec(window=1, num_examples=300))
    draw, data = example_batches(source)
    spec = dataclasses.replace(SPEC, steps=240, batch_size=64, epoch_size=300, warmup_steps=20, log_every=10)
    config = model_config("mlp", {"embedding_dim": 16, "widths": [64, 64]})
    model = run(tmp_path, spec, config, draw, data)
    losses = [line["loss_nats"] for line in read_metrics(tmp_path)]
    assert losses[0] == pytest.approx(math.log(10), abs=0.15)
    assert losses[-1] < 0.3
    score = measure(model, source, 300, device=torch.device("cpu"))
    assert score.accuracy > 0.97
    assert score.loss_nats < 0.3


@pytest.mark.parametrize("name", ["transformer", "mixer"])
def test_the_other_token_models_learn_too(tmp_path, name):
    source = pvr.TokenDataset(pvr.TokenSpec(window=1, num_examples=60))
    draw, data = example_batches(source)
    sizes = {"transformer": {"hidden_dim": 32}, "mixer": {"token_hidden_dim": 16, "channel_hidden_dim": 32}}[name]
    config = model_config(name, {"d_model": 32, "num_layers": 2, **sizes})
    spec = dataclasses.replace(SPEC, steps=80, batch_size=32, epoch_size=60, warmup_steps=10, optimizer="adam",
                               learning_rate=5e-3, log_every=10)  # fmt: skip
    run(tmp_path, spec, config, draw, data)
    losses = [line["loss_nats"] for line in read_metrics(tmp_path)]
    assert losses[0] > 1.5
    assert losses[-1] < 0.5


def test_images_are_trained_on_too(tmp_path):
    pytest.importorskip("torchvision")
    pytest.importorskip("sklearn")
    spec = pvr.VisualSpec(cell=12, pointer_bank="digits", value_banks=("digits",), num_examples=15)
    source = pvr.VisualDataset(spec)
    draw, data = example_batches(source)
    inputs, labels = draw(15, 15)
    whole = source.batch(np.arange(15))
    assert (inputs.dtype, inputs.shape, labels.dtype) == (torch.uint8, (15, 24, 24, 1), torch.int64)
    assert sorted(map(bytes, inputs.numpy())) == sorted(map(bytes, whole.images))
    train_spec = dataclasses.replace(SPEC, steps=4, batch_size=8, epoch_size=15, optimizer="adam", learning_rate=1e-3,
                                     log_every=1)  # fmt: skip
    model = run(tmp_path, train_spec, model_config("resnet18", {}), draw, data)
    losses = [line["loss_nats"] for line in read_metrics(tmp_path)]
    assert losses[0] == pytest.approx(math.log(10), abs=1.0)
    assert losses[-1] < losses[0]
    loaded, _ = load_model(tmp_path)
    assert loaded.network.bn1.num_batches_tracked == 4
    device = torch.device("cpu")
    assert measure(loaded, source, 15, device=device) == measure(model, source, 15, device=device)


# Stop and go.


class Stopper:
    """An evaluation or a progress report that fails at its n-th call."""

    def __init__(self, call):
        self.left = call

    def __call__(self, _):
        self.left -= 1
        if self.left == 0:
            raise PowerCutError
        return {"probe": float(self.left)}


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adagrad", "lamb"])
def test_stop_and_go_is_one_go_in_the_middle_of_an_epoch(tmp_path, optimizer):
    spec = dataclasses.replace(SPEC, optimizer=optimizer, learning_rate=0.01, micro_batch_size=7)
    run(tmp_path / "whole", spec, NOISY)
    for call in (3, 1):  # at the line of step 6, after the checkpoint of step 4, and then of step 6 again
        with pytest.raises(PowerCutError):
            run(tmp_path / "stopped", spec, NOISY, progress=Stopper(call))
        assert [path.name for path in (tmp_path / "stopped" / "checkpoints").iterdir()] == ["step-000000004"]
    run(tmp_path / "stopped", spec, NOISY)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_it_is_so_where_an_evaluation_fails(tmp_path):
    spec = dataclasses.replace(SPEC, evaluate_every=5)
    run(tmp_path / "whole", spec, NOISY, evaluate=probe)
    with pytest.raises(PowerCutError):
        run(tmp_path / "stopped", spec, NOISY, evaluate=Stopper(2))
    assert [line["step"] for line in read_metrics(tmp_path / "stopped")] == [2, 4, 5, 6, 8]
    run(tmp_path / "stopped", spec, NOISY, evaluate=probe)
    # The line of step 5 is the failing evaluation's own.
    assert state_of(tmp_path / "whole")[0] == state_of(tmp_path / "stopped")[0]
    one, other = (timeless(tmp_path / name) for name in ("whole", "stopped"))
    assert [line["step"] for line in one] == [2, 4, 5, 6, 8, 10, 11]
    assert [line["probe"] for line in one if "probe" in line][1:] == [
        line["probe"] for line in other if "probe" in line
    ][1:]


def test_a_resumed_run_draws_what_is_left(tmp_path):
    with pytest.raises(PowerCutError):
        run(tmp_path, progress=Stopper(3))
    drawn = []

    def noted(first, count):
        drawn.append((first, count))
        return DRAW(first, count)

    run(tmp_path, draw=noted)
    assert drawn == [SPEC.span(step) for step in range(4, 11)]
    assert drawn[:3] == [(61, 16), (77, 13), (90, 16)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimizer": "lamb"}, "train optimizer is 'sgd' there, 'lamb' here"),
        ({"epoch_size": 44}, "train epoch_size is 45 there, 44 here"),
        ({"momentum": 0.8}, r"train momentum is 0\.9 there, 0\.8 here"),
        ({"weight_decay": 0.0}, r"train weight_decay is 0\.001 there, 0\.0 here"),
        ({"final_rate": 0.5}, r"train final_rate is 0\.0 there, 0\.5 here"),
        ({"max_gradient_norm": 1.0}, r"train max_gradient_norm is 0\.0 there, 1\.0 here"),
        ({"steps": 12}, "train steps is 11 there, 12 here"),
        ({"dtype": "bfloat16"}, "train dtype is 'float32' there, 'bfloat16' here"),
        ({"data": 1}, "data shuffle_seed is 0 there, 1 here"),
    ],
)
def test_another_run_in_the_folder_is_refused(tmp_path, changes, message):
    spec = dataclasses.replace(SPEC, steps=2)
    if "steps" not in changes:
        changes = {"steps": 2, **changes}
    else:
        spec = SPEC
    run(tmp_path, spec)
    data = DATA
    if "data" in changes:
        changes.pop("data")
        data = example_batches(SOURCE, shuffle_seed=1)[1]
    with pytest.raises(ValueError, match=f"holds another run .*{message}"):
        run(tmp_path, dataclasses.replace(SPEC, **changes), data=data)


def test_at_a_constant_rate_more_steps_go_on(tmp_path):
    spec = dataclasses.replace(SPEC, schedule="constant")
    run(tmp_path / "longer", dataclasses.replace(spec, steps=7))
    run(tmp_path / "longer", spec)
    run(tmp_path / "whole", spec)
    assert state_of(tmp_path / "longer")[0] == state_of(tmp_path / "whole")[0]


# Evaluation.


def test_evaluations_join_the_metrics_at_their_steps(tmp_path):
    seen = []

    def evaluate(model):
        assert not model.training
        assert not torch.is_grad_enabled()
        seen.append(model.head.weight.sum().item())
        return {"weight": seen[-1], "twice": 2 * seen[-1]}

    def loss(model, batch):
        assert model.training
        assert torch.is_grad_enabled()
        return classification_loss(model, batch)

    spec = dataclasses.replace(SPEC, log_every=4, evaluate_every=3)
    reported = []
    model = train(CONFIG, spec, DRAW, tmp_path, data=DATA, loss=loss, evaluate=evaluate, progress=reported.append)
    lines = read_metrics(tmp_path)
    assert [line["step"] for line in lines] == [3, 4, 6, 8, 9, 11]
    assert [line["step"] for line in lines if "weight" in line] == [3, 6, 9, 11]
    assert [line["weight"] for line in lines if "weight" in line] == seen
    assert [line["twice"] for line in lines if "twice" in line] == [2 * value for value in seen]
    assert seen[-1] == model.head.weight.sum().item(), "of the weights after the step"
    assert reported == lines
    # And the losses are still the means over the steps between the lines.
    train(CONFIG, dataclasses.replace(SPEC, log_every=1), DRAW, tmp_path / "all", data=DATA, loss=classification_loss)
    losses = [line["loss_nats"] for line in read_metrics(tmp_path / "all")]
    parts = [losses[0:3], losses[3:4], losses[4:6], losses[6:8], losses[8:9], losses[9:11]]
    assert [line["loss_nats"] for line in lines] == pytest.approx([np.mean(part) for part in parts], rel=1e-6)


def test_by_default_only_the_last_step_is_evaluated(tmp_path):
    calls = []
    run(tmp_path, evaluate=lambda model: {"calls": calls.append(1) or len(calls)})
    assert [line["step"] for line in read_metrics(tmp_path) if "calls" in line] == [11]
    run(tmp_path, evaluate=lambda model: {"calls": calls.append(1) or len(calls)})
    assert len(calls) == 1, "a finished run is left as it is"


def disturbing(model):
    """An evaluation that draws random numbers and runs the model, in training mode too."""
    inputs, labels = draw_examples(SOURCE, torch.randint(0, 45, (20,)).numpy())
    torch.manual_seed(torch.randint(0, 1000, ()).item())
    return {"loss": F.cross_entropy(model(inputs), labels).item(), "noise": torch.rand(()).item()}


def test_evaluation_changes_no_bit_of_the_training(tmp_path):
    run(tmp_path / "none", config=NOISY)
    expected = state_of(tmp_path / "none")
    for every in (0, 1, 2, 3, 100):
        folder = tmp_path / str(every)
        run(folder, dataclasses.replace(SPEC, evaluate_every=every), NOISY, evaluate=disturbing)
        found = state_of(folder)
        assert found[0] == expected[0], every
        assert_equal(found[1], expected[1])


def test_what_a_model_remembers_of_an_evaluation_serves_the_training(tmp_path):
    def evaluate(model):
        return {"largest": model(draw_examples(SOURCE, np.arange(45))[0]).max().item()}

    config = {"model": f"{__name__}:Remembering"}
    run(tmp_path / "none", config=config)
    run(tmp_path / "often", dataclasses.replace(SPEC, evaluate_every=1), config, evaluate=evaluate)
    assert state_of(tmp_path / "none")[0] == state_of(tmp_path / "often")[0]


def test_a_stopped_run_may_be_evaluated_more_often(tmp_path):
    run(tmp_path / "whole", config=NOISY)
    with pytest.raises(PowerCutError):
        run(tmp_path / "stopped", config=NOISY, progress=Stopper(4))
    run(tmp_path / "stopped", dataclasses.replace(SPEC, evaluate_every=1), NOISY, evaluate=disturbing)
    assert state_of(tmp_path / "whole")[0] == state_of(tmp_path / "stopped")[0]
    assert [line["step"] for line in read_metrics(tmp_path / "stopped")] == [2, 4, 5, 6, 7, 8, 9, 10, 11]


def test_an_evaluated_step_shows_a_loss_that_is_not_finite(tmp_path):
    def loss(model, batch):
        calls.append(1)
        return classification_loss(model, batch) * (math.nan if len(calls) > 2 else 1.0)

    calls = []
    spec = dataclasses.replace(SPEC, log_every=10, checkpoint_every=10, evaluate_every=3)
    with pytest.raises(FloatingPointError, match=r"the loss is nan .* at step 3"):
        train(CONFIG, spec, DRAW, tmp_path, data=DATA, loss=loss, evaluate=lambda model: {"probe": 1.0})
    assert "nan" not in (tmp_path / "metrics.jsonl").read_text().lower()


@pytest.mark.parametrize("name", ["step", "loss_nats", "examples_per_second"])
def test_an_evaluated_value_does_not_hide_the_trainings_own(tmp_path, name):
    with contextlib.suppress(ValueError):  # it may be refused
        run(tmp_path, evaluate=lambda model: {name: -1.0})
    for line in read_metrics(tmp_path):
        assert line[name] != -1.0


# Precision.


@pytest.mark.parametrize(("found", "expected"), [(True, "bfloat16"), (False, "float32")])
def test_auto_takes_what_the_processor_has(monkeypatch, found, expected):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: found, raising=False)
    assert pick_dtype("auto", torch.device("cpu")) == expected
    for name in ("float32", "bfloat16"):
        assert pick_dtype(name, torch.device("cpu")) == name
    assert pick_dtype("auto", torch.device("mps")) == "float32"


@pytest.mark.parametrize(("found", "expected"), [(True, "bfloat16"), (False, "float32")])
def test_auto_takes_what_the_gpu_has(monkeypatch, found, expected):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: found or including_emulation)
    assert pick_dtype("auto", torch.device("cuda", 0)) == expected


def test_auto_works_with_a_torch_that_cannot_tell(monkeypatch):
    # Older versions that the package takes have no such function.
    monkeypatch.delattr(torch.cpu, "_is_amx_tile_supported", raising=False)
    assert pick_dtype("auto", torch.device("cpu")) == "float32"


def test_a_run_records_the_precision_that_auto_took(tmp_path, monkeypatch):
    spec = dataclasses.replace(SPEC, dtype="auto", steps=6, schedule="noam")
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    run(tmp_path / "run", spec)
    run(tmp_path / "named", dataclasses.replace(spec, dtype="bfloat16"))
    run(tmp_path / "float32", dataclasses.replace(spec, dtype="float32"))
    for name, dtype in (("run", "bfloat16"), ("named", "bfloat16"), ("float32", "float32")):
        assert json.loads((tmp_path / name / "run.json").read_text())["train"]["dtype"] == dtype
    assert state_of(tmp_path / "run")[0] == state_of(tmp_path / "named")[0] != state_of(tmp_path / "float32")[0]
    # What it was begun with goes on, under either name.
    run(tmp_path / "run", dataclasses.replace(spec, dtype="bfloat16", steps=7))
    run(tmp_path / "run", dataclasses.replace(spec, steps=8))
    with pytest.raises(ValueError, match="train dtype is 'bfloat16' there, 'float32' here"):
        run(tmp_path / "run", dataclasses.replace(spec, dtype="float32", steps=9))
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    with pytest.raises(ValueError, match="train dtype is 'bfloat16' there, 'float32' here"):
        run(tmp_path / "run", dataclasses.replace(spec, steps=9))
    assert state_of(tmp_path / "run")[2]["step"] == 8


# Several processes.

# It imports no more than it needs: starting the processes is what takes the time here.
PROGRAM = """
import json, sys
import torch
from neophyte import pvr
from neophyte.core.spec import from_mapping
from neophyte.training.data import example_batches
from neophyte.training.loop import classification_loss, train
from neophyte.training.spec import TrainSpec

torch.set_num_threads(1)
folder, config, spec = sys.argv[1], json.loads(sys.argv[2]), from_mapping(TrainSpec, json.loads(sys.argv[3]))
draw, data = example_batches(pvr.TokenDataset(pvr.TokenSpec(window=1, num_examples=45)))
train(config, spec, draw, folder, data=data, loss=classification_loss,
      evaluate=lambda model: {"probe": float(next(model.parameters()).double().sum())})
"""


def test_two_processes_with_unequal_shares_train_what_one_trains(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    alone, pair = tmp_path / "alone", tmp_path / "pair"
    common = {**os.environ, "PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2",
              "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}  # fmt: skip
    # The last step of an epoch has 13 examples: 6 and 7 for two processes, in two and three micro-batches.
    spec = dataclasses.replace(SPEC, steps=7, micro_batch_size=3, evaluate_every=3, log_every=1, max_gradient_norm=0.5)
    arguments = [str(pair), json.dumps(CONFIG), json.dumps(to_mapping(spec))]
    command = [sys.executable, "-c", PROGRAM, *arguments]
    processes = [
        subprocess.Popen(command, env={**common, "RANK": rank}, text=True, stderr=subprocess.PIPE) for rank in "01"
    ]
    try:
        errors = [process.communicate(timeout=DEADLINE_SECONDS)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    # Judged by its results: gloo can abort at exit after right ones.
    assert (pair / "checkpoints" / "step-000000007").is_dir(), errors
    assert json.loads((pair / "run.json").read_text())["processes"] == 2
    run(alone, spec, evaluate=probe)
    one, two = (weights(load_model(folder)[0]) for folder in (alone, pair))
    assert_same_weights(two, one, atol=1e-5)
    lines = [timeless(folder) for folder in (alone, pair)]
    assert [[*line] for line in lines[0]] == [[*line] for line in lines[1]]
    for line, other in zip(*lines, strict=True):
        assert other == pytest.approx(line, rel=1e-4)
