"""Commands of Meta-Language: sample, generate, train, evaluate, bench."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from cyclopts import Parameter
from rich.text import Text

from neophyte import __version__, metalang
from neophyte.cli.display import console, print_json, print_table, progress, step_watcher
from neophyte.cli.options import Json, Quiet, given, json_object, options_for
from neophyte.metalang import Corpus, CorpusSpec, TextCorpus
from neophyte.training.spec import TrainSpec

if TYPE_CHECKING:
    from typing import Any as CorpusOptions
    from typing import Any as TrainOptions

    from neophyte.evaluation.curves import Predictor
else:
    CorpusOptions = options_for(CorpusSpec, "Corpus")
    TrainOptions = options_for(TrainSpec, "Training")

_SYMBOLS = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# From what the oracle holds nearly certain to what surprises even it.
_COLOURS = ((0.5, "green"), (0.2, "cyan"), (0.05, "yellow"), (0.0, "red"))


def _corpus(preset: str, split: str | None, seed: int, options: Any) -> Corpus:
    return metalang.corpus(preset, split=split, seed=seed, **given(options))


def sample(
    index: int = 0,
    *,
    preset: str = "train",
    split: str | None = None,
    seed: int = 0,
    length: int = 320,
    options: CorpusOptions = None,
    as_json: Json = False,
) -> None:
    """Show the beginning of a sequence: each token in the colour of its probability under the exact law.

    Parameters
    ----------
    index
        Which sequence.
    preset
        Which corpus: train, warmup, eval, tiny-train or tiny-eval.
    split
        Split of the corpus; by default the preset's own.
    seed
        Seed of the corpus.
    length
        How many tokens to show.
    """
    corpus = _corpus(preset, split, seed, options)
    language = corpus.language(index)
    piece = next(corpus.pieces(index, min(length, corpus.spec.context_length)))
    facts = {
        "index": index,
        "split": corpus.split,
        "seed": seed,
        "law": corpus.spec.law,
        "order": language.order,
        "vocab_size": corpus.spec.vocab_size,
        "lam": language.lam,
        "mean_nll_nats": float(piece.nll.mean()),
    }
    if as_json:
        print_json({**facts, "tokens": piece.tokens.tolist(), "nll_nats": piece.nll.astype(float).round(5).tolist()})
        return
    console.print(
        f"sequence {index} ({corpus.split}, seed {seed}): {facts['law']} language of order {language.order} over "
        f"{facts['vocab_size']} tokens, lam {language.lam:.2f}, mean -log p of these {len(piece.tokens)} tokens "
        f"{facts['mean_nll_nats']:.3f} nats",
        markup=False,
    )
    text = Text()
    wide = corpus.spec.vocab_size > len(_SYMBOLS)
    for token, probability in zip(piece.tokens.tolist(), np.exp(-piece.nll), strict=True):
        colour = next(name for least, name in _COLOURS if probability >= least)
        text.append(f"{token} " if wide else _SYMBOLS[token], style=colour)
    console.print(text, soft_wrap=False)
    legend = Text("oracle probability: ")
    for (least, name), label in zip(_COLOURS, ("above 0.5", "0.2-0.5", "0.05-0.2", "below 0.05"), strict=True):
        legend.append(f"{label}  " if least >= 0 else "", style=name)
    console.print(legend)


def generate(
    *,
    out: Path,
    preset: str = "tiny-train",
    split: str | None = None,
    seed: int = 0,
    shard_size: int | None = None,
    threads: int = 1,
    options: CorpusOptions = None,
    quiet: Quiet = False,
) -> None:
    """Write a corpus to disk: .npy shards and a manifest with its recipe; a killed run goes on where it stopped.

    Nothing needs to be on disk to train: `neophyte train` streams. This is for other programs.

    Parameters
    ----------
    out
        Folder to write; empty, or an unfinished one of the same corpus.
    preset
        Which corpus: train, warmup, eval, tiny-train or tiny-eval.
    split
        Split of the corpus; by default the preset's own.
    seed
        Seed of the corpus.
    shard_size
        Sequences in a shard; by default 8192, or as many as make a quarter of a gigabyte if that is fewer.
    threads
        Threads to draw with.
    """
    from neophyte.metalang.storage import generate as write

    corpus = _corpus(preset, split, seed, options)
    with progress("generate", len(corpus), "sequences", quiet) as advance:
        manifest = write(corpus, out, shard_size=shard_size, threads=threads, progress=advance)
    console.print(f"{out}: {len(corpus):,} sequences of {corpus.spec.context_length:,} tokens in "
                  f"{len(manifest['shards'])} shards", markup=False)  # fmt: skip


def train(
    *,
    out: Path,
    model: str = "demo",
    model_args: str = "{}",
    preset: str = "tiny-train",
    split: str | None = None,
    corpus_seed: int = 0,
    threads: int = 1,
    options: CorpusOptions = None,
    train_options: TrainOptions = None,
    quiet: Quiet = False,
) -> None:
    """Train a model on a corpus that streams; a run that was stopped goes on with the same command.

    Under `torchrun --nproc-per-node N -m neophyte train metalang ...` it trains on N devices.

    Parameters
    ----------
    out
        Folder of the run: run.json, metrics.jsonl and checkpoints.
    model
        A preset (tiny, small, standard, demo, laptop-2x32, laptop-3x64), or the dotted path of your own nn.Module: it
        is called with vocab_size and MODEL_ARGS and maps tokens (batch, time) to logits (batch, time, vocab_size).
    model_args
        JSON object of the model's arguments.
    preset
        Which corpus: train, warmup, eval, tiny-train or tiny-eval.
    split
        Split of the corpus; by default the preset's own.
    corpus_seed
        Seed of the corpus.
    threads
        Threads to draw with.
    """
    from neophyte.models.loading import count_parameters, model_config
    from neophyte.training.data import corpus_batches
    from neophyte.training.loop import Processes
    from neophyte.training.loop import train as run

    corpus = _corpus(preset, split, corpus_seed, options)
    spec = TrainSpec(**given(train_options))
    arguments = json_object("model_args", model_args)
    if arguments.get("vocab_size", corpus.spec.vocab_size) != corpus.spec.vocab_size:
        raise ValueError(
            f"vocab_size is {arguments['vocab_size']!r} in model_args; allowed: {corpus.spec.vocab_size}, the corpus's"
        )
    config = model_config(model, {"vocab_size": corpus.spec.vocab_size, **arguments})
    with progress("train", spec.steps, "steps", quiet) as advance:
        draw, data = corpus_batches(corpus, threads)
        trained = run(config, spec, draw, out, data=data, progress=step_watcher(advance))
    if Processes().rank:
        return
    from neophyte.training.metrics import read_metrics

    said = f"{out}: {count_parameters(trained):,} parameters"
    if lines := read_metrics(out):
        said += f", {lines[-1]['step']} steps, loss {lines[0]['loss_nats']:.3f} -> {lines[-1]['loss_nats']:.3f} nats"
    console.print(said, markup=False)


def evaluate(
    checkpoint: Path,
    *,
    preset: str = "eval",
    sequences: int = 64,
    context_length: int | None = None,
    curves: Path | None = None,
    text: str = "persuasion",
    trust_model: bool = False,
    device: str = "auto",
    threads: int = 1,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score a model: mean regret over the exact law in the second half of the context, averaged over orders.

    The official score takes the eval preset at its full 4,096 tokens: the first 64 sequences of each order (quick), or
    all 4,096 (full). It is one number that two people can compare.

    Parameters
    ----------
    checkpoint
        A training run's folder, or a model folder (config.json and model.safetensors).
    preset
        eval for the official score, tiny-eval for a quick look at a small model.
    sequences
        Sequences of each order.
    context_length
        Another context than the preset's, such as a longer one than the model was trained at; the score is then no
        official one.
    curves
        Folder for the loss by position on the same sequences and on TEXT, with every control: curves.png, table.csv.
    text
        Natural text for the curves: persuasion (a novel in the package), a .txt file or a folder of them.
    trust_model
        Run the code that the model's folder names, if it is not neophyte's: your own model, or one whose author you
        trust.
    device
        auto, cpu, cuda or mps.
    threads
        Threads for the generator.
    """
    from neophyte.core.spec import check_integer
    from neophyte.evaluation.language import official_score
    from neophyte.evaluation.networks import model_predictor
    from neophyte.models.loading import load_model
    from neophyte.training.loop import pick_device

    check_integer("sequences", sequences, 1)
    if context_length is not None:
        check_integer("context_length", context_length, 2)
    model, config = load_model(checkpoint, trust=trust_model)
    spec = metalang.corpus(preset).spec
    if config.get("vocab_size", spec.vocab_size) != spec.vocab_size:
        raise ValueError(
            f"{checkpoint}: vocab_size is {config['vocab_size']}; allowed: {spec.vocab_size}, that of {preset}"
        )
    corpus = metalang.corpus(preset, context_length=context_length or spec.context_length)
    natural = _text_for_curves(corpus.spec, text, sequences, curves) if curves else None
    predict = model_predictor(model, pick_device(device))
    with progress("evaluate", sequences * len(spec.orders), "sequences", quiet) as advance:
        score = official_score(
            predict,
            sequences=sequences,
            context_length=context_length,
            preset=preset,
            threads=threads,
            progress=advance,
        )
    official = preset == "eval" and context_length is None and sequences in (64, 4096)
    if natural and curves:
        _write_curves(predict, corpus, sequences, natural, curves, checkpoint.name, threads, quiet)
    if as_json:
        print_json({**dataclasses.asdict(score), "official": official, "checkpoint": str(checkpoint)})
        return
    rows = [[order, regret] for order, regret in score.by_order.items()]
    print_table("Regret over the oracle, second half of the context", ["order", "nats"], rows)
    kind = "official score" if official else "score (not the official one)"
    console.print(
        f"{kind}: {score.regret:.4f} nats [{score.low:.4f}, {score.high:.4f}], {score.sequences} sequences an order, "
        f"T = {score.context_length}, {score.task}",
        markup=False,
    )


def _text_for_curves(spec: CorpusSpec, text: str, sequences: int, folder: Path) -> TextCorpus:
    """Find what cannot be drawn or written before the model is scored, not after."""
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder}: holds files; allowed: an empty folder for --curves")
    return TextCorpus(text, context_length=spec.context_length, vocab_size=spec.vocab_size).first(sequences)


def _write_curves(
    predict: Predictor,
    corpus: Corpus,
    sequences: int,
    natural: TextCorpus,
    folder: Path,
    label: str,
    threads: int,
    quiet: bool,
) -> None:
    from neophyte.evaluation.language import corpus_losses, loss_rows
    from neophyte.experiments.metalang.curves import draw_panels
    from neophyte.plotting.figures import style
    from neophyte.running.trials import write_table

    total = sequences * len(corpus.spec.orders)
    with progress("curves", total + len(natural), "sequences", quiet) as advance:
        losses = corpus_losses(
            {label: predict}, corpus, total, text=natural, batch_size=16, threads=threads, progress=advance
        )
    rows = [{"trial": "evaluate", **row} for row in loss_rows(losses, label)]
    write_table(folder / "table.csv", rows)
    with style():
        draw_panels(rows, folder / "curves.png", f"{label}, T = {corpus.spec.context_length}")


def bench(
    *,
    order: Annotated[list[int], Parameter(consume_multiple=True)] | None = None,
    threads: Annotated[list[int], Parameter(consume_multiple=True)] | None = None,
    context_length: int = 4096,
    sequences: int = 64,
    repeats: int = 5,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure the generator: tokens a second by law, order and threads, with and without calibration.

    Parameters
    ----------
    order
        Orders to measure.
    threads
        Numbers of threads to measure.
    context_length
        Tokens in a sequence.
    sequences
        Sequences in a measurement.
    repeats
        Measurements; the median counts.
    """
    from neophyte.core.files import environment
    from neophyte.metalang.bench import bench as measure

    sizes = {"context_length": context_length, "sequences": sequences, "repeats": repeats}
    orders, counts = order or [2, 4, 6, 8], threads or [1, 2]
    results = []
    with progress("bench", 4 * len(orders) * len(counts) + 2, "results", quiet) as advance:
        for result in measure(orders=orders, threads=counts, **sizes):  # type: ignore[arg-type]
            results.append(result)
            advance(1)
    if as_json:
        print_json({"family": "metalang", "version": __version__, "machine": environment(), "results": results})
        return
    rows = [
        [
            r["name"],
            r["params"].get("law", ""),
            r["params"].get("order", ""),
            r["threads"],
            f"{r['value'] / 1e6:.2f} M",
            r["unit"],
        ]
        for r in results
    ]
    print_table("Meta-Language", ["what", "law", "order", "threads", "value", "unit"], rows)
