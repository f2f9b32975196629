"""The paper's auto-regressive transformer (gpicl, Table 1): pre-LN, rotary embedding, GELU, untied head."""

from __future__ import annotations

import torch
from huggingface_hub import PyTorchModelHubMixin
from torch import Tensor, nn
from torch.nn import functional as F

from neophyte.core.spec import check_integer, check_real


class KeyValueCache:
    """Keys and values of the tokens seen so far, so that each new token costs one step and not a whole pass.

    Attributes:
        keys: float (layer, batch, head, max_length, head_dim).
        values: The same shape.
        length: Number of tokens held.
    """

    def __init__(self, model: Decoder, batch_size: int, max_length: int) -> None:
        weight = model.head.weight
        shape = (model.num_layers, batch_size, model.num_heads, max_length, model.d_model // model.num_heads)
        self.keys = torch.zeros(shape, dtype=weight.dtype, device=weight.device)
        self.values = torch.zeros_like(self.keys)
        self.length = 0

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store the new keys and values of a layer, (batch, head, time, head_dim); return all of that layer so far."""
        stop = self.length + keys.shape[2]
        if stop > self.keys.shape[3]:
            raise ValueError(f"the cache holds {self.keys.shape[3]} tokens; {stop} were fed")
        self.keys[layer, :, :, self.length : stop] = keys
        self.values[layer, :, :, self.length : stop] = values
        return self.keys[layer, :, :, :stop], self.values[layer, :, :, :stop]


def rotary_angles(length: int, start: int, head_dim: int, theta: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of the rotary embedding, float32 (time, head_dim / 2), for positions from `start` on."""
    frequencies = theta ** (-torch.arange(0, head_dim, 2, device=device, dtype=torch.float32) / head_dim)
    positions = torch.arange(start, start + length, device=device, dtype=torch.float32)
    angles = positions[:, None] * frequencies[None, :]
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate each pair (x[i], x[i + head_dim / 2]) by its position's angle; J. Su et al. (2024)."""
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).type_as(x)


class Block(nn.Module):
    """Attention and feed-forward, each on a normalised copy of the stream and added to it."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.attention_norm = nn.LayerNorm(d_model)
        self.query_key_value = nn.Linear(d_model, 3 * d_model, bias=False)
        self.attention_out = nn.Linear(d_model, d_model)
        self.feed_forward_norm = nn.LayerNorm(d_model)
        self.feed_forward_in = nn.Linear(d_model, 4 * d_model)
        self.feed_forward_out = nn.Linear(4 * d_model, d_model)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: KeyValueCache | None, layer: int) -> Tensor:
        """Map the stream (batch, time, d_model) to itself."""
        batch, time, width = x.shape
        qkv = self.query_key_value(self.attention_norm(x)).view(batch, time, 3, self.num_heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        query, key = rotate(query, cos, sin), rotate(key, cos, sin)
        mask = None
        if cache is not None:
            key, value = cache.append(layer, key, value)
            if cache.length and time > 1:
                mask = torch.ones(time, key.shape[2], dtype=torch.bool, device=x.device).tril(cache.length)
        causal = mask is None and time > 1
        heads = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        x = x + self.attention_out(heads.transpose(1, 2).reshape(batch, time, width))
        return x + self.feed_forward_out(F.gelu(self.feed_forward_in(self.feed_forward_norm(x))))


class Decoder(
    nn.Module,
    PyTorchModelHubMixin,
    library_name="neophyte",
    tags=["in-context-learning", "meta-language"],
    license="apache-2.0",
):
    """A causal transformer over tokens.

    Args:
        vocab_size: Number of tokens N.
        num_layers: Number of blocks.
        d_model: Width of the stream; a multiple of 2 * num_heads.
        num_heads: Attention heads.
        rope_theta: Base of the rotary embedding's wavelengths.
    """

    def __init__(
        self,
        *,
        vocab_size: int = 32,
        num_layers: int = 6,
        d_model: int = 64,
        num_heads: int = 4,
        rope_theta: float = 10_000.0,
    ) -> None:
        super().__init__()
        sizes = {"vocab_size": vocab_size, "num_layers": num_layers, "d_model": d_model, "num_heads": num_heads}
        for field, value in sizes.items():
            check_integer(field, value, 1)
        check_real("rope_theta", rope_theta, 0.0, open_low=True)
        if d_model % (2 * num_heads):
            raise ValueError(f"d_model is {d_model!r}; allowed: a multiple of 2 * num_heads = {2 * num_heads}")
        self.vocab_size, self.num_layers, self.d_model, self.num_heads = vocab_size, num_layers, d_model, num_heads
        self.rope_theta = rope_theta
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList([Block(d_model, num_heads) for _ in range(num_layers)])
        self.final_norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size)
        self.apply(self._initialise)

    def _initialise(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            # The two maps that add to the stream start small, so that its variance does not grow with depth.
            nn.init.normal_(module.weight, std=module.in_features**-0.5)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight)
        elif isinstance(module, Block):
            for layer in (module.attention_out, module.feed_forward_out):
                nn.init.normal_(layer.weight, std=(2 * self.num_layers * layer.in_features) ** -0.5)

    def forward(self, tokens: Tensor, cache: KeyValueCache | None = None) -> Tensor:
        """Predict the token after each token.

        Args:
            tokens: int64 (batch, time), values in [0, vocab_size); with a cache, only those that it does not hold yet.
            cache: Holds the tokens before; the new ones are added to it.

        Returns:
            Logits, float (batch, time, vocab_size).
        """
        start = cache.length if cache is not None else 0
        head_dim = self.d_model // self.num_heads
        cos, sin = rotary_angles(tokens.shape[1], start, head_dim, self.rope_theta, tokens.device)
        x = self.embedding(tokens)
        for layer, block in enumerate(self.blocks):
            x = block(x, cos, sin, cache, layer)
        if cache is not None:
            cache.length += tokens.shape[1]
        return self.head(self.final_norm(x))

    @torch.no_grad()
    def generate(
        self, tokens: Tensor, length: int, *, temperature: float = 1.0, generator: torch.Generator | None = None
    ) -> Tensor:
        """Continue sequences.

        Args:
            tokens: int64 (batch, time), at least one token each.
            length: How many tokens to add, at least 1.
            temperature: Divides the logits; 0 takes the likeliest token.
            generator: Source of randomness, on the model's device.

        Returns:
            int64 (batch, length), the new tokens.
        """
        check_integer("length", length, 1)
        check_real("temperature", temperature, 0.0)
        cache = KeyValueCache(self, len(tokens), tokens.shape[1] + length)
        drawn = []
        for _ in range(length):
            tokens = draw_token(self(tokens, cache)[:, -1], temperature, generator)
            drawn.append(tokens)
        return torch.cat(drawn, dim=1)


def draw_token(logits: Tensor, temperature: float, generator: torch.Generator | None = None) -> Tensor:
    """Draw from logits (batch, vocab_size) over temperature, or at 0 take the likeliest; int64 (batch, 1)."""
    if temperature == 0:
        return logits.argmax(dim=-1, keepdim=True)
    return torch.multinomial(F.softmax(logits.float() / temperature, dim=-1), 1, generator=generator)
