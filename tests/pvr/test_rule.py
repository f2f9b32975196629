"""The rule against its slow twin, worked examples, and the laws of labels against counting."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neophyte import pvr
from neophyte.pvr import PRESETS, RuleSpec, TokenSpec, best_constant, boolean, held_out_windows, labels, rule, variables

from . import twin

# Every way to make a label, but one's own.
AGGREGATIONS = {
    "mod_sum": {},
    "min": {"aggregation": "min"},
    "max": {"aggregation": "max"},
    "median lower": {"aggregation": "median"},
    "median upper": {"aggregation": "median", "median": "upper"},
    "median mean": {"aggregation": "median", "median": "mean"},
    "mode smallest": {"aggregation": "maj_vote"},
    "mode largest": {"aggregation": "maj_vote", "mode_tie": "largest"},
    "mode first": {"aggregation": "maj_vote", "mode_tie": "first"},
}
ENDS = ("cyclic", "truncate", "fit")
each_aggregation = pytest.mark.parametrize("name", AGGREGATIONS)
each_end = pytest.mark.parametrize("end", ENDS)


def product(windows):
    """A user's aggregation: the product of the window modulo 3."""
    return np.where(windows >= 0, windows, 1).prod(axis=1) % 3


def slow_product(window):
    return math.prod(window) % 3


def middle(windows):
    """A user's aggregation that is not symmetric: twice the first value plus the last there is."""
    last = np.where(windows >= 0, np.arange(windows.shape[1]), -1).argmax(axis=1)
    return 2 * windows[:, 0] + windows[np.arange(len(windows)), last]


def slow_middle(window):
    return 2 * window[0] + window[-1]


PRODUCT = {"aggregation": f"{__name__}:product", "num_classes": 3}
MIDDLE = {"aggregation": f"{__name__}:middle", "num_classes": 30}
OWN = {PRODUCT["aggregation"]: slow_product, MIDDLE["aggregation"]: slow_middle}


def own(spec):
    return OWN.get(spec.aggregation)


# Worked examples.

VALUES = (7, 1, 4, 2, 9, 0, 5, 5, 3, 8)


def one(sequence, **fields):
    return int(labels([sequence], RuleSpec(**fields))[0])


def test_the_papers_pointer_3_points_at_the_fifth_token():
    assert one((3, *VALUES)) == VALUES[3]
    assert one((3, *VALUES)) == (3, *VALUES)[4]


def test_a_cyclic_window_skips_the_pointer():
    found = variables([(9, *VALUES)], RuleSpec(window=3))
    assert found.windows.tolist() == [[8, 7, 1]]
    assert found.mask.tolist() == [[False, True, True, *[False] * 7, True]]
    assert found.pointers.tolist() == [9]
    assert found.starts.tolist() == [9]
    assert found.path.shape == (1, 0)


def test_the_aggregations_of_one_window():
    window = {"window": 4}  # of pointer 4: 9 0 5 5
    expected = {"mod_sum": 9, "min": 0, "max": 9, "median": 5, "maj_vote": 5}
    for name, label in expected.items():
        assert one((4, *VALUES), aggregation=name, **window) == label
    # An even window with different middles: 4 2 9 0 -> 0 2 4 9, all once.
    for rule_, label in (("lower", 2), ("upper", 4), ("mean", 3)):
        assert one((2, *VALUES), aggregation="median", median=rule_, **window) == label
    for tie, label in (("smallest", 0), ("largest", 9), ("first", 4)):
        assert one((2, *VALUES), aggregation="maj_vote", mode_tie=tie, **window) == label
    # The mean of 2 and 5 is rounded down.
    assert one((3, *VALUES), aggregation="median", median="mean", window=4) == 3  # 2 9 0 5
    assert one((8, *VALUES), aggregation="mod_sum", window=4, window_end="truncate") == 1  # 3 8
    assert one((9, *VALUES), aggregation="median", window=4, window_end="truncate") == 8


def test_a_pointer_of_several_tokens_is_a_number():
    values = np.arange(100) % 10
    for position in (0, 40, 100):
        spec = RuleSpec(num_values=100, pointer_length=2, pointer_position=position)
        sequence = np.insert(values, position, [6, 3])
        found = variables(sequence[None], spec)
        assert found.pointers.tolist() == [63]
        assert found.windows.tolist() == [[3]]
        assert found.mask.nonzero()[1].tolist() == [63 if position == 100 else 65]


def test_hops_follow_the_values():
    sequence = (4, *VALUES)  # 4 -> v_4 = 9 -> v_9 = 8 -> v_8 = 3
    assert one(sequence, hops=2) == 8
    assert one(sequence, hops=3) == 3
    found = variables([sequence], RuleSpec(hops=3, window=2))
    assert (found.path.tolist(), found.starts.tolist(), found.windows.tolist()) == ([[4, 9]], [8], [[3, 8]])
    # With window_end "fit" there are 9 positions: 9 is 0 modulo 9.
    assert variables([sequence], RuleSpec(hops=2, window=2, window_end="fit")).windows.tolist() == [[7, 1]]


def test_a_second_pointer_names_the_width():
    for width in range(3):
        found = variables([(8, width, *VALUES)], RuleSpec(window=3, variable_window=True))
        assert found.windows.tolist() == [[*(3, 8, 7)[: width + 1], *[-1] * (2 - width)]]
        assert int(found.mask.sum()) == width + 1


def test_bits_are_signs_and_parity_their_product():
    spec = boolean(2, 3)
    bits = np.array(list(itertools.product((0, 1), repeat=6)))
    found = variables(bits, spec)
    np.testing.assert_array_equal(pvr.signs(labels(bits, spec)), pvr.signs(found.windows).prod(axis=1))
    for kind, function in (("min", np.min), ("max", np.max)):
        expected = function(pvr.signs(found.windows), axis=1)
        np.testing.assert_array_equal(pvr.signs(labels(bits, boolean(2, 3, kind))), expected)
    majority = np.sign(pvr.signs(found.windows).sum(axis=1))
    np.testing.assert_array_equal(pvr.signs(labels(bits, boolean(2, 3, "maj_vote"))), majority)


def test_signs_are_small_integers():
    found = pvr.signs(np.array([[0, 1], [1, 1]], dtype=np.uint8))
    assert found.dtype == np.int8
    assert found.tolist() == [[-1, 1], [1, 1]]
    assert pvr.signs([0, 1]).tolist() == [-1, 1]


# The twin.


@st.composite
def rules(draw):
    """A rule of any kind, small enough that windows overlap pointers, paths and ends."""
    alphabet = draw(st.integers(2, 12))
    length = draw(st.integers(1, 3))
    num_values = draw(st.integers(1, min(alphabet**length, 15)))
    variable = draw(st.booleans())
    window = draw(st.integers(1, min(num_values, alphabet) if variable else num_values))
    pointer = draw(st.booleans())
    kinds = [*AGGREGATIONS.values(), *([{"aggregation": "parity"}] if alphabet == 2 else [PRODUCT])]
    return RuleSpec(
        num_values=num_values,
        alphabet=alphabet,
        window=window,
        window_end=draw(st.sampled_from(ENDS)),
        pointer=pointer,
        pointer_position=draw(st.integers(0, num_values)),
        pointer_length=length,
        hops=draw(st.integers(1, 4)) if pointer else 1,
        variable_window=variable,
        **draw(st.sampled_from(kinds)),
    )


def random_sequences(spec, rng, count):
    """Sequences of a rule, drawn with NumPy."""
    found = rng.integers(0, spec.alphabet, (count, spec.length))
    first = spec.pointer_position
    if spec.variable_window:
        found[:, first + spec.pointer_length] = rng.integers(0, spec.window, count)
    pointers = rng.integers(0, twin.num_starts(spec), count)
    for place in range(spec.pointer_length):
        found[:, first + place] = pointers // spec.alphabet ** (spec.pointer_length - 1 - place) % spec.alphabet
    return found


@given(rules(), st.integers(0, 2**32))
def test_a_rule_is_its_twin(spec, seed):
    tokens = random_sequences(spec, np.random.default_rng(seed), 40)
    found, got = variables(tokens, spec), labels(tokens, spec)
    assert got.dtype == np.int64
    assert found.windows.shape == (40, spec.window)
    assert found.path.shape == (40, spec.hops - 1)
    for i, sequence in enumerate(tokens.tolist()):
        pointer, path, start, columns, window = twin.variables(sequence, spec)
        assert found.pointers[i] == pointer
        assert found.path[i].tolist() == path
        assert found.starts[i] == start
        assert found.mask[i].nonzero()[0].tolist() == sorted(columns)
        assert found.windows[i].tolist() == window + [-1] * (spec.window - len(window))
        assert got[i] == twin.label(sequence, spec, own(spec))


def test_any_integers_are_tokens():
    tokens = random_sequences(RuleSpec(window=3), np.random.default_rng(0), 50)
    expected = labels(tokens, RuleSpec(window=3))
    for dtype in (np.uint8, np.int8, np.int32, np.uint64):
        np.testing.assert_array_equal(labels(tokens.astype(dtype), RuleSpec(window=3)), expected)
    np.testing.assert_array_equal(labels(np.asfortranarray(tokens)[::2], RuleSpec(window=3)), expected[::2])
    assert labels(np.empty((0, 11), dtype=np.uint8), RuleSpec(window=3)).shape == (0,)


@pytest.mark.parametrize(
    ("tokens", "fields", "message"),
    [
        (np.zeros(11, dtype=int), {}, r"tokens has shape \(11,\) .*; allowed: integers, \(batch, 11\)"),
        (np.zeros((2, 10), dtype=int), {}, r"tokens has shape \(2, 10\)"),
        (np.zeros((2, 11)), {}, "float64; allowed"),
        (np.zeros((2, 11), dtype=bool), {}, "bool; allowed"),
        (np.full((2, 11), 10), {}, r"tokens lie in \[10, 10\]; allowed: \[0, 10\)"),
        (np.full((2, 11), -1), {}, r"tokens lie in \[-1, -1\]"),
        (np.full((2, 11), 9), {"window": 3, "window_end": "fit"}, "pointer 9; allowed: at most 7"),
        (np.full((2, 6), 5), {"num_values": 5}, "pointer 5; allowed: at most 4"),
        (np.full((2, 11), 1), {"pointer": False}, "pointer 1; allowed: at most 0"),
        (np.full((2, 12), 3), {"window": 3, "variable_window": True}, "window 3; allowed: at most 2"),
    ],
)
def test_bad_tokens_are_refused(tokens, fields, message):
    for function in (labels, variables):
        with pytest.raises(ValueError, match=message):
            function(tokens, RuleSpec(**fields))


# A user's own function.


def floats(windows):
    return windows.mean(axis=1)


def truths(windows):
    return windows[:, 0] > 3


def too_few(windows):
    return windows[1:, 0]


def too_large(windows):
    return windows[:, 0] + 1


def negative(windows):
    return windows[:, 0] - 1


def plain_list(windows):
    return windows[:, 0].tolist()


NOT_A_FUNCTION = 3


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (floats, r"aggregation .*:floats returned float64 \(10,\); allowed: integers \(10,\)"),
        (truths, r"returned bool \(10,\)"),
        (too_few, r"returned int64 \(9,\); allowed: integers \(10,\)"),
        (too_large, r"returned labels in \[1, 10\]; allowed: \[0, 10\), or another num_classes"),
        (negative, r"returned labels in \[-1, 8\]"),
    ],
)
def test_labels_that_are_none_are_refused(function, message):
    tokens = np.column_stack([np.zeros(10, dtype=int), *[np.arange(10)] * 10])
    with pytest.raises(ValueError, match=message):
        labels(tokens, RuleSpec(aggregation=function))


def test_a_users_labels_may_be_a_list_and_of_more_classes():
    tokens = np.column_stack([np.zeros(10, dtype=int), *[np.arange(10)] * 10])
    assert labels(tokens, RuleSpec(aggregation=plain_list)).tolist() == list(range(10))
    assert labels(tokens, RuleSpec(aggregation=too_large, num_classes=11)).tolist() == list(range(1, 11))


@pytest.mark.parametrize(
    "path", ["no.such.module:f", f"{__name__}:no_such_function", "math:", f"{__name__}:NOT_A_FUNCTION"]
)
def test_a_function_that_cannot_be_imported_is_refused(path):
    with pytest.raises(ValueError, match=rf"predicate is '{path}'"):
        rule.imported("predicate", path)


# What is held out.


def test_permutations_are_held_out_in_lexicographic_order():
    for window in (1, 2, 3, 4):
        everything = [tuple(p) for p in itertools.product(range(window), repeat=window) if len(set(p)) == window]
        assert len(everything) == math.factorial(window)
        assert everything[0] == tuple(range(window))
        for count in range(1, len(everything) + 1):
            spec = TokenSpec(window=window, holdout="permutations", holdout_count=count)
            found = held_out_windows(spec)
            assert found.dtype == np.int64
            assert [tuple(w) for w in found.tolist()] == everything[:count]


def test_no_windows_are_held_out_otherwise():
    for spec in (TokenSpec(window=3), TokenSpec(window=3, holdout="frozen")):
        assert held_out_windows(spec).shape == (0, 3)


@pytest.mark.parametrize("window", [1, 2, 3, 4])
def test_all_permutations_have_one_sum(window):
    # The flaw of the paper's protocol (shared/spec/pvr.md, section 1): a constant is always right on its test set.
    spec = TokenSpec(
        window=window, holdout="permutations", holdout_count=math.factorial(window), part="test", num_examples=1
    )
    assert set(rule.aggregate(held_out_windows(spec), spec)) == {sum(range(window)) % 10}
    assert best_constant(spec) == 1.0
    law = rule.task_law(spec)
    assert law.argmax() == {1: 0, 2: 1, 3: 3, 4: 6}[window]
    assert law.sum() == 1.0


@pytest.mark.parametrize("name", ["holdout-m1-test", "holdout-m2-test"])
def test_the_papers_own_test_sets_have_one_label(name):
    assert best_constant(PRESETS[name].spec) == 1.0


@pytest.mark.parametrize("name", ["mod_sum", "median lower", "median mean", "mode smallest", "mode first"])
@pytest.mark.parametrize(
    "fields", [{"window": 3, "holdout_count": 20}, {"window": 2, "alphabet": 4, "num_values": 4, "holdout_count": 4}]
)
def test_a_balanced_holdout_has_all_labels_equally(name, fields):
    spec = TokenSpec(holdout="balanced", part="test", **AGGREGATIONS[name], **fields)
    found = held_out_windows(spec)
    counts = np.bincount(rule.aggregate(found, spec), minlength=spec.classes)
    assert counts.tolist() == [spec.holdout_count // spec.alphabet] * spec.alphabet
    assert len({tuple(window) for window in found.tolist()}) == spec.holdout_count
    assert found.min() >= 0
    assert found.max() < spec.alphabet
    assert best_constant(spec) == pytest.approx(1 / spec.alphabet, rel=1e-12)
    np.testing.assert_array_equal(found, held_out_windows(spec))
    assert [tuple(window) for window in found.tolist()] == twin.held_out(spec)


def test_a_balanced_holdout_depends_on_its_seed_alone():
    def windows(**changes):
        spec = TokenSpec(**{"window": 3, "holdout": "balanced", "holdout_count": 10, **changes})
        return held_out_windows(spec).tolist()

    assert windows(part="train") == windows(part="test") == windows(num_values=9, window_end="truncate") == windows()
    assert len({str(windows(holdout_seed=seed)) for seed in range(20)}) == 20
    # More of them begin as fewer do only where no label is full; each is a subset.
    assert {tuple(w) for w in windows()} <= {tuple(w) for w in windows(holdout_count=50)}


def test_a_balanced_holdout_of_ones_own_labels():
    spec = TokenSpec(window=3, holdout="balanced", holdout_count=6, **PRODUCT)
    assert Counter(slow_product(window) for window in held_out_windows(spec).tolist()) == {0: 2, 1: 2, 2: 2}


def test_a_label_that_is_too_rare_is_named(monkeypatch):
    monkeypatch.setattr(rule, "_MAX_DRAWS", 5000)
    # Of three digits one window only has the minimum 9.
    spec = TokenSpec(window=3, aggregation="min", holdout="balanced", holdout_count=20)
    with pytest.raises(ValueError, match="holdout_count is 20; allowed: fewer, since too few windows have the label 9"):
        held_out_windows(spec)
    with pytest.raises(ValueError, match="holdout_count is 20"):
        pvr.tokens(spec)


def test_window_codes_are_numbers():
    windows = [[0, 0], [0, 1], [1, 0], [9, 9], [9, -1], [-1, -1]]
    assert rule.window_codes(windows, 10).tolist() == [0, 1, 10, 99, -1, -1]
    assert rule.window_codes(np.full((1, 62), 1), 2).tolist() == [2**62 - 1]
    assert rule.window_codes(np.empty((0, 3)), 10).shape == (0,)


# What a constant guess is worth.

# shared/spec/pvr.md, section 1: window sizes 1 to 6
BEST = {
    "mod_sum": (0.1, 0.1, 0.1, 0.1, 0.1, 0.1),
    "min": (0.1, 0.19, 0.271, 0.3439, 0.4095, 0.4686),
    "max": (0.1, 0.19, 0.271, 0.3439, 0.4095, 0.4686),
    "median lower": (0.1, 0.19, 0.148, 0.1765, 0.1826, 0.2006),
    "mode smallest": (0.1, 0.19, 0.244, 0.2539, 0.2318, 0.2005),
}


@pytest.mark.parametrize("name", BEST)
@pytest.mark.parametrize("window", range(1, 7))
def test_the_best_constant_is_the_specifications(name, window):
    fields = {"window": window, **AGGREGATIONS[name]}
    for spec in (RuleSpec(**fields), TokenSpec(**fields), TokenSpec(pointer=False, **fields)):
        assert round(best_constant(spec), 4) == pytest.approx(BEST[name][window - 1], abs=1e-9)


def counted_law(spec, size):
    """The law of the label of `size` uniform values, by counting all of them."""
    counts = Counter(
        twin.aggregate(window, spec, own(spec)) for window in itertools.product(range(spec.alphabet), repeat=size)
    )
    return [counts[label] / spec.alphabet**size for label in range(spec.classes)]


@each_aggregation
@pytest.mark.parametrize("alphabet", [2, 3, 4])
def test_a_label_law_is_counted(name, alphabet):
    spec = RuleSpec(alphabet=alphabet, num_values=6, window=6, pointer_length=3, **AGGREGATIONS[name])
    for size in range(1, 6 if alphabet == 4 else 7):
        law = rule.label_law(spec, size)
        assert law.dtype == np.float64
        np.testing.assert_allclose(law, counted_law(spec, size), rtol=1e-12, atol=1e-15)


def test_a_label_law_of_bits_and_of_ones_own_labels_is_counted():
    for spec in (
        boolean(3, 5),
        boolean(3, 5, "maj_vote"),
        boolean(3, 4, "maj_vote", mode_tie="largest"),
        boolean(3, 3, "min"),
        RuleSpec(window=3, **PRODUCT),
        RuleSpec(window=2, **MIDDLE),
    ):
        for size in range(1, spec.window + 1):
            np.testing.assert_allclose(rule.label_law(spec, size), counted_law(spec, size), rtol=1e-12, atol=1e-15)


def test_laws_that_are_not_counted_are_exact_still():
    # Windows of 6 of 20: 64,000,000 of them.
    spec = {"alphabet": 20, "num_values": 20, "window": 6}
    for name in AGGREGATIONS:
        if name != "median mean":
            assert rule.label_law(RuleSpec(**spec, **AGGREGATIONS[name])).sum() == pytest.approx(1.0, abs=1e-12)
    low, high = (rule.label_law(RuleSpec(aggregation="median", median=m, **spec)) for m in ("lower", "upper"))
    np.testing.assert_allclose(low, high[::-1], rtol=1e-12)
    for fields in (AGGREGATIONS["median mean"], PRODUCT):
        with pytest.raises(
            ValueError, match=r"window is 6; allowed for the exact law of .*: at most 10,000,000 windows"
        ):
            rule.label_law(RuleSpec(**spec, **fields))


@pytest.mark.parametrize("size", [0, 4, 1.0, True])
def test_a_bad_size_is_refused(size):
    with pytest.raises(ValueError, match="size is"):
        rule.label_law(RuleSpec(window=3), size)


def sizes_by_counting(spec):
    """The probability of every number of values in a window, over all pointers and widths."""
    found = Counter()
    widths = range(1, spec.window + 1) if spec.variable_window else [spec.window]
    starts = range(twin.num_starts(spec))
    for start, width in itertools.product(starts, widths):
        found[len(twin.window_positions(start, width, spec))] += Fraction(1, len(widths) * len(starts))
    return dict(found)


@each_end
@pytest.mark.parametrize("variable", [False, True])
@pytest.mark.parametrize("pointer", [False, True])
def test_window_sizes_are_counted(end, variable, pointer):
    for num_values, window in ((1, 1), (5, 1), (5, 3), (5, 5), (10, 4)):
        spec = RuleSpec(num_values=num_values, window=window, window_end=end, variable_window=variable, pointer=pointer)
        assert rule.window_sizes(spec) == sizes_by_counting(spec)


# Small spaces in which every sequence is counted: all kinds of rules, all holdouts.

SPACES = {
    "cyclic": {"num_values": 3, "alphabet": 3, "window": 2},
    "truncate": {"num_values": 3, "alphabet": 3, "window": 2, "window_end": "truncate"},
    "truncate, wide": {"num_values": 4, "alphabet": 4, "window": 3, "window_end": "truncate"},
    "fit": {"num_values": 4, "alphabet": 3, "window": 2, "window_end": "fit"},
    "more values than tokens": {"num_values": 5, "alphabet": 3, "window": 2, "pointer_length": 2},
    "more tokens than values": {"num_values": 3, "alphabet": 5, "window": 2},
    "no pointer": {"num_values": 4, "alphabet": 3, "window": 3, "pointer": False},
    "no pointer, truncate": {"num_values": 4, "alphabet": 3, "window": 3, "pointer": False, "window_end": "truncate"},
    "pointer last": {"num_values": 3, "alphabet": 3, "window": 2, "pointer_position": 3},
    "variable": {"num_values": 3, "alphabet": 3, "window": 2, "variable_window": True},
    "variable, truncate": {
        "num_values": 4,
        "alphabet": 4,
        "window": 3,
        "variable_window": True,
        "window_end": "truncate",
        "pointer_position": 2,
    },
    "variable, fit": {"num_values": 4, "alphabet": 3, "window": 2, "variable_window": True, "window_end": "fit"},
}
HOPS = {
    "two hops": {"num_values": 4, "alphabet": 4, "window": 2, "hops": 2},
    "two hops, truncate": {"num_values": 4, "alphabet": 4, "window": 2, "hops": 2, "window_end": "truncate"},
    "two hops, fit": {"num_values": 4, "alphabet": 3, "window": 2, "hops": 2, "window_end": "fit"},
    "two hops, more tokens": {"num_values": 3, "alphabet": 5, "window": 2, "hops": 2},
    "two hops, more tokens, truncate": {
        "num_values": 3,
        "alphabet": 5,
        "window": 2,
        "hops": 2,
        "window_end": "truncate",
    },
    "two hops, more values": {"num_values": 5, "alphabet": 3, "window": 2, "hops": 2, "pointer_length": 2},
    "three hops": {"num_values": 4, "alphabet": 4, "window": 2, "hops": 3},
    "three hops, more tokens": {"num_values": 3, "alphabet": 5, "window": 2, "hops": 3},
    "two hops, variable": {"num_values": 3, "alphabet": 3, "window": 2, "hops": 2, "variable_window": True},
}
HELD = {
    "all": {},
    "one permutation, train": {"holdout": "permutations", "holdout_count": 1, "part": "train"},
    "permutations, train": {"holdout": "permutations", "part": "train"},
    "permutations, test": {"holdout": "permutations", "part": "test"},
    "permutations, first": {"holdout": "permutations", "part": "first"},
    "permutations, all": {"holdout": "permutations", "part": "all"},
    "balanced, train": {"holdout": "balanced", "part": "train"},
    "balanced, test": {"holdout": "balanced", "part": "test"},
}


def small(space, held, name="mod_sum"):
    fields = {**{**SPACES, **HOPS}[space], **HELD[held], **AGGREGATIONS[name]}
    if fields.get("holdout") == "permutations":
        fields.setdefault("holdout_count", math.factorial(fields["window"]))
    if fields.get("holdout") == "balanced":
        fields["holdout_count"] = fields["alphabet"]
    return TokenSpec(**fields)


def task_law_by_counting(spec):
    counts = Counter(twin.label(sequence, spec, own(spec)) for sequence in twin.sequences(spec))
    return [counts[label] / counts.total() for label in range(spec.classes)]


def names_for(held, *names):
    """Ways to make a label; where one value is the maximum or minimum of one window only, none can be balanced."""
    return [name for name in names if not (held.startswith("balanced") and name in ("min", "max"))]


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("held", HELD)
def test_a_task_law_is_counted(space, held):
    for name in names_for(held, "mod_sum", "max", "median mean", "mode smallest"):
        spec = small(space, held, name)
        expected = task_law_by_counting(spec)
        np.testing.assert_allclose(rule.task_law(spec), expected, rtol=1e-12, atol=1e-15)
        assert best_constant(spec) == pytest.approx(max(expected), rel=1e-12)


def law_or_refusal(spec):
    try:
        return rule.task_law(spec), ""
    except ValueError as error:
        return None, str(error)


@pytest.mark.parametrize("space", HOPS)
@pytest.mark.parametrize("held", HELD)
def test_a_task_law_of_several_hops_is_exact_or_refused(space, held):
    for name in names_for(held, "mod_sum", "min"):
        spec = small(space, held, name)
        law, refusal = law_or_refusal(spec)
        if law is None:
            # After two hops on a ring every window is equally likely, and its law must be known.
            assert spec.hops > 2 or spec.window_end != "cyclic"
            assert "hops is" in refusal
        else:
            np.testing.assert_allclose(law, task_law_by_counting(spec), rtol=1e-12, atol=1e-15)


def test_the_presets_with_two_hops_have_an_exact_law():
    # Cyclic windows after two hops: a value that is a pointer and in the window has as many cases in every window.
    np.testing.assert_allclose(rule.task_law(PRESETS["two-hop-m0-test"].spec), np.full(10, 0.1), rtol=1e-12)
    assert best_constant(TokenSpec(num_values=4, alphabet=4, window=2, hops=2)) == pytest.approx(0.25)


def test_a_law_that_is_not_known_is_refused():
    for holdout in ({"holdout": "frozen"}, {"holdout": "predicate", "predicate": product}):
        for part in ("train", "test"):
            spec = TokenSpec(part=part, **holdout)
            for function in (rule.task_law, best_constant):
                with pytest.raises(ValueError, match=f"holdout is '{spec.holdout}'; allowed for an exact law"):
                    function(spec)
        assert best_constant(TokenSpec(part="all", **holdout)) == pytest.approx(0.1)
