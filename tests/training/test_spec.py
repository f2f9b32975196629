"""Schedules against their formulas, the spans of epochs, and the refusals of `TrainSpec`."""

import dataclasses
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


# The recipe of pvr, appendix A, for 10,300 examples: 11 steps an epoch.
PVR = TrainSpec(
    steps=200 * 11, batch_size=1024, epoch_size=10_300, optimizer="sgd", learning_rate=0.05, schedule="cosine",
    warmup_steps=10 * 11, final_rate=0.0, momentum=0.9, weight_decay=1e-5, max_gradient_norm=0.0,
)  # fmt: skip


def test_the_rate_rises_for_the_warmup_and_falls_to_the_final_rate_exactly():
    rates = [PVR.rate(step) for step in range(PVR.steps)]
    assert rates[:110] == pytest.approx([0.05 * (step + 1) / 110 for step in range(110)], rel=1e-12)
    assert rates[109] == rates[110] == max(rates) == 0.05
    assert rates[110:] == pytest.approx(
        [0.025 * (1 + math.cos(math.pi * t / (2200 - 111))) for t in range(2200 - 110)], rel=1e-9, abs=1e-15
    )
    assert rates[-1] == 0.0
    assert min(rates[:-1]) > 0.0
    for share in (0.25, 1.0):
        assert dataclasses.replace(PVR, final_rate=share).rate(PVR.steps - 1) == 0.05 * share
    flat = dataclasses.replace(PVR, final_rate=1.0)
    assert {flat.rate(step) for step in range(110, 2200)} == {0.05}


def test_a_constant_rate_has_no_warmup():
    spec = dataclasses.replace(PVR, schedule="constant")
    assert {spec.rate(step) for step in (0, 1, 109, 110, 2199, 10**9)} == {0.05}


def test_the_last_batch_of_an_epoch_takes_what_is_left():
    assert [PVR.span(step) for step in (0, 1, 9)] == [(0, 1024), (1024, 1024), (9216, 1024)]
    assert PVR.span(10) == (10_240, 60)
    assert PVR.span(11) == (10_300, 1024)
    assert PVR.span(PVR.steps - 1) == (199 * 10_300 + 10_240, 60)


def test_a_stream_has_whole_batches_without_end():
    spec = TrainSpec(batch_size=6)
    assert [spec.span(step) for step in (0, 1, 10**12)] == [(0, 6), (6, 6), (6 * 10**12, 6)]


@given(st.integers(1, 60), st.integers(1, 40), st.integers(0, 5))
def test_the_spans_of_an_epoch_tile_it(epoch_size, batch_size, epoch):
    spec = TrainSpec(epoch_size=epoch_size, batch_size=batch_size)
    per_epoch = math.ceil(epoch_size / batch_size)
    spans = [spec.span(step) for step in range(epoch * per_epoch, (epoch + 1) * per_epoch)]
    samples = [sample for first, count in spans for sample in range(first, first + count)]
    assert samples == list(range(epoch * epoch_size, (epoch + 1) * epoch_size))
    assert [count for _, count in spans[:-1]] == [batch_size] * (per_epoch - 1)
    assert 1 <= spans[-1][1] <= batch_size


@given(st.integers(0, 60), st.integers(1, 40), st.integers(0, 10**6))
def test_each_span_begins_where_the_one_before_ends(epoch_size, batch_size, step):
    spec = TrainSpec(epoch_size=epoch_size, batch_size=batch_size)
    first, count = spec.span(step)
    assert spec.span(step + 1)[0] == first + count
    assert spec.span(0)[0] == 0
    if epoch_size:
        assert first // epoch_size == (first + count - 1) // epoch_size, "a batch lies in one epoch"


def test_the_defaults_are_the_papers():
    spec = TrainSpec()
    assert (spec.schedule, spec.learning_rate, spec.warmup_steps, spec.max_gradient_norm) == ("noam", 1e-3, 1000, 1.0)
    assert (spec.optimizer, spec.betas, spec.weight_decay, spec.epoch_size) == ("adam", (0.9, 0.98), 0.0, 0)
    assert (spec.dtype, spec.evaluate_every) == ("float32", 0)


def test_json_round_trip():
    spec = TrainSpec(steps=7, betas=(0.8, 0.9), trackers=("tensorboard",))
    assert from_mapping(TrainSpec, to_mapping(spec)) == spec
    assert from_mapping(TrainSpec, to_mapping(PVR)) == PVR


def test_a_near_name_is_suggested():
    with pytest.raises(ValueError, match=r"optimiser is not a field of TrainSpec \(did you mean optimizer\?\)"):
        from_mapping(TrainSpec, {"optimiser": "sgd"})
    with pytest.raises(
        ValueError, match=r"optimizer is 'adamw'; allowed: adam, sgd, adagrad, lamb \(did you mean adam"
    ):
        TrainSpec(optimizer="adamw")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_gradient_norm", 0.0),
        ("weight_decay", 0),
        ("momentum", 0.0),
        ("final_rate", 0.0),
        ("final_rate", 1),
        ("epoch_size", 1),
        ("evaluate_every", 10**6),
        ("dtype", "auto"),
        *(("optimizer", name) for name in ("adam", "sgd", "adagrad", "lamb")),
        *(("schedule", name) for name in ("noam", "cosine", "constant")),
    ],
)
def test_what_is_allowed_is_taken_as_it_is(field, value):
    assert getattr(TrainSpec(**{field: value}), field) == value


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
        ("max_gradient_norm", -0.1),
        ("max_gradient_norm", float("inf")),
        ("max_gradient_norm", float("nan")),
        ("epoch_size", -1),
        ("epoch_size", 2.5),
        ("epoch_size", True),
        ("optimizer", "adamw"),
        ("optimizer", ""),
        ("momentum", 1.0),
        ("momentum", -0.1),
        ("momentum", True),
        ("weight_decay", -1e-5),
        ("weight_decay", 1.5),
        ("weight_decay", float("nan")),
        ("final_rate", -0.1),
        ("final_rate", 1.1),
        ("final_rate", "0"),
        ("evaluate_every", -1),
        ("evaluate_every", 0.5),
        ("dtype", "half"),
        ("dtype", None),
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
