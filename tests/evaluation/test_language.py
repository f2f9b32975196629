"""Scores on Meta-Language: groups, controls, memory, and the official number against direct computation."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest

from neophyte import metalang
from neophyte.evaluation.curves import collect_losses, log_bins
from neophyte.evaluation.language import corpus_losses, loss_rows, official_score
from neophyte.metalang import CorpusSpec, TextCorpus, score_controls
from neophyte.metalang.references import CONTROLS

SPEC = CorpusSpec(orders=(1, 2, 3), order_sampling="balanced", context_length=200, pilot_tokens=512)
LENGTH = 64


class Uniform:
    """Predicts ln 32 everywhere, and notes what it was asked."""

    def __init__(self):
        self.seen = []

    def __call__(self, tokens):
        self.seen.append(tokens)
        return np.full(tokens.shape, math.log(32))

    @property
    def tokens(self):
        return np.concatenate(self.seen)


@pytest.fixture(scope="module")
def losses():
    text = TextCorpus(context_length=200).first(5)
    counts = []
    found = corpus_losses(
        {"flat": Uniform()}, metalang.corpus(SPEC), 20, text=text, batch_size=6, progress=counts.append
    )
    assert counts == [6, 6, 6, 2, 5]
    return found


def test_groups_are_orders_and_text(losses):
    assert losses.groups == [*itertools.islice(itertools.cycle([1, 2, 3]), 20), *["text"] * 5]
    assert losses.values.keys() == {"flat", *CONTROLS}
    assert losses.select("oracle", 2).shape == (7, len(losses.edges) - 1)
    assert losses.edges[-1] == 200


def test_scores_are_those_of_the_sequences(losses):
    batch = metalang.corpus(SPEC).batch(np.arange(20), nll=True)
    text = TextCorpus(context_length=200).batch(range(5))
    expected = {"oracle": batch.nll, **score_controls(batch.tokens, 32, orders=batch.orders)}
    widths = np.diff(losses.edges)
    for name, nll in expected.items():
        means = losses.values[name][:20] @ widths / 200
        np.testing.assert_allclose(means, nll.mean(axis=1), rtol=1e-5, err_msg=name)
    for name, nll in score_controls(text, 32).items():
        np.testing.assert_allclose(losses.values[name][20:] @ widths / 200, nll.mean(axis=1), rtol=1e-5, err_msg=name)
    np.testing.assert_allclose(losses.values["flat"], math.log(32), rtol=1e-6)
    # Text has no law and no order.
    assert np.isnan(losses.values["oracle"][20:]).all()
    assert np.isnan(losses.values["ngram_true_order"][20:]).all()
    assert {row["predictor"] for row in losses.rows() if row["group"] == "text"} == {
        "flat", "uniform", "unigram", "ngram", "ngram_mixture", "induction"
    }  # fmt: skip


@pytest.mark.parametrize("order", [1, 2, 3])
def test_nothing_beats_the_oracle(losses, order):
    for name in CONTROLS[1:]:
        difference = losses.select(name, order) - losses.select("oracle", order)
        assert (difference @ np.diff(losses.edges) > 0).all(), name


def test_batches_and_threads_change_nothing(losses):
    other = corpus_losses({"flat": Uniform()}, metalang.corpus(SPEC), 20, batch_size=64, threads=2)
    assert other.groups == losses.groups[:20]
    for name, values in other.values.items():
        np.testing.assert_array_equal(values, losses.values[name][:20])


def test_memory_does_not_grow_with_the_number_of_sequences():
    def peak(sequences):
        corpus = metalang.corpus(SPEC, context_length=2000)
        tracemalloc.start()
        try:
            corpus_losses({"flat": lambda tokens: np.full(tokens.shape, math.log(32))}, corpus, sequences, batch_size=4)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(4)
    few, many = peak(12), peak(96)
    # Their tokens and scores would be 84 x 2,000 x 29 bytes = 4.9 MB; the binned means that stay are 84 x 7 x 160.
    assert many - few < 400_000
    assert few > 200_000


def planted_losses(law, sequences=12, length=512):
    """A model whose loss at position t is `law(t)`, against an oracle at 0.7 and a unigram at 2.5, with some spread."""
    rng = np.random.default_rng(0)
    spread = rng.normal(0.0, 0.1, (sequences, 1))
    scores = {
        "model": law(np.arange(length))[None] + spread,
        "oracle": np.full((sequences, length), 0.7) + spread,
        "unigram": np.full((sequences, length), 2.5) + spread,
    }
    return collect_losses([([3] * sequences, scores)], log_bins(length)), spread[:, 0]


def only(rows, kind):
    return next(row for row in rows if row["kind"] == kind)


def test_rows_say_how_far_the_loss_falls():
    losses, spread = planted_losses(lambda t: np.where(t < 32, 3.0, np.where(t < 300, 2.0, 1.25)))
    rows = loss_rows(losses, "model")
    drop = only(rows, "drop")
    assert (drop["early"], drop["late"]) == pytest.approx((3.0 + spread.mean(), 1.25 + spread.mean()), abs=0.02)
    assert (drop["fall"], drop["half_width"]) == pytest.approx((1.75, 0.0), abs=0.02)
    assert (drop["below_unigram"], drop["below_unigram_half_width"]) == pytest.approx((1.25, 0.0), abs=0.02)
    assert (drop["late_unigram"], drop["late_oracle"]) == pytest.approx((2.5 + spread.mean(), 0.7 + spread.mean()))
    assert (drop["group"], drop["predictor"], drop["sequences"]) == ("3", "model", 12)


@pytest.mark.parametrize(
    ("law", "first", "last"),
    [
        (lambda t: 5.0 - 0.3 * np.log2(t + 1), 0.3, 0.3),
        (lambda t: 5.0 + 0.3 * np.log2(t + 1), -0.3, -0.3),
        (lambda t: np.where(t < 128, 3.0, np.where(t < 256, 2.0, 1.9)), 1.0, 0.1),
        (lambda t: np.full(len(t), 2.0), 0.0, 0.0),
    ],
)
def test_rows_say_how_it_falls_over_the_last_doublings(law, first, last):
    octaves = only(loss_rows(planted_losses(law)[0], "model"), "octaves")
    assert (octaves["first_fall"], octaves["last_fall"]) == pytest.approx((first, last), abs=0.02)
    assert octaves["bend"] == pytest.approx(first - last, abs=0.03)
    # All sequences fall alike, so the intervals are narrow however different the sequences are.
    assert max(octaves[f"{name}_half_width"] for name in ("first_fall", "last_fall", "bend")) < 0.01


def test_rows_say_what_the_model_lacks_against_each_control():
    losses, _ = planted_losses(lambda t: np.where(t < 384, 3.0, 1.25))
    found = {row["control"]: row for row in loss_rows(losses, "model") if row["kind"] == "against"}
    assert found.keys() == {"oracle", "unigram"}
    for control, excess in (("oracle", 0.55), ("unigram", -1.25)):
        assert found[control]["late_difference"] == pytest.approx(excess, abs=1e-5)
        assert found[control]["half_width"] == pytest.approx(0.0, abs=1e-5)


def test_rows_hold_curves_regret_and_a_fit():
    rows = loss_rows(planted_losses(lambda t: 0.7 + 3.0 * np.maximum(t, 0.5) ** -0.5)[0], "model")
    assert {row["kind"] for row in rows} == {"curve", "regret", "fit", "drop", "against", "octaves"}
    assert only(rows, "fit")["exponent"] == pytest.approx(0.5, abs=0.02)
    late = [row for row in rows if row["kind"] == "regret"][-1]
    assert late["mean_nats"] == pytest.approx(3.0 * 480**-0.5, rel=0.05)
    assert late["high_nats"] - late["low_nats"] < 1e-3


class Oracle:
    """The exact law of the first sequences of a preset, in order."""

    def __init__(self, preset, **changes):
        self.corpus, self.next = metalang.corpus(preset, **changes), 0

    def __call__(self, tokens):
        batch = self.corpus.batch(np.arange(self.next, self.next + len(tokens)), nll=True)
        np.testing.assert_array_equal(batch.tokens, tokens)
        self.next += len(tokens)
        return batch.nll


@pytest.mark.parametrize("preset", ["tiny-eval", "eval", "tiny-train"])
def test_the_oracle_scores_zero(preset):
    score = official_score(Oracle(preset, context_length=LENGTH), preset=preset, sequences=3, context_length=LENGTH)
    assert (score.regret, score.low, score.high) == (0.0, 0.0, 0.0)
    assert set(score.by_order.values()) == {0.0}
    assert score.context_length == LENGTH


@pytest.mark.parametrize("batch_size", [5, 16, 1000])
def test_uniform_scores_ln_32_less_the_oracle(batch_size):
    counts = []
    score = official_score(
        Uniform(), preset="tiny-eval", sequences=6, context_length=LENGTH, batch_size=batch_size, progress=counts.append
    )
    batch = metalang.corpus("tiny-eval", context_length=LENGTH).batch(np.arange(18), nll=True)
    regret = math.log(32) - batch.nll[:, LENGTH // 2 :].astype(float)
    assert score.regret == pytest.approx(regret.mean(), rel=1e-9)
    assert score.by_order.keys() == {2, 3, 4}
    for order, value in score.by_order.items():
        assert value == pytest.approx(regret[batch.orders == order].mean(), rel=1e-9)
    assert score.low < score.regret < score.high
    assert sum(counts) == 18
    assert score.sequences == 6


def test_only_the_second_half_counts():
    def late(tokens):
        nll = np.full(tokens.shape, 1e6)
        nll[:, LENGTH // 2 :] = 0.0
        return nll

    score = official_score(late, preset="tiny-eval", sequences=2, context_length=LENGTH)
    batch = metalang.corpus("tiny-eval", context_length=LENGTH).batch(np.arange(6), nll=True)
    assert score.regret == pytest.approx(-batch.nll[:, LENGTH // 2 :].mean(dtype=float))


def test_the_quick_score_takes_the_first_sequences():
    quick, full = Uniform(), Uniform()
    official_score(quick, preset="tiny-eval", sequences=4, context_length=LENGTH)
    official_score(full, preset="tiny-eval", sequences=9, context_length=LENGTH)
    np.testing.assert_array_equal(quick.tokens, full.tokens[:12])
    assert len(full.tokens) == 27


def test_the_official_sequences_are_fixed():
    shown = Uniform()
    score = official_score(shown, sequences=1, context_length=LENGTH)
    expected = metalang.corpus("eval", split="eval", seed=0, context_length=LENGTH).batch(np.arange(7))
    np.testing.assert_array_equal(shown.tokens, expected.tokens)
    assert list(score.by_order) == [2, 3, 4, 5, 6, 7, 8]
    assert score.task == "metalang/eval@1 split eval seed 0"
    assert (score.low, score.high) == (-math.inf, math.inf), "one sequence an order says nothing of the spread"


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda tokens: np.full(tokens.shape, np.nan), "nan"),
        (lambda tokens: np.full(tokens.shape, -3.4), "values from -3.4"),
        (lambda tokens: np.full((1, tokens.shape[1]), 3.4), r"\(1, 16\) for tokens \(7, 16\)"),
        (lambda tokens: tokens, "uint8"),
    ],
    ids=["nan", "log p", "one row", "tokens"],
)
def test_what_cannot_be_a_prediction_is_refused(result, message):
    with pytest.raises(ValueError, match=rf"the predictor returned .*{message}"):
        official_score(result, sequences=1, context_length=16)
    with pytest.raises(ValueError, match="the predictor returned"):
        corpus_losses({"bad": result}, metalang.corpus("eval", context_length=16), 7)


def test_a_score_of_no_sequences_is_refused():
    with pytest.raises(ValueError, match="sequences is 0"):
        official_score(Uniform(), sequences=0)


def test_the_interval_is_the_spread_over_sequences():
    def spread(tokens):
        return np.repeat(np.arange(len(tokens))[:, None] // 3, tokens.shape[1], axis=1).astype(float)

    score = official_score(spread, preset="tiny-eval", sequences=100, context_length=LENGTH, batch_size=300)
    # Regrets of the hundred rows are about 0 to 99: the standard error of their mean is 28.9 / 10.
    assert score.high - score.low == pytest.approx(2 * 1.96 * 28.9 / 10, rel=0.15)


@pytest.mark.parametrize("preset", ["train", "warmup"])
def test_a_preset_without_the_same_number_of_each_order_is_refused(preset):
    with pytest.raises(ValueError, match=f"preset is '{preset}'"):
        official_score(Uniform(), preset=preset, sequences=2, context_length=LENGTH)
