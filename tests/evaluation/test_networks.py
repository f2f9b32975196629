"""Networks as predictors and writers: against one logit at a time, and the cached path against the plain one."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from neophyte.evaluation.networks import continue_tokens, model_predictor
from neophyte.models.decoder import Decoder

# Chance of a false alarm of each statistical test, had its fixed seed been drawn at random.
ALARM = 1e-6


class Noisy(nn.Module):
    """Dropout in training, so that a predictor that forgets evaluation mode is found out."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Embedding(5, 8), nn.Dropout(0.5), nn.Linear(8, 5))
        self.batches = []

    def forward(self, tokens):
        self.batches.append(tuple(tokens.shape))
        return self.layers(tokens)


def cross_entropy(model, tokens):
    """-log p of each token of each sequence, one logit at a time."""
    nll = np.empty(tokens.shape)
    with torch.no_grad():
        for row, sequence in enumerate(tokens):
            fed = torch.tensor([[0, *sequence[:-1].tolist()]])
            for t, logits in enumerate(model(fed)[0].double().numpy()):
                nll[row, t] = np.log(np.exp(logits).sum()) - logits[sequence[t]]
    return nll


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int64])
@pytest.mark.parametrize("make", [Noisy, lambda: Decoder(vocab_size=5, num_layers=1, d_model=8, num_heads=2)])
def test_a_models_predictions_are_its_cross_entropy(make, dtype):
    torch.manual_seed(0)
    model = make()
    tokens = np.random.default_rng(0).integers(0, 5, (6, 17)).astype(dtype)
    found = model_predictor(model.train())(tokens)
    assert found.shape == (6, 17)
    np.testing.assert_allclose(found, cross_entropy(model.eval(), tokens), rtol=1e-5, atol=1e-5)


def test_the_first_token_is_predicted_from_token_0():
    model = Decoder(vocab_size=5, num_layers=1, d_model=8, num_heads=2)
    nll = model_predictor(model)(np.array([[3, 1], [4, 2]], dtype=np.uint8))
    with torch.no_grad():
        expected = -model(torch.tensor([[0]]))[0, 0].log_softmax(dim=-1).numpy()
    np.testing.assert_allclose(nll[:, 0], expected[[3, 4]], rtol=1e-5)


@pytest.mark.parametrize(
    ("max_tokens", "rows"), [(1, [1] * 5), (40, [2, 2, 1]), (59, [2, 2, 1]), (60, [3, 2]), (999, [5])]
)
def test_a_large_batch_is_cut(max_tokens, rows):
    torch.manual_seed(0)
    model, tokens = Noisy(), np.random.default_rng(0).integers(0, 5, (5, 20))
    whole = model_predictor(model)(tokens)
    model.batches.clear()
    np.testing.assert_allclose(model_predictor(model, max_tokens=max_tokens)(tokens), whole, rtol=1e-5)
    assert model.batches == [(count, 20) for count in rows]


class Plain(nn.Module):
    """A decoder that hides that it has a cache, and notes what it is fed."""

    def __init__(self, decoder):
        super().__init__()
        self.decoder, self.fed = decoder, []

    def forward(self, tokens):
        self.fed.append(tokens.clone())
        return self.decoder(tokens)


@pytest.fixture(scope="module")
def decoder():
    torch.manual_seed(0)
    model = Decoder(vocab_size=12, num_layers=2, d_model=16, num_heads=2).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model


TOKENS = torch.tensor([[3, 4, 5, 3, 4], [1, 1, 2, 9, 11]])


@pytest.mark.parametrize("temperature", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("seed", [0, 5])
def test_the_cache_changes_nothing(decoder, temperature, seed):
    plain = Plain(decoder)
    one, other = (continue_tokens(model, TOKENS, 30, temperature, seed) for model in (decoder, plain))
    assert torch.equal(one, other)
    assert one.shape == (2, 30)
    assert torch.equal(plain.fed[0], torch.tensor([[0, 3, 4, 5, 3, 4], [0, 1, 1, 2, 9, 11]]))
    assert [fed.shape[1] for fed in plain.fed] == list(range(6, 36))


def test_greedy_continuation_is_the_argmax(decoder):
    fed = torch.nn.functional.pad(TOKENS, (1, 0))
    for _ in range(8):
        fed = torch.cat([fed, decoder(fed)[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
    assert torch.equal(continue_tokens(decoder, TOKENS, 8, 0.0, 1), fed[:, 6:])


def test_another_seed_continues_otherwise(decoder):
    found = [continue_tokens(decoder, TOKENS, 30, 1.0, seed) for seed in (1, 1, 2)]
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


@pytest.mark.parametrize("cached", [True, False])
def test_continuations_follow_the_law_at_their_temperature(decoder, cached):
    model, count = decoder if cached else Plain(decoder), 4000
    drawn = continue_tokens(model, TOKENS[:1].expand(count, -1), 1, 0.7, 3)[:, 0]
    with torch.no_grad():
        logits = decoder(torch.tensor([[0, 3, 4, 5, 3, 4]]))[0, -1].double()
    law = (logits / 0.7).softmax(dim=-1).numpy()
    counts, common = np.bincount(drawn, minlength=12), law * count >= 5
    observed = np.array([*counts[common], counts[~common].sum()])
    expected = np.array([*law[common], law[~common].sum()]) * count
    kept = expected > 1e-9  # nothing is left over where all tokens are common
    assert kept.sum() >= 3
    assert stats.chisquare(observed[kept], expected[kept]).pvalue > ALARM
