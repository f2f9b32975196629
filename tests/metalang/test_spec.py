"""Specs of languages and corpora: what is refused, and what an identity depends on."""

import dataclasses
import json
import math
import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neophyte import metalang
from neophyte.core.spec import from_mapping, to_mapping
from neophyte.metalang import CorpusSpec, LanguageSpec
from neophyte.metalang.spec import PRESETS, preset

LN_32 = math.log(32)

BAD = [
    ("vocab_size", 65_537),
    ("vocab_size", 1),
    ("vocab_size", 0),
    ("vocab_size", True),
    ("vocab_size", 32.0),
    ("vocab_size", "32"),
    ("orders", (0,)),
    ("orders", (3, 0)),
    ("orders", (65,)),
    ("orders", (True,)),
    ("orders", (2.0,)),
    ("orders", ()),
    ("orders", 3),
    ("orders", [3]),
    ("order_sampling", "random"),
    ("law", "adaptive"),
    ("law", None),
    ("position_weights", "uniform"),
    ("embedding_dim", 0),
    ("hidden_dim", 0),
    ("hidden_dim", True),
    ("sigma", 0.0),
    ("sigma", -1.0),
    ("sigma", float("nan")),
    ("sigma", float("inf")),
    ("sigma", True),
    ("sigma", "1"),
    ("gain", 0),
    ("gain", float("nan")),
    ("calibrate", 1),
    ("calibrate", 0),
    ("calibrate", "yes"),
    ("calibrate", None),
    ("entropy_band", (1.0, 0.5)),
    ("entropy_band", (0.5, 0.5)),
    ("entropy_band", (0.0, 1.0)),
    ("entropy_band", (-0.5, 1.0)),
    ("entropy_band", (0.5, LN_32)),
    ("entropy_band", (0.5, 4.0)),
    ("entropy_band", (4.0, 5.0)),
    ("entropy_band", (float("nan"), 1.0)),
    ("entropy_band", (0.5, float("nan"))),
    ("entropy_band", (0.5, float("inf"))),
    ("entropy_band", (0.5, 10**400)),
    ("entropy_band", (0.5,)),
    ("entropy_band", (0.5, 0.7, 1.0)),
    ("entropy_band", 0.5),
    ("entropy_band", (False, True)),
    ("pilot_tokens", 255),
    ("pilot_tokens", 4096.0),
    ("lam", 0.0),
    ("lam", 51.0),
    ("lam", float("nan")),
    ("lam", 10**400),
    ("context_length", 0),
    ("context_length", 2**31),
    ("context_length", True),
    ("num_sequences", 0),
    ("num_sequences", 1e6),
    ("sequences_per_language", 0),
    ("sequences_per_language", True),
]


@pytest.mark.parametrize(("field", "value"), BAD, ids=lambda value: repr(value)[:20])
def test_a_bad_value_is_refused_by_name_value_and_allowed_range(field, value):
    with pytest.raises(ValueError, match=r"allowed: ") as caught:
        CorpusSpec(**{field: value})
    message = str(caught.value)
    assert field.rstrip("s") in message
    # A part of a tuple is named itself.
    parts = value if isinstance(value, tuple) and value else ()
    assert any(repr(part) in message for part in (value, *parts))


def test_the_smallest_and_largest_values_are_accepted():
    CorpusSpec(vocab_size=2, entropy_band=(0.01, 0.69), orders=(1,), context_length=1, num_sequences=1)
    CorpusSpec(vocab_size=65_536, orders=(64,), pilot_tokens=256, lam=50, context_length=2**31 - 1)
    CorpusSpec(entropy_band=(0.5, math.nextafter(LN_32, 0)))


def test_a_band_needs_no_room_without_calibration():
    CorpusSpec(vocab_size=2, calibrate=False)
    with pytest.raises(ValueError, match=r"entropy_band is \(0.5, 1.0\); allowed: .* < ln vocab_size = 0.6931 nats"):
        CorpusSpec(vocab_size=2)


@pytest.mark.parametrize(
    ("name", "near"),
    [("vocabsize", "vocab_size"), ("order", "orders"), ("context_len", "context_length"), ("lamb", "lam")],
)
def test_an_unknown_field_is_refused_with_the_nearest(name, near):
    with pytest.raises(ValueError, match=rf"{name} is not a field of CorpusSpec \(did you mean {near}\?\)"):
        from_mapping(CorpusSpec, {name: 3})


SPECS = st.builds(
    CorpusSpec,
    vocab_size=st.integers(3, 65_536),
    orders=st.lists(st.integers(1, 64), min_size=1, max_size=5).map(tuple),
    order_sampling=st.sampled_from(["uniform", "balanced"]),
    law=st.sampled_from(["additive", "joint"]),
    position_weights=st.sampled_from(["recency", "published"]),
    embedding_dim=st.integers(1, 100),
    hidden_dim=st.integers(1, 100),
    sigma=st.one_of(st.integers(1, 10), st.floats(0.01, 100.0)),
    gain=st.one_of(st.integers(1, 10), st.floats(0.01, 100.0)),
    calibrate=st.booleans(),
    entropy_band=st.tuples(st.floats(0.1, 0.5), st.one_of(st.just(1), st.floats(0.6, 1.0))),
    pilot_tokens=st.integers(256, 5000),
    lam=st.one_of(st.integers(1, 50), st.floats(0.01, 50.0)),
    context_length=st.integers(1, 5000),
    num_sequences=st.integers(1, 5000),
    sequences_per_language=st.integers(1, 10),
)


@given(SPECS)
def test_a_spec_comes_back_from_json_as_it_was(spec):
    values = json.loads(json.dumps(to_mapping(spec)))
    back = from_mapping(CorpusSpec, values)
    assert back == spec
    assert back.identity == spec.identity
    assert to_mapping(back) == values


def test_a_spec_is_read_from_toml():
    text = 'vocab_size = 64\norders = [2, 3]\nlam = 4\nentropy_band = [0.5, 1]\nlaw = "joint"\ncalibrate = false'
    expected = CorpusSpec(vocab_size=64, orders=(2, 3), lam=4.0, entropy_band=(0.5, 1.0), law="joint", calibrate=False)
    spec = from_mapping(CorpusSpec, tomllib.loads(text))
    assert spec == expected
    assert spec.identity == expected.identity


CHANGES = {
    "vocab_size": 33,
    "orders": (3, 4, 5),
    "order_sampling": "balanced",
    "law": "joint",
    "position_weights": "published",
    "embedding_dim": 17,
    "hidden_dim": 65,
    "sigma": 1.5,
    "gain": 2.0,
    "calibrate": False,
    "entropy_band": (0.5, 0.9),
    "pilot_tokens": 4097,
    "lam": 5.5,
}
EXTENTS = {"context_length": 7, "num_sequences": 9, "sequences_per_language": 2}


def test_every_field_is_a_change_or_an_extent():
    assert {field.name for field in dataclasses.fields(LanguageSpec)} == CHANGES.keys()
    assert {field.name for field in dataclasses.fields(CorpusSpec)} == CHANGES.keys() | EXTENTS.keys()


def test_an_identity_depends_on_every_field_of_the_language_and_on_no_extent():
    identities = {CorpusSpec(**{field: value}).identity for field, value in CHANGES.items()}
    assert len(identities | {CorpusSpec().identity}) == len(CHANGES) + 1
    for field, value in EXTENTS.items():
        assert CorpusSpec(**{field: value}).identity == CorpusSpec().identity
    assert LanguageSpec().identity == CorpusSpec().identity
    assert CorpusSpec().identity.startswith("metalang@1:")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"lam": 5}, {"lam": 5.0}),
        ({"sigma": 2}, {"sigma": np.float64(2.0)}),
        ({"gain": 1}, {}),
        ({"entropy_band": (0.5, 1)}, {"entropy_band": (0.5, 1.0)}),
    ],
)
def test_equal_specs_have_one_identity(one, other):
    assert CorpusSpec(**one) == CorpusSpec(**other)
    assert CorpusSpec(**one).identity == CorpusSpec(**other).identity


def test_specs_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        CorpusSpec().lam = 3.0


def test_the_presets_are_the_papers():
    train, warmup, evaluation = (PRESETS[name].spec for name in ("train", "warmup", "eval"))
    for spec in (train, warmup, evaluation):
        assert (spec.vocab_size, spec.embedding_dim, spec.hidden_dim, spec.sigma) == (32, 16, 64, 1.0)
        assert (spec.context_length, spec.law, spec.calibrate) == (4096, "additive", True)
        assert spec.entropy_band == (0.5, 1.0)
    assert (train.orders, train.num_sequences, train.order_sampling) == ((3, 4, 5, 6), 500_000, "uniform")
    assert (warmup.orders, warmup.num_sequences) == ((2, 3), 500_000)
    assert (evaluation.orders, evaluation.order_sampling) == ((2, 3, 4, 5, 6, 7, 8), "balanced")
    assert evaluation.num_sequences == 7 * 4096
    assert {name: chosen.split for name, chosen in PRESETS.items()} == {
        "train": "train",
        "warmup": "train",
        "eval": "eval",
        "tiny-train": "train",
        "tiny-eval": "eval",
    }


def test_an_unknown_preset_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match=r"preset is 'tiny-trian'; allowed: train, .* \(did you mean tiny-train\?\)"):
        preset("tiny-trian")
    with pytest.raises(ValueError, match="preset is 'evaluation'"):
        metalang.corpus("evaluation")
