"""Schedules against their formulas, and the refusals of `TrainSpec`."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neophyte.core.spec import from_mapping, to_mapping
from neophyte.training.schedules import cosine, noam
from neophyte.training.spec import TrainSpec


@given(st.integers(1, 200_000), st.integers(1, 5000))
def test_noam_is_the_papers_formula(t, warmup):
    # Appendix 6.1: min(t / w, (t / w)^(-1/2)), t counted from 1.
    expected = t / warmup if t <= warmup else math.sqrt(warmup) / math.sqrt(t)
    assert noam(t - 1, warmup) == pytest.approx(expected, rel=1e-12)


def test_noam_peaks_where_the_warmup_ends():
    factors = [noam(step, 1000) for step in range(3000)]
    assert factors[0] == pytest.approx(1e-3)
    assert max(factors) == factors[999] == 1.0
    assert factors.count(1.0) == 1
    assert noam(3999, 1000) == pytest.approx(0.5)


@pytest.mark.parametrize("floor", [0.05, 0.0, 0.3])
def test_cosine_rises_to_one_and_falls_to_its_floor(floor):
    factors = [cosine(step, 10, 111, floor) for step in range(111)]
    assert factors[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert factors[10] == 1.0
    assert factors[60] == pytest.approx((1 + floor) / 2)
    assert factors[110] == pytest.approx(floor)
    assert all(a > b for a, b in itertools.pairwise(factors[10:]))
    assert cosine(10_000, 10, 111, floor) == pytest.approx(floor)


@pytest.mark.parametrize("steps", [1, 2, 5, 6])
def test_cosine_lives_with_few_steps(steps):
    assert all(0 < cosine(step, 5, steps) <= 1 for step in range(steps))


def test_rate_is_the_schedule_times_the_peak():
    spec = TrainSpec(learning_rate=0.02, warmup_steps=4)
    assert [spec.rate(step) for step in (0, 3, 15)] == pytest.approx([0.005, 0.02, 0.01])
    spec = TrainSpec(learning_rate=0.02, warmup_steps=4, schedule="cosine", steps=101)
    assert [spec.rate(step) for step in (0, 3, 100)] == pytest.approx([0.005, 0.02, 0.001])


def test_the_defaults_are_the_papers():
    spec = TrainSpec()
    assert (spec.schedule, spec.learning_rate, spec.warmup_steps, spec.max_gradient_norm) == ("noam", 1e-3, 1000, 1.0)


def test_json_round_trip():
    spec = TrainSpec(steps=7, betas=(0.8, 0.9), trackers=("tensorboard",))
    assert from_mapping(TrainSpec, to_mapping(spec)) == spec


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("steps", 0),
        ("steps", 2.5),
        ("batch_size", 0),
        ("micro_batch_size", -1),
        ("micro_batch_size", 9),
        ("learning_rate", 0.0),
        ("learning_rate", float("nan")),
        ("schedule", "linear"),
        ("warmup_steps", 0),
        ("betas", (0.9, 1.0)),
        ("betas", (0.9,)),
        ("betas", 0.9),
        ("max_gradient_norm", 0.0),
        ("seed", -1),
        ("device", "tpu"),
        ("dtype", "float16"),
        ("compile", 1),
        ("log_every", 0),
        ("checkpoint_every", 0),
        ("trackers", ("mlflow",)),
    ],
)
def test_bad_fields_are_named(field, value):
    with pytest.raises(ValueError, match=f"^{field} (is|of)"):
        TrainSpec(**{field: value})
