"""Token tasks: the bytes of a slow twin; any order, batch and threads; and the laws they should have."""

import dataclasses
import functools
import itertools
import math
import os
import random
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from neophyte import pvr
from neophyte.core.addressing import Space
from neophyte.core.contract import Field
from neophyte.pvr import PRESETS, TokenSpec, best_constant, boolean, dataset, held_out_windows, kernels, rule

from . import twin
from .test_rule import AGGREGATIONS, HELD, HOPS, SPACES, rules, small

# Chance of a false alarm of each statistical test, had its fixed address been drawn at random.
ALARM = 1e-6


def product(windows):
    """A user's aggregation: the product of the window modulo 10."""
    return np.where(windows >= 0, windows, 1).prod(axis=1) % 10


def slow_product(window):
    return math.prod(window) % 10


def begins_as_the_last(tokens, windows):
    """A user's predicate."""
    return windows[:, 0] == tokens[:, -1]


def slow_begins_as_the_last(sequence, window):
    return window[0] == sequence[-1]


def everything(tokens, windows):
    return np.ones(len(tokens), dtype=bool)


def nothing(tokens, windows):
    return np.zeros(len(tokens), dtype=bool)


def spoils(tokens, windows):
    """A predicate that writes where it should only read."""
    held = windows[:, 0] == tokens[:, -1]
    tokens[:], windows[:] = 0, 0
    return held


OWN = {"aggregation": f"{__name__}:product"}
PREDICATE = {"holdout": "predicate", "predicate": f"{__name__}:begins_as_the_last"}
SLOW = {OWN["aggregation"]: slow_product}

PERMUTATIONS = {"window": 3, "holdout": "permutations", "holdout_count": 6}
BALANCED = {"window": 3, "holdout": "balanced", "holdout_count": 20, "holdout_seed": 5}
FROZEN = {"holdout": "frozen", "frozen_position": 3, "frozen_value": 1}
WIDE = {"num_values": 300, "alphabet": 256, "pointer_length": 2, "window": 300}
KINDS = {
    **{name: {"window": 3, **fields} for name, fields in AGGREGATIONS.items()},
    "even window": {"window": 4, "aggregation": "median", "median": "mean"},
    "wide, first": {**WIDE, "aggregation": "maj_vote", "mode_tie": "first"},
    "wide, smallest": {
        **WIDE,
        "aggregation": "maj_vote",
        "window_end": "truncate",
        "variable_window": True,
        "window": 250,
    },
    "wide, mean": {**WIDE, "aggregation": "median", "median": "mean"},
    "truncate": {"window": 4, "window_end": "truncate", "aggregation": "maj_vote"},
    "fit": {"window": 4, "window_end": "fit", "aggregation": "median"},
    "whole": {"window": 10},
    "no pointer": {"window": 3, "pointer": False},
    "no pointer, one full word": {"num_values": 15, "window": 2, "pointer": False, "pointer_length": 2},
    "pointer last": {"window": 2, "pointer_position": 10},
    "pointer inside": {"window": 3, "pointer_position": 4, "variable_window": True},
    "long": {"num_values": 100, "window": 3, "pointer_length": 2},
    "more values": {"num_values": 25, "alphabet": 3, "pointer_length": 3, "window": 4},
    "more tokens": {"num_values": 5, "alphabet": 256, "window": 2, "window_end": "truncate"},
    "twelve": {"num_values": 12, "alphabet": 12, "window": 3},
    "two": {"num_values": 2, "alphabet": 2, "window": 2},
    "three": {"num_values": 3, "alphabet": 3, "window": 2, "window_end": "truncate"},
    "two hops": {"window": 2, "hops": 2},
    "three hops": {"window": 2, "hops": 3, "window_end": "fit", "pointer_position": 3},
    "variable": {"window": 4, "variable_window": True, "aggregation": "max"},
    "own": {"window": 3, "window_end": "truncate", **OWN},
    "permutations, all": PERMUTATIONS,
    "permutations, train": {**PERMUTATIONS, "part": "train"},
    "permutations, test": {**PERMUTATIONS, "part": "test"},
    "permutations, first": {**PERMUTATIONS, "part": "first", "window_end": "truncate"},
    "permutations, test, inside": {**PERMUTATIONS, "part": "test", "pointer_position": 5, "variable_window": True},
    "permutations, test, no pointer": {**PERMUTATIONS, "part": "test", "pointer": False},
    "permutations, test, two hops": {**PERMUTATIONS, "part": "test", "hops": 2},
    "permutations, train, three hops": {**PERMUTATIONS, "part": "train", "hops": 3, "alphabet": 4, "pointer_length": 2},
    "dense, train": {**PERMUTATIONS, "part": "train", "num_values": 3, "alphabet": 3},
    "balanced, train": {**BALANCED, "part": "train", "window_end": "truncate"},
    "balanced, test": {**BALANCED, "part": "test", "aggregation": "median"},
    "frozen, train": {**FROZEN, "part": "train"},
    "frozen, test": {**FROZEN, "part": "test"},
    "frozen, all": FROZEN,
    "predicate, train": {**PREDICATE, "part": "train", "window": 2},
    "predicate, test": {**PREDICATE, "part": "test", "window": 2, "window_end": "truncate", "pointer_position": 2},
    "predicate, all": {**PREDICATE, "window": 2},
    "predicate, test, own": {**PREDICATE, **OWN, "part": "test", "window": 2},
    "boolean": dataclasses.asdict(boolean(4, 3)),
    "boolean, train": dataclasses.asdict(boolean(3, 3, "maj_vote", part="train", **FROZEN)),
    "boolean, test": dataclasses.asdict(boolean(3, 3, "min", part="test", **FROZEN)),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def quick(kind="mod_sum", split="train", seed=0, **changes):
    return pvr.tokens(TokenSpec(**{"num_examples": 50, **KINDS[kind], **changes}), split=split, seed=seed)


# Near and far, the borders of blocks, and the last index there is.
POOL = [*range(24), 4095, 4096, 4097, 8191, 8192, 10**5, 10**6 + 7, 2**40 + 5, 2**62, 2**63 - 2, 2**63 - 1]


@functools.cache
def whole_of(kind):
    """The examples of the pool, drawn at once."""
    return quick(kind).batch(POOL)


def assert_same(one, other, rows=slice(None)):
    np.testing.assert_array_equal(one.tokens, other.tokens[rows])
    np.testing.assert_array_equal(one.labels, other.labels[rows])


# The twin.


@each_kind
def test_examples_are_their_twins(kind):
    spec = quick(kind).spec
    predicate = slow_begins_as_the_last if spec.predicate else None
    whole = whole_of(kind)
    assert whole.tokens.dtype == whole.labels.dtype == np.uint8
    assert whole.tokens.shape == (len(POOL), spec.length)
    for row, index in enumerate(POOL):
        sequence = twin.example(spec, "train", 0, index, predicate)
        assert whole.tokens[row].tolist() == sequence
        assert whole.labels[row] == twin.label(sequence, spec, SLOW.get(spec.aggregation))


def test_another_split_and_seed_are_the_twins_too():
    drawn = quick("permutations, train", split="eval", seed=2**63 - 1).batch(range(10))
    spec = quick("permutations, train").spec
    assert drawn.tokens.tolist() == [twin.example(spec, "eval", 2**63 - 1, index) for index in range(10)]


def unfair(spec, count):
    """The first examples whose first word is rejected, of a task that takes one word an example."""
    (bounds,) = twin.packs(twin.choices(spec))
    combinations = math.prod(bounds)
    space = Space(spec.identity, "train", 0)
    found, block = [], 0
    while len(found) < count:
        generator = np.random.Philox(key=space.keys("examples", np.array([block]))[0])
        remainders = generator.random_raw(twin.BLOCK) * np.array([combinations], dtype=np.uint64)  # modulo 2^64
        places = (remainders < np.uint64(2**64 % combinations)).nonzero()[0]
        found += (block * twin.BLOCK + places).tolist()
        block += 1
    return found[:count]


@pytest.mark.parametrize("kind", ["no pointer, one full word", "twelve"])
def test_a_word_that_would_be_unfair_is_drawn_again(kind):
    # Rejected with probability 4e-5 and 1e-6 or so: none is among the examples above.
    made = quick(kind)
    indices = unfair(made.spec, 3)
    got = made.batch([*indices, 0])
    for row, index in enumerate(indices):
        assert got.tokens[row].tolist() == twin.example(made.spec, "train", 0, index)
    assert_same(quick(kind).batch([0]), got, [3])
    # And with the first word alone it would have been another.
    raw = twin.words(made.spec, "train", 0, *divmod(indices[0], twin.BLOCK), 1)[0]
    assert twin.digits(raw, twin.choices(made.spec)) is None


def test_words_are_rejected_as_the_twin_says():
    # Twelve combinations leave 2^64 modulo 12 = 4 words over: those whose remainder is 0, 4 or 8 modulo 12.
    assert [twin.digits(word, [3, 4]) for word in (0, 1, 2**64 - 1)] == [None, [0, 0], [2, 3]]
    bounds, starts, thresholds = dataset._pack([10] * 11)
    assert (bounds.tolist(), starts.tolist(), thresholds.tolist()) == ([10] * 11, [0, 11], [2**64 % 10**11])
    for sizes in ([14, *[10] * 14], [256] * 20, [1, 2**16, 2**16, 2**16, 2**16, 1], [1]):
        bounds, starts, thresholds = dataset._pack(sizes)
        groups = twin.packs(sizes)
        assert np.diff(starts).tolist() == [len(group) for group in groups]
        assert thresholds.tolist() == [2**64 % math.prod(group) for group in groups]


# The two kernels and the rule.


@pytest.mark.parametrize("size", [2, 3, 5, 10, 11, 12])
@pytest.mark.parametrize("end", ["cyclic", "truncate"])
def test_the_fast_kernel_draws_what_the_other_does(size, end):
    holdouts = [{}, {"holdout": "permutations", "holdout_count": 2, "part": "train"}]
    holdouts += [{"holdout": "permutations", "holdout_count": 2, "part": "all"}]
    for fields, holdout, window in itertools.product(AGGREGATIONS.values(), holdouts, {min(size, 3), size}):
        if size == window == 2 and fields.get("aggregation") and holdout.get("part"):
            continue
        spec = TokenSpec(num_values=size, alphabet=size, window=window, window_end=end, **fields, **holdout)
        fast, other = pvr.tokens(spec), pvr.tokens(spec)
        assert fast._groups is not None
        other._groups = None
        indices = np.arange(4000, 4400)
        assert_same(fast.batch(indices), other.batch(indices))


def test_the_fast_kernel_draws_the_papers_tasks():
    slow = {name for name, one in PRESETS.items() if pvr.tokens(one.spec)._groups is None}
    assert not [name for name in slow if name.startswith(("m", "balanced")) and name.endswith("-train")]
    assert pvr.tokens("holdout-m2-train")._groups is not None


@given(rules(), st.integers(0, 2**20))
def test_labels_are_the_rules(made, start):
    spec = TokenSpec(**dataclasses.asdict(made))
    drawn = pvr.tokens(spec).batch(np.arange(start, start + 60))
    np.testing.assert_array_equal(drawn.labels, rule.labels(drawn.tokens, spec))
    pointers = rule.variables(drawn.tokens, spec).pointers
    assert pointers.max() < spec.num_starts


@each_kind
def test_fields_hold_what_they_declare(kind):
    made = quick(kind)
    fields = made.fields()
    byte = np.dtype(np.uint8)
    assert fields == {
        "tokens": Field(byte, (made.spec.length,), 0, made.spec.alphabet - 1),
        "labels": Field(byte, (), 0, made.spec.classes - 1),
    }
    arrays = made.arrays(POOL)
    assert arrays.keys() == fields.keys()
    np.testing.assert_array_equal(arrays["tokens"], whole_of(kind).tokens)
    np.testing.assert_array_equal(arrays["labels"], whole_of(kind).labels)
    assert arrays["tokens"].max() < made.spec.alphabet
    assert arrays["labels"].max() < made.spec.classes
    np.testing.assert_array_equal(made.canonical(POOL), whole_of(kind).tokens)


# Addressing.


@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(st.integers(0, len(POOL) - 1), min_size=1, max_size=30),
    st.integers(1, 5),
    st.sampled_from([1, 50, 10**7]),
)
def test_an_example_depends_on_its_index_alone(kind, rows, threads, num_examples):
    # Not on the batch's size and order, on repeats in it, on the threads, or on the size of the set.
    made = quick(kind, num_examples=num_examples)
    assert_same(made.batch([POOL[row] for row in rows], threads=threads), whole_of(kind), rows)


@pytest.mark.parametrize("kind", ["mod_sum", "long", "permutations, train", "permutations, test"])
def test_random_access_is_the_stream(kind):
    # Over 200 blocks: in order, block by block, at random within the set (its keys are kept), and beyond it.
    size = 200 * kernels.BLOCK
    streamed = [one for _, one in zip(range(20), quick(kind).stream(size // 20), strict=False)]
    tokens, labels = (np.concatenate([getattr(one, name) for one in streamed]) for name in ("tokens", "labels"))
    streamed = pvr.Examples(tokens, labels)
    indices = np.random.default_rng(5).integers(0, size, 3000)
    indices[:6] = [0, size - 1, 4095, 4096, size - 4096, size - 4097]
    kept = quick(kind, num_examples=size)
    for made in (quick(kind), kept, quick(kind, num_examples=size - 1), quick(kind, num_examples=2**48)):
        for chosen in (indices, indices[:6], np.sort(indices), indices[:2]):
            for _ in range(2):
                assert_same(made.batch(chosen, threads=2), streamed, chosen)
    assert len(kept._keys) == 200
    for beyond in ([0, size], [0, size + 5], [0, size + 5, 2**60]):
        for index, row in zip(beyond, kept.batch(beyond).tokens, strict=True):
            np.testing.assert_array_equal(row, quick(kind).batch([index]).tokens[0])


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_bytes_do_not_depend_on_threads(threads):
    for kind in ("mod_sum", "permutations, train", "long", "predicate, test", "own"):
        for size in (1, 2, 5, 4097):
            indices = np.arange(4000, 4000 + size)
            assert_same(quick(kind).batch(indices, threads=threads), quick(kind).batch(indices))
    assert_same(quick().batch(indices, threads=1024), quick().batch(indices))


@pytest.mark.parametrize(
    "changes",
    [{"seed": 1}, {"split": "eval"}, {"window": 2}, {"median": "upper"}, {"mode_tie": "first"}, {"aggregation": "max"}],
    ids=str,
)
def test_another_address_gives_other_examples(changes):
    # Of 10^11 sequences: two sets of 5,000 share one with probability 2.5e-4 (this address is fixed).
    indices = np.arange(5000)
    rows = {row.tobytes() for made in (quick(), quick(**changes)) for row in made.batch(indices).tokens}
    assert len(rows) == 10_000


def test_a_held_out_part_is_another_address():
    rows = [
        {row.tobytes() for row in quick(f"permutations, {p}").batch(np.arange(500)).tokens} for p in ("all", "train")
    ]
    assert not rows[0] & rows[1]


def test_seed_43_is_not_seed_42_shifted():
    rows = [{row.tobytes() for row in quick(seed=seed).batch(np.arange(5000)).tokens} for seed in (42, 43)]
    assert len(rows[0] | rows[1]) == 10_000


def test_blocks_do_not_repeat_each_other():
    drawn = quick().batch(np.arange(4 * kernels.BLOCK)).tokens.reshape(4, kernels.BLOCK, -1)
    for one, other in itertools.combinations(range(4), 2):
        # Equal tokens at the same place of two blocks: one in ten.
        same = int((drawn[one] == drawn[other]).sum())
        assert stats.binomtest(same, drawn[one].size, 0.1).pvalue > ALARM


def test_a_stream_goes_on_without_end():
    made = quick("permutations, train")
    batches = list(itertools.islice(made.stream(12, start=6), 5))
    expected = made.batch(np.arange(6, 66))
    np.testing.assert_array_equal(np.concatenate([one.tokens for one in batches]), expected.tokens)
    np.testing.assert_array_equal(np.concatenate([one.labels for one in batches]), expected.labels)
    assert_same(next(made.stream(12, start=18, threads=3)), batches[1])


def test_a_set_is_a_sequence_of_examples():
    made = quick()
    assert len(made) == 50
    sequence, label = made[7]
    np.testing.assert_array_equal(sequence, whole_of("mod_sum").tokens[7])
    assert label == whole_of("mod_sum").labels[7]
    assert type(label) is int
    np.testing.assert_array_equal(made[-1][0], made[49][0])
    np.testing.assert_array_equal(made[np.int64(-50)][0], made[0][0])
    assert [label for _, label in made] == made.batch(range(50)).labels.tolist()
    for index in (50, -51, 2**70):
        with pytest.raises(IndexError, match=rf"index is {index}; allowed: \[0, 50\)"):
            made[index]


def test_a_set_shows_what_it_is():
    text = repr(quick(split="eval", seed=4))
    assert text.startswith("TokenDataset(")
    assert "split='eval'" in text
    assert "seed=4" in text
    assert "window=3" in text


@pytest.mark.parametrize(
    "indices", [[-1], [2**63], np.array([2**63], dtype=np.uint64), [0.5], [], [[0]], 3, [True], "0"], ids=str
)
def test_bad_indices_are_refused(indices):
    made = quick()
    for method in (made.batch, made.variables, made.twins, made.losses):
        with pytest.raises(ValueError, match="indices"):
            method(indices)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: quick(seed=-1), "seed is -1"),
        (lambda: quick(seed=True), "seed is True"),
        (lambda: quick(seed=2**63), "seed is 9223372036854775808"),
        (lambda: pvr.TokenDataset(TokenSpec(), split=""), "split is ''"),
        (lambda: quick().batch([0], threads=0), "threads is 0"),
        (lambda: quick().batch([0], threads=True), "threads is True"),
        (lambda: quick("long").batch([0], threads=2000), "threads is 2000"),
        (lambda: next(quick().stream(0)), "batch_size is 0"),
        (lambda: next(quick().stream(1, start=-1)), "start is -1"),
        (lambda: pvr.tokens("m2-train", window=0), "window is 0"),
        (lambda: pvr.tokens(windw=1), r"windw is not a field of TokenSpec \(did you mean window\?\)"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_preset_has_its_own_split_and_takes_changes():
    made = pvr.tokens("m2-test", seed=3, num_examples=7)
    assert (made.split, made.seed, made.spec.window, len(made)) == ("test", 3, 3, 7)
    assert pvr.tokens("m2-test", split="mine").split == "mine"
    assert pvr.tokens(TokenSpec(window=2)).split == "train"
    assert pvr.tokens().spec == TokenSpec()
    assert pvr.tokens(window=4).spec == TokenSpec(window=4)
    other = pvr.tokens("m2-test", seed=np.int64(3), num_examples=np.int32(7))
    np.testing.assert_array_equal(other[1][0], made[1][0])


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_drawn(name):
    made = pvr.tokens(name)
    drawn = made.batch(np.arange(500))
    np.testing.assert_array_equal(drawn.labels, rule.labels(drawn.tokens, made.spec))
    losses = made.losses(np.arange(100))
    assert losses.keys() == {"oracle", "constant", "first_window"}
    assert not losses["oracle"].any()
    assert all(loss.dtype == np.float64 and loss.shape == (100,) for loss in losses.values())


def test_specs_and_sets_touch_no_global_state():
    def state():
        return repr(np.random.get_state()), random.getstate(), dict(os.environ), threading.active_count(), np.geterr()

    np.random.seed(123)
    random.seed(123)
    before = state()
    for name in ("m2-train", "balanced-m2-test", "long-m2-train"):
        made = pvr.tokens(name, seed=7)
        made.batch(np.arange(100), threads=2)
        made.twins([0])
        made.losses([0])
    assert state() == before


# The laws of the examples.


def chi_square(counts, expected=None):
    return stats.chisquare(counts, expected).pvalue


@pytest.mark.parametrize("kind", ["mod_sum", "variable", "long", "more tokens", "two hops", "boolean"])
def test_every_token_and_every_pair_is_uniform(kind):
    spec = quick(kind).spec
    tokens = quick(kind).batch(np.arange(40_000)).tokens.astype(np.int64)
    bounds = [spec.alphabet] * spec.length
    if spec.variable_window:
        bounds[spec.pointer_position + spec.pointer_length] = spec.window
    if spec.num_values < spec.alphabet:
        bounds[0] = spec.num_values
    pvalues = [chi_square(np.bincount(tokens[:, c], minlength=bounds[c])) for c in range(spec.length)]
    assert all(len(np.bincount(tokens[:, c])) <= bounds[c] for c in range(spec.length))
    assert min(pvalues) > ALARM / len(pvalues)
    # Pairs of columns, and a column with those of the next example and of the same place in the next block.
    columns = range(spec.length) if spec.length < 13 else (0, 1, 2, 3, 14, 15, 16, 17, spec.length - 1)
    pvalues = []
    for a, b in itertools.product(columns, columns):
        if bounds[a] * bounds[b] > 10_000:
            continue
        for lag in (1, kernels.BLOCK) if a >= b else (0, 1, kernels.BLOCK):
            # Non-overlapping pairs, so that they are independent.
            first = np.arange(len(tokens) - lag)
            first = first if lag == 0 else first[first // lag % 2 == 0]
            pairs = tokens[first, a] * bounds[b] + tokens[first + lag, b]
            pvalues.append(chi_square(np.bincount(pairs, minlength=bounds[a] * bounds[b])))
    assert min(pvalues) > ALARM / len(pvalues)


def assert_uniform(spec, predicate=None):
    """Check that a set holds all sequences of its part, equally often, and no others."""
    allowed = {sequence: number for number, sequence in enumerate(twin.sequences(spec, predicate))}
    tokens = pvr.tokens(spec).batch(np.arange(max(40 * len(allowed), 2000))).tokens
    counts = np.zeros(len(allowed), dtype=np.int64)
    for sequence in map(tuple, tokens.tolist()):
        assert sequence in allowed
        counts[allowed[sequence]] += 1
    if len(allowed) > 1:
        assert chi_square(counts) > ALARM


@pytest.mark.parametrize("space", {**SPACES, **HOPS})
@pytest.mark.parametrize("held", [held for held in HELD if held != "permutations, all"])
def test_every_sequence_of_a_part_is_equally_likely(space, held):
    # Also what rejection leaves: the rest stays uniform, and a held-out window may stand where nothing points.
    assert_uniform(small(space, held))


SHAPES = {
    "plain": {"num_values": 3, "alphabet": 3, "window": 2},
    "pointer inside": {"num_values": 3, "alphabet": 3, "window": 2, "pointer_position": 1, "variable_window": True},
    "two hops": {"num_values": 4, "alphabet": 3, "window": 2, "hops": 2, "window_end": "fit"},
    "boolean": {"num_values": 4, "alphabet": 2, "window": 3, "pointer_length": 2, "aggregation": "parity"},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("part", ["train", "test"])
def test_a_frozen_value_is_frozen_in_training_and_any_other_in_the_test(shape, part):
    for position, value in ((0, 0), (1, 1), (2, SHAPES[shape]["alphabet"] - 1)):
        frozen = {"holdout": "frozen", "frozen_position": position, "frozen_value": value}
        assert_uniform(TokenSpec(part=part, **frozen, **SHAPES[shape]))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("part", ["train", "test"])
def test_a_predicate_leaves_the_rest_uniform(shape, part):
    assert_uniform(TokenSpec(part=part, **PREDICATE, **SHAPES[shape]), slow_begins_as_the_last)


def test_held_out_windows_may_occur_where_nothing_points():
    tokens = quick("permutations, train").batch(np.arange(50_000)).tokens
    windows = {tuple(window) for window in held_out_windows(quick("permutations, train").spec).tolist()}
    found = rule.variables(tokens, quick("permutations, train").spec)
    assert not windows & {tuple(window) for window in found.windows.tolist()}
    # In columns 1-3, say: where the pointer is not 0, 6 of 1,000.
    elsewhere = tokens[found.pointers > 2]
    hits = sum(tuple(row) in windows for row in elsewhere[elsewhere[:, 0] < 8][:, 1:4].tolist())
    count = int((elsewhere[:, 0] < 8).sum())
    assert stats.binomtest(hits, count, 0.006).pvalue > ALARM


@pytest.mark.parametrize(
    "fields",
    [
        {**PERMUTATIONS, "part": "test"},
        {**PERMUTATIONS, "part": "first"},
        {**BALANCED, "part": "test"},
        {**PERMUTATIONS, "part": "test", "window_end": "truncate"},
        {**PERMUTATIONS, "part": "test", "hops": 2},
        {**BALANCED, "part": "test", "pointer_position": 4},
    ],
    ids=lambda fields: " ".join(str(value) for value in fields.values()),
)
def test_a_test_set_has_held_out_windows_alone_with_uniform_pointers(fields):
    spec = TokenSpec(**fields)
    made = pvr.tokens(spec, split="test")
    drawn = made.batch(np.arange(30_000))
    found = rule.variables(drawn.tokens, spec)
    held = held_out_windows(spec)[: 1 if spec.part == "first" else None]
    codes = rule.window_codes(held, 10).tolist()
    counts = [int((rule.window_codes(found.windows, 10) == code).sum()) for code in codes]
    assert sum(counts) == 30_000
    if len(counts) > 1:
        assert chi_square(counts) > ALARM
    if spec.hops == 1:
        # After two hops some starts stand in the window themselves; that what is left is uniform is counted above.
        assert chi_square(np.bincount(found.starts, minlength=spec.whole_starts)) > ALARM
        outside = drawn.tokens[~found.mask & (np.arange(spec.length) != spec.pointer_position)]
        assert chi_square(np.bincount(outside, minlength=10)) > ALARM
    np.testing.assert_array_equal(drawn.labels, rule.labels(drawn.tokens, spec))
    law = rule.task_law(spec)
    counts = np.bincount(drawn.labels, minlength=10)
    assert not counts[law == 0].any()
    if (law > 0).sum() > 1:
        assert chi_square(counts[law > 0], 30_000 * law[law > 0]) > ALARM


@pytest.mark.parametrize("kind", ["min", "median upper", "mode smallest", "truncate", "variable", "balanced, train"])
def test_labels_have_the_law_that_is_declared(kind):
    made = quick(kind)
    law = rule.task_law(made.spec)
    counts = np.bincount(made.batch(np.arange(100_000)).labels, minlength=10)
    assert chi_square(counts, 100_000 * law) > ALARM
    assert stats.binomtest(int(counts[law.argmax()]), 100_000, best_constant(made.spec)).pvalue > ALARM


# Holdouts that leave nothing, and functions that give nothing.


@pytest.mark.parametrize(("predicate", "part"), [(everything, "train"), (nothing, "test")])
def test_a_predicate_that_leaves_nothing_is_named(predicate, part, monkeypatch):
    monkeypatch.setattr(dataset, "_MAX_ATTEMPTS", 30)
    made = pvr.tokens(holdout="predicate", predicate=predicate, part=part)
    message = (
        f"predicate is '{__name__}:{predicate.__name__}'; allowed: one that leaves examples: 7 had none in 30 draws"
    )
    with pytest.raises(ValueError, match=message):
        made.batch(range(7))


@pytest.mark.parametrize(("predicate", "part"), [(everything, "test"), (nothing, "train")])
def test_a_predicate_that_holds_nothing_back_changes_nothing(predicate, part):
    made = pvr.tokens(holdout="predicate", predicate=predicate, part=part)
    held = predicate is everything
    expected = [twin.example(made.spec, "train", 0, index, lambda sequence, window: held) for index in range(20)]
    assert made.batch(range(20)).tokens.tolist() == expected


def test_a_window_that_is_never_found_is_an_error(monkeypatch):
    # After two hops a held-out window is waited for: 6 of 1,000 have one at once.
    monkeypatch.setattr(dataset, "_MAX_ATTEMPTS", 0)
    made = quick("permutations, test, two hops")
    with pytest.raises(ValueError, match=r"holdout is 'permutations'; allowed: one that leaves examples: \d+ had none"):
        made.batch(np.arange(100))


def short(tokens, windows):
    return np.zeros(len(tokens) + 1, dtype=bool)


def numbers(tokens, windows):
    return np.zeros(len(tokens), dtype=np.int64)


def none(tokens, windows):
    return None


@pytest.mark.parametrize(
    ("predicate", "found"), [(short, r"bool \(6,\)"), (numbers, r"int64 \(5,\)"), (none, r"object \(\)")]
)
def test_a_predicate_that_returns_no_truths_is_named(predicate, found):
    made = pvr.tokens(holdout="predicate", predicate=predicate, part="train")
    message = rf"predicate {__name__}:{predicate.__name__} returned {found}; allowed: bool \(5,\)"
    with pytest.raises(ValueError, match=message):
        made.batch(range(5))


def test_a_predicate_cannot_write_into_the_examples():
    one = pvr.tokens(window=2, part="train", holdout="predicate", predicate=spoils)
    drawn = one.batch(np.arange(200))
    expected = [twin.example(one.spec, "train", 0, index, slow_begins_as_the_last) for index in range(200)]
    assert drawn.tokens.tolist() == expected
    np.testing.assert_array_equal(drawn.labels, rule.labels(drawn.tokens, one.spec))


def test_a_users_labels_are_checked():
    made = pvr.tokens(window=3, num_classes=5, **OWN)
    with pytest.raises(ValueError, match=r"returned labels in \[0, 9\]; allowed: \[0, 5\), or another num_classes"):
        made.batch(np.arange(200))


@pytest.mark.parametrize("path", ["no.such.module:function", f"{__name__}:no_such_function", f"{__name__}:ALARM"])
def test_a_function_that_cannot_be_had_is_refused_at_once(path):
    with pytest.raises(ValueError, match=f"'{path}'"):
        pvr.tokens(aggregation=path)
    with pytest.raises(ValueError, match=f"'{path}'"):
        pvr.tokens(holdout="predicate", predicate=path, part="train")


# Intermediate variables and twins.


@each_kind
def test_variables_are_those_of_the_examples(kind):
    made = quick(kind)
    found, expected = made.variables(POOL), rule.variables(whole_of(kind).tokens, made.spec)
    for field in dataclasses.fields(found):
        np.testing.assert_array_equal(getattr(found, field.name), getattr(expected, field.name))


@each_kind
def test_each_twin_changes_one_thing(kind):
    made, whole = quick(kind), whole_of(kind)
    spec = made.spec
    twins = made.twins(POOL)
    pointers = set(range(spec.pointer_position, spec.pointer_position + spec.pointer_length))
    for row, sequence in enumerate(whole.tokens.tolist()):
        pointer, path, _, columns, _ = twin.variables(sequence, spec)
        read = {twin.value_column(position, spec) for position in path}
        values = {twin.value_column(position, spec) for position in range(spec.num_values)}
        changed = {}
        for name in ("pointer", "value", "irrelevant"):
            other = getattr(twins, name)
            assert other.tokens.dtype == other.labels.dtype == np.uint8
            changed[name] = {c for c, (a, b) in enumerate(zip(sequence, other.tokens[row], strict=True)) if a != b}
            assert other.tokens[row].max() < spec.alphabet
            assert other.labels[row] == twin.label(other.tokens[row], spec, SLOW.get(spec.aggregation))
        assert changed["pointer"] <= pointers
        new_pointer = twin.variables(twins.pointer.tokens[row], spec)[0]
        assert new_pointer < twin.num_starts(spec)
        assert (new_pointer != pointer) == (twin.num_starts(spec) > 1)
        assert len(changed["value"]) == 1
        assert changed["value"] <= set(columns)
        assert changed["irrelevant"] <= values - set(columns) - read
        assert len(changed["irrelevant"]) == (1 if values - set(columns) - read else 0)
        assert twins.irrelevant.labels[row] == whole.labels[row]


@pytest.mark.parametrize("kind", ["mod_sum", "three hops", "permutations, train", "long", "own"])
def test_twins_depend_on_their_index_alone(kind):
    made, rows = quick(kind), [3, 0, 3, 30, len(POOL) - 1]
    whole, part = made.twins(POOL), quick(kind).twins([POOL[row] for row in rows])
    for field in dataclasses.fields(whole):
        assert_same(getattr(part, field.name), getattr(whole, field.name), rows)
    other = quick(kind, seed=1).twins(POOL)
    assert not np.array_equal(other.value.tokens, whole.value.tokens)


@pytest.mark.parametrize("kind", ["mod_sum", "fit", "pointer inside", "boolean"])
def test_twins_are_uniform(kind):
    made, count = quick(kind), 40_000
    spec, tokens = made.spec, made.batch(np.arange(count)).tokens.astype(np.int64)
    twins, found = made.twins(np.arange(count)), made.variables(np.arange(count))
    pvalues = []
    # The new pointer lies 1, ..., num_starts - 1 positions on.
    steps = (rule.variables(twins.pointer.tokens, spec).pointers - found.pointers) % spec.num_starts
    pvalues.append(chi_square(np.bincount(steps, minlength=spec.num_starts)[1:]))
    columns = np.zeros(spec.length, dtype=bool)
    columns[rule.value_columns(spec)] = True
    for name, allowed in (("value", found.mask), ("irrelevant", columns & ~found.mask)):
        changed = getattr(twins, name).tokens != tokens
        # The place: the k-th of the allowed ones, equally often, for each number of them.
        ranks = (np.cumsum(allowed, axis=1) * changed).sum(axis=1) - 1
        sizes = allowed.sum(axis=1)
        for size in np.unique(sizes):
            if size > 1:
                pvalues.append(chi_square(np.bincount(ranks[sizes == size], minlength=size)))
        steps = ((getattr(twins, name).tokens.astype(np.int64) - tokens) * changed).sum(axis=1) % spec.alphabet
        if spec.alphabet > 2:
            pvalues.append(chi_square(np.bincount(steps, minlength=spec.alphabet)[1:]))
            pairs = np.bincount(ranks * spec.alphabet + steps)
            pvalues.append(chi_square(pairs[pairs > 0]) if len(np.unique(sizes)) == 1 else 1.0)
    assert min(pvalues) > ALARM / len(pvalues)


def test_twins_may_be_what_is_held_out():
    spec = TokenSpec(window=2, alphabet=3, num_values=3, holdout="permutations", holdout_count=2, part="train")
    twins = pvr.tokens(spec).twins(np.arange(500))
    held = {(0, 1), (1, 0)}
    assert held <= {tuple(window) for window in rule.variables(twins.value.tokens, spec).windows.tolist()}
