"""The sizes of the Meta-Language experiments at each scale, and the trials that they share."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from neophyte.metalang import PRESETS, TextCorpus
from neophyte.running.trials import Trial

_HERE = "neophyte.experiments.metalang.trials"

# The paper's curves were made with the published position weights, by which a language of order n depends on n - 1
# tokens (docs/metalang.md); these experiments follow it at every scale.
_PUBLISHED: dict[str, Any] = {"position_weights": "published"}


@dataclass(frozen=True)
class Scale:
    """Sizes at a scale.

    Attributes:
        models: Presets, from small to large; Figures 3 and 4 show the last.
        context_length: Tokens T in a sequence.
        warmup_steps: Training steps on orders 2-3 before the main set, by model; 0 skips them (paper: standard only).
        steps: Training steps on orders 3-6.
        settings: Fields of TrainSpec.
        batch_size: Sequences in a step, by model.
        sequences: Evaluation sequences of each order.
        text: Natural text: "persuasion", or a folder of .txt files; paper wants `neophyte data fetch pg19` first.
        text_sequences: Sequences of it, at most.
        items: Items in the full context of a generation probe.
        generated: Tokens generated.
        draws: Generation draws of each task and context.
    """

    models: tuple[str, ...]
    context_length: int
    warmup_steps: dict[str, int]
    steps: int
    settings: dict[str, Any]
    batch_size: dict[str, int]
    sequences: int
    text: str
    text_sequences: int
    items: int
    generated: int
    draws: int


SCALES = {
    "smoke": Scale(
        models=("laptop-2x32", "laptop-3x64"),
        context_length=64,
        warmup_steps={"laptop-3x64": 3},
        steps=6,
        settings={"schedule": "cosine", "warmup_steps": 2, "learning_rate": 3e-3, "log_every": 2},
        batch_size={"laptop-2x32": 4, "laptop-3x64": 4},
        sequences=3,
        text="persuasion",
        text_sequences=4,
        items=8,
        generated=24,
        draws=2,
    ),
    "laptop": Scale(
        models=("laptop-2x32", "laptop-3x64", "tiny"),
        context_length=512,
        warmup_steps={"laptop-2x32": 1500, "laptop-3x64": 1500, "tiny": 1500},
        steps=4500,
        settings={"schedule": "cosine", "warmup_steps": 100, "learning_rate": 3e-3, "log_every": 25},
        batch_size={"laptop-2x32": 8, "laptop-3x64": 8, "tiny": 8},
        sequences=256,
        text="persuasion",
        text_sequences=256,
        items=40,
        generated=256,
        draws=64,
    ),
    # 500,000 sequences of 4,096 tokens: 62,500 steps of 32k tokens, or 31,250 of 64k, an epoch.
    "paper": Scale(
        models=("tiny", "small", "standard"),
        context_length=4096,
        warmup_steps={"standard": 31_250},
        steps=62_500,
        settings={
            "schedule": "noam",
            "warmup_steps": 1000,
            "learning_rate": 1e-3,
            "dtype": "bfloat16",
            "compile": True,
        },
        batch_size={"tiny": 8, "small": 8, "standard": 16},
        sequences=4096,
        text="data/pg19",
        text_sequences=4096,
        items=400,
        generated=512,
        draws=64,
    ),
}


def _corpus(preset: str, **changes: Any) -> dict[str, Any]:
    """Return a preset's spec with changes, as JSON values for a trial's parameters."""
    return dataclasses.asdict(dataclasses.replace(PRESETS[preset].spec, **changes))


def training_trial(scale: str, model: str) -> Trial:
    """Return the trial that trains a model on orders 3-6, after a warm-up on orders 2-3 where the scale has one."""
    sizes = SCALES[scale]
    length = sizes.context_length
    settings = {**sizes.settings, "batch_size": sizes.batch_size[model]}
    needs: tuple[Trial, ...] = ()
    if warmup := sizes.warmup_steps.get(model):
        corpus = _corpus("warmup", context_length=length, **_PUBLISHED)
        needs = (_train(f"warm-up-{model}", model, corpus, {**settings, "steps": warmup}),)
    corpus = _corpus("train", context_length=length, **_PUBLISHED)
    steps = sizes.steps if sizes.batch_size[model] <= 8 else sizes.steps * 8 // sizes.batch_size[model]
    return _train(f"train-{model}", model, corpus, {**settings, "steps": steps}, needs)


def _train(
    name: str, model: str, corpus: dict[str, Any], settings: dict[str, Any], needs: tuple[Trial, ...] = ()
) -> Trial:
    params = {"model": model, "corpus": corpus, "settings": settings}
    return Trial(name, f"{_HERE}:train_language_model", params, needs)


def evaluation_trial(scale: str, model: str) -> Trial:
    """Return the trial that scores a trained model on orders 2-8 and natural text."""
    sizes = SCALES[scale]
    corpus = _corpus("eval", context_length=sizes.context_length, **_PUBLISHED)
    params = {
        "label": model,
        "corpus": corpus,
        "sequences": sizes.sequences,
        "text": sizes.text,
        "text_sequences": sizes.text_sequences,
    }
    return Trial(f"evaluate-{model}", f"{_HERE}:evaluate_language_model", params, (training_trial(scale, model),))


def check_texts(trials: list[Trial]) -> None:
    """Read the natural texts that the trials will ask for.

    Raises:
        ValueError: One is missing, too short or not UTF-8.
    """
    needed = {(t.params["text"], t.params["corpus"]["context_length"]) for t in trials if "text" in t.params}
    for text, context_length in needed:
        try:
            TextCorpus(text, context_length=context_length)
        except ValueError as error:
            raise ValueError(f"{error}; `neophyte data fetch pg19` fetches the paper's text") from None


def comparison_trial(scale: str) -> Trial:
    """Return the trial that compares all models of the scale, pair by pair."""
    models = SCALES[scale].models
    needs = tuple(evaluation_trial(scale, model) for model in models)
    return Trial("compare-models", f"{_HERE}:compare_language_models", {"labels": list(models)}, needs)


def generation_trials(scale: str) -> list[Trial]:
    """Return the trials that probe the largest model's generation, one for each task."""
    sizes = SCALES[scale]
    sizing = {"num_items": sizes.items, "length": sizes.generated, "draws": sizes.draws, "temperature": 0.3}
    trained = training_trial(scale, sizes.models[-1])
    return [
        Trial(f"generate-{task}", f"{_HERE}:generate_items", {"task": task, **sizing}, (trained,))
        for task in ("vocabulary", "arithmetic")
    ]


def counting_trial() -> Trial:
    """Return the trial that counts the parameters of Table 1's language models."""
    return Trial("count-language-models", f"{_HERE}:count_table")


def demo_trial(steps: int) -> Trial:
    """Return the trial that trains and scores the demo's model: order 2, 256 tokens."""
    corpus = _corpus("tiny-train")
    settings = {"steps": steps, "schedule": "cosine", "warmup_steps": max(1, steps // 25), "learning_rate": 4e-3,
                "batch_size": 16, "log_every": 25}  # fmt: skip
    trained = _train("train-demo", "demo", corpus, settings)
    params = {
        "label": "model",
        "corpus": _corpus("tiny-eval", orders=(2,)),
        "sequences": 512 if steps > 100 else 16,
        "text": "persuasion",
        "text_sequences": 512 if steps > 100 else 16,
    }
    return Trial("evaluate-demo", f"{_HERE}:evaluate_language_model", params, (trained,))
