"""Accuracy against a plain count, its interval against scipy, and features against what the head is fed."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import nn

from neophyte import pvr
from neophyte.evaluation.classification import Accuracy, each_batch, feature_batches, measure, wilson
from neophyte.models.classifiers import TokenMixer, TokenMLP, TokenTransformer

CPU = torch.device("cpu")
SOURCE = pvr.TokenDataset(pvr.TokenSpec(window=2, num_examples=300), "test", 1)
MODELS = {
    "mlp": lambda: TokenMLP(embedding_dim=8, widths=(24, 16)),
    "transformer": lambda: TokenTransformer(d_model=16, num_layers=1, hidden_dim=24),
    "mixer": lambda: TokenMixer(d_model=16, num_layers=1, token_hidden_dim=12, channel_hidden_dim=24),
}


class Guess(nn.Module):
    """Logits that grow with what a token says, under dropout in training; it notes the batches it is given."""

    def __init__(self, scale=1.0):
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.scale = scale
        self.batches = []

    def forward(self, tokens):
        assert not torch.is_grad_enabled()
        self.batches.append(len(tokens))
        places = torch.arange(10) - (tokens[:, 1:2].long() + tokens[:, 2:3].long()) % 10
        return self.dropout(-self.scale * places.abs().double())


def count(start, examples, scale=1.0):
    """How often that guess is right, and its mean nats, one example at a time."""
    right, nats = 0, 0.0
    for index in range(start, start + examples):
        one = SOURCE.batch([index])
        guess = (int(one.tokens[0, 1]) + int(one.tokens[0, 2])) % 10
        label = int(one.labels[0])
        right += guess == label
        nats += math.log(sum(math.exp(-scale * abs(c - guess)) for c in range(10))) + scale * abs(label - guess)
    return right, nats / examples


@pytest.mark.parametrize(("start", "examples"), [(0, 300), (0, 1), (250, 120), (10**6, 77)])
@pytest.mark.parametrize("batch_size", [1000, 120, 50, 7])
def test_accuracy_is_a_plain_count(start, examples, batch_size):
    model = Guess().train()
    found = measure(model, SOURCE, examples, device=CPU, batch_size=batch_size, start=start)
    right, nats = count(start, examples)
    assert not model.training
    assert (found.correct, found.examples) == (right, examples)
    assert found.accuracy == right / examples
    assert found.loss_nats == pytest.approx(nats, rel=1e-5)
    assert (found.low, found.high) == wilson(right, examples)
    assert sum(model.batches) == examples
    assert max(model.batches) == min(batch_size, examples)


@pytest.mark.parametrize("name", MODELS)
def test_accuracy_of_a_network_is_its_argmax(name):
    torch.manual_seed(0)
    model, whole = MODELS[name](), SOURCE.batch(np.arange(300))
    found = measure(model, SOURCE, 300, device=CPU, batch_size=64)
    with torch.no_grad():
        logits = model(torch.from_numpy(whole.tokens)).double().numpy()
    nats = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(300), whole.labels]
    assert found.correct == np.sum(logits.argmax(axis=1) == whole.labels)
    assert found.loss_nats == pytest.approx(nats.mean(), rel=1e-5)
    assert found.low < found.accuracy < found.high


@pytest.mark.parametrize("answer", [True, False])
def test_always_and_never_right(answer):
    class Oracle(nn.Module):
        def forward(self, tokens):
            labels = torch.from_numpy(pvr.labels(tokens.numpy(), SOURCE.spec).astype(np.int64))
            return 9.0 * nn.functional.one_hot(labels if answer else (labels + 1) % 10, 10)

    found = measure(Oracle(), SOURCE, 40, device=CPU)
    assert found.accuracy == float(answer)
    assert found.low <= found.accuracy <= found.high
    assert found.high - found.low > 0.05


def test_measuring_leaves_gradients_and_weights(tmp_path):
    torch.manual_seed(0)
    model = MODELS["mlp"]()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    measure(model, SOURCE, 50, device=CPU)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    # And it can be trained on.
    model.train()(torch.from_numpy(SOURCE.batch(np.arange(4)).tokens)).sum().backward()


@pytest.mark.parametrize(("arguments", "message"), [({"count": 0}, "count is 0"), ({"count": 2.5}, r"count is 2\.5")])
def test_bad_counts_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        measure(Guess(), SOURCE, device=CPU, **arguments)


@given(st.integers(1, 100_000), st.floats(0, 1))
def test_the_interval_is_wilsons(examples, share):
    correct = round(share * examples)
    low, high = wilson(correct, examples)
    expected = stats.binomtest(correct, examples).proportion_ci(0.95, method="wilson")
    assert low == pytest.approx(expected.low, rel=1e-6, abs=1e-12)
    assert high == pytest.approx(expected.high, rel=1e-6, abs=1e-12)


@given(st.integers(1, 100_000), st.floats(0, 1))
def test_the_interval_holds_the_share(examples, share):
    # Error bars reach from the share to both ends: matplotlib refuses negative ones.
    correct = round(share * examples)
    low, high = wilson(correct, examples)
    assert 0.0 <= low <= correct / examples <= high <= 1.0
    assert low < high


def test_none_and_all_are_the_ends_of_their_intervals():
    for examples in (*range(1, 300), 1000, 10_000, 10**7):
        (low, high), (other_low, other_high) = wilson(0, examples), wilson(examples, examples)
        assert (low, other_high) == (0.0, 1.0), examples
        assert 0.0 < high < 1.0
        assert high == pytest.approx(1 - other_low, rel=1e-9, abs=1e-15)


def test_the_interval_covers_as_often_as_it_says():
    # Its coverage at one share is known exactly, as a sum over the binomial law: near 95 %.
    for examples, share in ((50, 0.3), (200, 0.95), (1000, 0.1)):
        law = stats.binom.pmf(np.arange(examples + 1), examples, share)
        ends = [wilson(correct, examples) for correct in range(examples + 1)]
        coverage = sum(p for p, (low, high) in zip(law, ends, strict=True) if low <= share <= high)
        assert coverage == pytest.approx(0.95, abs=0.02)


def test_an_accuracy_is_correct_of_examples():
    assert Accuracy(3, 4, 0.1, 0.3, 0.95).accuracy == 0.75


def test_batches_are_the_sources_examples_in_order():
    batches = list(each_batch(SOURCE, 25, CPU, 10, start=290))
    assert [len(labels) for _, labels in batches] == [10, 10, 5]
    inputs, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
    expected = SOURCE.batch(np.arange(290, 315))
    assert (inputs.dtype, labels.dtype) == (torch.uint8, torch.int64)
    np.testing.assert_array_equal(inputs.numpy(), expected.tokens)
    np.testing.assert_array_equal(labels.numpy(), expected.labels)


@pytest.mark.parametrize("name", MODELS)
def test_features_are_what_the_head_is_fed(name):
    torch.manual_seed(0)
    model, fed = MODELS[name]().train(), []
    model.head.register_forward_hook(lambda module, inputs, output: fed.append(inputs[0]))
    batches = feature_batches(model, SOURCE, 50, device=CPU, batch_size=20)
    assert not model.training
    found = list(batches())
    assert [part.shape for part in found] == [(20, 16), (20, 16), (10, 16)]
    assert {part.dtype for part in found} == {np.dtype(np.float64)}
    with torch.no_grad():
        model(torch.from_numpy(SOURCE.batch(np.arange(50)).tokens))
    np.testing.assert_allclose(np.concatenate(found), fed[0].double().numpy(), rtol=1e-5, atol=1e-6)
    # It begins again at each call, one pass beside another.
    for one, other, first in zip(batches(), batches(), found, strict=True):
        np.testing.assert_array_equal(one, first)
        np.testing.assert_array_equal(other, first)
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()


def test_features_are_drawn_as_they_are_asked_for():
    class Counting(nn.Module):
        calls = 0

        def features(self, tokens):
            self.calls += 1
            return tokens.float()

    model = Counting()
    batches = feature_batches(model, SOURCE, 10**12, device=CPU, batch_size=5)()
    assert model.calls == 0
    np.testing.assert_array_equal(next(batches), SOURCE.batch(np.arange(5)).tokens)
    assert model.calls == 1
