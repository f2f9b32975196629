"""The controls against slow twins."""

import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neophyte import metalang
from neophyte.metalang.references import CONTROLS, induction, ngram, ngram_mixture, score_controls, uniform, unigram

from . import twin

MAX_LENGTH = 16  # the longest suffix that the induction control matches

# name: (control, twin) of (tokens, vocab_size)
PREDICTORS = {
    "unigram": (unigram, twin.unigram),
    "ngram 0": (lambda x, n: ngram(x, n, 0), lambda x, n: twin.witten_bell(x, n, 0)),
    "ngram 2": (lambda x, n: ngram(x, n, 2), lambda x, n: twin.witten_bell(x, n, 2)),
    "ngram 5": (ngram, lambda x, n: twin.witten_bell(x, n, 5)),
    "mixture 2": (lambda x, n: ngram_mixture(x, n, 2), lambda x, n: twin.ngram_mixture(x, n, 2)),
    "mixture 5": (ngram_mixture, lambda x, n: twin.ngram_mixture(x, n, 5)),
    "induction": (induction, lambda x, n: twin.induction(x, n, MAX_LENGTH)),
}
each_predictor = pytest.mark.parametrize("name", PREDICTORS)


KINDS = (
    "noise",
    "a motif again and again",
    "sparse, 16 bits",
    "one token",
    "two tokens in turn",
    "a language",
    "short",
)
each_sequence = pytest.mark.parametrize("kind", KINDS)


@functools.cache
def sequence(kind):
    """Tokens (a list) in which contexts do come back, and their vocabulary's size."""
    rng = np.random.default_rng(7)
    match kind:
        case "noise":
            return rng.integers(0, 5, 150).tolist(), 5
        case "a motif again and again":
            return rng.integers(0, 32, 40).tolist() * 4, 32
        case "sparse, 16 bits":
            return np.where(rng.random(150) < 0.8, 3, rng.integers(0, 300, 150)).tolist(), 300
        case "one token":
            return [1] * 60, 2
        case "two tokens in turn":
            return [0, 1] * 30, 2
        case "a language":
            return metalang.corpus("tiny-train", seed=3).batch([0]).tokens[0].tolist(), 32
        case "short":
            return [4], 7


def as_array(tokens, vocab_size):
    return np.array([tokens], dtype=np.uint8 if vocab_size <= 256 else np.uint16)


@each_predictor
@each_sequence
def test_a_control_is_its_twin(name, kind):
    tokens, vocab_size = sequence(kind)
    control, slow = PREDICTORS[name]
    got = control(as_array(tokens, vocab_size), vocab_size)
    law = slow(tokens, vocab_size)[: len(tokens)]
    expected = -np.log(law[np.arange(len(tokens)), tokens])
    assert got.shape == (1, len(tokens))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got[0], expected, atol=2e-6, rtol=1e-6)


@each_predictor
@pytest.mark.parametrize("kind", ["noise", "a motif again and again", "one token", "two tokens in turn"])
def test_a_control_predicts_a_distribution(name, kind):
    tokens, vocab_size = sequence(kind)
    control, _ = PREDICTORS[name]
    for length in (0, 1, 2, 13, 60):
        endings = np.array([[*tokens[:length], x] for x in range(vocab_size)], dtype=np.uint8)
        nll = control(endings, vocab_size)[:, -1]
        assert np.exp(-nll.astype(np.float64)).sum() == pytest.approx(1.0, abs=1e-6)


@each_predictor
def test_a_control_sees_the_past_alone(name):
    tokens, vocab_size = sequence("a language")
    control, _ = PREDICTORS[name]
    before = control(as_array(tokens, vocab_size), vocab_size)[0]
    for place in (0, 40, 199):
        changed = [*tokens]
        changed[place] = (changed[place] + 1) % vocab_size
        after = control(as_array(changed, vocab_size), vocab_size)[0]
        np.testing.assert_array_equal(after[:place], before[:place])
        # And it does see the past: something from there on changes.
        assert not np.array_equal(after[place:], before[place:])


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(0, 6))
def test_ngrams_of_any_tokens_are_their_twins(tokens, max_order):
    got = ngram(as_array(tokens, 4), 4, max_order)[0]
    law = twin.witten_bell(tokens, 4, max_order)
    np.testing.assert_allclose(got, [-math.log(law[t][x]) for t, x in enumerate(tokens)], atol=2e-6, rtol=1e-6)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_induction_on_any_tokens_is_its_twin(tokens):
    got = induction(as_array(tokens, 4), 4)[0]
    law = twin.induction(tokens, 4, MAX_LENGTH)
    np.testing.assert_allclose(got, [-math.log(law[t][x]) for t, x in enumerate(tokens)], atol=2e-6, rtol=1e-6)


@pytest.mark.parametrize("seed", [8, 13, 14, 16, 23, 32])
def test_contexts_that_meet_in_the_hash_table_are_told_apart(seed):
    # Two contexts of one step that are both new to its token may find the same free place in the table. That is rare,
    # and shows only when one of the two comes back; in these sequences it does.
    tokens = np.random.default_rng(seed).integers(0, 16, 60).tolist()
    got = ngram(as_array(tokens, 16), 16, 16)[0]
    law = twin.witten_bell(tokens, 16, 16)
    np.testing.assert_allclose(got, [-math.log(law[t][x]) for t, x in enumerate(tokens)], atol=2e-6, rtol=1e-6)


def test_uniform_is_the_log_of_the_vocabulary():
    got = uniform(np.zeros((2, 3), dtype=np.uint8), 32)
    np.testing.assert_array_equal(got, np.full((2, 3), np.float32(math.log(32))))


@pytest.mark.parametrize("order", [2, 4, 8])
def test_the_mixture_is_hardly_worse_than_the_best_of_its_orders(order):
    corpus = metalang.corpus("eval", orders=(order,), position_weights="published")
    tokens = corpus.batch(range(8)).tokens
    each = {k: ngram(tokens, 32, k) for k in range(6)}
    mixed = ngram_mixture(tokens, 32)
    for first, last in ((0, 64), (64, 256), (256, 1024), (1024, 4096)):  # the best order is another in each
        best = min(scores[:, first:last].mean() for scores in each.values())
        assert mixed[:, first:last].mean() < best + 0.03
    # Fixed share's bound on the whole sequence, against the best single order in hindsight: what the experts' equal
    # first weights cost, and what never being dealt out cost it, ln(1 / prod(1 - 1 / (t + 2))) = ln(T + 1).
    bound = math.log(7) + math.log(tokens.shape[1] + 1)
    for row in range(8):
        best = min(scores[row].sum(dtype=np.float64) for scores in each.values())
        assert mixed[row].sum(dtype=np.float64) <= best + bound


def test_the_true_order_of_published_languages_is_one_less():
    for weights, law, less in (("published", "additive", 1), ("recency", "additive", 0), ("published", "joint", 0)):
        corpus = metalang.corpus("tiny-eval", position_weights=weights, law=law)
        tokens = corpus.batch(range(3)).tokens
        expected = ngram(tokens, 32, np.array([2, 3, 4]) - less).mean(axis=1)
        np.testing.assert_allclose(corpus.losses(range(3))["ngram_true_order"], expected, rtol=1e-6)


def test_each_row_may_have_an_order_of_its_own():
    corpus = metalang.corpus("tiny-eval")
    tokens = corpus.batch(range(4)).tokens
    orders = np.array([3, 0, 5, 3])
    got = ngram(tokens, 32, orders)
    for row, order in enumerate(orders):
        np.testing.assert_array_equal(got[row], ngram(tokens[row : row + 1], 32, int(order))[0])
    assert len({row.tobytes() for row in ngram(tokens[[0] * 4], 32, orders)}) == 3


def test_rows_do_not_depend_on_each_other_or_on_threads():
    tokens = metalang.corpus("tiny-eval").batch(range(5)).tokens
    orders = np.array([2, 3, 4, 2, 3])
    whole = score_controls(tokens, 32, orders=orders)
    assert whole.keys() == {*CONTROLS} - {"oracle"}
    threaded = score_controls(tokens, 32, orders=orders, threads=3)
    for name, scores in whole.items():
        np.testing.assert_array_equal(threaded[name], scores)
        alone = [score_controls(tokens[b : b + 1], 32, orders=orders[b : b + 1])[name][0] for b in range(5)]
        np.testing.assert_array_equal(scores, alone)
    np.testing.assert_array_equal(whole["ngram_true_order"], ngram(tokens, 32, orders))
    np.testing.assert_array_equal(whole["ngram"], ngram(tokens, 32, 5))
    np.testing.assert_array_equal(whole["ngram_mixture"], ngram_mixture(tokens, 32, 5))


def test_without_orders_there_is_no_true_order():
    tokens = metalang.corpus("tiny-eval").batch([0]).tokens
    assert "ngram_true_order" not in score_controls(tokens, 32)


def test_a_strided_batch_scores_as_a_plain_one():
    tokens = metalang.corpus("tiny-eval").batch(range(4)).tokens
    strided = np.asfortranarray(tokens)[::2, ::3]
    np.testing.assert_array_equal(ngram(strided, 32), ngram(strided.copy(), 32))


@pytest.mark.parametrize("bad", [-1, 65, [1, 99]])
def test_bad_orders_are_refused(bad):
    with pytest.raises(ValueError, match="max_order is"):
        ngram(np.zeros((2, 3), dtype=np.uint8), 32, np.array(bad))


@pytest.mark.parametrize(
    "tokens",
    [
        np.zeros(3, dtype=np.uint8),
        np.zeros((1, 3)),
        np.full((1, 3), 32, dtype=np.uint8),
        np.full((1, 3), -1),
    ],
    ids=["one axis", "floats", "too high", "negative"],
)
def test_bad_tokens_are_refused(tokens):
    for control in (unigram, ngram, induction):
        with pytest.raises(ValueError, match="tokens"):
            control(tokens, 32)
