"""Specs of rules and of examples: what is refused, what an identity depends on, and the presets."""

import dataclasses
import json
import math
import tomllib
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neophyte import pvr
from neophyte.core.spec import from_mapping, to_mapping
from neophyte.pvr import PRESETS, RuleSpec, TokenSpec, boolean
from neophyte.pvr.spec import AGGREGATIONS, preset


def largest(windows):
    """A user's aggregation."""
    return windows.max(axis=1)


def nothing(tokens, windows):
    """A user's predicate."""
    return np.zeros(len(tokens), dtype=bool)


OWN = f"{__name__}:largest"
PREDICATE = f"{__name__}:nothing"

NESTED = {"local": lambda windows: windows.max(axis=1)}


# Single fields: (field, value) beside what makes the rest of the spec fit.
BAD = [
    *[("num_values", value, {}) for value in (0, -1, 65_537, 10.0, True, "10", None)],
    *[("alphabet", value, {}) for value in (1, 0, -1, 257, 10.0, True, "10", None)],
    *[("window", value, {}) for value in (0, -1, 11, 3.0, True, "3", None)],
    ("window", 4, {"num_values": 3}),
    *[("aggregation", value, {}) for value in ("sum", "mod-sum", "", 3, None, True, len.__call__)],
    ("aggregation", NESTED["local"], {}),
    ("aggregation", partial(largest), {}),
    ("aggregation", "a:b:c", {}),
    ("aggregation", ":b", {}),
    ("aggregation", "a:", {}),
    ("aggregation", ["a:b"], {}),
    *[("window_end", value, {}) for value in ("wrap", "", None, 0)],
    *[("median", value, {}) for value in ("middle", None, 0)],
    *[("mode_tie", value, {}) for value in ("last", None, 0)],
    *[("pointer", value, {}) for value in (1, 0, "yes", None)],
    *[("pointer_position", value, {}) for value in (-1, 11, 1.0, True, None)],
    ("pointer_position", 4, {"num_values": 3}),
    *[("pointer_length", value, {}) for value in (0, -1, 17, 1.0, True, None)],
    ("pointer_length", 1, {"num_values": 11}),
    ("pointer_length", 2, {"num_values": 101}),
    ("pointer_length", 3, {"alphabet": 2}),
    *[("hops", value, {}) for value in (0, -1, 65, 2.0, True, None)],
    ("hops", 2, {"pointer": False}),
    *[("variable_window", value, {}) for value in (1, 0, "yes", None)],
    ("window", 5, {"variable_window": True, "alphabet": 4, "pointer_length": 2}),
    *[("num_classes", value, {"aggregation": OWN}) for value in (-1, 257, 2.0, True, None)],
    ("num_classes", 2, {}),
    ("num_classes", 11, {"aggregation": "min"}),
]
BAD_SETS = [
    *[("holdout", value, {}) for value in ("all", "", None, 0)],
    ("holdout", "permutation", {"holdout_count": 1}),
    *[("part", value, {"holdout": "permutations", "holdout_count": 1}) for value in ("valid", "", None, 0)],
    *[("num_examples", value, {}) for value in (0, -1, 2**48 + 1, 1e6, True, None)],
    *[("part", value, {}) for value in ("train", "test", "first")],
    ("part", "first", {"holdout": "balanced", "holdout_count": 10}),
    ("part", "first", {"holdout": "frozen"}),
    ("part", "first", {"holdout": "predicate", "predicate": PREDICATE}),
    *[("holdout_count", value, {"holdout": "permutations", "window": 3}) for value in (0, 7, -1, 1.0, True, None)],
    *[("holdout_count", value, {"holdout": "balanced", "window": 3}) for value in (0, -10, 5, 11, 10.0, True, None)],
    ("holdout_count", 1000, {"holdout": "balanced", "window": 3}),
    ("holdout_count", 10, {"holdout": "balanced", "window": 1}),
    ("holdout_count", 27, {"holdout": "balanced", "window": 3, "num_values": 3, "alphabet": 3, "window_end": "fit"}),
    *[("holdout_count", 1, {"holdout": holdout}) for holdout in ("none", "frozen")],
    ("holdout_count", 1, {"holdout": "predicate", "predicate": PREDICATE}),
    *[("holdout_seed", value, {"holdout": "balanced", "holdout_count": 10, "window": 2}) for value in (-1, 2**63, 0.0)],
    ("window", 4, {"holdout": "permutations", "holdout_count": 1, "alphabet": 3, "num_values": 9, "pointer_length": 2}),
    ("window", 19, {"holdout": "balanced", "holdout_count": 10, "num_values": 20, "pointer_length": 2}),
    ("window", 63, {"holdout": "balanced", "holdout_count": 2, "num_values": 64, "pointer_length": 6, "alphabet": 2}),
    *[("frozen_position", value, {"holdout": "frozen"}) for value in (-1, 10, 1.0, True, None)],
    *[("frozen_value", value, {"holdout": "frozen"}) for value in (-1, 10, 1.0, True, None)],
    *[(field, 1, {}) for field in ("frozen_position", "frozen_value")],
    *[(field, 1, {"holdout": "predicate", "predicate": PREDICATE}) for field in ("frozen_position", "frozen_value")],
    *[("predicate", value, {"holdout": "predicate"}) for value in ("", "nothing", "a:b:c", 3, None, NESTED["local"])],
    *[("predicate", PREDICATE, {"holdout": holdout}) for holdout in ("none", "frozen")],
]


def refused(cls, field, value, others):
    with pytest.raises(ValueError, match=r"; allowed") as caught:
        cls(**{**others, field: value})
    message = str(caught.value)
    assert f"{field} is {value!r}" in message or f"{field} {value!r}" in message
    assert "\n" not in message


@pytest.mark.parametrize(("field", "value", "others"), BAD, ids=lambda value: repr(value)[:24])
def test_a_bad_rule_is_refused_by_name_value_and_allowed_range(field, value, others):
    refused(RuleSpec, field, value, others)
    refused(TokenSpec, field, value, others)


@pytest.mark.parametrize(("field", "value", "others"), BAD_SETS, ids=lambda value: repr(value)[:24])
def test_a_bad_set_is_refused_by_name_value_and_allowed_range(field, value, others):
    refused(TokenSpec, field, value, others)


def test_parity_is_of_bits():
    with pytest.raises(ValueError, match="alphabet is 10; allowed for parity: 2"):
        RuleSpec(aggregation="parity")


def test_messages_tell_what_would_do():
    for fields, message in (
        ({"num_values": 11}, "pointer_length is 1; allowed: at least 2"),
        ({"num_values": 1001}, "pointer_length is 1; allowed: at least 4"),
        ({"aggregation": "mod_sun"}, r"did you mean mod_sum\?"),
        ({"window_end": "cyclick"}, r"did you mean cyclic\?"),
        ({"num_classes": 3}, "num_classes is 3; allowed for mod_sum: 10"),
        ({"window": 3, "holdout": "permutations", "holdout_count": 7}, r"holdout_count is 7; allowed: .*\[1, 6\]"),
        ({"window": 3, "holdout": "balanced", "holdout_count": 7}, "a multiple of the 10 labels"),
    ):
        with pytest.raises(ValueError, match=message):
            TokenSpec(**fields)


def test_the_smallest_and_largest_values_are_accepted():
    RuleSpec(num_values=1, alphabet=2, pointer_position=1)
    RuleSpec(num_values=65_536, alphabet=256, window=65_536, pointer_length=2)
    RuleSpec(num_values=65_536, alphabet=2, pointer_length=16, hops=64)
    RuleSpec(num_values=10, window=10, window_end="fit", alphabet=2, pointer_length=1)
    RuleSpec(num_values=12, window=3, window_end="fit")  # ten positions are left
    RuleSpec(num_values=1000, pointer=False, window=1000)  # no pointer has to name them
    RuleSpec(alphabet=4, num_values=4, window=4, variable_window=True)
    RuleSpec(aggregation=OWN, num_classes=1)
    RuleSpec(aggregation=OWN, num_classes=256)
    TokenSpec(num_examples=1)
    TokenSpec(num_examples=2**48)
    TokenSpec(window=3, holdout="permutations", holdout_count=1, part="first")
    TokenSpec(window=10, holdout="permutations", holdout_count=math.factorial(10))
    TokenSpec(window=1, holdout="permutations", holdout_count=1, alphabet=2, num_values=2)
    TokenSpec(window=2, holdout="balanced", holdout_count=90, holdout_seed=2**63 - 1)
    TokenSpec(window=18, num_values=20, pointer_length=2, holdout="balanced", holdout_count=10)
    TokenSpec(holdout="frozen", frozen_position=9, frozen_value=9, part="test")
    # Whole windows may all be held out where there are shorter ones.
    TokenSpec(window=2, alphabet=3, num_values=3, window_end="truncate", holdout="balanced", holdout_count=9)


def test_the_derived_numbers():
    spec = RuleSpec(window=3)
    assert (spec.num_starts, spec.whole_starts, spec.num_widths, spec.length, spec.classes) == (10, 10, 1, 11, 10)
    spec = RuleSpec(window=3, window_end="truncate", variable_window=True, pointer_length=2)
    assert (spec.num_starts, spec.whole_starts, spec.num_widths, spec.length, spec.classes) == (10, 8, 3, 13, 10)
    spec = RuleSpec(window=3, window_end="fit", aggregation=OWN, num_classes=4)
    assert (spec.num_starts, spec.whole_starts, spec.num_widths, spec.length, spec.classes) == (8, 8, 1, 11, 4)
    for end in ("cyclic", "truncate", "fit"):
        spec = RuleSpec(window=3, window_end=end, pointer=False)
        assert (spec.num_starts, spec.whole_starts, spec.num_widths) == (1, 1, 1)


@pytest.mark.parametrize(
    ("name", "near"),
    [("values", "num_values"), ("windows", "window"), ("agregation", "aggregation"), ("hold_out", "holdout")],
)
def test_an_unknown_field_is_refused_with_the_nearest(name, near):
    with pytest.raises(ValueError, match=rf"{name} is not a field of TokenSpec \(did you mean {near}\?\)"):
        from_mapping(TokenSpec, {name: 3})
    with pytest.raises(ValueError, match=rf"{name} is not a field of TokenSpec \(did you mean {near}\?\)"):
        pvr.tokens(**{name: 3})


def test_a_users_function_is_kept_as_its_path():
    assert RuleSpec(aggregation=largest).aggregation == OWN
    assert RuleSpec(aggregation=largest) == RuleSpec(aggregation=OWN)
    spec = TokenSpec(holdout="predicate", predicate=nothing)
    assert spec.predicate == PREDICATE
    assert to_mapping(spec)["predicate"] == PREDICATE
    assert spec.identity == TokenSpec(holdout="predicate", predicate=PREDICATE).identity


@st.composite
def specs(draw):
    alphabet = draw(st.integers(2, 256))
    length = draw(st.integers(1, 4))
    num_values = draw(st.integers(1, min(alphabet**length, 300)))
    variable = draw(st.booleans())
    window = draw(st.integers(1, min(num_values, alphabet) if variable else num_values))
    kinds = (*[name for name in AGGREGATIONS if name != "parity" or alphabet == 2], OWN)
    holdout = draw(st.sampled_from(["none", "permutations", "frozen", "predicate"]))
    if holdout == "permutations" and (window > alphabet or alphabet**window >= 2**63):
        holdout = "none"
    fields = {
        "none": {},
        "permutations": {"holdout_count": draw(st.integers(1, math.factorial(min(window, 8))))},
        "frozen": {"frozen_position": num_values - 1, "frozen_value": draw(st.integers(0, alphabet - 1))},
        "predicate": {"predicate": PREDICATE},
    }[holdout]
    return TokenSpec(
        num_values=num_values,
        alphabet=alphabet,
        window=window,
        aggregation=draw(st.sampled_from(kinds)),
        window_end=draw(st.sampled_from(["cyclic", "truncate", "fit"])),
        median=draw(st.sampled_from(["lower", "upper", "mean"])),
        mode_tie=draw(st.sampled_from(["smallest", "largest", "first"])),
        pointer_position=draw(st.integers(0, num_values)),
        pointer_length=length,
        hops=draw(st.integers(1, 5)),
        variable_window=variable,
        holdout=holdout,
        part="all" if holdout == "none" else draw(st.sampled_from(["all", "train", "test"])),
        num_examples=draw(st.integers(1, 1000)),
        **fields,
    )


@given(specs())
def test_a_spec_comes_back_from_json_as_it_was(spec):
    values = json.loads(json.dumps(to_mapping(spec)))
    back = from_mapping(TokenSpec, values)
    assert back == spec
    assert back.identity == spec.identity
    assert to_mapping(back) == values


def test_a_spec_is_read_from_toml():
    text = 'window = 3\naggregation = "median"\nmedian = "mean"\npointer = false\nholdout = "frozen"\npart = "train"'
    spec = from_mapping(TokenSpec, tomllib.loads(text))
    fields = {"window": 3, "aggregation": "median", "median": "mean", "pointer": False}
    assert spec == TokenSpec(holdout="frozen", part="train", **fields)


def test_numpy_numbers_make_the_same_spec():
    plain = TokenSpec(window=3, pointer=False, num_examples=7)
    other = TokenSpec(window=np.int32(3), pointer=np.bool_(False), num_examples=np.int64(7))
    assert other == plain
    assert other.identity == plain.identity


# field: (a base spec, another value of the field)
CHANGES = {
    "num_values": ({}, 9),
    "alphabet": ({}, 11),
    "window": ({}, 2),
    "aggregation": ({}, "min"),
    "window_end": ({}, "truncate"),
    "median": ({}, "upper"),
    "mode_tie": ({}, "first"),
    "pointer": ({}, False),
    "pointer_position": ({}, 1),
    "pointer_length": ({}, 2),
    "hops": ({}, 2),
    "variable_window": ({}, True),
    "num_classes": ({"aggregation": OWN}, 12),
    "holdout": ({}, "frozen"),
    "holdout_count": ({"holdout": "permutations", "holdout_count": 1, "window": 2}, 2),
    "holdout_seed": ({"holdout": "balanced", "holdout_count": 10, "window": 2}, 1),
    "frozen_position": ({"holdout": "frozen"}, 1),
    "frozen_value": ({"holdout": "frozen"}, 1),
    "predicate": ({"holdout": "predicate", "predicate": PREDICATE}, OWN),
    "part": ({"holdout": "frozen"}, "train"),
}


def test_every_field_but_the_sets_size_is_a_change():
    assert {field.name for field in dataclasses.fields(TokenSpec)} == CHANGES.keys() | {"num_examples"}
    assert issubclass(TokenSpec, RuleSpec)


@pytest.mark.parametrize("field", CHANGES)
def test_an_identity_depends_on_every_field_but_the_sets_size(field):
    base, value = CHANGES[field]
    one, other = TokenSpec(**base), TokenSpec(**{**base, field: value})
    assert one.identity != other.identity
    assert other.identity == TokenSpec(**{**base, field: value}, num_examples=3).identity
    assert one.identity.startswith("pvr-tokens@1:")


def test_a_seed_without_a_balanced_holdout_is_refused():
    # It would change nothing but the identity, as holdout_count, frozen_position and predicate would elsewhere.
    for others in ({}, {"holdout": "permutations", "holdout_count": 1}, {"holdout": "frozen"}):
        with pytest.raises(ValueError, match="holdout_seed is 1; allowed"):
            TokenSpec(holdout_seed=1, **others)


# Boolean tasks.


def test_a_boolean_task_has_as_many_bits_as_its_pointer_names():
    for bits in (1, 4, 16):
        spec = boolean(bits, 2)
        assert (spec.alphabet, spec.pointer_length, spec.num_values, spec.length) == (2, bits, 2**bits, bits + 2**bits)
        assert (spec.window, spec.aggregation, spec.classes) == (2, "parity", 2)
    spec = boolean(3, 2, "min", holdout="frozen", frozen_position=3, frozen_value=1, part="test")
    assert (spec.aggregation, spec.frozen_position, spec.part) == ("min", 3, "test")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1), "pointer_bits is 0"),
        ((17, 1), "pointer_bits is 17"),
        ((True, 1), "pointer_bits is True"),
        ((2, 5), "window is 5"),
        ((2, 1, "mod_sum"), "aggregation is 'mod_sum'; allowed: parity, maj_vote, min, max"),
        ((2, 1, "median"), "aggregation is 'median'"),
    ],
)
def test_bad_boolean_tasks_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        boolean(*arguments)


# Presets.


def test_the_presets_are_the_papers():
    for m in range(6):
        train, test = PRESETS[f"m{m}-train"], PRESETS[f"m{m}-test"]
        plain = TokenSpec(window=m + 1)
        for one in (train, test):
            assert dataclasses.replace(one.spec, num_examples=10_000) == plain
    for m in (1, 2):
        spec = PRESETS[f"holdout-m{m}-train"].spec
        assert (spec.holdout, spec.holdout_count, spec.part) == ("permutations", math.factorial(m + 1), "train")
        assert PRESETS[f"holdout-m{m}-test"].spec.part == "test"
    assert PRESETS["no-pointer-m2-train"].spec.pointer is False
    assert {PRESETS[f"{kind}-m2-test"].spec.aggregation for kind in ("median", "maj_vote", "min", "max")} == {
        "median",
        "maj_vote",
        "min",
        "max",
    }
    spec = PRESETS["long-m2-train"].spec
    assert (spec.num_values, spec.pointer_length, spec.alphabet) == (100, 2, 10)


def test_presets_come_in_pairs_that_share_no_address():
    assert {
        name.removesuffix("-train").removesuffix("-test") + end for name in PRESETS for end in ("-train", "-test")
    } == {*PRESETS}
    addresses = {(one.spec.identity, one.split) for one in PRESETS.values()}
    assert len(addresses) == len(PRESETS)
    for name, one in PRESETS.items():
        assert one.split == name.rpartition("-")[2]
        assert one.spec.part in ("all", one.split)
        assert one.split in one.summary
    rules = {field.name for field in dataclasses.fields(RuleSpec)}
    for name in PRESETS:
        if name.endswith("-train"):
            train, test = PRESETS[name].spec, PRESETS[name.removesuffix("train") + "test"].spec
            assert all(getattr(train, field) == getattr(test, field) for field in rules)


def test_an_unknown_preset_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match=r"preset is 'm2-trian'; allowed: m0-train, .* \(did you mean m2-train\?\)"):
        preset("m2-trian")
    with pytest.raises(ValueError, match="preset is 'm9'"):
        pvr.tokens("m9")
