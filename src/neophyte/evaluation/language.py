"""Evaluate a predictor on Meta-Language and natural text: curves with all controls, and the official score."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from neophyte import metalang
from neophyte.core.spec import check_integer
from neophyte.evaluation.curves import (
    Losses,
    Predictor,
    bootstrap,
    collect_losses,
    log_bins,
    mean_interval,
    power_law,
    span_means,
)
from neophyte.metalang import Corpus, TextCorpus, score_controls
from neophyte.metalang.references import CONTROLS
from neophyte.metalang.text import TEXT


def corpus_losses(
    predictors: Mapping[str, Predictor],
    corpus: Corpus,
    sequences: int,
    *,
    text: TextCorpus | None = None,
    batch_size: int = 64,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Losses:
    """Score the first `sequences` of a corpus, and of a text, with predictors and every control.

    Sequences are drawn, scored and dropped batch by batch: memory does not grow with their number or length.

    Args:
        predictors: By name; the controls and the oracle are added.
        corpus: Its sequences are grouped by their language's order.
        sequences: How many of them.
        text: Sequences of natural text, all of them, in the group "text"; its context length is the corpus's.
        batch_size: Sequences drawn at once.
        threads: Threads for the generator and the controls.
        progress: Called with the number of sequences in each batch.
    """

    def batches() -> Iterator[tuple[list[Any], dict[str, np.ndarray]]]:
        for start in range(0, sequences, batch_size):
            batch = corpus.batch(np.arange(start, min(start + batch_size, sequences)), nll=True, threads=threads)
            orders = corpus.spec.true_orders(batch.orders)
            controls = score_controls(batch.tokens, corpus.spec.vocab_size, orders=orders, threads=threads)
            scores = {name: _predictions(predict, batch.tokens) for name, predict in predictors.items()}
            yield batch.orders.tolist(), {**scores, **controls, "oracle": batch.nll}
        for start in range(0, len(text) if text else 0, batch_size):
            assert text is not None
            tokens = text.batch(range(start, min(start + batch_size, len(text))))
            scores = {name: _predictions(predict, tokens) for name, predict in predictors.items()}
            yield [TEXT] * len(tokens), {**scores, **score_controls(tokens, text.vocab_size, threads=threads)}

    return collect_losses(batches(), log_bins(corpus.spec.context_length), progress)


def _predictions(predict: Predictor, tokens: np.ndarray) -> np.ndarray:
    """Return what the predictor says of the tokens.

    Raises:
        ValueError: It cannot be -log p of each of them.
    """
    nll = np.asarray(predict(tokens))
    if nll.shape != tokens.shape or nll.dtype.kind != "f":
        raise ValueError(f"the predictor returned {nll.dtype} {nll.shape} for tokens {tokens.shape}; allowed: float "
                         "-log p in nats, of the same shape")  # fmt: skip
    if not np.isfinite(nll).all() or nll.min() < -1e-4:  # a float32 softmax may round p to a little over 1
        raise ValueError(f"the predictor returned values from {nll.min()} to {nll.max()}; allowed: -log p in nats, "
                         "finite and not negative")  # fmt: skip
    return nll


def loss_rows(losses: Losses, label: str) -> list[dict[str, Any]]:
    """Return what the losses say of one predictor, as flat rows.

    Kinds of rows: "curve" (the predictor's and every control's), "regret" (its excess over the oracle, paired by
    sequence), "fit" (exponents of the excess), "drop" (how far it falls, and against the unigram control), "against"
    (its excess over each control late in the context) and "octaves" (how it falls over the last two doublings).
    """
    groups = list(dict.fromkeys(losses.groups))
    rows = [{"kind": "curve", **row} for row in losses.rows()]
    for group in groups:
        if group != TEXT:
            rows += [{"kind": "regret", **row} for row in losses.curve(label, group, over="oracle")]
            if fit := power_law(losses, label, group):
                rows.append({"kind": "fit", **fit})
        rows.append({"kind": "drop", "predictor": label, "group": str(group), **_drop(losses, label, group)})
        rows += _against(losses, label, group)
        rows.append({"kind": "octaves", "predictor": label, "group": str(group), **_octaves(losses, label, group)})
    return rows


def _drop(losses: Losses, label: str, group: Any) -> dict[str, Any]:
    """Return mean nats in the first sixteenth of the context ("early"), in its last quarter ("late"), and the fall."""
    early, late = span_means(losses, label, group, 0.0, 1 / 16), span_means(losses, label, group, 0.75, 1.0)
    unigram = span_means(losses, "unigram", group, 0.75, 1.0)
    fall, half_width = mean_interval(early - late)
    gap, gap_half_width = mean_interval(unigram - late)
    oracle = None if group == TEXT else float(span_means(losses, "oracle", group, 0.75, 1.0).mean())
    return {
        "early": float(early.mean()),
        "late": float(late.mean()),
        "fall": float(fall),
        "half_width": float(half_width),
        "late_unigram": float(unigram.mean()),
        "late_oracle": oracle,
        "below_unigram": float(gap),
        "below_unigram_half_width": float(gap_half_width),
        "sequences": len(early),
    }


def _against(losses: Losses, label: str, group: Any) -> list[dict[str, Any]]:
    """Return the excess over each control in the last quarter of the context, paired by sequence."""
    late = span_means(losses, label, group, 0.75, 1.0)
    rows = []
    for control in (name for name in CONTROLS if name in losses.values):
        mean, half_width = mean_interval(late - span_means(losses, control, group, 0.75, 1.0))
        if np.isfinite(mean):  # text has no oracle and no true order
            rows.append({"kind": "against", "predictor": label, "control": control, "group": str(group),
                         "late_difference": float(mean), "half_width": float(half_width)})  # fmt: skip
    return rows


def _octaves(losses: Losses, label: str, group: Any) -> dict[str, float]:
    """Return the fall from the third-last to the second-last octave, from there to the last, and their difference."""
    octaves = [span_means(losses, label, group, low, 2 * low) for low in (1 / 8, 1 / 4, 1 / 2)]
    first, second = octaves[0] - octaves[1], octaves[1] - octaves[2]
    found: dict[str, float] = {}
    for name, values in {"first_fall": first, "last_fall": second, "bend": first - second}.items():
        mean, half_width = mean_interval(values)
        found |= {name: float(mean), f"{name}_half_width": float(half_width)}
    return found


@dataclass(frozen=True)
class Score:
    """The official score: mean regret over the oracle in the second half of the context, in nats per token.

    Attributes:
        regret: The score; lower is better, 0 is perfect.
        low: Lower end of its 95 % bootstrap interval over sequences.
        high: Upper end.
        by_order: Regret for each order.
        sequences: How many sequences of each order were scored.
        context_length: Their length T; positions T/2..T count.
        task: The task, split and seed they come from.
    """

    regret: float
    low: float
    high: float
    by_order: dict[int, float]
    sequences: int
    context_length: int
    task: str


OFFICIAL_SEED = 0
QUICK_SEQUENCES = 64


def official_score(
    predict: Predictor,
    *,
    sequences: int = QUICK_SEQUENCES,
    context_length: int | None = None,
    preset: str = "eval",
    batch_size: int = 16,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Score:
    """Score a predictor on fixed sequences, so that two people can compare one number.

    Args:
        predict: The predictor.
        sequences: Sequences of each order, the first ones of the preset: 64 is the quick version, 4,096 the full one.
        context_length: A shorter context than the preset's; the number is then not comparable with full ones.
        preset: "eval", or a smaller preset for a small model.
        batch_size: Sequences drawn at once.
        threads: Threads for the generator.
        progress: Called with the number of sequences in each batch.

    Raises:
        ValueError: The preset's orders do not take turns, so that there is no sequence s of each order, or the
            predictor's result cannot be -log p of each token.
    """
    check_integer("sequences", sequences, 1)
    changes: dict[str, Any] = {} if context_length is None else {"context_length": context_length}
    corpus = metalang.corpus(preset, seed=OFFICIAL_SEED, **changes)
    if corpus.spec.order_sampling != "balanced" and len(corpus.spec.orders) > 1:
        raise ValueError(f"preset is {preset!r}; allowed: one whose orders take turns, such as eval or tiny-eval")
    half = corpus.spec.context_length // 2
    orders, regrets = [], []
    total = sequences * len(corpus.spec.orders)
    for start in range(0, total, batch_size):
        batch = corpus.batch(np.arange(start, min(start + batch_size, total)), nll=True, threads=threads)
        nll = _predictions(predict, batch.tokens)
        excess = nll[:, half:].astype(np.float64) - batch.nll[:, half:]
        regrets.append(excess.mean(axis=1))
        orders.append(batch.orders)
        if progress:
            progress(len(batch.orders))
    # Balanced sampling: row s holds sequence s of every order.
    table = np.concatenate(regrets).reshape(sequences, -1)
    names = np.concatenate(orders)[: len(corpus.spec.orders)].tolist()
    low, high = bootstrap(sequences, lambda rows: float(table[rows].mean())) if sequences > 1 else (-np.inf, np.inf)
    by_order = {order: float(value) for order, value in zip(names, table.mean(axis=0), strict=True)}
    task = f"metalang/{preset}@{metalang.VERSION} split {corpus.split} seed {OFFICIAL_SEED}"
    return Score(float(table.mean()), low, high, by_order, sequences, corpus.spec.context_length, task)
