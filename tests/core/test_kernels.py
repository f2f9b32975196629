"""The elementary functions against exact arithmetic."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import special

from neophyte.core import kernels

RNG_SEED = 20240607


def errors_in_ulps(xs):
    """Return |log64(x) - ln x| in units in the last place of ln x, with ln x to 50 digits."""
    errors = []
    with localcontext() as context:
        context.prec = 50
        for x in xs:
            exact = Decimal(x).ln()
            error = abs(Decimal(float(kernels.log64(x))) - exact)
            errors.append(float(error / Decimal(math.ulp(float(exact)))))
    return errors


def test_log64_is_within_one_unit_in_the_last_place():
    rng = np.random.default_rng(RNG_SEED)
    everywhere = rng.uniform(1.0, 2.0, 700) * 2.0 ** rng.integers(-1022, 1024, 700)
    near_one = 1.0 + rng.uniform(-1.0, 1.0, 500) * 10.0 ** rng.uniform(-16, -0.5, 500)
    borders = [root * (1 + step) for root in (math.sqrt(2), math.sqrt(0.5)) for step in np.arange(-3, 4) * 2.0**-52]
    special_cases = [2.0**-1022, 1.7976931348623157e308, 0.5, 2.0, 4.0, 10.0, math.e]
    xs = [*everywhere.tolist(), *near_one[near_one != 1.0].tolist(), *borders, *special_cases]
    assert max(errors_in_ulps(xs)) < 1.0


def test_log64_of_one_is_zero():
    assert kernels.log64(1.0) == 0.0


def test_exp32_has_a_relative_error_below_two_in_ten_million():
    rng = np.random.default_rng(RNG_SEED)
    xs = np.concatenate(
        [rng.uniform(-87, 88, 40_000), rng.uniform(-1, 1, 20_000), np.arange(-87, 89) * math.log(2) / 2]
    )
    xs = np.clip(xs, -87, 88).astype(np.float32)
    got = np.array([kernels.exp32(x) for x in xs])
    exact = np.exp(xs.astype(np.float64))
    np.testing.assert_array_equal(got, got.astype(np.float32))
    assert np.abs(got / exact - 1.0).max() < 2e-7


@pytest.mark.parametrize(
    ("x", "clamped"), [(-88.0, -87.0), (-1e30, -87.0), (-np.inf, -87.0), (89.0, 88.0), (1e30, 88.0)]
)
def test_exp32_clamps_its_argument(x, clamped):
    assert kernels.exp32(np.float32(x)) == kernels.exp32(np.float32(clamped))
    assert kernels.exp32(np.float32(x)) == pytest.approx(math.exp(clamped), rel=2e-7)


def test_tanh32_has_an_absolute_error_below_three_in_ten_million():
    rng = np.random.default_rng(RNG_SEED)
    xs = np.concatenate([rng.normal(0, 3, 40_000), rng.normal(0, 1e-3, 2000), [0.0, 50.0, -50.0, 1e30, -1e30]])
    xs = xs.astype(np.float32)
    got = np.array([kernels.tanh32(x) for x in xs])
    np.testing.assert_array_equal(got, got.astype(np.float32))
    assert np.abs(got - np.tanh(xs.astype(np.float64))).max() < 3e-7
    assert np.abs(got).max() == 1.0


def cell_middles(words):
    """Return the middles of the words' cells, and of the cells counted from 1 down; exact in float64."""
    numerators = [int(word) >> 12 for word in words]
    low = np.array([(2 * k + 1) / 2**53 for k in numerators])
    high = np.array([(2 * (2**52 - k) - 1) / 2**53 for k in numerators])
    return low, high


def test_normals_are_the_inverse_distribution_of_their_word():
    rng = np.random.default_rng(RNG_SEED)
    anywhere = rng.integers(0, 2**64, 20_000, dtype=np.uint64, endpoint=False)
    # Both tails down to the last cell, and both borders of the centre.
    deep = (2.0 ** rng.uniform(12, 60, 2000)).astype(np.uint64)
    borders = np.array([int(p * 2**64) + k * 2**12 for p in (0.075, 0.925) for k in range(-3, 4)], dtype=np.uint64)
    ends = np.array([0, 1, 2**12, 2**63, 2**64 - 1], dtype=np.uint64)
    words = np.concatenate([anywhere, deep, ~deep, borders, ends])
    low, high = cell_middles(words)
    # Each tail from its own end: 1 - p would lose digits.
    exact = np.where(low < 0.5, special.ndtri(low), -special.ndtri(high))
    assert np.abs(kernels.normal_from_words(words) / exact - 1.0).max() < 1e-14


def test_normals_are_odd_in_their_word():
    words = np.random.default_rng(RNG_SEED).integers(0, 2**64, 1000, dtype=np.uint64)
    np.testing.assert_allclose(kernels.normal_from_words(~words), -kernels.normal_from_words(words), rtol=1e-9)


def test_normals_in_single_precision_are_the_same_numbers():
    words = np.random.default_rng(RNG_SEED).integers(0, 2**64, 1000, dtype=np.uint64)
    out = np.empty(1000, dtype=np.float32)
    kernels.fill_normal(words, out)
    np.testing.assert_array_equal(out, kernels.normal_from_words(words).astype(np.float32))


def test_uniforms_are_the_high_53_bits():
    words = np.array([0, 2**11 - 1, 2**11, 2**63, 2**64 - 1], dtype=np.uint64)
    np.testing.assert_array_equal(kernels.uniform_from_words(words), [0.0, 0.0, 2.0**-53, 0.5, 1.0 - 2.0**-53])
