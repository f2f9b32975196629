"""The classifiers of the Pointer Value Retrieval study: MLP, Transformer and MLP-Mixer on tokens (pvr, appendix A).

Each maps integer tokens (batch, length) to logits float32 (batch, num_classes), and has `features`: what its last
linear layer sees, (batch, width).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from neophyte.core.spec import check_integer


class TokenMLP(nn.Module):
    """Embedded tokens, concatenated, through fully connected layers with ReLU.

    Args:
        length: Tokens in a sequence.
        alphabet: Number of different tokens.
        num_classes: Number of labels.
        embedding_dim: Width of a token's embedding.
        widths: Widths of the hidden layers.
    """

    def __init__(
        self,
        length: int = 11,
        alphabet: int = 10,
        num_classes: int = 10,
        embedding_dim: int = 64,
        widths: Sequence[int] = (512, 1024, 512, 64),
    ) -> None:
        super().__init__()
        _check_sizes(length=length, alphabet=alphabet, num_classes=num_classes, embedding_dim=embedding_dim)
        self.embedding = nn.Embedding(alphabet, embedding_dim)
        layers: list[nn.Module] = []
        width = length * embedding_dim
        for following in widths:
            check_integer("widths", following, 1)
            layers += [nn.Linear(width, following), nn.ReLU()]
            width = following
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(width, num_classes)

    def features(self, tokens: Tensor) -> Tensor:
        """Return the last hidden layer, float32 (batch, width)."""
        return self.layers(self.embedding(tokens.long()).flatten(1))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits float32 (batch, num_classes) of integer tokens (batch, length)."""
        return self.head(self.features(tokens))


class TransformerLayer(nn.Module):
    """Pre-norm self-attention over all tokens, and an MLP with GELU."""

    def __init__(self, d_model: int, num_heads: int, hidden_dim: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.norm_attention = nn.LayerNorm(d_model)
        self.query_key_value = nn.Linear(d_model, 3 * d_model)
        self.output = nn.Linear(d_model, d_model)
        self.norm_mlp = nn.LayerNorm(d_model)
        self.mlp = nn.Sequential(nn.Linear(d_model, hidden_dim), nn.GELU(), nn.Linear(hidden_dim, d_model))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, time, d_model) to the same shape."""
        batch, time, width = x.shape
        heads = self.query_key_value(self.norm_attention(x)).view(batch, time, 3, self.num_heads, -1)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, time, width))
        return x + self.mlp(self.norm_mlp(x))


class MixerLayer(nn.Module):
    """An MLP over the tokens of each channel, then one over the channels of each token (Tolstikhin et al., 2021)."""

    def __init__(self, length: int, d_model: int, token_hidden_dim: int, channel_hidden_dim: int) -> None:
        super().__init__()
        self.norm_tokens = nn.LayerNorm(d_model)
        self.tokens = nn.Sequential(nn.Linear(length, token_hidden_dim), nn.GELU(), nn.Linear(token_hidden_dim, length))
        self.norm_channels = nn.LayerNorm(d_model)
        self.channels = nn.Sequential(
            nn.Linear(d_model, channel_hidden_dim), nn.GELU(), nn.Linear(channel_hidden_dim, d_model)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, time, d_model) to the same shape."""
        x = x + self.tokens(self.norm_tokens(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm_channels(x))


class _ClassTokenModel(nn.Module):
    """Embedded tokens after a learned class token, layers, a LayerNorm, and a linear head on the class token."""

    def __init__(self, alphabet: int, num_classes: int, d_model: int, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(alphabet, d_model)
        self.class_token = nn.Parameter(torch.zeros(d_model))
        self.layers = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, num_classes)

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the class token and the embedded tokens, (batch, 1 + length, d_model)."""
        embedded = self.embedding(tokens.long())
        return torch.cat([self.class_token.expand(len(embedded), 1, -1), embedded], dim=1)

    def features(self, tokens: Tensor) -> Tensor:
        """Return the class token's last representation, float32 (batch, d_model)."""
        return self.norm(self.layers(self.embed(tokens))[:, 0])

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits float32 (batch, num_classes) of integer tokens (batch, length)."""
        return self.head(self.features(tokens))


class TokenTransformer(_ClassTokenModel):
    """The encoder of a Transformer with learned positions.

    Args:
        length: Tokens in a sequence.
        alphabet: Number of different tokens.
        num_classes: Number of labels.
        d_model: Width.
        num_layers: Number of layers.
        num_heads: Attention heads; they divide the width.
        hidden_dim: Width of the MLPs' hidden layer.
    """

    def __init__(
        self,
        length: int = 11,
        alphabet: int = 10,
        num_classes: int = 10,
        d_model: int = 512,
        num_layers: int = 4,
        num_heads: int = 4,
        hidden_dim: int = 1024,
    ) -> None:
        _check_sizes(length=length, alphabet=alphabet, num_classes=num_classes, d_model=d_model, num_layers=num_layers,
                     num_heads=num_heads, hidden_dim=hidden_dim)  # fmt: skip
        if d_model % num_heads:
            raise ValueError(f"d_model is {d_model}; allowed: a multiple of num_heads, {num_heads}")
        layers = [TransformerLayer(d_model, num_heads, hidden_dim) for _ in range(num_layers)]
        super().__init__(alphabet, num_classes, d_model, layers)
        self.positions = nn.Parameter(0.02 * torch.randn(1 + length, d_model))

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the class token and the embedded tokens, each with its position's vector."""
        return super().embed(tokens) + self.positions


class TokenMixer(_ClassTokenModel):
    """MLP-Mixer; its token MLPs know the positions.

    Args:
        length: Tokens in a sequence.
        alphabet: Number of different tokens.
        num_classes: Number of labels.
        d_model: Width.
        num_layers: Number of layers.
        token_hidden_dim: Hidden width of the MLPs over tokens.
        channel_hidden_dim: Hidden width of the MLPs over channels.
    """

    def __init__(
        self,
        length: int = 11,
        alphabet: int = 10,
        num_classes: int = 10,
        d_model: int = 512,
        num_layers: int = 4,
        token_hidden_dim: int = 768,
        channel_hidden_dim: int = 2048,
    ) -> None:
        _check_sizes(length=length, alphabet=alphabet, num_classes=num_classes, d_model=d_model, num_layers=num_layers,
                     token_hidden_dim=token_hidden_dim, channel_hidden_dim=channel_hidden_dim)  # fmt: skip
        layers = [MixerLayer(1 + length, d_model, token_hidden_dim, channel_hidden_dim) for _ in range(num_layers)]
        super().__init__(alphabet, num_classes, d_model, layers)


def _check_sizes(**sizes: int) -> None:
    for name, value in sizes.items():
        check_integer(name, value, 1)
