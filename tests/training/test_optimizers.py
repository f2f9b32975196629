"""LAMB against a plain NumPy twin, and torch's optimizers by the numbers of a spec."""

import io

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from neophyte.training.optimizers import Lamb, make_optimizer
from neophyte.training.spec import TrainSpec

SHAPES = [(4, 3), (5,), (), (2, 3, 2)]


def some_parameters(seed=0, shapes=SHAPES, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)) for shape in shapes]


def some_gradients(steps, seed=7, shapes=SHAPES):
    rng = np.random.default_rng(seed)
    # Of all sizes: the second moment must matter.
    return [[rng.normal(size=shape) * 10.0 ** rng.integers(-3, 3) for shape in shapes] for _ in range(steps)]


def give(parameters, gradients):
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = None if gradient is None else torch.tensor(gradient, dtype=parameter.dtype)


def values(parameters):
    return [parameter.detach().numpy().copy() for parameter in parameters]


class Twin:
    """Algorithm 2 of Y. You et al., 2019, with phi(z) = z, tensor by tensor."""

    def __init__(self, weights, betas, eps, weight_decay):
        self.weights, self.betas, self.eps, self.weight_decay = [*weights], betas, eps, weight_decay
        self.means, self.squares, self.t = [0.0] * len(weights), [0.0] * len(weights), [0] * len(weights)

    def step(self, gradients, rate):
        for i, gradient in enumerate(gradients):
            if gradient is None:
                continue
            self.t[i] += 1
            self.means[i] = self.betas[0] * self.means[i] + (1 - self.betas[0]) * gradient
            self.squares[i] = self.betas[1] * self.squares[i] + (1 - self.betas[1]) * gradient**2
            mean = self.means[i] / (1 - self.betas[0] ** self.t[i])
            square = self.squares[i] / (1 - self.betas[1] ** self.t[i])
            update = mean / (np.sqrt(square) + self.eps) + self.weight_decay * self.weights[i]
            size, length = np.sqrt(np.sum(self.weights[i] ** 2)), np.sqrt(np.sum(update**2))
            trust = size / length if size > 0 and length > 0 else 1.0
            self.weights[i] = self.weights[i] - rate * trust * update


def assert_close(one, other, **tolerance):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.0, 0.5), (0.8, 0.0)], ids=str)
def test_lamb_is_its_algorithm(betas, weight_decay):
    parameters = some_parameters()
    optimizer = Lamb(parameters, betas=betas, eps=1e-4, weight_decay=weight_decay)
    twin = Twin(values(parameters), betas, 1e-4, weight_decay)
    for step, gradients in enumerate(some_gradients(8)):
        if step == 3:
            gradients[1] = None  # a tensor that the loss did not reach keeps its state
        optimizer.param_groups[0]["lr"] = rate = 0.1 / (step + 1)
        give(parameters, gradients)
        before = values(parameters)
        optimizer.step()
        twin.step(gradients, rate)
        assert_close(values(parameters), twin.weights, rtol=1e-12, atol=1e-14)
        moved = [not np.array_equal(a, b) for a, b in zip(before, values(parameters), strict=True)]
        assert moved == [gradient is not None for gradient in gradients]


def test_lamb_in_float32_follows_it_too():
    parameters = some_parameters(dtype=torch.float32)
    optimizer = Lamb(parameters, lr=0.01, weight_decay=0.01)
    twin = Twin([value.astype(np.float64) for value in values(parameters)], (0.9, 0.999), 1e-6, 0.01)
    for gradients in some_gradients(8):
        give(parameters, gradients)
        optimizer.step()
        twin.step(gradients, 0.01)
    assert {parameter.dtype for parameter in parameters} == {torch.float32}
    assert_close(values(parameters), twin.weights, rtol=1e-4, atol=1e-5)


@given(st.floats(1e-4, 0.5), st.integers(0, 100))
def test_a_tensor_moves_its_norm_times_the_rate(rate, seed):
    parameters = some_parameters(seed)
    optimizer = Lamb(parameters, lr=rate)
    for gradients in some_gradients(3, seed):
        before = values(parameters)
        give(parameters, gradients)
        optimizer.step()
        for old, new in zip(before, values(parameters), strict=True):
            assert np.linalg.norm(new - old) == pytest.approx(rate * np.linalg.norm(old), rel=1e-9)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_zero_weights_are_trusted_as_they_are(weight_decay):
    # Biases begin at zero: a scale of their norm would keep them there.
    parameter = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    optimizer = Lamb([parameter], lr=0.5, eps=0.0, weight_decay=weight_decay)
    parameter.grad = torch.tensor([4.0, -0.1, 2.0], dtype=torch.float64)
    optimizer.step()
    torch.testing.assert_close(parameter.data, torch.tensor([-0.5, 0.5, -0.5], dtype=torch.float64))


@pytest.mark.parametrize("start", [0.0, 2.0])
def test_a_gradient_of_zero_moves_nothing(start):
    parameter = nn.Parameter(torch.full((3,), start))
    parameter.grad = torch.zeros(3)
    Lamb([parameter], lr=0.5).step()
    assert parameter.tolist() == [start] * 3


def test_weight_decay_alone_shrinks_towards_zero():
    parameter = nn.Parameter(torch.tensor([3.0, -4.0], dtype=torch.float64))
    parameter.grad = torch.zeros(2, dtype=torch.float64)
    Lamb([parameter], lr=0.1, weight_decay=0.01).step()
    torch.testing.assert_close(parameter.data, torch.tensor([2.7, -3.6], dtype=torch.float64))


def test_lamb_leaves_the_gradients():
    parameters, (gradients,) = some_parameters(), some_gradients(1)
    give(parameters, gradients)
    Lamb(parameters, weight_decay=0.1).step()
    assert_close([parameter.grad.numpy() for parameter in parameters], gradients, rtol=0)


def test_lamb_takes_a_closure():
    parameter = nn.Parameter(torch.tensor([3.0]))
    optimizer = Lamb([parameter], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (parameter**2).sum()
        loss.backward()
        return loss.item()

    assert optimizer.step(closure) == 9.0
    assert parameter.item() == pytest.approx(2.7)
    assert optimizer.step() is None


@pytest.mark.parametrize("name", ["lamb", "sgd", "adam", "adagrad"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_a_saved_state_goes_on_to_the_same_bits(name, dtype):
    spec = TrainSpec(optimizer=name, learning_rate=0.1, weight_decay=0.01)
    whole, gradients = some_parameters(dtype=dtype), some_gradients(9)
    optimizer = make_optimizer(whole, spec)
    for step, given_ in enumerate(gradients):
        if step == 4:
            file = io.BytesIO()
            torch.save(optimizer.state_dict(), file)
            halfway = [nn.Parameter(parameter.detach().clone()) for parameter in whole]
        give(whole, given_)
        optimizer.step()
    file.seek(0)
    again = make_optimizer(halfway, spec)
    again.load_state_dict(torch.load(file, weights_only=True))
    for given_ in gradients[4:]:
        give(halfway, given_)
        again.step()
    assert all(torch.equal(a, b) for a, b in zip(whole, halfway, strict=True))


def test_lambs_state_has_the_moments_and_the_step():
    parameters = some_parameters()
    optimizer = Lamb(parameters)
    assert optimizer.state_dict()["state"] == {}
    for gradients in some_gradients(2):
        give(parameters, gradients)
        optimizer.step()
    for key, parameter in enumerate(parameters):
        state = optimizer.state_dict()["state"][key]
        assert state.keys() == {"step", "first", "second"}
        assert state["step"] == 2
        assert state["first"].shape == state["second"].shape == parameter.shape
        assert not state["first"].requires_grad


@pytest.mark.parametrize(
    ("name", "kind", "numbers"),
    [
        ("adam", torch.optim.Adam, {"lr": 0.3, "betas": (0.7, 0.8), "weight_decay": 0.02, "eps": 1e-8}),
        ("sgd", torch.optim.SGD, {"lr": 0.3, "momentum": 0.6, "weight_decay": 0.02, "nesterov": False, "dampening": 0}),
        ("adagrad", torch.optim.Adagrad, {"lr": 0.3, "weight_decay": 0.02, "lr_decay": 0, "eps": 1e-10}),
        ("lamb", Lamb, {"lr": 0.3, "betas": (0.7, 0.8), "weight_decay": 0.02, "eps": 1e-6}),
    ],
)
def test_a_spec_names_its_optimizer(name, kind, numbers):
    spec = TrainSpec(optimizer=name, learning_rate=0.3, betas=(0.7, 0.8), momentum=0.6, weight_decay=0.02)
    parameters = some_parameters()
    optimizer = make_optimizer(iter(parameters), spec)
    assert type(optimizer) is kind
    (group,) = optimizer.param_groups
    assert {key: group[key] for key in numbers} == numbers
    assert all(one is other for one, other in zip(group["params"], parameters, strict=True))


def test_sgd_is_its_formula():
    spec = TrainSpec(optimizer="sgd", learning_rate=0.1, momentum=0.9, weight_decay=0.05)
    parameters = some_parameters()
    optimizer, weights, speeds = make_optimizer(parameters, spec), values(parameters), [0.0] * len(SHAPES)
    for gradients in some_gradients(5):
        give(parameters, gradients)
        optimizer.step()
        for i, gradient in enumerate(gradients):
            speeds[i] = 0.9 * speeds[i] + gradient + 0.05 * weights[i]
            weights[i] = weights[i] - 0.1 * speeds[i]
    assert_close(values(parameters), weights, rtol=1e-10, atol=1e-12)


def test_adagrad_is_its_formula():
    spec = TrainSpec(optimizer="adagrad", learning_rate=0.1, weight_decay=0.05)
    parameters = some_parameters()
    optimizer, weights, sums = make_optimizer(parameters, spec), values(parameters), [0.0] * len(SHAPES)
    for gradients in some_gradients(5):
        give(parameters, gradients)
        optimizer.step()
        for i, gradient in enumerate(gradients):
            decayed = gradient + 0.05 * weights[i]
            sums[i] = sums[i] + decayed**2
            weights[i] = weights[i] - 0.1 * decayed / (np.sqrt(sums[i]) + 1e-10)
    assert_close(values(parameters), weights, rtol=1e-10, atol=1e-12)
