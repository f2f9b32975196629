"""Corpora: any order, any batch, any number of threads, any length; and what their languages are like."""

import dataclasses
import functools
import itertools
import os
import random
import sys
import threading
import tracemalloc
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from neophyte import metalang
from neophyte.metalang import CorpusSpec, Language

# Chance of a false alarm of each statistical test, had its fixed address been drawn at random.
ALARM = 1e-6

QUICK = {"orders": (1, 2, 3), "context_length": 40, "pilot_tokens": 256, "num_sequences": 50}
KINDS = {
    "additive": {},
    "published": {"position_weights": "published"},
    "joint": {"law": "joint"},
    "shared": {"sequences_per_language": 3},
    "wide": {"vocab_size": 600, "hidden_dim": 24},
    "as it comes": {"calibrate": False},
    "two tokens": {"vocab_size": 2, "entropy_band": (0.2, 0.5), "pilot_tokens": 4096},
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def quick(kind="additive", split="train", seed=0, **changes):
    return metalang.corpus(CorpusSpec(**{**QUICK, **KINDS[kind], **changes}), split=split, seed=seed)


@functools.cache
def whole_of(kind):
    """The first 24 sequences, drawn at once."""
    return quick(kind).batch(np.arange(24), nll=True)


def assert_rows(batch, whole, rows):
    for field in dataclasses.fields(batch):
        np.testing.assert_array_equal(getattr(batch, field.name), getattr(whole, field.name)[rows])


@given(st.sampled_from(sorted(KINDS)), st.lists(st.integers(0, 23), min_size=1, max_size=30), st.integers(1, 5))
def test_a_sequence_depends_on_its_index_alone(kind, indices, threads):
    # Not on the batch's size and order, on repeats in it, or on the threads; batch mates share languages or do not.
    assert_rows(quick(kind).batch(indices, nll=True, threads=threads), whole_of(kind), indices)


@each_kind
def test_asking_for_nll_does_not_change_the_tokens(kind):
    batch = quick(kind).batch(np.arange(24))
    np.testing.assert_array_equal(batch.tokens, whole_of(kind).tokens)
    assert batch.nll.shape == (24, 0)


@each_kind
def test_nll_is_that_of_the_sequences_own_language(kind):
    corpus, whole = quick(kind), whole_of(kind)
    for index in (0, 1, 2, 17):
        language = corpus.language(index)
        assert language.order == whole.orders[index]
        assert np.float32(language.lam) == whole.lam[index]
        np.testing.assert_array_equal(language.nll(whole.tokens[index]), whole.nll[index])


@each_kind
def test_a_longer_context_begins_as_a_shorter_one(kind):
    longer = quick(kind, context_length=97).batch(np.arange(24), nll=True)
    np.testing.assert_array_equal(longer.tokens[:, :40], whole_of(kind).tokens)
    np.testing.assert_array_equal(longer.nll[:, :40], whole_of(kind).nll)
    assert len({row.tobytes() for row in longer.tokens}) == 24


@each_kind
@pytest.mark.parametrize("length", [1, 7, 40, 1000])
def test_pieces_join_to_the_sequence(kind, length):
    whole = whole_of(kind)
    pieces = list(quick(kind).pieces(5, length))
    assert all(len(piece.tokens) == min(length, 40) for piece in pieces[:-1])
    np.testing.assert_array_equal(np.concatenate([piece.tokens for piece in pieces]), whole.tokens[5])
    np.testing.assert_array_equal(np.concatenate([piece.nll for piece in pieces]), whole.nll[5])


def test_pieces_of_a_long_sequence_join_to_it():
    # Longer than a kernel's own piece, 4,096 tokens, and not a multiple of it or of two.
    corpus = quick(context_length=10_007)
    pieces = list(corpus.pieces(3, 1001))
    whole = corpus.batch([3], nll=True)
    np.testing.assert_array_equal(np.concatenate([piece.tokens for piece in pieces]), whole.tokens[0])
    np.testing.assert_array_equal(np.concatenate([piece.nll for piece in pieces]), whole.nll[0])


def peak_of_pieces(length):
    corpus = quick(context_length=length)
    for _ in corpus.pieces(0, 1000):
        pass
    tracemalloc.start()
    try:
        for _ in corpus.pieces(0, 1000):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_pieces_take_constant_memory():
    # The tokens and scores of 100,000 tokens would be 500 KB.
    short, long = peak_of_pieces(5_000), peak_of_pieces(100_000)
    assert long < short + 20_000
    assert long < 200_000


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's /proc")
def test_pieces_of_a_very_long_sequence_do_not_leak():
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    # The kernels' own memory is not traced above. All tokens and scores of 2,000,000 tokens would be 10 MB.
    for number, _ in enumerate(quick(context_length=2_000_000).pieces(0, 20_000)):
        if number == 10:
            before = resident()
    assert number == 99
    assert resident() - before < 4_000_000


def test_sequences_share_languages_as_they_should():
    corpus = quick("shared", orders=(1, 2, 3, 4, 5, 6, 7, 8))
    languages = [corpus.language(index) for index in range(12)]
    thetas = [language.theta()["embedding"].tobytes() for language in languages]
    assert all((thetas[i] == thetas[j]) == (i // 3 == j // 3) for i, j in itertools.combinations(range(12), 2))
    batch = corpus.batch(np.arange(12))
    assert len(np.unique(batch.tokens, axis=0)) == 12
    for field in (batch.orders, batch.lam):
        np.testing.assert_array_equal(field, np.repeat(field[::3], 3))
    assert len(np.unique(batch.lam)) == 4
    # Language i is the same, however many sequences it has.
    alone = quick(orders=(1, 2, 3, 4, 5, 6, 7, 8))
    np.testing.assert_array_equal(alone.language(2).theta()["weights"], languages[6].theta()["weights"])
    expected = Language.draw(corpus.spec, "train", 0, 3)
    np.testing.assert_array_equal(expected.theta()["weights"], languages[11].theta()["weights"])


def test_balanced_orders_take_turns():
    corpus = quick(order_sampling="balanced", orders=(2, 5, 3), sequences_per_language=2)
    assert corpus.orders(np.arange(8)).tolist() == [2, 2, 5, 5, 3, 3, 2, 2]


def test_uniform_orders_are_uniform_and_independent():
    corpus = quick(orders=(3, 4, 5, 6))
    orders = corpus.orders(np.arange(20_000))
    assert stats.chisquare(np.bincount(orders)[3:]).pvalue > ALARM
    pairs = np.bincount((orders[:-1:2] - 3) * 4 + orders[1::2] - 3, minlength=16)
    assert stats.chisquare(pairs).pvalue > ALARM
    np.testing.assert_array_equal(corpus.orders(np.arange(24)), corpus.batch(np.arange(24)).orders)


@pytest.mark.parametrize(
    "changes",
    [{"seed": 1}, {"split": "eval"}, {"kind": "joint"}, {"sigma": 1.1}, {"entropy_band": (0.5, 0.9)}],
    ids=str,
)
def test_another_address_gives_other_sequences(changes):
    kind = changes.pop("kind", "additive")
    other = quick(kind, **changes).batch(np.arange(24)).tokens
    rows = {row.tobytes() for row in whole_of("additive").tokens} | {row.tobytes() for row in other}
    assert len(rows) == 48


def test_seed_43_is_not_seed_42_shifted():
    rows = [{row.tobytes() for row in quick(seed=seed).batch(np.arange(40)).tokens} for seed in (42, 43)]
    assert len(rows[0] | rows[1]) == 80


def test_a_stream_goes_on_without_end_or_repeats():
    corpus = quick()
    batches = list(itertools.islice(corpus.stream(12, start=6), 5))
    expected = corpus.batch(np.arange(6, 66)).tokens
    np.testing.assert_array_equal(np.concatenate(batches), expected)
    assert len(np.unique(expected, axis=0)) == 60
    np.testing.assert_array_equal(next(corpus.stream(12, start=18, threads=3)), batches[1])


def test_indices_far_away_are_as_good_as_near_ones():
    corpus = quick()
    far = corpus.batch([2**62, 2**63 - 1]).tokens
    assert not np.array_equal(far[0], far[1])


def test_a_corpus_is_a_sequence_of_sequences():
    corpus = quick()
    assert len(corpus) == 50
    np.testing.assert_array_equal(corpus[7], whole_of("additive").tokens[7])
    np.testing.assert_array_equal(corpus[-1], corpus[49])
    for index in (50, -51):
        with pytest.raises(IndexError, match=rf"index is {index}; allowed: \[0, 50\)"):
            corpus[index]


@pytest.mark.parametrize(("vocab_size", "dtype"), [(256, np.uint8), (257, np.uint16)])
def test_tokens_are_as_small_as_they_can_be(vocab_size, dtype):
    assert quick(vocab_size=vocab_size, hidden_dim=8).batch([0]).tokens.dtype == dtype


@pytest.mark.parametrize(
    "indices", [[-1], [2**63], np.array([2**63], dtype=np.uint64), [0.5], [], [[0]], 3, [True], "0"], ids=str
)
def test_bad_indices_are_refused(indices):
    corpus = quick()
    for method in (corpus.batch, corpus.orders):
        with pytest.raises(ValueError, match="indices"):
            method(indices)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: quick(seed=-1), "seed is -1"),
        (lambda: quick(seed=True), "seed is True"),
        (lambda: quick(seed=2**63), "seed is 9223372036854775808"),
        (lambda: quick().batch([0], threads=0), "threads is 0"),
        (lambda: next(quick().stream(0)), "batch_size is 0"),
        (lambda: next(quick().stream(1, start=-1)), "start is -1"),
        (lambda: next(quick().pieces(-1, 5)), "index is -1"),
        (lambda: next(quick().pieces(0, 0)), "length is 0"),
        (lambda: quick().language(2**63), "index is 9223372036854775808"),
        (lambda: metalang.corpus("train", context_length=0), "context_length is 0"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_preset_has_its_own_split_and_takes_changes():
    corpus = metalang.corpus("eval", seed=3, context_length=16)
    assert (corpus.split, corpus.seed, corpus.spec.context_length) == ("eval", 3, 16)
    assert corpus.spec.orders == (2, 3, 4, 5, 6, 7, 8)
    assert metalang.corpus("eval", split="train").split == "train"
    assert metalang.corpus(CorpusSpec()).split == "train"


def test_numpy_numbers_make_the_same_corpus():
    plain = metalang.corpus("tiny-eval", seed=3, context_length=16, orders=(2,), lam=4.0, calibrate=False)
    scalars = {"context_length": np.int32(16), "orders": (np.int64(2),), "lam": np.float32(4.0)}
    other = metalang.corpus("tiny-eval", seed=np.int64(3), calibrate=np.bool_(False), **scalars)
    assert other.spec == plain.spec
    assert other.spec.identity == plain.spec.identity
    np.testing.assert_array_equal(other[np.int64(1)], plain[1])
    assert other.language(np.int64(1)).order == 2


def test_losses_and_canonical_rows_are_the_sequences_own():
    corpus = quick("shared", context_length=200)
    batch = corpus.batch([4, 2], nll=True)
    losses = corpus.losses([4, 2])
    np.testing.assert_allclose(losses["oracle"], batch.nll.mean(axis=1), rtol=1e-6)
    expected = metalang.score_controls(batch.tokens, 32, orders=batch.orders)
    assert losses.keys() == {"oracle", *expected}
    np.testing.assert_allclose(losses["ngram_true_order"], expected["ngram_true_order"].mean(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(corpus.canonical([4, 2]), batch.tokens[:, :128])
    np.testing.assert_array_equal(quick().canonical([4]), whole_of("additive").tokens[[4]])


def test_specs_and_corpora_touch_no_global_state():
    def state():
        return (
            repr(np.random.get_state()),
            random.getstate(),
            dict(os.environ),
            numba.config.CACHE_DIR,
            numba.config.NUMBA_NUM_THREADS,  # numba.get_num_threads() would set OpenMP's, and so torch's
            threading.active_count(),
            np.geterr(),
            sys.getrecursionlimit(),
        )

    np.random.seed(123)
    random.seed(123)
    before = state()
    corpus = metalang.corpus("tiny-train", seed=7)
    corpus.batch(np.arange(4), nll=True, threads=2)
    corpus.losses([0])
    metalang.TextCorpus(context_length=100)[3]
    assert state() == before


def entropies(law, orders, languages):
    spec = CorpusSpec(orders=orders, order_sampling="balanced", law=law, context_length=4096)
    batch = metalang.corpus(spec, split="calibration").batch(np.arange(languages * len(orders)), nll=True)
    return batch.nll.astype(np.float64).mean(axis=1), batch.orders


@pytest.mark.parametrize(("law", "languages"), [("additive", 150), ("joint", 40)])
def test_calibrated_languages_lie_in_the_band(law, languages):
    # 97 % of languages at least (shared/spec/metalang.md, section 1) have a realised mean -log p over 4,096 tokens
    # inside [0.5, 1]; the counts allowed here are undercut with probability 1e-6 at exactly 97 %.
    orders = (2, 3, 4, 5, 6, 7, 8)
    means, drawn = entropies(law, orders, languages)
    inside = (means >= 0.5) & (means <= 1.0)
    assert inside.sum() >= stats.binom.ppf(ALARM, len(means), 0.97)
    for order in orders:
        assert inside[drawn == order].sum() >= stats.binom.ppf(ALARM / len(orders), languages, 0.97)
    # Targets are uniform on [0.6, 0.9]: their mean is 0.75 and its deviation 0.0866 / sqrt(count), which the
    # sequences' own spread, about 0.04 each, widens little.
    assert abs(means.mean() - 0.75) < stats.norm.isf(ALARM / 2) * 0.1 / np.sqrt(len(means))
    assert 0.06 < means.std() < 0.13


def test_uncalibrated_languages_have_lam_as_given_and_leave_the_band():
    # The reference's behaviour: lam = 5, and 7-37 % of the languages outside (shared/spec/metalang.md, section 1).
    spec = CorpusSpec(calibrate=False, lam=5.0, orders=(3, 4, 5, 6))
    batch = metalang.corpus(spec).batch(np.arange(200), nll=True)
    np.testing.assert_array_equal(batch.lam, np.full(200, 5.0, dtype=np.float32))
    means = batch.nll.astype(np.float64).mean(axis=1)
    outside = int(((means < 0.5) | (means > 1.0)).sum())
    assert stats.binomtest(outside, 200, 0.07, "less").pvalue > ALARM
    assert stats.binomtest(outside, 200, 0.37, "greater").pvalue > ALARM
    # lam is no start of a calibration: 5 and another value give other laws of the same kind.
    assert means.std() > 0.05


def test_a_corpus_shows_what_it_is():
    text = repr(quick(split="eval", seed=4))
    assert "split='eval'" in text
    assert "seed=4" in text
    assert "vocab_size=32" in text
