"""Validation of specs, and their way to JSON and back."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neophyte.core import spec as specs


@dataclass(frozen=True)
class Dish:
    name: str = "soup"
    spices: tuple[int, ...] = (1, 2)
    warmth: float = 0.5
    limits: tuple[float, float] = (0.0, 1.0)
    hot: bool = True

    def __post_init__(self) -> None:
        specs.check_real("warmth", self.warmth, 0.0, 1e6)
        specs.check_boolean("hot", self.hot)
        specs.set_reals(self, "warmth", "limits")


DISHES = st.builds(
    Dish,
    name=st.text(),
    spices=st.lists(st.integers()).map(tuple),
    warmth=st.one_of(st.integers(0, 10), st.floats(0.0, 1e6)),
    limits=st.tuples(st.floats(0.0, 1.0), st.integers(1, 5)),
    hot=st.booleans(),
)


@given(DISHES)
def test_from_mapping_is_the_inverse_of_to_mapping(dish):
    values = json.loads(json.dumps(specs.to_mapping(dish)))
    back = specs.from_mapping(Dish, values)
    assert back == dish
    assert specs.to_mapping(back) == values


def test_missing_fields_take_their_defaults():
    assert specs.from_mapping(Dish, {"hot": False}) == Dish(hot=False)


@pytest.mark.parametrize(("wrong", "near"), [("warmht", "warmth"), ("spice", "spices")])
def test_an_unknown_field_is_refused_with_the_nearest(wrong, near):
    with pytest.raises(ValueError, match=rf"{wrong} is not a field of Dish \(did you mean {near}\?\); allowed: .*name"):
        specs.from_mapping(Dish, {wrong: 1})


def test_a_field_like_no_other_is_refused_without_a_suggestion():
    with pytest.raises(ValueError, match=r"zzz is not a field of Dish; allowed"):
        specs.from_mapping(Dish, {"zzz": 1})


def test_equal_specs_have_equal_digests():
    # 3 == 3.0, but they are different JSON.
    one, other = Dish(warmth=3, limits=(0, 1)), Dish(warmth=3.0, limits=(0.0, 1.0))
    assert one == other
    assert specs.digest(specs.to_mapping(one)) == specs.digest(specs.to_mapping(other))


@pytest.mark.parametrize("value", [2, 3, 5, np.int64(3), np.uint8(2)])
def test_integers_inside_are_accepted(value):
    specs.check_integer("size", value, 2, 5)
    specs.check_integer("size", value, 2)


@pytest.mark.parametrize("value", [1, 6, -3, 10**30, 2.0, "3", None, True, np.int64(6), np.float64(3), np.bool_(True)])
def test_integers_outside_are_refused(value):
    with pytest.raises(ValueError, match=r"size is .*; allowed: an integer in \[2, 5\]"):
        specs.check_integer("size", value, 2, 5)


def test_an_integer_without_an_upper_bound_has_a_lower_one():
    specs.check_integer("size", 10**30, 2)
    with pytest.raises(ValueError, match=r"size is 1; allowed: an integer of at least 2"):
        specs.check_integer("size", 1, 2)


@pytest.mark.parametrize("value", [0.5, 1, 2.0, np.float64(1.5)])
def test_reals_inside_are_accepted(value):
    specs.check_real("rate", value, 0.5, 2.0)


@pytest.mark.parametrize(
    "value", [0.49, 2.1, float("nan"), float("inf"), -float("inf"), True, "1.0", None, 10**400, 1j, (1.0,)]
)
def test_reals_outside_are_refused(value):
    with pytest.raises(ValueError, match=r"rate is .*; allowed: at most 2.0, at least 0.5"):
        specs.check_real("rate", value, 0.5, 2.0)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 10**400, 0.0])
def test_reals_without_an_upper_bound_are_finite(value):
    specs.check_real("rate", 1e300, 0.0, open_low=True)
    with pytest.raises(ValueError, match=r"rate is .*; allowed: a finite number, above 0.0"):
        specs.check_real("rate", value, 0.0, open_low=True)


@pytest.mark.parametrize("value", [0, 1, 1.0, None, "true", np.True_])
def test_only_booleans_are_booleans(value):
    with pytest.raises(ValueError, match=r"hot is .*; allowed: True or False"):
        replace(Dish(), hot=value)


def test_a_choice_is_one_of_the_given():
    specs.check_choice("law", "joint", ("additive", "joint"))
    with pytest.raises(ValueError, match=r"law is 'jiont'; allowed: additive, joint \(did you mean joint\?\)"):
        specs.check_choice("law", "jiont", ("additive", "joint"))
    with pytest.raises(ValueError, match=r"law is \['joint'\]"):
        specs.check_choice("law", ["joint"], ("additive", "joint"))


def test_a_digest_ignores_the_order_of_keys_and_nothing_else():
    value = {"a": 1, "b": [1, 2]}
    assert specs.digest(value) == specs.digest({"b": [1, 2], "a": 1})
    others = [{"a": 1, "b": [2, 1]}, {"a": 2, "b": [1, 2]}, {"a": 1}, {"a": True, "b": [1, 2]}]
    assert len({specs.digest(other) for other in [value, *others]}) == 5
    assert len(specs.digest(value, 32)) == 32
