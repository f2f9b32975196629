"""The addressing law: words, numbers and keys."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from neophyte.core.addressing import MAX_INDEX, MAX_SEED, Space, Stream, check_indices

# Every statistical test here is on a fixed address, so it always gives the same answer; for a right implementation the
# chance that the address was an unlucky one is ALARM.
ALARM = 1e-6

KEYS = st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
POSITIONS = st.one_of(st.integers(0, 50), st.integers(0, 2**60))


def numpy_words(key, position, count):
    """Return words of NumPy's own Philox."""
    generator = np.random.Philox(key=np.array(key, dtype=np.uint64))
    generator.advance(position // 4)
    return generator.random_raw(position % 4 + count)[position % 4 :]


def stream(name="numbers", index=0, seed=0):
    return Space("test@1", "train", seed).stream(name, index)


@given(KEYS, POSITIONS, st.integers(0, 23))
def test_words_are_those_of_numpys_philox(key, position, count):
    ours = Stream(np.array(key, dtype=np.uint64), position)
    np.testing.assert_array_equal(ours.words(count), numpy_words(key, position, count))
    assert ours.position == position + count


@given(KEYS, st.lists(st.integers(0, 9), max_size=8))
def test_a_stream_drawn_in_pieces_is_the_stream(key, counts):
    pieces, whole = Stream(np.array(key, dtype=np.uint64)), Stream(np.array(key, dtype=np.uint64))
    drawn = np.concatenate([pieces.words(0), *[pieces.words(count) for count in counts]])
    np.testing.assert_array_equal(drawn, whole.words(sum(counts)))


def test_uniforms_are_uniform():
    drawn = stream().uniform(200_000)
    assert drawn.min() >= 0.0
    assert drawn.max() < 1.0
    assert stats.kstest(drawn, "uniform").pvalue > ALARM


def test_normals_are_normal():
    drawn = stream().normal(200_000)
    assert stats.kstest(drawn, "norm").pvalue > ALARM
    # 200,000 normals have about 12.6 beyond 4 (two-sided).
    assert stats.binomtest(int((np.abs(drawn) > 4).sum()), 200_000, 2 * stats.norm.sf(4)).pvalue > ALARM


@pytest.mark.parametrize("bound", [1, 2, 7, 32, 1000])
def test_integers_are_uniform(bound):
    drawn = stream().integers(bound, 100_000)
    counts = np.bincount(drawn, minlength=bound)
    assert len(counts) == bound
    if bound > 1:
        assert stats.chisquare(counts).pvalue > ALARM


@pytest.mark.parametrize("bound", [3 * 2**61, 2**63 - 1, 2**62 + 1, 5])
def test_integers_are_lemires_with_rejection(bound):
    # A quarter of the words are rejected at 3 * 2^61: a multiple of 2^64 / bound cannot be spread evenly.
    key = (11, 22)
    words = iter(numpy_words(key, 3, 4000).tolist())
    expected, taken = [], 0
    while len(expected) < 2000:
        high, low = divmod(next(words) * bound, 2**64)
        taken += 1
        if low >= 2**64 % bound:
            expected.append(high)
    ours = Stream(np.array(key, dtype=np.uint64), 3)
    assert ours.integers(bound, 2000).tolist() == expected
    assert ours.position == 3 + taken
    if bound == 3 * 2**61:
        assert stats.binomtest(taken - 2000, taken, 0.25).pvalue > ALARM
        sixths = np.bincount([value * 6 // bound for value in expected], minlength=6)
        assert stats.chisquare(sixths).pvalue > ALARM


@pytest.mark.parametrize("bound", [0, -1, 2**63, 2.0, True])
def test_bad_bounds_are_refused(bound):
    with pytest.raises(ValueError, match="bound is"):
        stream().integers(bound, 1)


def test_permutations_are_uniform():
    drawn = stream("permutations")
    counts = dict.fromkeys(itertools.permutations(range(4)), 0)
    for _ in range(24_000):
        counts[tuple(drawn.permutation(4).tolist())] += 1
    assert stats.chisquare(list(counts.values())).pvalue > ALARM


@given(st.integers(0, 300), st.integers(0, 100))
def test_permutations_hold_every_number_once(size, index):
    drawn = stream(index=index)
    assert sorted(drawn.permutation(size).tolist()) == list(range(size))
    assert drawn.position >= max(size - 1, 0)


def test_a_hundred_thousand_addresses_have_as_many_keys():
    indices = np.concatenate([np.arange(100), 2 ** np.arange(10, 63, dtype=np.int64), MAX_INDEX - np.arange(47)])
    seeds = (0, 1, 42, 43, MAX_SEED)
    names = itertools.product(("a@1", "a@2", "b@1", "a"), ("train", "eval", "1"), seeds, ("x", "y", "x1", "1x", "xy"))
    keys = [Space(task, split, seed).keys(name, indices) for task, split, seed, name in names]
    keys = np.concatenate([*keys, *[Space("c", "train").keys(f"stream-{i}", indices) for i in range(201)]])
    assert len(keys) > 100_000
    assert len(np.unique(keys, axis=0)) == len(keys)
    # And neither half of the key is constant.
    assert all(len(np.unique(half)) == len(keys) for half in keys.T)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ab", "c", "x"), ("a", "bc", "x")),
        (("a", "bc", "d"), ("a", "b", "cd")),
        (("a", "b\x00", "c"), ("a", "b", "\x00c")),
    ],
)
def test_addresses_that_read_alike_are_different(one, other):
    keys = [Space(task, split).keys(name, np.array([0])).tolist() for task, split, name in (one, other)]
    assert keys[0] != keys[1]


def test_a_key_depends_on_the_address_alone():
    space = Space("test@1", "train", 7)
    indices = np.array([5, 3, 5, 2**40])
    together = space.keys("x", indices)
    np.testing.assert_array_equal(
        together, np.concatenate([Space("test@1", "train", 7).keys("x", [i]) for i in indices])
    )
    np.testing.assert_array_equal(together, space.keys("x", indices.astype(np.uint64)))
    np.testing.assert_array_equal(space.stream("x", 3).key, together[1])


def test_seed_43_is_not_seed_42_shifted():
    keys = {
        seed: {tuple(key) for key in Space("test@1", "train", seed).keys("x", np.arange(2000)).tolist()}
        for seed in (42, 43)
    }
    assert not keys[42] & keys[43]


@pytest.mark.parametrize("other", [stream("other"), stream(index=1), stream(seed=1)])
def test_neighbouring_streams_are_independent(other):
    count = 100_000
    here, there = stream().normal(count), other.normal(count)
    for lag in range(4):
        # A sum of `count` products of independent standard normals has standard deviation sqrt(count).
        score = (here[lag:] * there[: count - lag]).sum() / np.sqrt(count - lag)
        assert abs(score) < stats.norm.isf(ALARM / 2)


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, True, "1", None])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(ValueError, match=r"seed is .*; allowed: an integer in \[0, 9223372036854775807\]"):
        Space("test@1", "train", seed)


@pytest.mark.parametrize("name", ["", None, 3])
def test_bad_names_are_refused(name):
    with pytest.raises(ValueError, match="split is"):
        Space("test@1", name)
    with pytest.raises(ValueError, match="task is"):
        Space(name, "train")


def test_numpy_integers_are_addresses_too():
    expected = Space("test@1", "train", 3).stream("x", 5).words(4)
    np.testing.assert_array_equal(Space("test@1", "train", np.int64(3)).stream("x", np.int32(5)).words(4), expected)


@pytest.mark.parametrize("index", [-1, 2**63, 0.5, True, np.float64(1)])
def test_a_bad_index_is_refused(index):
    with pytest.raises(ValueError, match="index is"):
        Space("test@1", "train").stream("x", index)


@pytest.mark.parametrize(
    "indices",
    [[-1], [0, -5], np.array([2**63], dtype=np.uint64), [0.0], [], [[1, 2]], 3, ["1"], [True], [10**30]],
    ids=str,
)
def test_bad_indices_are_refused(indices):
    with pytest.raises(ValueError, match="indices"):
        Space("test@1", "train").keys("x", indices)


def test_good_indices_become_int64():
    for dtype in (np.uint8, np.int32, np.uint64):
        checked = check_indices(np.array([1, 2], dtype=dtype))
        assert checked.dtype == np.int64
        assert checked.tolist() == [1, 2]
    assert check_indices([MAX_INDEX]).tolist() == [MAX_INDEX]
