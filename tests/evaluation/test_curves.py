"""Curves: bins, means and intervals against direct computation, SciPy and planted truths."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from neophyte.evaluation.curves import (
    Losses,
    bootstrap,
    collect_losses,
    load_losses,
    log_bins,
    mean_interval,
    power_law,
    save_losses,
    span_means,
    student_t,
)

# Chance of a false alarm of each statistical test, had its fixed seed been drawn at random.
ALARM = 1e-6


@given(st.integers(1, 20_000), st.integers(1, 8))
def test_bins_cover_every_position_once(length, per_octave):
    edges = log_bins(length, per_octave)
    assert edges.dtype == np.int64
    covered = np.concatenate([np.arange(a, b) for a, b in itertools.pairwise(edges)])
    np.testing.assert_array_equal(covered, np.arange(length))
    assert (np.diff(edges) > 0).all()
    assert edges[1] == 1
    # No bin is wider than its share of an octave, up to rounding; the last may be narrower.
    assert (edges[2:] <= edges[1:-1] * 2 ** (1 / per_octave) + 1).all()
    shares = [length * sixteenths / 16 for sixteenths in (1, 2, 4, 8, 12)]
    assert len(edges) <= 2 + (math.log2(length) + 1) * per_octave + len(shares)
    assert {round(share) for share in shares if share >= 1} <= set(edges.tolist())


def test_bins_of_the_papers_context():
    edges = log_bins(4096)
    assert edges[:6].tolist() == [0, 1, 2, 3, 4, 5]
    assert set(2 ** np.arange(13)) <= set(edges.tolist())


def some_losses():
    rng = np.random.default_rng(0)
    batches, whole = [], {"a": [], "b": []}
    for groups in (["2", "3"], ["2"], ["text", "text", "3"]):
        scores = {"a": rng.exponential(size=(len(groups), 50)).astype(np.float32)}
        if "text" not in groups:
            scores["b"] = rng.exponential(size=(len(groups), 50)).astype(np.float32)
        batches.append((groups, scores))
    groups = [group for batch, _ in batches for group in batch]
    whole["a"] = np.concatenate([scores["a"] for _, scores in batches])
    whole["b"] = np.concatenate([scores["b"] for _, scores in batches[:2]])
    return batches, groups, whole


def test_binned_losses_are_the_means_of_their_positions():
    batches, groups, whole = some_losses()
    edges, counts = np.array([0, 1, 3, 20, 50]), []
    losses = collect_losses(iter(batches), edges, counts.append)
    assert losses.groups == groups
    assert counts == [2, 1, 3]
    for name, values in whole.items():
        for row, sequence in enumerate(values):
            expected = [sequence[a:b].astype(float).sum() / (b - a) for a, b in itertools.pairwise(edges)]
            np.testing.assert_allclose(losses.values[name][row], expected, rtol=1e-6)
    assert np.isnan(losses.values["b"][3:]).all()
    np.testing.assert_array_equal(losses.select("a", "3"), losses.values["a"][[1, 5]])


def test_curves_are_means_with_students_interval():
    batches, _, whole = some_losses()
    edges = np.array([0, 10, 50])
    losses = collect_losses(batches, edges)
    rows = losses.rows()
    # "b" has no value for some sequences of group 3, and none for text: it has no curve there.
    assert {(row["predictor"], row["group"]) for row in rows} == {("a", "2"), ("a", "3"), ("a", "text"), ("b", "2")}
    late = next(row for row in rows if row["predictor"] == "a" and row["group"] == "text" and row["start"] == 10)
    values = whole["a"][3:5, 10:].mean(axis=1)
    assert (late["stop"], late["sequences"]) == (50, 2)
    low, high = stats.t.interval(0.95, 1, loc=values.mean(), scale=stats.sem(values))
    assert late["mean_nats"] == pytest.approx(values.mean(), rel=1e-5)
    assert (late["low_nats"], late["high_nats"]) == pytest.approx((low, high), rel=1e-4)


def test_stored_losses_come_back(tmp_path):
    batches, groups, _ = some_losses()
    losses = collect_losses(batches, np.array([0, 10, 50]))
    save_losses(losses, tmp_path / "losses.npz")
    loaded = load_losses(tmp_path / "losses.npz")
    assert loaded.groups == groups
    np.testing.assert_array_equal(loaded.edges, losses.edges)
    assert loaded.values.keys() == losses.values.keys()
    for name, values in losses.values.items():
        np.testing.assert_array_equal(loaded.values[name], values)
    assert loaded.rows() == losses.rows()


@pytest.mark.parametrize(
    ("low", "high", "start", "stop"),
    [(0.75, 1.0, 48, 64), (0.0, 1 / 16, 0, 4), (0.5, 1.0, 32, 64), (0.125, 0.25, 8, 16)],
)
def test_a_span_is_the_mean_over_its_positions(low, high, start, stop):
    nll = np.random.default_rng(0).exponential(size=(5, 64))
    losses = collect_losses([(["2", "3", "2", "2", "3"], {"a": nll})], log_bins(64, 16))
    # Sixteen bins an octave are edges at every quarter of an octave, and so at the span's ends or right beside them.
    first, last = (int(losses.edges[np.argmin(abs(losses.edges - edge))]) for edge in (start, stop))
    assert abs(first - start) <= 1
    assert abs(last - stop) <= 1
    expected = nll[[0, 2, 3], first:last].mean(axis=1)
    np.testing.assert_allclose(span_means(losses, "a", "2", low, high), expected, rtol=1e-5)


def test_a_paired_curve_has_the_interval_of_the_differences():
    # Sequences differ much from each other, and two predictors on one of them little.
    rng = np.random.default_rng(0)
    hard = rng.normal(3.0, 1.0, (20, 1))
    scores = {"a": hard + 0.5 + 0.01 * rng.normal(size=(20, 50)), "oracle": np.broadcast_to(hard, (20, 50))}
    losses = collect_losses([(["2"] * 20, scores)], np.array([0, 10, 50]))
    row = losses.curve("a", "2", over="oracle")[1]
    differences = (scores["a"] - scores["oracle"])[:, 10:].mean(axis=1)
    low, high = stats.t.interval(0.95, 19, loc=differences.mean(), scale=stats.sem(differences))
    assert (row["mean_nats"], row["low_nats"], row["high_nats"]) == pytest.approx(
        (differences.mean(), low, high), abs=1e-4
    )
    alone = losses.curve("a", "2")[1]
    assert alone["high_nats"] - alone["low_nats"] > 100 * (high - low)


@pytest.mark.parametrize(
    ("degrees", "tolerance"),
    [(1, 1e-9), (2, 1e-9), (3, 2e-3), (4, 5e-4), (5, 2e-4), (6, 1e-4), (30, 1e-7), (10**6, 1e-8)],
)
def test_students_t_is_scipys(degrees, tolerance):
    assert student_t(degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=tolerance)


@given(st.integers(3, 2000))
def test_students_t_is_within_a_fifth_of_a_percent_everywhere(degrees):
    assert student_t(degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=2e-3)


@pytest.mark.parametrize("count", [2, 4, 11, 300])
def test_mean_intervals_are_scipys(count):
    values = np.random.default_rng(count).normal(3.0, 2.0, (count, 5)).astype(np.float32)
    means, widths = mean_interval(values)
    expected = stats.t.interval(0.95, count - 1, loc=values.mean(axis=0), scale=stats.sem(values, axis=0))
    np.testing.assert_allclose([means - widths, means + widths], expected, rtol=5e-3, atol=5e-3)


def test_one_sequence_has_no_interval():
    means, widths = mean_interval(np.array([[1.0, 2.0]]))
    assert means.tolist() == [1.0, 2.0]
    assert widths.tolist() == [math.inf, math.inf]


def test_mean_intervals_cover_the_truth_so_often():
    values = np.random.default_rng(0).normal(size=(5, 20_000))
    means, widths = mean_interval(values)
    covered = int((abs(means) <= widths).sum())
    assert stats.binomtest(covered, 20_000, 0.95).pvalue > ALARM


def test_the_bootstrap_is_deterministic():
    values = np.random.default_rng(0).normal(size=50)
    one, again = (bootstrap(50, lambda rows: float(values[rows].mean())) for _ in range(2))
    assert one == again
    assert bootstrap(50, lambda rows: float(values[rows].mean()), draws=500) != one


def test_the_bootstrap_resamples_rows():
    seen = []
    low, high = bootstrap(7, lambda rows: seen.append(rows) or float(rows.mean()), draws=300)
    picks = np.array(seen)
    assert picks.shape == (300, 7)
    assert stats.chisquare(np.bincount(picks.ravel(), minlength=7)).pvalue > ALARM
    assert len(np.unique(picks, axis=0)) > 290
    assert (low, high) == pytest.approx(np.percentile(picks.mean(axis=1), [2.5, 97.5]))


def test_bootstrap_intervals_cover_the_truth_so_often():
    # The percentile interval of a mean of 40 covers about 94 %; 90 % and 97 % would be faults.
    data, covered = np.random.default_rng(1).normal(size=(1000, 40)), 0
    for values in data:
        low, high = bootstrap(40, lambda rows, values=values: float(values[rows].mean()), 200)
        covered += low <= 0 <= high
    assert 0.90 < covered / 1000 < 0.97


def planted(exponent, noise=0.0, sequences=40, length=4096, scale=3.0):
    """Losses whose excess over the oracle falls as a power of the number of tokens before."""
    rng = np.random.default_rng(0)
    oracle = rng.uniform(0.5, 1.0, (sequences, length))
    excess = scale * np.maximum(np.arange(length), 0.5) ** -exponent * np.exp(noise * rng.normal(size=(sequences, 1)))
    return collect_losses([([2] * sequences, {"model": oracle + excess, "oracle": oracle})], log_bins(length))


@pytest.mark.parametrize("exponent", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("first", [4, 16, 64])
def test_a_planted_exponent_is_recovered(exponent, first):
    fit = power_law(planted(exponent), "model", 2, first)
    assert fit["exponent"] == pytest.approx(exponent, abs=0.02)
    assert (fit["predictor"], fit["group"], fit["first"]) == ("model", "2", first)


def test_its_interval_holds_the_exponent_and_widens_with_noise():
    rng = np.random.default_rng(3)
    losses = planted(0.5)
    rough = Losses(losses.edges, losses.groups, dict(losses.values))
    for name, spread in (("still", 0.01), ("loud", 0.2)):
        factors = np.exp(spread * rng.normal(size=losses.values["model"].shape))
        rough.values[name] = losses.values["oracle"] + (losses.values["model"] - losses.values["oracle"]) * factors
    still, loud = (power_law(rough, name, 2) for name in ("still", "loud"))
    for fit in (still, loud):
        assert fit["low"] < fit["exponent"] < fit["high"]
        assert fit["low"] - 0.02 < 0.5 < fit["high"] + 0.02
    assert loud["high"] - loud["low"] > 5 * (still["high"] - still["low"])


def test_no_fit_where_there_is_no_excess_or_too_little_context():
    losses = planted(0.5)
    losses.values["same"] = losses.values["oracle"]
    losses.values["better"] = losses.values["model"].copy()
    losses.values["better"][:, -1] = losses.values["oracle"][:, -1] - 0.1
    assert power_law(losses, "same", 2) is None
    assert power_law(losses, "better", 2) is None
    assert power_law(losses, "model", 2, first=3000) is None
