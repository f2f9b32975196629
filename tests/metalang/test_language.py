"""Languages against an independent twin in double precision, and what the two laws promise."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from neophyte.core.addressing import Space
from neophyte.metalang import CorpusSpec, Language, LanguageSpec
from neophyte.metalang.kernels import TABLE_LIMIT

from . import twin

# Chance of a false alarm of each statistical test, had its fixed address been drawn at random.
ALARM = 1e-6

SMALL = {"embedding_dim": 8, "hidden_dim": 24, "pilot_tokens": 256}


def draw(index=0, seed=0, **fields):
    return Language.draw(LanguageSpec(**{"pilot_tokens": 256, **fields}), seed=seed, index=index)


def random_tokens(language, count, seed=1):
    """Tokens that the language would never say, so that all its contexts are met."""
    return np.random.default_rng(seed).integers(0, language.spec.vocab_size, count)


def key_of(language, index=0):
    return Space("test@1", "train").keys("tokens", [index])[0]


NARROW = (0.2, 0.5)  # a band for vocabularies whose ln N is below 1
LANGUAGES = {
    "additive, n = 1": {"orders": (1,)},
    "additive, n = 2": {"orders": (2,)},
    "additive, n = 3": {"orders": (3,)},
    "additive, n = 6": {"orders": (6,)},
    "additive, n = 17": {"orders": (17,), **SMALL},
    "published, n = 1": {"orders": (1,), "position_weights": "published"},
    "published, n = 2": {"orders": (2,), "position_weights": "published"},
    "published, n = 5": {"orders": (5,), "position_weights": "published"},
    "joint, n = 1": {"orders": (1,), "law": "joint"},
    "joint, n = 2": {"orders": (2,), "law": "joint"},
    "joint, n = 5": {"orders": (5,), "law": "joint"},
    "joint, gain = 3": {"orders": (3,), "law": "joint", "gain": 3.0},
    "N = 2": {"orders": (3,), "vocab_size": 2, "entropy_band": NARROW},
    "N = 2, joint": {"orders": (4,), "vocab_size": 2, "entropy_band": NARROW, "law": "joint"},
    "N = 5": {"orders": (2,), "vocab_size": 5},
    "N = 13, joint": {"orders": (3,), "vocab_size": 13, "law": "joint"},
    "N = 33": {"orders": (4,), "vocab_size": 33},
    "N = 257": {"orders": (2,), "vocab_size": 257, **SMALL},
    "N = 600, above the tables": {"orders": (3,), "vocab_size": 600, **SMALL},
    "N = 600, even order": {"orders": (2,), "vocab_size": 600, **SMALL},
    "N = 600, published": {"orders": (3,), "vocab_size": 600, "position_weights": "published", **SMALL},
    "N = 600, joint": {"orders": (3,), "vocab_size": 600, "law": "joint", **SMALL},
    "sigma = 0.3": {"orders": (3,), "sigma": 0.3},
    "odd sizes": {"orders": (3,), "vocab_size": 11, "embedding_dim": 3, "hidden_dim": 7},
    "lam = 5": {"orders": (4,), "calibrate": False, "lam": 5.0},
}
each_language = pytest.mark.parametrize("fields", LANGUAGES.values(), ids=LANGUAGES.keys())


def test_some_vocabulary_lies_above_the_limit_of_the_tables():
    assert 257 <= TABLE_LIMIT < 600


@each_language
@pytest.mark.parametrize("own", [False, True], ids=["any tokens", "its own tokens"])
def test_a_language_is_its_twin(fields, own):
    language = draw(index=3, **fields)
    sequence = language.sample(key_of(language), 120)
    tokens = sequence.tokens if own else random_tokens(language, 120)
    expected = twin.laws(language, tokens)
    law, nll = language.law(tokens), language.nll(tokens)
    assert law.dtype == nll.dtype == np.float32
    assert np.abs(law - expected).max() <= 1e-5
    expected_nll = -np.log(expected[np.arange(len(tokens)), tokens])
    assert np.abs(nll - expected_nll).max() <= 1e-4
    if own:
        np.testing.assert_array_equal(sequence.nll, nll)


@each_language
def test_laws_are_distributions_and_nll_is_their_logarithm(fields):
    language = draw(**fields)
    tokens = random_tokens(language, 300)
    law = language.law(tokens).astype(np.float64)
    assert law.shape == (300, language.spec.vocab_size)
    assert law.min() > 0.0
    np.testing.assert_allclose(law.sum(axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(language.nll(tokens), -np.log(law[np.arange(300), tokens]), atol=1e-5, rtol=1e-6)


@pytest.mark.parametrize("law", ["additive", "joint"])
def test_theta_is_the_stream_in_order(law):
    spec = LanguageSpec(law=law, orders=(3,), vocab_size=10, embedding_dim=4, hidden_dim=6, sigma=0.7)
    n, N, d, H = 3, 10, 4, 6
    shapes = {
        "embedding": (N, d),
        "weights": (n, d, H),
        "hidden_bias": (n if law == "additive" else 1, H),
        "output": (H, N),
        "output_bias": (N,),
    }
    sizes = [math.prod(shape) for shape in shapes.values()]
    normals = Space(spec.identity, "eval", 4).stream("theta", 6).normal(sum(sizes)) * 0.7
    parts = np.split(normals, np.cumsum(sizes)[:-1])
    theta = Language.draw(spec, "eval", 4, 6).theta()
    assert theta.keys() == shapes.keys()
    for (name, shape), part in zip(shapes.items(), parts, strict=True):
        expected = part.reshape(shape)
        if name.startswith("output"):
            expected = expected - expected.mean(axis=-1, keepdims=True)
        assert theta[name].dtype == np.float32
        np.testing.assert_allclose(theta[name], expected, rtol=3e-7, atol=3e-7)


def test_theta_is_normal():
    parts = [draw(index=index, sigma=2.0).theta() for index in range(4)]
    for name in ("embedding", "weights", "hidden_bias"):
        values = np.concatenate([part[name].ravel() for part in parts])
        assert stats.kstest(values, "norm", args=(0.0, 2.0)).pvalue > ALARM


def effect_of_token(language, place):
    """Return the largest change of a probability when the token at `place` of a context, oldest first, changes."""
    N, n = language.spec.vocab_size, language.order
    contexts = np.random.default_rng(5).integers(0, N, (20, n))
    changed = contexts.copy()
    changed[:, place] = (changed[:, place] + 1) % N
    return max(
        np.abs(language.law([0], one) - language.law([0], other)).max()
        for one, other in zip(contexts, changed, strict=True)
    )


@pytest.mark.parametrize("n", [1, 2, 3, 8])
@pytest.mark.parametrize("law", ["additive", "joint", "published"])
@pytest.mark.parametrize("vocab_size", [32, 600])
def test_every_token_of_the_order_counts_and_no_other(law, n, vocab_size):
    fields = {"position_weights": "published"} if law == "published" else {"law": law}
    language = draw(orders=(n,), vocab_size=vocab_size, **fields, **SMALL)
    effects = [effect_of_token(language, place) for place in range(n)]
    if law == "published":
        assert effects[0] == 0.0
        effects = effects[1:]
    assert all(effect > 0.01 for effect in effects)
    # What lies further back does not count: a context of n tokens decides, wherever it stands.
    tokens = random_tokens(language, 40)
    last = language.law(tokens, random_tokens(language, n))[n:]
    np.testing.assert_array_equal(last, language.law(tokens[n:], tokens[:n]))


def distance_from_additive(language, place=0, pairs=6):
    """Return the least and greatest of `pairs` measures that are zero where each logit is a sum of one-token functions.

    The laws after (a, b), (a', b), (a, b') and (a', b'), at `place` and at the newest token, give their centred logits
    up to a positive factor each (lam / std). If the logits are additive, their double difference vanishes, so the four
    vectors are linearly dependent, and the smallest singular value of the four directions is zero.
    """
    n, rng = language.order, np.random.default_rng(11)
    values = []
    for _ in range(pairs):
        one, other = rng.permutation(language.spec.vocab_size)[: 2 * n].reshape(2, n)
        contexts = []
        for first, second in itertools.product((False, True), repeat=2):
            context = one.copy()
            context[place], context[-1] = (other if first else one)[place], (other if second else one)[-1]
            contexts.append(context)
        logs = np.array([np.log(language.law([0], context)[0].astype(np.float64)) for context in contexts])
        logs -= logs.mean(axis=1, keepdims=True)
        values.append(np.linalg.svd(logs / np.linalg.norm(logs, axis=1, keepdims=True))[1].min())
    return min(values), max(values)


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("vocab_size", [32, 600])
def test_additive_is_additive_and_joint_is_not(n, vocab_size):
    fields = {"orders": (n,), "vocab_size": vocab_size, "calibrate": False, "lam": 5.0, **SMALL}
    assert distance_from_additive(draw(**fields))[1] < 1e-5
    if n > 2:  # the oldest token has no say
        assert distance_from_additive(draw(position_weights="published", **fields), place=1)[1] < 1e-5
    assert distance_from_additive(draw(law="joint", **fields))[0] > 0.01


def test_gain_takes_the_joint_law_further_from_additive():
    distances = [
        np.mean([distance_from_additive(draw(law="joint", gain=gain, orders=(3,), index=i))[0] for i in range(5)])
        for gain in (0.05, 0.3, 1.0)
    ]
    assert distances[0] < 0.5 * distances[1]
    assert distances[1] < 0.5 * distances[2]


def transform(law, tokens, rng):
    """Return the randomised probability integral transform of tokens: independent uniforms, if they follow the law."""
    law = law.astype(np.float64)
    below = np.cumsum(law, axis=1) - law
    rows = np.arange(len(tokens))
    return below[rows, tokens] + rng.random(len(tokens)) * law[rows, tokens]


@pytest.mark.parametrize(
    "fields",
    [
        {"orders": (3,)},
        {"orders": (2,), "law": "joint"},
        {"orders": (2,), "vocab_size": 5},
        {"orders": (3,), "vocab_size": 2, "entropy_band": NARROW},
        {"orders": (2,), "vocab_size": 600, "calibrate": False, "lam": 1.0, **SMALL},
    ],
    ids=str,
)
def test_tokens_follow_the_law(fields):
    language = draw(**fields)
    count = 40_000
    sequence = language.sample(key_of(language, 8), count)
    law = language.law(sequence.tokens).astype(np.float64)
    uniforms = transform(law, sequence.tokens, np.random.default_rng(3))
    assert stats.kstest(uniforms, "uniform").pvalue > ALARM
    # Neighbours are independent: a sum of products of centred uniforms has variance count / 144.
    centred = uniforms - 0.5
    score = (centred[1:] * centred[:-1]).sum() / math.sqrt((count - 1) / 144)
    assert abs(score) < stats.norm.isf(ALARM / 2)
    # The mean of -log p is the mean entropy, up to a martingale with this variance.
    logs = -np.log(law)
    entropy = (law * logs).sum(axis=1)
    variance = (law * logs**2).sum(axis=1) - entropy**2
    score = (sequence.nll.astype(np.float64) - entropy).sum() / math.sqrt(variance.sum())
    assert abs(score) < stats.norm.isf(ALARM / 2)


def test_first_tokens_follow_the_law():
    # At this low lam all 13 tokens are drawn often, and so are all pairs of the first two.
    language = draw(orders=(2,), vocab_size=13, calibrate=False, lam=0.6)
    count = 20_000
    keys = Space("test@1", "train").keys("tokens", np.arange(count))
    first = np.array([language.sample(key, 2).tokens for key in keys])
    law = language.law([0])[0].astype(np.float64)
    pairs = np.array([law[x] * language.law([x, 0])[1].astype(np.float64) for x in range(13)])
    observed = np.bincount(first[:, 0].astype(int) * 13 + first[:, 1], minlength=169)
    assert stats.chisquare(np.bincount(first[:, 0], minlength=13), law * count / law.sum()).pvalue > ALARM
    assert (pairs * count).min() > 5
    assert stats.chisquare(observed, pairs.ravel() * count / pairs.sum()).pvalue > ALARM


@pytest.mark.parametrize("fields", [{"orders": (3,)}, {"orders": (4,), "law": "joint"}], ids=str)
@pytest.mark.parametrize("lengths", [(1, 1, 2, 3, 93), (50, 50), (99, 1)])
def test_a_sequence_in_pieces_is_the_sequence(fields, lengths):
    language = draw(**fields)
    key = key_of(language)
    whole = language.sample(key, 100)
    start, context, tokens, nll = 0, None, [], []
    for length in lengths:
        piece = language.sample(key, length, start, context)
        start, context = start + length, piece.context
        tokens.append(piece.tokens)
        nll.append(piece.nll)
    np.testing.assert_array_equal(np.concatenate(tokens), whole.tokens)
    np.testing.assert_array_equal(np.concatenate(nll), whole.nll)
    np.testing.assert_array_equal(context, whole.context)
    np.testing.assert_array_equal(context, whole.tokens[-language.order :])


def test_scoring_in_pieces_is_scoring():
    language = draw(orders=(3,))
    tokens = random_tokens(language, 50)
    parts = [language.law(tokens[:20]), language.law(tokens[20:], tokens[17:20])]
    np.testing.assert_array_equal(np.concatenate(parts), language.law(tokens))


def test_a_sampled_context_is_not_the_callers():
    language = draw(orders=(2,))
    context = np.array([3, 4])
    language.sample(key_of(language), 10, 5, context)
    assert context.tolist() == [3, 4]


def test_a_language_is_its_address():
    one, same = draw(index=5, seed=2), draw(index=5, seed=2)
    assert (one.order, one.lam) == (same.order, same.lam)
    np.testing.assert_array_equal(one.theta()["weights"], same.theta()["weights"])
    others = [draw(index=6, seed=2), draw(index=5, seed=3), Language.draw(one.spec, "eval", 2, 5)]
    embeddings = {language.theta()["embedding"].tobytes() for language in (one, *others)}
    assert len(embeddings) == 4


def test_extents_do_not_change_a_language():
    corpus = CorpusSpec(context_length=5, num_sequences=2, sequences_per_language=3)
    np.testing.assert_array_equal(
        Language.draw(corpus, index=4).theta()["output"], Language.draw(LanguageSpec(), index=4).theta()["output"]
    )


@pytest.mark.parametrize("target", [0.6, 0.9])
def test_calibration_meets_its_target(target):
    # A band so narrow that every target lies in its middle. The pilot is long, so what is left is the sequence's own
    # spread: a run of 50,000 tokens was never off by more than 0.02 nats in 40 languages.
    band = (target - 1e-6, target + 1e-6)
    for index in range(4):
        language = draw(index=index, entropy_band=band, pilot_tokens=100_000)
        assert language.sample(key_of(language), 50_000).nll.mean() == pytest.approx(target, abs=0.03)


def test_without_calibration_lam_is_as_given():
    assert draw(calibrate=False, lam=5.0).lam == 5.0
    assert draw(calibrate=False, lam=0.1).lam == np.float32(0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1, 2]],), "tokens has shape"),
        (([0.5],), "tokens has shape"),
        (([32],), r"tokens lie in \[32, 32\]; allowed: integers in \[0, 32\)"),
        (([-1],), "tokens lie in"),
        (([1], [1]), r"context has shape \(1,\); allowed: \(2,\)"),
        (([1], [1, 32]), "context lie in"),
        (([1], [-1, 0]), "context lie in"),
        (([1], [0.5, 0.5]), "context has shape"),
    ],
    ids=str,
)
def test_bad_tokens_and_contexts_are_refused(arguments, message):
    language = draw(orders=(2,))
    for method in (language.law, language.nll):
        with pytest.raises(ValueError, match=message):
            method(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 3), "context is None"),
        ((5, -1, [0, 0]), "start is -1"),
        ((-5,), "length is -5"),
        ((5, 3, [0, 32]), "context lie in"),
        ((5, 3, [0]), "context has shape"),
    ],
    ids=str,
)
def test_bad_samples_are_refused(arguments, message):
    language = draw(orders=(2,))
    with pytest.raises(ValueError, match=message):
        language.sample(key_of(language), *arguments)


@pytest.mark.parametrize("index", [-1, 2**63, 1.5])
def test_bad_indices_are_refused(index):
    with pytest.raises(ValueError, match="index is"):
        Language.draw(LanguageSpec(), index=index)


def test_scoring_no_token_is_no_score():
    language = draw(orders=(2,))
    assert language.law([]).shape == (0, 32)
    assert language.nll([]).shape == (0,)
