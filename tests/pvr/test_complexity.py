"""Noise sensitivity: the specification's numbers, closed forms, and sums over all inputs."""

import functools
import math
import re
from statistics import multimode

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from neophyte.core.addressing import Space
from neophyte.core.spec import digest, to_mapping
from neophyte.pvr import agreements, complexity
from neophyte.pvr.complexity import (
    DELTAS,
    joint_law,
    mean_noise_sensitivity,
    noise_sensitivity,
    sampled_noise_sensitivity,
)
from neophyte.pvr.rule import labels
from neophyte.pvr.spec import VERSION, RuleSpec, TokenSpec, boolean

# Every way to make a label, but one's own.
RULES = {
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
ENDS = ("cyclic", "truncate")
SOME = np.array([0.0, 1e-6, 0.001, 0.03, 0.2, 0.4, 0.4999999, 0.5])
ABOVE_HALF = np.array([0.6, 0.9, 1.0])
each_rule = pytest.mark.parametrize("name", RULES)


def ten(window, name="mod_sum", **changes):
    return RuleSpec(window=window, **RULES[name], **changes)


def own_sum(windows):
    """A user's aggregation."""
    return np.where(windows >= 0, windows, 0).sum(axis=1) % 10


# The specification's numbers.

# (end, w): at delta = e^-7, ..., e^-1
TABLES = {
    ("cyclic", 1): ".006873 .018573 .049690 .129388 .313432 .631811 .874049",
    ("cyclic", 2): ".010511 .028303 .075001 .190381 .432300 .757588 .896670",
    ("cyclic", 3): ".014108 .037854 .099338 .245822 .524791 .820619 .899360",
    ("cyclic", 6): ".024808 .065839 .167841 .385929 .701235 .882806 .899992",
    ("cyclic", 10): ".035721 .093709 .231796 .495826 .788895 .894195 .900000",
    ("truncate", 2): ".010283 .027695 .073418 .186572 .424910 .749996 .895905",
    ("truncate", 3): ".013431 .036052 .094715 .235088 .505865 .805268 .898348",
}
# Means over the 25 deltas, w = 1, ..., 10, cyclic.
AVERAGES = {
    "mod_sum": ".26998 .32806 .36803 .39892 .42412 .44538 .46376 .47993 .49424 .49471",
    "min": ".26998 .26384 .24406 .22511 .20586 .18816 .17067 .15449 .13766 .12149",
    "max": ".26998 .27550 .26538 .25593 .24510 .23503 .22378 .21293 .19941 .18513",
    "median lower": ".26998 .26384 .28710 .28402 .29180 .28809 .29049 .28550 .28260 .27093",
}


@pytest.mark.parametrize(("end", "window"), TABLES)
def test_table(end, window):
    found = noise_sensitivity(ten(window, window_end=end), np.exp(np.arange(-7.0, 0.0)))
    np.testing.assert_allclose(found, np.array(TABLES[end, window].split(), dtype=float), rtol=0, atol=5e-7)


@pytest.mark.parametrize("name", AVERAGES)
def test_averages(name):
    found = [mean_noise_sensitivity(ten(window, name)) for window in range(1, 11)]
    np.testing.assert_allclose(found, np.array(AVERAGES[name].split(), dtype=float), rtol=0, atol=5e-6)
    if name == "mod_sum":
        assert found == sorted(found)
    if name in ("min", "max"):
        assert found[1:] == sorted(found[1:], reverse=True)


def test_deltas_are_the_papers():
    assert DELTAS.shape == (25,)
    np.testing.assert_allclose(DELTAS[[0, -1]], [math.exp(-7), math.exp(-1)], rtol=1e-15)
    np.testing.assert_allclose(DELTAS[1:] / DELTAS[:-1], math.exp(0.25), rtol=1e-14)
    with pytest.raises(ValueError, match="read-only"):
        DELTAS[0] = 0.5


@each_rule
@pytest.mark.parametrize("end", [*ENDS, "fit"])
def test_one_value_in_closed_form(name, end):
    d = np.linspace(0.0, 0.5, 20)
    same = (1 - d) ** 4 + d**2 * (1 - d) ** 2 / 2 + d**3 * (1 - d) / 4
    found = noise_sensitivity(ten(1, name, window_end=end), d)
    np.testing.assert_allclose(found, 1 - (same**2 + (1 - same) * 7 / 64), rtol=0, atol=1e-13)
    assert found[0] == 0
    assert found[-1] == pytest.approx(57 / 64, abs=1e-14)


def test_slope_at_zero():
    d = 1e-7
    for window, slope in ((1, 4 + 57 / 16), (10, 40)):
        assert noise_sensitivity(ten(window), [d])[0] / d == pytest.approx(slope, abs=1e-4)


def test_joint_law_of_digits():
    law = joint_law(10, 0.1)
    np.testing.assert_allclose(law.sum(axis=0), [1 / 8] * 6 + [1 / 16] * 4, atol=1e-16)
    np.testing.assert_array_equal(law, law.T)
    np.testing.assert_allclose(joint_law(10, 0.0), np.diag([1 / 8] * 6 + [1 / 16] * 4), atol=0)
    assert law[7, 8] == pytest.approx(0.1**4 / 16)  # 0111 and 1000
    # 0 is 0000 or 1010: from the same word to the same or the other.
    assert law[0, 0] == pytest.approx((0.9**4 + 0.1**2 * 0.9**2) / 8)
    np.testing.assert_allclose(joint_law(2, 0.3), [[0.35, 0.15], [0.15, 0.35]])
    assert joint_law(256, 0.2)[0, 255] == pytest.approx(0.2**8 / 256)


# Sums over all inputs.


def plain_label(tokens, spec):
    """The rule in plain Python, of one pointer token at least and one hop."""
    before, count = spec.pointer_position, spec.pointer_length
    digits, values = tokens[before : before + count], tokens[:before] + tokens[before + count :]
    start = int("".join(map(str, digits)), spec.alphabet) if spec.pointer else 0
    window = (values * 2)[start : start + spec.window] if spec.window_end == "cyclic" else values[start:][: spec.window]
    match spec.aggregation:
        case "mod_sum":
            return sum(window) % spec.alphabet
        case "parity":
            return (1 + math.prod(2 * x - 1 for x in window)) // 2
        case "min":
            return min(window)
        case "max":
            return max(window)
        case "median":
            window.sort()
            low, high = window[(len(window) - 1) // 2], window[len(window) // 2]
            return {"lower": low, "upper": high, "mean": (low + high) // 2}[spec.median]
        case "maj_vote":
            return {"smallest": min, "largest": max, "first": lambda x: x[0]}[spec.mode_tie](multimode(window))


def all_tokens(spec):
    """The tokens of every string of bits, (2^bits, length), and the number of bits."""
    width = math.ceil(math.log2(spec.alphabet))
    bits = width * spec.length
    words = np.arange(2**bits)[:, None] >> width * np.arange(spec.length) & 2**width - 1
    tokens = words % spec.alphabet
    if not spec.pointer:
        tokens[:, spec.pointer_position : spec.pointer_position + spec.pointer_length] = 0
    return tokens, bits


@functools.cache
def ones(bits):
    return np.array([bin(x).count("1") for x in range(2**bits)])


def brute_force(spec, deltas):
    """Sum over every x and every y."""
    tokens, bits = all_tokens(spec)
    label = np.array([plain_label(row, spec) for row in tokens.tolist()])
    strings = np.arange(len(label))
    distances = ones(bits)[strings[:, None] ^ strings]
    differ = np.bincount(distances[label[:, None] != label], minlength=bits + 1)
    k = np.arange(bits + 1)
    return np.array([(differ * d**k * (1 - d) ** (bits - k)).sum() for d in deltas.tolist()]) / len(label)


def by_spectrum(spec, deltas):
    """1 - the sum over labels and sets S of bits of (1 - 2 delta)^|S| times the squared Fourier coefficient."""
    tokens, bits = all_tokens(spec)
    label = labels(tokens, spec)
    weights = np.zeros(bits + 1)
    for value in range(spec.classes):
        table = (label == value).astype(float)
        for bit in range(bits):
            even, odd = np.moveaxis(table.reshape(-1, 2, 2**bit), 1, 0)
            table = np.stack([even + odd, even - odd], axis=1)
        weights += np.bincount(ones(bits), (table.ravel() / 2**bits) ** 2)
    return 1 - (weights * (1 - 2 * deltas[:, None]) ** np.arange(bits + 1)).sum(axis=1)


def compare(spec, twin):
    deltas = SOME if takes_half_at_most(spec) else np.concatenate([SOME, ABOVE_HALF])
    np.testing.assert_allclose(noise_sensitivity(spec, deltas), twin(spec, deltas), rtol=0, atol=1e-12)


def takes_half_at_most(spec):
    mean, first = (spec.aggregation, spec.median) == ("median", "mean"), spec.mode_tie == "first"
    return mean or (spec.aggregation == "maj_vote" and not first)


@each_rule
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("size", [2, 3])
def test_all_inputs(name, end, size):
    for window in range(1, size + 1):
        compare(RuleSpec(num_values=size, alphabet=size, window=window, window_end=end, **RULES[name]), brute_force)


@each_rule
@pytest.mark.parametrize("end", ENDS)
def test_all_inputs_of_four_values(name, end):
    compare(RuleSpec(num_values=4, alphabet=4, window=3, window_end=end, **RULES[name]), brute_force)


@each_rule
def test_spectrum_of_five_values(name):
    five = {"num_values": 5, "alphabet": 5, **RULES[name]}
    compare(RuleSpec(window=5, pointer=False, **five), by_spectrum)
    compare(RuleSpec(window=4, window_end="truncate", **five), by_spectrum)


@pytest.mark.parametrize("name", ["median mean", "mode smallest", "mode first"])
def test_spectrum_of_five_values_cyclic(name):
    compare(RuleSpec(window=4, num_values=5, alphabet=5, **RULES[name]), by_spectrum)


@each_rule
def test_other_rules(name):
    for fields in (
        {"num_values": 4, "alphabet": 3, "window": 2, "window_end": "fit"},  # all three pointers fit
        {"num_values": 3, "alphabet": 3, "window": 2, "pointer_position": 2},
        {"num_values": 3, "alphabet": 3, "window": 2, "pointer": False},
        {"num_values": 4, "alphabet": 3, "window": 3, "pointer": False, "window_end": "fit"},
        {"num_values": 4, "alphabet": 2, "window": 3, "pointer_length": 2},
        {"num_values": 4, "alphabet": 2, "window": 4, "pointer_length": 2, "window_end": "truncate"},
    ):
        compare(RuleSpec(**fields, **RULES[name]), brute_force)


@pytest.mark.parametrize("aggregation", ["parity", "maj_vote", "min", "max"])
@pytest.mark.parametrize("end", ENDS)
def test_boolean_rules(aggregation, end):
    for window in (1, 2, 4):
        compare(boolean(2, window, aggregation, window_end=end), brute_force)


@given(st.integers(2, 4), st.sampled_from(list(RULES)), st.sampled_from(ENDS), st.floats(0, 0.5), st.data())
def test_any_delta(size, name, end, delta, data):
    window = data.draw(st.integers(1, size))
    compare_at = np.array([delta])
    spec = RuleSpec(num_values=size, alphabet=size, window=window, window_end=end, pointer=size < 4, **RULES[name])
    twin = brute_force(spec, compare_at) if size < 4 else by_spectrum(spec, compare_at)
    np.testing.assert_allclose(noise_sensitivity(spec, compare_at), twin, rtol=0, atol=1e-12)


# The methods against each other, at full size.


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("method", ["_symmetric_agreement", "_ordered_agreement"])
def test_general_methods_give_the_same(end, method, monkeypatch):
    for name in ("mod_sum", "min", "max", "median lower", "median upper"):
        spec = ten(3, name, window_end=end)
        expected = noise_sensitivity(spec, SOME)
        with monkeypatch.context() as patch:
            patch.setattr(complexity, "agreement_of", lambda spec, largest_delta: getattr(agreements, method))
            patch.setattr(complexity, "minds_order", lambda spec: method == "_ordered_agreement")
            np.testing.assert_allclose(noise_sensitivity(spec, SOME), expected, rtol=0, atol=1e-12)


def test_copy_is_independent_at_half():
    # So the agreement is the sum of squares of the labels' law.
    for name in ("median mean", "mode smallest", "mode largest"):
        spec = ten(6, name)
        law = np.zeros(10)
        digits = np.array([1 / 8] * 6 + [1 / 16] * 4)
        for counts in agreements._Multisets(10, 6).counts:
            window = np.repeat(np.arange(10), counts)
            ways = math.factorial(6) / math.prod(math.factorial(count) for count in counts.tolist())
            law[plain_label([0, *window.tolist(), 0, 0, 0, 0], spec)] += ways * (digits**counts).prod()
        assert law.sum() == pytest.approx(1)
        assert noise_sensitivity(spec, [0.5])[0] == pytest.approx(1 - (law**2).sum(), abs=1e-12)


def test_many_deltas_are_those_of_each():
    spec, deltas = ten(4, "median lower"), np.linspace(0, 1, 70)
    one_by_one = [noise_sensitivity(spec, [delta])[0] for delta in deltas.tolist()]
    np.testing.assert_allclose(noise_sensitivity(spec, deltas), one_by_one, rtol=0, atol=1e-15)


def test_held_out_windows_play_no_part():
    fields = {"holdout": "permutations", "holdout_count": 2, "part": "train"}
    np.testing.assert_array_equal(
        noise_sensitivity(TokenSpec(window=3, **fields), DELTAS), noise_sensitivity(ten(3), DELTAS)
    )
    few = {"samples": 100, "runs": 2}
    np.testing.assert_array_equal(
        sampled_noise_sensitivity(TokenSpec(window=3, **fields), DELTAS, **few),
        sampled_noise_sensitivity(ten(3), DELTAS, **few),
    )


# The sample.


def test_sample_is_as_documented():
    spec = RuleSpec(num_values=25, alphabet=5, pointer_length=2, pointer_position=3, window=2, aggregation="max")
    length, width, deltas = 27, 3, [0.01, 0.1, 0.5]
    space = Space(f"pvr-noise@{VERSION}:{digest(to_mapping(spec), 32)}", "noise", 4)
    expected = np.zeros((2, 3))
    for run in range(2):
        bits, flips = space.stream("bits", run), space.stream("flips", run)
        for _ in range(50):
            low, high = bits.words(2).tolist()  # 81 bits
            uniform = flips.uniform(length * width).tolist()
            for d, delta in enumerate([0.0, *deltas]):
                string = low + (high << 64)
                for b in range(length * width):
                    string ^= (uniform[b] < delta) << b
                tokens = [(string >> width * t & 7) % 5 for t in range(length)]
                label = plain_label(tokens, spec)
                if d == 0:
                    clean = label
                else:
                    expected[run, d - 1] += label != clean
    found = sampled_noise_sensitivity(spec, deltas, samples=50, runs=2, seed=4)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, expected / 50)


def test_sample_without_pointer():
    spec = RuleSpec(num_values=5, alphabet=2, pointer=False, pointer_position=4, window=5, aggregation="parity")
    space = Space(f"pvr-noise@{VERSION}:{digest(to_mapping(spec), 32)}", "noise", 0)
    flips = space.stream("flips", 0).uniform(6 * 200).reshape(200, 6) < 0.2
    odd = np.delete(flips, 4, axis=1).sum(axis=1) % 2
    assert sampled_noise_sensitivity(spec, [0.2], samples=200, runs=1) == odd.mean()


def test_sample_is_a_function_of_its_address(monkeypatch):
    spec, sizes = ten(3, "median lower"), {"samples": 300, "runs": 3}
    found = sampled_noise_sensitivity(spec, DELTAS, **sizes)
    assert found.shape == (3, 25)
    np.testing.assert_array_equal(sampled_noise_sensitivity(spec, DELTAS, **sizes), found)
    np.testing.assert_array_equal(sampled_noise_sensitivity(spec, DELTAS[5:9], samples=300, runs=2), found[:2, 5:9])
    assert (sampled_noise_sensitivity(spec, DELTAS, **sizes, seed=1) != found).any()
    assert (found[0] != found[1]).any()
    monkeypatch.setattr(complexity, "_BLOCK_BITS", 1000)  # 22 inputs at once
    np.testing.assert_array_equal(sampled_noise_sensitivity(spec, DELTAS, **sizes), found)


def test_no_noise_changes_nothing_and_more_noise_changes_more():
    found = sampled_noise_sensitivity(ten(4), [0.0, *DELTAS], samples=2000, runs=1)[0]
    assert found[0] == 0
    assert (np.diff(found[::4]) > 0).all()


# A right program fails one of these for about one seed in a million: each of the tests below takes its share of 1e-6.
FALSE_ALARMS = 1e-6


def check_sample(spec, deltas, cases, **sizes):
    exact = noise_sensitivity(spec, deltas)
    sizes = {"samples": 10_000, "runs": 4} | sizes
    total = sizes["samples"] * sizes["runs"]
    counts = np.rint(sampled_noise_sensitivity(spec, deltas, **sizes).sum(axis=0) * sizes["samples"])
    tails = np.minimum(stats.binom.cdf(counts, total, exact), stats.binom.sf(counts - 1, total, exact))
    assert (2 * tails > FALSE_ALARMS / cases / len(deltas)).all(), (spec, exact, counts / total)


@each_rule
def test_sample_agrees_with_exact(name):
    deltas = DELTAS[[0, 12, 24]]
    for fields in (
        {"window": 2},
        {"window": 3, "window_end": "truncate"},
        {"window": 5 if "first" not in name else 4},
        {"window": 4, "window_end": "fit", "num_values": 13},
        {"window": 3, "pointer": False},
    ):
        check_sample(RuleSpec(**fields, **RULES[name]), deltas, 5 * len(RULES) + 1, runs=1)


def test_sample_of_modes_of_long_windows_agrees_with_exact():
    check_sample(ten(8, "mode smallest"), DELTAS[[15]], 5 * len(RULES) + 1)


def test_sample_takes_any_rule():
    few = {"samples": 500, "runs": 1}
    own = RuleSpec(window=3, aggregation=own_sum)
    assert abs(sampled_noise_sensitivity(own, [0.1], **few) - noise_sensitivity(ten(3), [0.1])).item() < 0.13  # 6 sigma
    for fields in ({"hops": 3, "window": 2}, {"variable_window": True, "window": 10}):
        found = sampled_noise_sensitivity(RuleSpec(**fields), DELTAS, **few)
        assert found[0, 0] < found[0, -1] <= 1


# Refusals.


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_values": 5}, "num_values is 5; allowed for noise sensitivity: 10, since"),
        ({"window": 3, "window_end": "fit"}, "window_end is 'fit'; allowed for noise sensitivity: cyclic, truncate, "),
        ({"num_values": 11, "window": 3, "window_end": "fit"}, "num_values is 11; allowed for noise sensitivity: 12, "),
        ({"num_values": 30, "pointer_length": 2}, "num_values is 30; allowed for noise sensitivity: 100, since"),
    ],
)
def test_pointers_that_name_nothing(fields, message):
    for function in (noise_sensitivity, sampled_noise_sensitivity):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
            function(RuleSpec(**fields), DELTAS)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hops": 2}, "hops is 2; allowed for the exact noise sensitivity: 1; sampled_noise_sensitivity takes others"),
        ({"variable_window": True, "window": 10}, "variable_window is True; allowed for the exact noise sensitivity: "),
        (
            {"aggregation": own_sum},
            f"aggregation is '{__name__}:own_sum'; allowed for the exact noise sensitivity: mod_",
        ),
        ({"aggregation": "maj_vote", "mode_tie": "first", "window": 7}, "window is 7; allowed for the exact noise "),
        ({"aggregation": "maj_vote", "num_values": 100, "pointer_length": 2, "window": 11}, "window is 11; allowed "),
        ({"aggregation": "median", "num_values": 100, "pointer_length": 2, "window": 100}, "window is 100; allowed "),
        ({"num_values": 10**4, "pointer_length": 4}, "num_values is 10000; allowed for the exact noise sensitivity: "),
    ],
)
def test_rules_without_exact_value(fields, message):
    with pytest.raises(ValueError, match=rf"^{re.escape(message)}"):
        noise_sensitivity(RuleSpec(**fields), [0.1])
    sampled_noise_sensitivity(RuleSpec(**fields), [0.1], samples=2, runs=1)


def test_other_refusals():
    for function in (noise_sensitivity, sampled_noise_sensitivity):
        for wrong in (0.1, [], [[0.1]], ["a"], [True]):
            with pytest.raises(ValueError, match=r"^deltas has shape .*; allowed: real numbers, \(deltas,\)$"):
                function(ten(1), wrong)
        for wrong in (-0.1, 1.1, math.nan):
            with pytest.raises(ValueError, match=rf"^deltas is {wrong}; allowed: a number in \[0, 1\]$"):
                function(ten(1), [0.1, wrong])
    for name in ("median mean", "mode smallest"):
        with pytest.raises(ValueError, match=r"^deltas is 0.7; allowed for .*: at most 0.5; sampled_noise_sensitivity"):
            noise_sensitivity(ten(2, name), [0.1, 0.7])
    for wrong in ({"samples": 0}, {"runs": 0}, {"seed": -1}):
        with pytest.raises(ValueError, match=f"^{next(iter(wrong))} is "):
            sampled_noise_sensitivity(ten(1), [0.1], **wrong)
    with pytest.raises(ValueError, match=r"^window is 3; allowed .* with variable_window: the alphabet, 10, so that"):
        sampled_noise_sensitivity(ten(3, variable_window=True), [0.1])
    for wrong in ((1, 0.1), (300, 0.1), (10, -1), (10, 1.5)):
        with pytest.raises(ValueError, match=r"^(alphabet|delta) is "):
            joint_law(*wrong)
