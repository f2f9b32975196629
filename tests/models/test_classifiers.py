"""The classifiers of tokens against the paper's counts, torch's own layers, and plain twins."""

import itertools
import json

import numpy as np
import pytest
import torch
from scipy import special
from torch import nn

from neophyte.models.classifiers import MixerLayer, TokenMixer, TokenMLP, TokenTransformer, TransformerLayer
from neophyte.models.loading import build_model, count_parameters, load_model, model_config, save_model
from neophyte.models.presets import CLASSIFIERS, PRESETS

TABLE_1 = {"mlp": 1_445_194, "mlp-2x": 5_052_426, "transformer": 8_429_066, "mixer": 8_495_674}
SIZES = {"length": 7, "alphabet": 6, "num_classes": 5}
SMALL = {
    "mlp": (TokenMLP, {"embedding_dim": 8, "widths": (24, 16)}),
    "transformer": (TokenTransformer, {"d_model": 16, "num_layers": 2, "num_heads": 4, "hidden_dim": 24}),
    "mixer": (TokenMixer, {"d_model": 16, "num_layers": 2, "token_hidden_dim": 12, "channel_hidden_dim": 24}),
}
# What makes a preset small enough to be saved in a test.
THIN = {
    "mlp": {"embedding_dim": 4, "widths": [8, 6]},
    "mlp-2x": {"embedding_dim": 4},
    "transformer": {"d_model": 8, "hidden_dim": 8},
    "mixer": {"d_model": 8, "token_hidden_dim": 8, "channel_hidden_dim": 8},
    "transformer-64": {},
    "mixer-64": {},
}

every_model = pytest.mark.parametrize("name", SMALL)


def randomised(model, scale=0.3):
    """Make every parameter random: biases, norms and the class token start at 0 and 1, where errors would hide."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=scale)
    return model


def small(name, dtype=torch.float32, seed=0, **changes):
    make, sizes = SMALL[name]
    torch.manual_seed(seed)
    return randomised(make(**{**SIZES, **sizes, **changes})).to(dtype).eval()


def some_tokens(batch, seed=1, length=SIZES["length"], alphabet=SIZES["alphabet"]):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, alphabet, (batch, length), generator=generator, dtype=torch.uint8)


def layer_norm(x, weight, bias):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5) * weight + bias


def gelu(x):
    return x * special.ndtr(x)


def mixer_layer_twin(x, w):
    """A mixer layer in einsum: b example, t token, c channel, h hidden."""
    normed = layer_norm(x, w("norm_tokens.weight"), w("norm_tokens.bias"))
    hidden = gelu(np.einsum("btc,ht->bch", normed, w("tokens.0.weight")) + w("tokens.0.bias"))
    mixed = np.einsum("bch,th->btc", hidden, w("tokens.2.weight")) + w("tokens.2.bias")[:, None]
    x = x + mixed
    normed = layer_norm(x, w("norm_channels.weight"), w("norm_channels.bias"))
    hidden = gelu(np.einsum("btc,hc->bth", normed, w("channels.0.weight")) + w("channels.0.bias"))
    return x + np.einsum("bth,ch->btc", hidden, w("channels.2.weight")) + w("channels.2.bias")


def transformer_layer_twin(x, w, num_heads):
    """A pre-norm layer, a head and a query at a time."""
    width = x.shape[-1] // num_heads
    normed = layer_norm(x, w("norm_attention.weight"), w("norm_attention.bias"))
    projected = normed @ w("query_key_value.weight").T + w("query_key_value.bias")
    query, key, value = np.split(projected, 3, axis=-1)
    mixed = np.zeros_like(x)
    for b in range(len(x)):
        for head in (slice(i * width, (i + 1) * width) for i in range(num_heads)):
            for t in range(x.shape[1]):
                scores = np.exp(key[b, :, head] @ query[b, t, head] / np.sqrt(width))
                mixed[b, t, head] = scores / scores.sum() @ value[b, :, head]
    x = x + mixed @ w("output.weight").T + w("output.bias")
    normed = layer_norm(x, w("norm_mlp.weight"), w("norm_mlp.bias"))
    hidden = gelu(normed @ w("mlp.0.weight").T + w("mlp.0.bias"))
    return x + hidden @ w("mlp.2.weight").T + w("mlp.2.bias")


def twin(model, tokens):
    """The logits of a whole model in NumPy, by the text of appendix A; every parameter must be used once."""
    left = {name: value.double().numpy() for name, value in model.state_dict().items()}
    x = left.pop("embedding.weight")[tokens.numpy()]
    if isinstance(model, TokenMLP):
        x = x.reshape(len(x), -1)
        for layer in range(len(model.layers) // 2):
            x = np.maximum(0, x @ left.pop(f"layers.{2 * layer}.weight").T + left.pop(f"layers.{2 * layer}.bias"))
    else:
        x = np.concatenate([np.tile(left.pop("class_token"), (len(x), 1, 1)), x], axis=1)
        if isinstance(model, TokenTransformer):
            x = x + left.pop("positions")
        for layer in range(len(model.layers)):

            def weight(name, layer=layer):
                return left.pop(f"layers.{layer}.{name}")

            if isinstance(model, TokenTransformer):
                x = transformer_layer_twin(x, weight, model.layers[0].num_heads)
            else:
                x = mixer_layer_twin(x, weight)
        x = layer_norm(x, left.pop("norm.weight"), left.pop("norm.bias"))[:, 0]
    logits = x @ left.pop("head.weight").T + left.pop("head.bias")
    assert not left, f"parameters that the formula does not have: {sorted(left)}"
    return logits


@pytest.mark.parametrize(("name", "count"), TABLE_1.items())
def test_table_1_has_the_published_counts(name, count):
    with torch.device("meta"):
        assert count_parameters(build_model(model_config(name, {}))) == count


def test_the_mlps_layers_are_those_of_appendix_a():
    with torch.device("meta"):
        models = {name: build_model(model_config(name, {})) for name in ("mlp", "mlp-2x")}
    for name, widths in (("mlp", [704, 512, 1024, 512, 64]), ("mlp-2x", [704, 1024, 2048, 1024, 128])):
        kinds = [type(layer) for layer in models[name].layers]
        assert kinds == [nn.Linear, nn.ReLU] * 4
        shapes = [(layer.in_features, layer.out_features) for layer in models[name].layers[::2]]
        assert shapes == list(itertools.pairwise(widths))
        assert models[name].embedding.weight.shape == (10, 64)
        assert models[name].head.weight.shape == (10, widths[-1])


@every_model
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.int32])
def test_tokens_give_float32_logits(name, dtype):
    model = small(name)
    tokens = some_tokens(3).to(dtype)
    logits = model(tokens)
    assert logits.shape == (3, 5)
    assert logits.dtype == torch.float32
    assert torch.equal(logits, model(some_tokens(3)))
    assert model.features(tokens).shape == (3, 16)
    assert model.features(tokens).dtype == torch.float32


@every_model
def test_the_whole_model_is_the_formula(name):
    model, tokens = small(name, torch.float64), some_tokens(4)
    expected = twin(model, tokens)
    assert expected.std(axis=0).min() > 0.05, "the examples must differ"
    with torch.no_grad():
        np.testing.assert_allclose(model(tokens).numpy(), expected, atol=1e-10, rtol=1e-10)
        np.testing.assert_allclose(model.float()(tokens).numpy(), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("sizes", [(16, 4, 24), (12, 1, 5), (20, 10, 40)], ids=str)
def test_a_transformer_layer_is_torchs(sizes):
    d_model, num_heads, hidden_dim = sizes
    torch.manual_seed(0)
    layer = randomised(TransformerLayer(d_model, num_heads, hidden_dim)).double().eval()
    torchs = nn.TransformerEncoderLayer(
        d_model, num_heads, hidden_dim, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    ).double()
    names = {"self_attn.in_proj_": "query_key_value.", "self_attn.out_proj.": "output.", "linear1.": "mlp.0.",
             "linear2.": "mlp.2.", "norm1.": "norm_attention.", "norm2.": "norm_mlp."}  # fmt: skip
    ours = layer.state_dict()
    torchs.load_state_dict(
        {f"{a}{kind}": ours.pop(f"{b}{kind}") for a, b in names.items() for kind in ("weight", "bias")}
    )
    assert not ours, "all weights are copied"
    x = torch.randn(3, 9, d_model, dtype=torch.float64)
    torch.testing.assert_close(layer(x), torchs(x), atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("sizes", [(8, 16, 12, 24), (3, 5, 1, 7)], ids=str)
def test_a_mixer_layer_is_its_einsum(sizes):
    torch.manual_seed(0)
    layer = randomised(MixerLayer(*sizes)).double()
    x = torch.randn(3, *sizes[:2], dtype=torch.float64)
    expected = mixer_layer_twin(x.numpy(), lambda name: layer.state_dict()[name].numpy())
    np.testing.assert_allclose(layer(x).detach().numpy(), expected, atol=1e-12, rtol=1e-12)


@every_model
@torch.no_grad()
def test_a_row_depends_on_no_other(name):
    model, tokens = small(name, torch.float64), some_tokens(6)
    whole = model(tokens)
    for row in range(6):
        torch.testing.assert_close(model(tokens[row : row + 1])[0], whole[row], atol=1e-12, rtol=1e-12)
        others = some_tokens(6, seed=9)
        others[row] = tokens[row]
        torch.testing.assert_close(model(others)[row], whole[row], atol=1e-12, rtol=1e-12)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    torch.testing.assert_close(model(tokens[order]), whole[order], atol=1e-12, rtol=1e-12)


@every_model
@torch.no_grad()
def test_a_row_depends_on_each_of_its_tokens(name):
    model, tokens = small(name, torch.float64), some_tokens(1)
    before = model(tokens)
    for place in range(SIZES["length"]):
        changed = tokens.clone()
        changed[0, place] = (changed[0, place] + 1) % SIZES["alphabet"]
        assert (model(changed) - before).abs().max() > 1e-4, place


@every_model
@torch.no_grad()
def test_the_head_is_fed_the_features(name):
    model, tokens, seen = small(name), some_tokens(5), []
    model.head.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    logits = model(tokens)
    assert torch.equal(seen[0], model.features(tokens))
    assert torch.equal(logits, model.head(model.features(tokens)))
    assert isinstance(model.head, nn.Linear)
    assert [name for name, _ in model.named_children()][-1] == "head"
    if name == "mlp":
        assert (seen[0] >= 0).all(), "after the last ReLU"


@every_model
def test_gradients_are_those_of_the_logits(name):
    """Along a random direction in each parameter: finite differences of the forward pass, which the twin checks."""
    model, tokens = small(name, torch.float64), some_tokens(4)
    weight = torch.randn(4, 5, dtype=torch.float64)
    (weight * model(tokens)).sum().backward()
    for label, parameter in model.named_parameters():
        direction, step = torch.randn_like(parameter), 1e-6
        values = []
        with torch.no_grad():
            for sign in (1, -1):
                parameter += sign * step * direction
                values.append((weight * model(tokens)).sum().item())
                parameter -= sign * step * direction
        expected = (values[0] - values[1]) / (2 * step)
        # The same for all channels of a token, which every LayerNorm takes away again.
        assert abs(expected) > 1e-4 or label.endswith("tokens.2.bias"), f"{label} has no effect"
        assert (parameter.grad * direction).sum().item() == pytest.approx(expected, rel=1e-4, abs=1e-6), label


@pytest.mark.parametrize("name", ["transformer", "mixer"])
def test_the_class_token_is_used_and_learns(name):
    model, tokens = small(name, torch.float64), some_tokens(4)
    embedded = model.embed(tokens)
    assert embedded.shape == (4, 1 + SIZES["length"], 16)
    first = model.class_token + (model.positions[0] if name == "transformer" else 0)
    assert torch.equal(embedded[:, 0], first.expand(4, -1))
    before = model(tokens)
    before.sum().backward()
    assert model.class_token.grad.abs().max() > 1e-6
    with torch.no_grad():
        model.class_token += 0.1 * torch.arange(16)
        assert (model(tokens) - before).abs().min(dim=0).values.max() > 1e-4
        # The head reads it alone: the last layer's other tokens go nowhere.
        last = model.layers(model.embed(tokens))[:, 0]
        torch.testing.assert_close(model.head(model.norm(last)), model(tokens), atol=0, rtol=0)


@torch.no_grad()
def test_positions_alone_tell_a_transformers_tokens_apart():
    model, tokens = small("transformer", torch.float64), some_tokens(5)
    order = torch.tensor([6, 2, 0, 1, 5, 3, 4])
    assert (model(tokens[:, order]) - model(tokens)).abs().max() > 1e-3
    model.positions.zero_()
    torch.testing.assert_close(model(tokens[:, order]), model(tokens), atol=1e-12, rtol=1e-12)


@every_model
def test_another_length_is_an_error(name):
    for length in (SIZES["length"] - 1, SIZES["length"] + 1):
        with pytest.raises(RuntimeError):
            small(name)(some_tokens(2, length=length))


@every_model
def test_the_seed_sets_the_weights(name):
    one, again, other = (small(name, seed=seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(one[key], again[key]) for key in one)
    assert not torch.equal(one["head.weight"], other["head.weight"])


@pytest.mark.parametrize("name", ["mlp", "transformer-64", "mixer-64"])
def test_initial_loss_is_near_that_of_knowing_nothing(name):
    torch.manual_seed(0)
    model, tokens = build_model(model_config(name, {})), some_tokens(500, length=11, alphabet=10)
    labels = torch.randint(0, 10, (500,), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(model(tokens), labels)
    assert abs(loss.item() - np.log(10)) < 0.5


def test_the_thin_presets_are_a_token_models_default_but_for_their_widths():
    assert set(THIN) | {"resnet18", "vgg11-bn"} == set(CLASSIFIERS)
    assert not set(CLASSIFIERS) & set(PRESETS)
    for name in ("transformer", "mixer"):
        with torch.device("meta"):
            whole, thin = (build_model(model_config(preset, {})) for preset in (name, f"{name}-64"))
        assert len(whole.layers) == len(thin.layers) == 4
        ratios = {
            key: np.array(value.shape) / thin.state_dict()[key].shape for key, value in whole.state_dict().items()
        }
        assert {ratio for values in ratios.values() for ratio in values.tolist()} == {1.0, 8.0}


@pytest.mark.parametrize("name", THIN)
def test_every_preset_is_built_saved_and_loaded(name, tmp_path):
    arguments = {"length": 5, "alphabet": 4, "num_classes": 3, **THIN[name]}
    config = model_config(name, arguments)
    assert config == {**CLASSIFIERS[name], **arguments}
    assert json.loads(json.dumps(config)) == config, "a config is JSON"
    torch.manual_seed(0)
    model = randomised(build_model(config, trust=False)).eval()
    save_model(model, config, tmp_path)
    loaded, found = load_model(tmp_path)  # trusts no code but the package's
    assert found == config
    assert type(loaded) is type(model)
    assert not loaded.training
    one, other = model.state_dict(), loaded.state_dict()
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)
    tokens = some_tokens(6, length=5, alphabet=4)
    with torch.no_grad():
        assert torch.equal(model(tokens), loaded(tokens))
        assert loaded(tokens).shape == (6, 3)


def test_a_near_name_is_suggested():
    with pytest.raises(ValueError, match=r"model is 'transfomer'; allowed: tiny, .*mlp, .*did you mean transformer"):
        model_config("transfomer", {})


def test_building_leaves_the_preset_as_it_is():
    before = json.dumps(CLASSIFIERS)
    build_model(model_config("mlp-2x", {"embedding_dim": 2, "widths": (4, 3)}))
    assert json.dumps(CLASSIFIERS) == before


@pytest.mark.parametrize(
    ("make", "sizes", "message"),
    [
        (TokenMLP, {"length": 0}, "length is 0"),
        (TokenMLP, {"alphabet": 2.5}, "alphabet is 2.5"),
        (TokenMLP, {"num_classes": -1}, "num_classes is -1"),
        (TokenMLP, {"embedding_dim": True}, "embedding_dim is True"),
        (TokenMLP, {"widths": (8, 0)}, "widths is 0"),
        (TokenTransformer, {"d_model": 30, "num_heads": 4}, "d_model is 30; allowed: a multiple of num_heads, 4"),
        (TokenTransformer, {"num_heads": 0}, "num_heads is 0"),
        (TokenTransformer, {"num_layers": 0}, "num_layers is 0"),
        (TokenTransformer, {"hidden_dim": 0}, "hidden_dim is 0"),
        (TokenMixer, {"token_hidden_dim": 0}, "token_hidden_dim is 0"),
        (TokenMixer, {"channel_hidden_dim": 1.0}, "channel_hidden_dim is 1.0"),
        (TokenMixer, {"d_model": 0}, "d_model is 0"),
    ],
)
def test_bad_sizes_are_refused(make, sizes, message):
    with pytest.raises(ValueError, match=message):
        make(**sizes)


def test_unknown_arguments_are_refused():
    with pytest.raises(ValueError, match=r"TokenMixer does not take .*'hidden_dim': 3"):
        build_model(model_config("mixer-64", {"hidden_dim": 3}))
