"""Toy models and data for the training loop."""

import torch
from torch import nn

VOCAB_SIZE, LENGTH = 11, 9
DECODER = {"model": "neophyte.models.decoder:Decoder", "vocab_size": VOCAB_SIZE, "num_layers": 1, "d_model": 16,
           "num_heads": 2}  # fmt: skip


class Dropper(nn.Module):
    """A model that draws random numbers in training, so that a resumed run shows whether their state came back."""

    def __init__(self, vocab_size, rate=0.5):
        super().__init__()
        self.layers = nn.Sequential(nn.Embedding(vocab_size, 8), nn.Dropout(rate), nn.Linear(8, vocab_size))

    def forward(self, tokens):
        return self.layers(tokens)


class Flat(nn.Module):
    """A model of the wrong shape: one prediction a sequence."""

    def __init__(self, vocab_size):
        super().__init__()
        self.head = nn.Linear(1, vocab_size)

    def forward(self, tokens):
        return self.head(tokens[:, :1].float())


def draw(first, count):
    """Sequences with a rule that a small model can learn: each token is three more than the one before."""
    starts = torch.arange(first, first + count)[:, None] * 7
    return (starts + 3 * torch.arange(LENGTH) + (starts // 5) % 2) % VOCAB_SIZE


class PowerCutError(Exception):
    """Stands for whatever ends a run."""


def draw_until(step, batch_size):
    """`draw` that fails at the batch of a step."""

    def failing(first, count):
        if first >= step * batch_size:
            raise PowerCutError
        return draw(first, count)

    return failing
