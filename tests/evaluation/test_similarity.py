"""Linear CKA against its definition, its invariances, and examples in batches."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from neophyte.evaluation.similarity import linear_cka


def definition(x, y):
    """Kornblith et al., 2019, equations 2 and 3: HSIC of the two Gram matrices, each centred by a matrix H."""
    count = len(x)
    centring = np.eye(count) - np.full((count, count), 1 / count)

    def hsic(k, other):
        return np.trace(k @ centring @ other @ centring) / (count - 1) ** 2

    k, other = x @ x.T, y @ y.T
    return hsic(k, other) / np.sqrt(hsic(k, k) * hsic(other, other))


def cut(x, y, edges=()):
    return zip(np.split(x, edges), np.split(y, edges), strict=True)


def related(count=40, widths=(6, 4), seed=0):
    """Two representations that share something."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(count, 3))
    return [common @ rng.normal(size=(3, w)) + 0.5 * rng.normal(size=(count, w)) + rng.normal(size=w) for w in widths]


def orthogonal(width, seed=1):
    return stats.ortho_group.rvs(width, random_state=seed)


@given(st.integers(2, 30), st.integers(1, 8), st.integers(1, 8), st.integers(0, 1000))
def test_it_is_its_definition(count, width, other_width, seed):
    x, y = related(count, (width, other_width), seed)
    assert linear_cka([(x, y)]) == pytest.approx(definition(x, y), rel=1e-8)


@given(st.data())
def test_batches_change_nothing(data):
    x, y = related(37)
    edges = sorted(data.draw(st.sets(st.integers(1, 36))))
    assert linear_cka(cut(x, y, edges)) == pytest.approx(definition(x, y), rel=1e-10)


def test_a_generator_is_read_once_and_left_unchanged():
    x, y = related()
    before = x.copy(), y.copy()
    read = []

    def batches():
        for pair in cut(x, y, (1, 2, 30)):
            read.append(len(pair[0]))
            yield pair

    assert linear_cka(batches()) == pytest.approx(definition(x, y), rel=1e-10)
    assert read == [1, 1, 28, 10]
    np.testing.assert_array_equal(before[0], x)
    np.testing.assert_array_equal(before[1], y)


def test_float32_is_summed_in_float64():
    x, y = related(1000)
    x, y = (values.astype(np.float32) for values in (x + 100, y + 100))
    expected = definition(*(values.astype(np.float64) - 100 for values in (x, y)))
    assert linear_cka(cut(x, y, range(10, 1000, 10))) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("edges", [(), (1,), (17, 20)], ids=str)
def test_it_is_symmetric_and_sees_no_turn_scale_or_shift(edges):
    x, y = related()
    plain = linear_cka([(x, y)])
    assert 0.2 < plain < 0.95
    assert linear_cka(cut(y, x, edges)) == pytest.approx(plain, rel=1e-10)
    changed = 7.5 * x @ orthogonal(6) + np.arange(6)
    assert linear_cka(cut(changed, y, edges)) == pytest.approx(plain, rel=1e-10)
    assert linear_cka(cut(changed, -0.01 * y @ orthogonal(4) - 3, edges)) == pytest.approx(plain, rel=1e-10)
    # But it does see a stretch of one direction.
    assert abs(linear_cka([(x * np.array([9, 1, 1, 1, 1, 1]), y)]) - plain) > 0.01


@pytest.mark.parametrize("shift", [1e3, 1e6, 1e8])
@pytest.mark.parametrize("edges", [(), (1,), (2, 3, 25)], ids=str)
def test_large_means_cancel_without_loss(shift, edges):
    rng = np.random.default_rng(3)
    x, y = related(60)
    x, y = (values + shift * rng.choice([-1, 1, 2], size=values.shape[1]) for values in (x, y))
    # Of the values as they are after the sum, so that only the method's own rounding counts.
    expected = definition(x - x.mean(axis=0), y - y.mean(axis=0))
    assert linear_cka(cut(x, y, edges)) == pytest.approx(expected, rel=1e-9 if shift < 1e8 else 1e-6)


def test_a_first_batch_like_no_other_does_no_harm():
    x, y = related(2000)
    x[0], y[0] = 1e4, -1e4
    expected = linear_cka([(x, y)])
    assert linear_cka(cut(x, y, (1,))) == pytest.approx(expected, rel=1e-9)


@given(st.integers(2, 30), st.integers(1, 8), st.integers(0, 200))
def test_a_representation_is_wholly_like_itself(count, width, seed):
    x, _ = related(count, (width, 1), seed)
    for other in (x, -3 * x + 1, np.concatenate([x, x], axis=1)):
        assert linear_cka([(x, other)]) == pytest.approx(1.0, abs=1e-9)


@given(st.integers(2, 12), st.integers(1, 5), st.integers(0, 1000))
def test_it_lies_between_0_and_1(count, width, seed):
    x, y = related(count, (width, width), seed)
    assert 0.0 <= linear_cka([(x, y)]) <= 1.0
    assert 0.0 <= linear_cka([(x, x)]) <= 1.0


def test_of_one_column_each_it_is_the_squared_correlation():
    x, y = related(50, (1, 1))
    assert linear_cka([(x, y)]) == pytest.approx(np.corrcoef(x[:, 0], y[:, 0])[0, 1] ** 2, rel=1e-10)


def test_uncorrelated_columns_are_not_alike():
    # A full factorial design: its columns are exactly orthogonal.
    design = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
    assert linear_cka([(design[:, :2], design[:, 2:] + 5)]) == pytest.approx(0.0, abs=1e-15)
    # One of two columns shared: the products are 1 against 2 and 2.
    assert linear_cka([(design[:, :2], design[:, 1:3])]) == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([], "pairs holds 0 examples; allowed: at least 2"),
        ([((1, 3), (1, 2))], "pairs holds 1 examples"),
        ([((4, 3), (5, 2))], r"pairs holds shapes \(4, 3\) and \(5, 2\); allowed: \(batch, width\), of equal batch"),
        ([((4,), (4, 2))], r"pairs holds shapes \(4,\) and \(4, 2\)"),
        ([((4, 3, 1), (4, 2))], r"pairs holds shapes \(4, 3, 1\)"),
        ([((4, 3), (4, 2)), ((4, 3), (4, 3))], "pairs holds widths 3 and 3; allowed: the same in each batch"),
        ([((4, 3), (4, 2)), ((4, 2), (4, 3))], "pairs holds widths 2 and 3; allowed: the same in each batch"),
    ],
)
def test_what_does_not_match_is_refused(shapes, message):
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=message):
        linear_cka([tuple(rng.normal(size=shape) for shape in pair) for pair in shapes])


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -1 / 3, 1e6 + 0.1])
@pytest.mark.parametrize("edges", [(), (1,), (4, 11)], ids=str)
def test_what_never_varies_is_refused(value, edges):
    x, constant = related(30)[0], np.full((30, 2), value)
    for pair in ((x, constant), (constant, x), (constant, constant)):
        with pytest.raises(ValueError, match="a representation that is the same for all examples"):
            linear_cka(cut(*pair, edges))
