"""The decoder against a plain float64 twin, and its cache against none."""

import numpy as np
import pytest
import torch
from scipy import special, stats

from neophyte.models.decoder import Decoder, KeyValueCache
from neophyte.models.loading import build_model, count_parameters, model_config
from neophyte.models.presets import PRESETS

# Chance of a false alarm of each statistical test, had its fixed seed been drawn at random.
ALARM = 1e-6


def random_decoder(seed=0, **sizes):
    """A small decoder whose every parameter is random: biases and norms start at 0 and 1, where errors would hide."""
    torch.manual_seed(seed)
    model = Decoder(**{"vocab_size": 11, "num_layers": 2, "d_model": 24, "num_heads": 3, **sizes})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model.eval()


def some_tokens(batch, time, vocab_size=11, seed=1):
    return torch.randint(0, vocab_size, (batch, time), generator=torch.Generator().manual_seed(seed))


def layer_norm(x, weight, bias):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5) * weight + bias


def turned(heads, theta):
    """Rotary embedding in complex numbers: the pair (i, i + half) of position t turns by t theta^(-i / half)."""
    half = heads.shape[-1] // 2
    angles = np.arange(len(heads))[:, None] * theta ** (-np.arange(half) / half)
    z = (heads[:, :half] + 1j * heads[:, half:]) * np.exp(1j * angles)
    return np.concatenate([z.real, z.imag], axis=-1)


def twin(model, tokens, num_heads, theta):
    """The forward pass of one sequence in NumPy float64, a head and a position at a time."""
    left = {name: value.double().numpy() for name, value in model.state_dict().items()}
    x = left.pop("embedding.weight")[tokens.numpy()]
    width = x.shape[1] // num_heads
    layers = sum(name.endswith("query_key_value.weight") for name in left)
    for block in (f"blocks.{layer}." for layer in range(layers)):
        normed = layer_norm(x, left.pop(block + "attention_norm.weight"), left.pop(block + "attention_norm.bias"))
        query, key, value = np.split(normed @ left.pop(block + "query_key_value.weight").T, 3, axis=1)
        mixed = np.zeros_like(x)
        for head in (slice(i * width, (i + 1) * width) for i in range(num_heads)):
            q, k, v = turned(query[:, head], theta), turned(key[:, head], theta), value[:, head]
            for t in range(len(x)):
                scores = np.exp(q[t] @ k[: t + 1].T / np.sqrt(width))
                mixed[t, head] = scores / scores.sum() @ v[: t + 1]
        x = x + mixed @ left.pop(block + "attention_out.weight").T + left.pop(block + "attention_out.bias")
        normed = layer_norm(x, left.pop(block + "feed_forward_norm.weight"), left.pop(block + "feed_forward_norm.bias"))
        hidden = normed @ left.pop(block + "feed_forward_in.weight").T + left.pop(block + "feed_forward_in.bias")
        hidden = hidden * special.ndtr(hidden)  # GELU, exact
        x = x + hidden @ left.pop(block + "feed_forward_out.weight").T + left.pop(block + "feed_forward_out.bias")
    x = layer_norm(x, left.pop("final_norm.weight"), left.pop("final_norm.bias"))
    logits = x @ left.pop("head.weight").T + left.pop("head.bias")
    assert not left, f"parameters that the formula does not have: {sorted(left)}"
    return logits


@pytest.mark.parametrize(("name", "count"), [("tiny", 303_008), ("small", 9_484_832), ("standard", 151_185_440)])
def test_table_1_has_the_published_counts(name, count):
    with torch.device("meta"):
        assert count_parameters(build_model(model_config(name, {"vocab_size": 32}))) == count


def test_presets_are_those_of_table_1():
    sizes = {name: tuple(PRESETS[name].values()) for name in ("tiny", "small", "standard")}
    assert sizes == {"tiny": (6, 64, 4), "small": (12, 256, 8), "standard": (12, 1024, 16)}


@pytest.mark.parametrize(
    ("sizes", "theta"),
    [({}, 10_000.0), ({"num_layers": 1, "d_model": 8, "num_heads": 4}, 10_000.0), ({"rope_theta": 50.0}, 50.0)],
)
def test_forward_is_the_formula(sizes, theta):
    model, tokens = random_decoder(**sizes), some_tokens(2, 19)
    with torch.no_grad():
        logits = model(tokens)
    for row in range(2):
        expected = twin(model, tokens[row], sizes.get("num_heads", 3), theta)
        assert np.abs(expected).max() > 0.5
        np.testing.assert_allclose(logits[row].double().numpy(), expected, atol=1e-4, rtol=1e-4)


def test_a_token_changes_no_earlier_logits_and_all_later_ones():
    model, tokens = random_decoder(), some_tokens(1, 12)
    with torch.no_grad():
        before = model(tokens)[0]
        for t in range(12):
            changed = tokens.clone()
            changed[0, t] = (changed[0, t] + 1) % 11
            difference = (model(changed)[0] - before).abs().amax(dim=-1)
            assert (difference[:t] == 0).all()
            assert (difference[t:] > 1e-4).all()


@pytest.mark.parametrize("chunks", [[1] * 13, [13], [5, 8], [4, 1, 1, 6, 1], [1, 12]], ids=str)
def test_cache_gives_the_logits_of_a_whole_pass(chunks):
    model, tokens = random_decoder(), some_tokens(3, 13)
    cache = KeyValueCache(model, 3, 20)
    with torch.no_grad():
        parts = [model(piece, cache) for piece in tokens.split(chunks, dim=1)]
        torch.testing.assert_close(torch.cat(parts, dim=1), model(tokens), atol=1e-5, rtol=1e-5)
    assert cache.length == 13


@torch.no_grad()
def test_an_overfull_cache_says_so():
    model, tokens = random_decoder(), some_tokens(1, 6)
    cache = KeyValueCache(model, 1, 5)
    model(tokens[:, :4], cache)
    with pytest.raises(ValueError, match="the cache holds 5 tokens; 6 were fed"):
        model(tokens[:, 4:], cache)
    # The token that still has room is scored as if nothing had happened.
    torch.testing.assert_close(model(tokens[:, 4:5], cache), model(tokens[:, :5])[:, 4:], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_generation_at_temperature_0_takes_the_likeliest_token():
    model, fed = random_decoder(), some_tokens(4, 5)
    drawn = model.generate(fed, 10, temperature=0)
    for _ in range(10):
        fed = torch.cat([fed, model(fed)[:, -1:].argmax(dim=-1)], dim=1)
    assert torch.equal(drawn, fed[:, 5:])
    assert drawn.dtype == torch.int64
    assert len(torch.unique(drawn)) > 1


def test_generation_is_its_generators():
    model, fed = random_decoder(), some_tokens(4, 5)
    one, again, other = (model.generate(fed, 12, generator=torch.Generator().manual_seed(seed)) for seed in (3, 3, 4))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


@torch.no_grad()
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_generated_tokens_follow_the_law_at_their_temperature(temperature):
    model, fed, count = random_decoder(), some_tokens(1, 5), 4000
    generator = torch.Generator().manual_seed(0)
    drawn = model.generate(fed.expand(count, -1), 2, temperature=temperature, generator=generator)
    # The first token, and the second one among those that follow the commonest first one.
    first = drawn[:, :1].mode(dim=0, keepdim=True).values
    follows = drawn[drawn[:, 0] == first.item(), 1]
    for tokens, before in ((drawn[:, 0], fed), (follows, torch.cat([fed, first], dim=1))):
        law = (model(before)[0, -1].double() / temperature).softmax(dim=-1).numpy()
        counts, common = np.bincount(tokens, minlength=11), law * len(tokens) >= 5
        observed = np.array([*counts[common], counts[~common].sum()])
        expected = np.array([*law[common], law[~common].sum()]) * len(tokens)
        kept = expected > 1e-9  # nothing is left over where all tokens are common
        assert kept.sum() >= 3
        assert stats.chisquare(observed[kept], expected[kept]).pvalue > ALARM


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"vocab_size": 0}, "vocab_size is 0"),
        ({"vocab_size": 3.5}, "vocab_size is 3.5"),
        ({"num_layers": 0}, "num_layers is 0"),
        ({"num_layers": True}, "num_layers is True"),
        ({"num_heads": -1}, "num_heads is -1"),
        ({"d_model": 60, "num_heads": 4}, r"d_model is 60; allowed: a multiple of 2 \* num_heads = 8"),
        ({"d_model": 0}, "d_model is 0"),
        ({"d_model": 64.0}, "d_model is 64.0"),
        ({"rope_theta": 0.0}, "rope_theta is 0.0"),
    ],
)
def test_bad_sizes_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        Decoder(**sizes)


@pytest.mark.parametrize(
    ("length", "temperature", "message"),
    [(0, 1.0, "length is 0"), (-1, 1.0, "length is -1"), (3, -0.5, "temperature is -0.5")],
)
def test_bad_generation_is_refused(length, temperature, message):
    with pytest.raises(ValueError, match=message):
        random_decoder().generate(some_tokens(1, 3), length, temperature=temperature)


def test_initial_loss_is_near_that_of_knowing_nothing():
    # Logits of order one at the start: the published presets begin near ln 32 = 3.47, not at a random confident law.
    torch.manual_seed(0)
    model, tokens = build_model(model_config("tiny", {"vocab_size": 32})), some_tokens(4, 64, 32)
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), some_tokens(4, 64, 32, seed=2).flatten())
    assert abs(loss.item() - np.log(32)) < 0.8
