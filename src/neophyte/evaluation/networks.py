"""Networks as what evaluation asks for: predictors of every token, and writers of new ones. Only here is torch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from neophyte.evaluation.curves import Predictor
from neophyte.models.decoder import Decoder, draw_token


def model_predictor(model: nn.Module, device: torch.device | str = "cpu", max_tokens: int = 65_536) -> Predictor:
    """Turn a network into a predictor: it is fed token 0 and then all but the last token.

    Args:
        model: Maps int64 tokens (batch, time) to logits (batch, time, vocab_size).
        device: Where to run it.
        max_tokens: Tokens in one forward pass, at most (one sequence at least).
    """
    model = model.to(device).eval()

    @torch.inference_mode()
    def predict(tokens: np.ndarray) -> np.ndarray:
        rows = max(1, max_tokens // tokens.shape[1])
        parts = []
        for piece in torch.from_numpy(tokens.astype(np.int64)).split(rows):
            piece = piece.to(device)
            logits = model(F.pad(piece[:, :-1], (1, 0))).float()
            parts.append(F.cross_entropy(logits.transpose(1, 2), piece, reduction="none").cpu().numpy())
        return np.concatenate(parts)

    return predict


@torch.inference_mode()
def continue_tokens(model: nn.Module, tokens: Tensor, length: int, temperature: float, seed: int) -> Tensor:
    """Generate `length` tokens after `tokens` (batch, time), with the model's cache where it has one.

    The model is fed token 0 first, as in training.
    """
    generator = torch.Generator(tokens.device).manual_seed(seed)
    fed = F.pad(tokens, (1, 0))
    if isinstance(model, Decoder):
        return model.generate(fed, length, temperature=temperature, generator=generator)
    for _ in range(length):
        fed = torch.cat([fed, draw_token(model(fed)[:, -1], temperature, generator)], dim=1)
    return fed[:, -length:]
