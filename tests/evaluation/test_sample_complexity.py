"""The smallest training set whose median accuracy exceeds the threshold."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neophyte.evaluation.sample_complexity import THRESHOLD, sample_complexity


def rows(table):
    return [(m, size, accuracy) for (m, size), accuracies in table.items() for accuracy in accuracies]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, {}),
        ({(0, 100): [1.0, 1.0, 1.0]}, {0: 100}),
        ({(0, 100): [0.2, 0.3, 0.9]}, {0: None}),
        # The median, not the mean or the best, decides.
        ({(0, 100): [0.96, 0.97, 0.1], (0, 1000): [1.0] * 3}, {0: 100}),
        ({(0, 100): [1.0, 0.94, 0.94], (0, 1000): [1.0] * 3}, {0: 1000}),
        # It must exceed the threshold.
        ({(0, 100): [0.95] * 3, (0, 1000): [0.9501] * 3}, {0: 1000}),
        # Sizes go by number, in whatever order they come.
        ({(0, 100_000): [1.0] * 3, (0, 9_000): [0.99] * 3, (0, 20_000): [1.0] * 3}, {0: 9_000}),
        # The smallest that suffices, also if a larger one fails: the official score says no more.
        ({(0, 100): [0.99] * 3, (0, 1000): [0.5] * 3}, {0: 100}),
        # Each complexity for itself.
        (
            {
                (2, 100): [0.1] * 3,
                (0, 100): [0.99] * 3,
                (1, 100): [0.2] * 3,
                (1, 1000): [0.97] * 3,
                (2, 1000): [0.5] * 3,
            },
            {0: 100, 1: 1000, 2: None},
        ),
        # Of two runs the median is their mean.
        ({(0, 100): [0.9, 0.99], (0, 1000): [0.92, 0.99]}, {0: 1000}),
    ],
)
def test_the_table(table, expected):
    found = sample_complexity(rows(table))
    assert found == expected
    assert list(found) == sorted(expected), "by complexity"


def test_another_threshold():
    scores = rows({(0, 10): [0.5], (0, 100): [0.8], (0, 1000): [0.99]})
    assert [sample_complexity(scores, threshold) for threshold in (0.0, 0.5, 0.9, 0.99)] == [
        {0: 10}, {0: 100}, {0: 1000}, {0: None},
    ]  # fmt: skip
    assert THRESHOLD == 0.95


def test_scores_may_come_from_a_generator():
    assert sample_complexity((m, 10, 1.0) for m in (3, 1)) == {1: 10, 3: 10}


@given(
    st.dictionaries(
        st.tuples(st.integers(0, 3), st.sampled_from([10, 30, 100])),
        st.lists(st.floats(0, 1), min_size=1, max_size=5),
        max_size=8,
    ),
    st.integers(0, 100),
)
def test_it_is_the_plain_search_in_any_order(table, seed):
    scores = rows(table)
    random.Random(seed).shuffle(scores)
    found = sample_complexity(scores)
    for m in range(4):
        good = []
        for (other, size), accuracies in table.items():
            ordered, middle = sorted(accuracies), len(accuracies) // 2
            median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
            if other == m and median > 0.95:
                good.append(size)
        if any(other == m for other, _ in table):
            assert found[m] == min(good, default=None)
        else:
            assert m not in found
