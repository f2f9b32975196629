"""Generation probes: what is shown, and what is right."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from neophyte.core.addressing import Space
from neophyte.evaluation.generation import (
    ALPHABETS,
    EQUATIONS,
    ITEMS,
    WORDS,
    Probe,
    corrupt,
    judge,
    make_probe,
)

# Chance of a false alarm of each statistical test, had its fixed seed been drawn at random.
ALARM = 1e-6
each_task = pytest.mark.parametrize("task", sorted(ITEMS))


def test_the_items_are_the_papers():
    assert len(set(WORDS)) == 40
    assert len(set(EQUATIONS)) == 50
    for equation in EQUATIONS:
        left, _, result = equation.partition("=")
        first, sign, second = left[0], left[1], left[2:]
        assert first in "01234"
        assert second in set("01234")
        assert int(result) == (int(first) + int(second) if sign == "+" else int(first) - int(second))


@each_task
@given(data=st.data())
def test_a_corrupted_item_differs_in_one_character(task, data):
    item = data.draw(st.sampled_from(ITEMS[task]))
    wrong = corrupt(item, task, Space("test@1", "test").stream("errors", data.draw(st.integers(0, 10**6))))
    places = [place for place in range(len(item)) if item[place] != wrong[place]]
    assert len(wrong) == len(item)
    assert len(places) == 1
    assert wrong != item
    assert set(wrong) <= set(ALPHABETS[task])
    if task == "arithmetic":
        assert places[0] > item.index("="), "the question stays"
        assert wrong not in EQUATIONS
        assert item[places[0]].isdigit()


@each_task
def test_corruptions_reach_every_place_and_letter(task):
    item = {"vocabulary": "cat", "arithmetic": "1-4=-3"}[task]
    stream = Space("test@1", "test").stream("errors", 0)
    found = {corrupt(item, task, stream) for _ in range(3000)}
    assert len(found) == {"vocabulary": 3 * 25, "arithmetic": 9}[task]


@each_task
@pytest.mark.parametrize("index", [0, 1, 7])
def test_a_shorter_probe_is_the_first_part_of_a_longer_one(task, index):
    half, full = (make_probe(task, count, index) for count in (20, 40))
    assert full.items[:20] == half.items
    assert full.wrong[:20] == half.wrong
    np.testing.assert_array_equal(full.tokens, half.tokens)
    assert full.text.startswith(half.text)
    np.testing.assert_array_equal(full.encode()[: len(half.encode())], half.encode())


@each_task
def test_probes_differ(task):
    probes = [make_probe(task, 30, index) for index in range(10)]
    assert len({probe.text for probe in probes}) == 10
    assert len({tuple(probe.tokens.tolist()) for probe in probes}) == 10
    again = make_probe(task, 30, 3)
    assert (again.items, again.wrong) == (probes[3].items, probes[3].wrong)


@each_task
def test_items_are_uniform_and_fifteen_percent_are_wrong(task):
    probes = [make_probe(task, 400, index) for index in range(25)]
    wrong = sum(sum(probe.wrong) for probe in probes)
    assert stats.binomtest(wrong, 10_000, 0.15).pvalue > ALARM
    right = [item for probe in probes for item, bad in zip(probe.items, probe.wrong, strict=True) if not bad]
    assert set(right) == set(ITEMS[task])
    assert stats.chisquare([right.count(item) for item in ITEMS[task]]).pvalue > ALARM


@each_task
@pytest.mark.parametrize(("rate", "share"), [(0.0, 0.0), (1.0, 1.0)])
def test_the_error_rate_is_as_asked(task, rate, share):
    probe = make_probe(task, 200, 0, error_rate=rate)
    assert np.mean(probe.wrong) == share
    known = np.mean([item in ITEMS[task] for item in probe.items])
    assert known == 1.0 if rate == 0 else known < 0.02


@each_task
@pytest.mark.parametrize("vocab_size", [32, 500])
def test_decoding_undoes_encoding(task, vocab_size):
    probe = make_probe(task, 50, 2, vocab_size=vocab_size)
    tokens = probe.encode()
    assert probe.decode(tokens) == probe.text == ";".join(probe.items) + ";"
    assert tokens.dtype == np.int64
    assert len(set(probe.tokens.tolist())) == len(ALPHABETS[task])
    assert 0 <= probe.tokens.min() <= probe.tokens.max() < vocab_size
    free = sorted(set(range(vocab_size)) - set(probe.tokens.tolist()))
    assert probe.decode(np.array([tokens[0], free[0]])) == probe.text[0] + "?"


def test_injections_are_uniform():
    firsts = [make_probe("vocabulary", 1, index).tokens[0] for index in range(2000)]
    assert stats.chisquare(np.bincount(firsts, minlength=32)).pvalue > ALARM


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "poetry"}, "task is 'poetry'"),
        ({"num_items": 0}, "num_items is 0"),
        ({"vocab_size": 26}, "vocab_size is 26"),
        ({"error_rate": 1.5}, "error_rate is 1.5"),
    ],
)
def test_bad_probes_are_refused(changes, message):
    arguments = {"task": "vocabulary", "num_items": 5, **changes}
    with pytest.raises(ValueError, match=message):
        make_probe(arguments.pop("task"), arguments.pop("num_items"), 0, **arguments)


# "cat" and "dog" shown right, "bird" as "bxrd", "horse" right and wrong.
SHOWN = Probe("vocabulary", ["cat", "dog", "bxrd", "horse", "hxrse"], [False, False, True, False, True], np.arange(27))


@pytest.mark.parametrize(
    ("generated", "items", "error_rate", "coverage", "copied", "distinct"),
    [
        ("cat;dog;horse;", 3, 0.0, 1.0, 0.0, 1.0),
        ("cat;cat;cat;ca", 3, 0.0, 1 / 3, 0.0, 1 / 3),
        ("cat;bxrd;zzz;bird;", 4, 0.5, 1 / 3, 0.25, 1.0),  # bird is true, but not shown
        ("hxrse;bxrd;", 2, 1.0, 0.0, 1.0, 1.0),
        (";;cat;", 3, 2 / 3, 1 / 3, 0.0, 2 / 3),  # an empty item is none
        ("ca?;cat;", 2, 0.5, 1 / 3, 0.0, 1.0),
        ("cat", 0, 1.0, 0.0, 0.0, 0.0),  # nothing complete
        ("", 0, 1.0, 0.0, 0.0, 0.0),
    ],
)
def test_judging_by_hand(generated, items, error_rate, coverage, copied, distinct):
    expected = {"items": items, "error_rate": error_rate, "coverage": coverage, "copied_error_rate": copied}
    assert judge(generated, SHOWN) == pytest.approx({**expected, "distinct": distinct})


def test_an_error_that_is_another_true_item_is_no_error():
    probe = Probe("vocabulary", ["horse", "cat"], [True, False], np.arange(27))  # house, corrupted
    score = judge("horse;cat;", probe)
    assert (score["error_rate"], score["coverage"], score["copied_error_rate"]) == (0, 1, 0)


@each_task
def test_a_perfect_copier_repeats_fifteen_percent_of_errors(task):
    probes = [make_probe(task, 400, index) for index in range(25)]
    scores = [judge(probe.text, probe) for probe in probes]
    wrong = round(sum(score["error_rate"] * score["items"] for score in scores))
    assert stats.binomtest(wrong, 10_000, 0.15).pvalue > ALARM
    for score in scores:
        assert score["copied_error_rate"] == score["error_rate"]
        assert (score["items"], score["coverage"]) == (400, 1.0)
