"""What a model is compared with: controls, overlap of two sets, and a learner that only remembers."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from neophyte import pvr
from neophyte.pvr import TokenSpec, labels, references, rule
from neophyte.pvr.references import Overlap, constant_label, controls, memorisation, overlap

from . import twin
from .test_rule import AGGREGATIONS, SPACES

# Chance of a false alarm of each statistical test, had its fixed address been drawn at random.
ALARM = 1e-6


def ends_in_zero(tokens, windows):
    """A user's predicate: it holds out most of the small labels of "min"."""
    return (windows == 0).any(axis=1)


# Controls.

KINDS = {
    "plain": {"window": 3},
    "min": {"window": 3, "aggregation": "min", "window_end": "truncate"},
    "pointer inside": {"window": 2, "pointer_position": 4, "variable_window": True, "aggregation": "max"},
    "long": {"num_values": 100, "pointer_length": 2, "window": 2, "aggregation": "maj_vote"},
    "two hops": {"hops": 2, "window": 2, "aggregation": "min"},
    "fit": {"window": 4, "window_end": "fit", "aggregation": "median"},
    "no pointer": {"window": 2, "pointer": False, "pointer_position": 10},
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_controls_guesses(kind):
    made = pvr.tokens(TokenSpec(**KINDS[kind]))
    spec, drawn = made.spec, made.batch(np.arange(300))
    before = drawn.tokens.copy()
    guesses = controls(made, drawn.tokens)
    np.testing.assert_array_equal(drawn.tokens, before)
    assert guesses.keys() == {"constant", "first_window"}
    assert all(guess.shape == (300,) and guess.dtype == np.int64 for guess in guesses.values())
    assert set(guesses["constant"].tolist()) == {constant_label(made)}
    for sequence, guess in zip(drawn.tokens.tolist(), guesses["first_window"], strict=True):
        for column in range(spec.pointer_length):
            sequence[spec.pointer_position + column] = 0
        assert guess == twin.label(sequence, spec)
    losses = made.losses(np.arange(300))
    assert losses["oracle"].sum() == 0
    for name, guess in guesses.items():
        np.testing.assert_array_equal(losses[name], guess != drawn.labels)


def test_without_a_pointer_the_first_window_is_the_right_one():
    losses = pvr.tokens("no-pointer-m2-test").losses(np.arange(200))
    assert not losses["first_window"].any()


@pytest.mark.parametrize("name", ["holdout-m1-test", "holdout-m2-test"])
def test_a_constant_is_always_right_on_the_papers_holdout(name):
    losses = pvr.tokens(name).losses(np.arange(2000))
    assert not losses["constant"].any()
    balanced = pvr.tokens(name.replace("holdout", "balanced")).losses(np.arange(2000))
    assert stats.binomtest(int(balanced["constant"].sum()), 2000, 0.9).pvalue > ALARM


def test_the_constant_is_the_most_frequent_label():
    for window in range(1, 5):
        for name, fields in AGGREGATIONS.items():
            made = pvr.tokens(TokenSpec(window=window, **fields))
            law = rule.task_law(made.spec)
            assert law[constant_label(made)] == law.max(), name


def test_the_constant_of_a_law_that_is_not_known_is_estimated(monkeypatch):
    held = {"holdout": "predicate", "predicate": ends_in_zero, "window": 3, "aggregation": "min"}
    # Windows without a zero: the minimum is 1 with probability 217/729; with one it is 0 always.
    assert constant_label(pvr.tokens(part="train", **held)) == 1
    assert constant_label(pvr.tokens(part="test", **held)) == 0
    monkeypatch.setattr(references, "_ESTIMATE", 5)
    made = pvr.tokens(part="train", **held)
    counts = Counter(made.batch(range(5)).labels.tolist())
    assert counts[constant_label(made)] == max(counts.values())


# Overlap.


def brute_overlap(train, test):
    """Count with sets of tuples."""
    spec = test.spec

    def cases(tokens):
        return [(found[2], *found[4]) for found in (twin.variables(sequence, spec) for sequence in tokens)]

    drawn = [one.batch(np.arange(len(one))).tokens.tolist() for one in (train, test)]
    seen = set(map(tuple, drawn[0]))
    seen_cases = set(cases(drawn[0]))
    sequences = sum(tuple(sequence) in seen for sequence in drawn[1])
    return Overlap(len(test), len(train), sequences, sum(case in seen_cases for case in cases(drawn[1])))


OVERLAPS = {
    **SPACES,
    "wide": {"num_values": 4, "alphabet": 6, "window": 3},
    "two hops": {"num_values": 5, "alphabet": 5, "window": 2, "hops": 2},
    "boolean": {"num_values": 8, "alphabet": 2, "window": 5, "pointer_length": 3, "aggregation": "parity"},
}


@pytest.mark.parametrize("space", OVERLAPS)
def test_overlap_is_counted(space, monkeypatch):
    spec = TokenSpec(num_examples=150, **OVERLAPS[space])
    train, test = pvr.tokens(spec), pvr.tokens(spec, split="test", num_examples=400)
    expected = brute_overlap(train, test)
    assert expected.sequences > 0
    assert expected.sequences <= expected.cases
    assert overlap(train, test) == expected
    # Counted in chunks that do not divide the sets.
    for chunk in (7, 150, 399):
        monkeypatch.setattr(references, "_CHUNK", chunk)
        assert overlap(train, test) == expected
    assert overlap(test, train) == brute_overlap(test, train)


@pytest.mark.parametrize(
    "fields",
    [
        {"num_values": 41, "alphabet": 3, "pointer_length": 4, "window": 2},
        {"num_values": 70, "alphabet": 256, "window": 3},
        {"num_values": 64, "alphabet": 2, "pointer_length": 6, "window": 64, "aggregation": "parity"},
        {"num_values": 30, "alphabet": 30, "window": 20, "variable_window": True, "window_end": "truncate"},
    ],
)
def test_overlap_of_sequences_that_are_no_numbers(fields, monkeypatch):
    # Longer than 63 bits: rows are compared as bytes. The first 100 examples are in both sets.
    spec = TokenSpec(**fields)
    train, test = pvr.tokens(spec, num_examples=100), pvr.tokens(spec, num_examples=350)
    expected = brute_overlap(train, test)
    assert expected.sequences == 100
    assert overlap(train, test) == expected
    monkeypatch.setattr(references, "_CHUNK", 33)
    assert overlap(train, test) == expected
    other = pvr.tokens(spec, split="other", num_examples=100)
    assert overlap(other, test) == brute_overlap(other, test)
    assert overlap(other, test).sequences == 0


@given(st.integers(2, 9), st.sampled_from([np.uint8, np.int64]), st.integers(0, 1000))
def test_rows_as_numbers_and_as_bytes_are_equal_where_they_are(columns, dtype, seed):
    rows = np.random.default_rng(seed).choice([0, 1, 255], (60, columns)).astype(dtype)
    for base in (256, 2**40):  # two columns in base 2^40 do not fit: bytes, of which some end in zeros
        codes = references._numbers(rows, base)
        assert codes.shape == (60,)
        assert (codes.dtype == np.int64) == (base**columns < 2**63)
        same = (rows[:, None] == rows[None]).all(axis=2)
        np.testing.assert_array_equal(codes[:, None] == codes[None], same)
        known, back = np.unique(codes, return_inverse=True)
        assert len(known) == len(np.unique(rows, axis=0))
        np.testing.assert_array_equal(known.searchsorted(codes), back)


def test_a_holdout_shares_no_case_with_its_training_set():
    for kind in ("holdout-m1", "balanced-m1", "holdout-m2"):
        train, test = pvr.tokens(f"{kind}-train", num_examples=20_000), pvr.tokens(f"{kind}-test", num_examples=2000)
        assert overlap(train, test) == Overlap(2000, 20_000, 0, 0)


def test_a_set_overlaps_with_itself_wholly():
    made = pvr.tokens(window=3, num_examples=500)
    assert overlap(made, made) == Overlap(500, 500, 500, 500)


def test_as_many_cases_overlap_as_the_paper_counts():
    # 10^(m + 2) cases: of 1,000 at m = 1, 2,000 examples leave (1 - 1/1000)^2000 unseen.
    train, test = pvr.tokens("m1-train", num_examples=2000), pvr.tokens("m1-test", num_examples=100_000)
    found = overlap(train, test)
    # Unseen cases: their number has a standard deviation below sqrt(1000 q (1 - q)) (they are negatively dependent).
    q = 0.999**2000
    deviation = math.sqrt(q * (1 - q) / 1000 + q * (1 - q) / 100_000)
    assert abs(found.cases / found.test - (1 - q)) < stats.norm.isf(ALARM / 2) * deviation


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window": 2}, "window of the test set is 2; allowed: the training set's, 3"),
        ({"window_end": "truncate"}, "window_end of the test set is 'truncate'"),
        ({"aggregation": "min"}, "aggregation of the test set is 'min'"),
        ({"num_values": 9}, "num_values of the test set is 9"),
        ({"pointer": False}, "pointer of the test set is False"),
    ],
)
def test_sets_of_two_rules_are_not_compared(changes, message):
    with pytest.raises(ValueError, match=message):
        overlap(pvr.tokens(window=3), pvr.tokens(TokenSpec(window=3), **changes))


# The learner that only remembers.


def cases_of(spec):
    """The probability and the label of every case, (start, values of the window), by counting all sequences."""
    counts, answers = Counter(), {}
    for sequence in twin.sequences(spec):
        _, _, start, _, window = twin.variables(sequence, spec)
        counts[start, *window] += 1
        answers[start, *window] = twin.aggregate(window, spec)
    return {case: count / counts.total() for case, count in counts.items()}, answers


@pytest.mark.parametrize("space", SPACES)
def test_a_learner_that_remembers_is_right_where_it_has_seen_the_case_or_guesses_it(space):
    for name in ("mod_sum", "min", "median lower", "mode largest"):
        spec = TokenSpec(**SPACES[space], **AGGREGATIONS[name])
        chances, answers = cases_of(spec)
        guess = int(rule.task_law(spec).argmax())
        for size in (0, 1, 5, 40, 300, 10_000):
            expected = 0.0
            for case, chance in chances.items():
                unseen = (1 - chance) ** size
                expected += chance * (1 - unseen + unseen * (answers[case] == guess))
            assert memorisation(spec, size) == pytest.approx(expected, rel=1e-9)


def simulated(spec, size, repeats):
    """The accuracies of learners on training sets of their own, on 200 test examples each."""
    guess = int(rule.task_law(spec).argmax())
    made = pvr.tokens(spec)
    drawn = made.batch(np.arange(repeats * (size + 200)))
    cases = rule.variables(drawn.tokens, spec)
    keys = [(start, *window) for start, window in zip(cases.starts.tolist(), cases.windows.tolist(), strict=True)]
    accuracies = []
    for repeat in range(repeats):
        first = repeat * (size + 200)
        memory = dict(zip(keys[first : first + size], drawn.labels[first : first + size], strict=True))
        test = range(first + size, first + size + 200)
        accuracies.append(np.mean([memory.get(keys[i], guess) == drawn.labels[i] for i in test]))
    return accuracies


@pytest.mark.parametrize("size", [5, 25])
@pytest.mark.parametrize(
    "fields",
    [
        {"num_values": 4, "alphabet": 4, "window": 2},
        {"num_values": 4, "alphabet": 4, "window": 2, "aggregation": "max"},
        {"num_values": 3, "alphabet": 3, "window": 3, "aggregation": "min", "window_end": "truncate"},
        {"num_values": 3, "alphabet": 3, "window": 2, "pointer": False, "aggregation": "maj_vote"},
        {"num_values": 4, "alphabet": 4, "window": 3, "variable_window": True, "aggregation": "median"},
    ],
    ids=str,
)
def test_memorisation_is_what_a_simulated_learner_reaches(fields, size):
    # 300 independent learners: their mean is as good as normal.
    spec = TokenSpec(**fields)
    accuracies = simulated(spec, size, 300)
    assert stats.ttest_1samp(accuracies, memorisation(spec, size)).pvalue > ALARM


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_memorisation_goes_from_the_best_constant_to_one(name):
    spec = TokenSpec(window=3, **AGGREGATIONS[name])
    assert memorisation(spec, 0) == pytest.approx(pvr.best_constant(spec), rel=1e-12)
    sizes = [0, 1, 100, 10_000, 30_000, 100_000, 10**6, 10**9, 10**15]
    found = [memorisation(spec, size) for size in sizes]
    assert found == sorted(found)
    assert found[-1] == pytest.approx(1.0, rel=1e-12)
    assert all(0 <= accuracy <= 1 + 1e-12 for accuracy in found)
    # 10^4 cases: after as many examples a share 1/e of them is unseen.
    constant = pvr.best_constant(spec)
    assert found[3] == pytest.approx(1 - math.exp(-1) * (1 - constant), abs=1e-4)


def test_memorisation_of_more_cases_than_floats_can_tell():
    # log1p and expm1 keep what 1 - (1 - p)^N would lose.
    spec = TokenSpec(window=10, num_values=10)
    gain = memorisation(spec, 10**6) - 0.1
    assert gain == pytest.approx(0.9 * 1e6 / 1e11, rel=1e-4)
    # 400 * 10^400 cases are more than the largest float.
    assert memorisation(TokenSpec(window=400, num_values=400, pointer_length=3), 10**6) == pytest.approx(0.1)


def test_bad_learners_are_refused():
    with pytest.raises(ValueError, match="hops is 2; allowed: 1"):
        memorisation(TokenSpec(hops=2), 10)
    for size in (-1, 1.0, True):
        with pytest.raises(ValueError, match="train_size is"):
            memorisation(TokenSpec(), size)


def test_labels_of_the_same_case_are_the_same():
    # What the learner relies on.
    spec = TokenSpec(**SPACES["variable, truncate"], aggregation="median")
    drawn = pvr.tokens(spec).batch(np.arange(3000))
    found = rule.variables(drawn.tokens, spec)
    seen = {}
    for start, window, label in zip(found.starts, found.windows.tolist(), labels(drawn.tokens, spec), strict=True):
        assert seen.setdefault((start, *window), label) == label
