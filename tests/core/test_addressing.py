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


# Shuffled ranges.

SIZES = st.one_of(
    st.integers(1, 70), st.integers(1, 3000), st.sampled_from([2**k + d for k in range(1, 12) for d in (-1, 0, 1)])
)
ROUNDS = 12


def shuffled(size, index=0, name="order", positions=None):
    positions = np.arange(size) if positions is None else positions
    return Space("test@1", "train").shuffled(name, index, size, positions)


@given(SIZES, st.integers(0, MAX_INDEX))
def test_a_shuffled_range_holds_every_number_once(size, index):
    images = shuffled(size, index)
    assert images.dtype == np.int64
    assert sorted(images.tolist()) == list(range(size))


@given(SIZES, st.data())
def test_an_image_depends_on_its_position_alone(size, data):
    positions = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=20))
    whole = shuffled(size, 3)
    np.testing.assert_array_equal(shuffled(size, 3, positions=positions), whole[positions])
    np.testing.assert_array_equal(
        shuffled(size, 3, positions=np.array(positions[:1], dtype=np.uint32)), whole[positions[:1]]
    )


def scramble(x):
    """SplitMix64's finaliser, on Python's integers."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def network(x, keys, bits, backwards=False):
    """An alternating Feistel network: even rounds change the lower half of the bits, odd ones the upper."""
    low_bits = bits // 2
    high, low = divmod(x, 2**low_bits)
    rounds = list(enumerate(keys))
    for number, key in rounds[::-1] if backwards else rounds:
        if number % 2:
            high ^= scramble((low + key) % 2**64) % 2 ** (bits - low_bits)
        else:
            low ^= scramble((high + key) % 2**64) % 2**low_bits
    return high * 2**low_bits + low


LARGE = st.one_of(
    st.integers(1, 2**62), st.integers(1, 62).map(lambda k: 2**k), st.integers(1, 61).map(lambda k: 2**k + 1)
)


@given(LARGE, st.integers(0, 100), st.data())
def test_a_shuffled_range_of_any_size_is_its_twin_and_can_be_undone(size, index, data):
    positions = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=5))
    keys = [int(word) for word in stream("order", index).words(ROUNDS)]
    bits = (size - 1).bit_length()
    for position, image in zip(positions, shuffled(size, index, positions=positions).tolist(), strict=True):
        assert 0 <= image < size
        expected = network(position, keys, bits)
        while expected >= size:
            expected = network(expected, keys, bits)
        assert image == expected
        back = network(image, keys, bits, backwards=True)
        while back >= size:
            back = network(back, keys, bits, backwards=True)
        assert back == position


def test_other_epochs_and_names_give_other_orders():
    orders = [shuffled(1000, index, name) for index in (0, 1, 2, MAX_INDEX) for name in ("order", "other")]
    for one, other in itertools.combinations(orders, 2):
        # Two random orders agree in about one place (Poisson).
        assert (one == other).sum() < stats.poisson.isf(ALARM / 28, 1)


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_shuffled_orders_are_equally_likely(size):
    # Networks of one to three bits reach all orders; wider ones the even ones alone, which sizes below 2^bits hide.
    counts = dict.fromkeys(itertools.permutations(range(size)), 0)
    for index in range(12_000):
        counts[tuple(shuffled(size, index).tolist())] += 1
    assert stats.chisquare(list(counts.values())).pvalue > ALARM


@pytest.mark.parametrize("size", [3, 10, 64, 100])
def test_images_and_pairs_of_images_are_uniform(size):
    # The mean of every epoch's images is the same, so a chi-square over positions would not be one: each has its own.
    epochs = 20_000
    orders = np.array([shuffled(size, index) for index in range(epochs)])
    pvalues = [stats.chisquare(np.bincount(orders[:, place], minlength=size)).pvalue for place in range(size)]
    assert min(pvalues) > ALARM / size
    # Two positions: neighbours, and those that differ in one bit only. Their images' distance is any but zero.
    pairs = [(0, 1), (0, 2), (1, 2), (size - 1, size - 2), (0, size - 1), (size // 2, 0)]
    pairs += [(0, 2**k) for k in range(2, 7) if 2**k < size]
    pvalues = []
    for one, other in pairs:
        distances = np.bincount((orders[:, one] - orders[:, other]) % size, minlength=size)
        assert distances[0] == 0
        pvalues.append(stats.chisquare(distances[1:]).pvalue)
        if size <= 10:
            both = np.bincount(orders[:, one] * size + orders[:, other], minlength=size * size)
            pvalues.append(stats.chisquare(both.reshape(size, size)[~np.eye(size, dtype=bool)]).pvalue)
    assert min(pvalues) > ALARM / len(pvalues)
    # The same position in epochs that follow each other.
    pvalues = []
    for place in {0, 1, size - 1}:
        steps = (orders[1::2, place] - orders[::2, place]) % size
        pvalues.append(stats.chisquare(np.bincount(steps, minlength=size)).pvalue)
    assert min(pvalues) > ALARM / len(pvalues)


@pytest.mark.parametrize("size", [1000, 2**17, 100_003])
def test_a_shuffled_range_has_no_pattern(size):
    images = shuffled(size).astype(float)
    positions = np.arange(size)
    # Rank correlations of two random orders have variance 1 / (size - 1).
    limit = stats.norm.isf(ALARM / 4) / np.sqrt(size - 1)
    assert abs(np.corrcoef(images, positions)[0, 1]) < limit
    assert abs(np.corrcoef(images[1:], images[:-1])[0, 1]) < limit
    # Steps to the next are hardly ever those of the plain order: about two in all (Poisson).
    assert (np.abs(np.diff(images)) == 1).sum() < stats.poisson.isf(ALARM, 2)


@pytest.mark.parametrize("size", [0, -1, 2**62 + 1, 3.0, True])
def test_bad_sizes_are_refused(size):
    with pytest.raises(ValueError, match=r"size is .*; allowed: an integer in \[1, 4611686018427387904\]"):
        shuffled(size, positions=[0])


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([5], r"positions lie in \[5, 5\]; allowed: \[0, 5\)"),
        ([0, 7], r"positions lie in \[0, 7\]; allowed: \[0, 5\)"),
        ([-1], r"lie in \[-1, -1\]; allowed"),
        ([0.0], "allowed: integers"),
        ([], "allowed: integers"),
        ([[0]], "allowed: integers"),
        ([True], "allowed: integers"),
    ],
    ids=str,
)
def test_bad_positions_are_refused(positions, message):
    with pytest.raises(ValueError, match=message):
        shuffled(5, positions=positions)


def test_a_bad_order_is_refused():
    with pytest.raises(ValueError, match="index is -1"):
        shuffled(5, index=-1)
