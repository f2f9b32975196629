"""Commands of Pointer Value Retrieval: sample, generate, train, evaluate, bench."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from cyclopts import Parameter

from neophyte import __version__, pvr
from neophyte.cli.display import console, print_json, print_table, progress, step_watcher
from neophyte.cli.options import Json, Quiet, given, json_object, options_for
from neophyte.cli.pvr_views import show_images, show_tokens
from neophyte.core.addressing import MAX_INDEX
from neophyte.core.spec import change, check_choice, check_integer
from neophyte.pvr import PRESETS, VISUAL_PRESETS, TokenDataset, TokenSpec, VisualDataset, VisualSpec
from neophyte.training.spec import TrainSpec

if TYPE_CHECKING:
    from typing import Any as ImageOptions
    from typing import Any as TaskOptions
    from typing import Any as TrainOptions
else:
    TaskOptions = options_for(TokenSpec, "Task")
    # Those that images share with tokens, such as --window, are among the task's.
    ImageOptions = options_for(VisualSpec, "Images", without={*TokenSpec.__dataclass_fields__, "held_out"})
    TrainOptions = options_for(TrainSpec, "Training")

Download = Annotated[bool, Parameter(negative="", help="Fetch an image bank that is missing.")]


def _dataset(
    preset: str, split: str | None, seed: int, data: Path, download: bool, *options: Any
) -> TokenDataset | VisualDataset:
    """Return the task of a preset, of tokens or of images, with the fields that were given changed."""
    check_choice("preset", preset, [*PRESETS, *VISUAL_PRESETS])
    fields = {name: value for group in options for name, value in given(group).items()}
    if preset in PRESETS:
        return pvr.tokens(preset, split=split, seed=seed, **fields)
    if download:
        from neophyte.pvr.fetch import fetch_missing

        spec = change(VISUAL_PRESETS[preset].spec, **fields)
        fetch_missing({spec.pointer_bank, *spec.cell_banks}, data)
    return pvr.images(preset, split=split, seed=seed, root=data, **fields)


def sample(
    index: int = 0,
    *,
    preset: str = "m2-train",
    count: int | None = None,
    twins: bool = False,
    split: str | None = None,
    seed: int = 0,
    out: Path = Path("pvr-sample.png"),
    data: Path = Path("data"),
    download: Download = False,
    options: TaskOptions = None,
    image_options: ImageOptions = None,
    as_json: Json = False,
) -> None:
    """Show examples: of tokens the pointer, its window and the label; of images a labelled contact sheet.

    Parameters
    ----------
    index
        The first example.
    preset
        Which task: of tokens such as m0-train ... m5-test, holdout-m1-train, boolean-train; or of images such as
        digits-iid-train, mnist-holdout-test. `neophyte list` shows all that need no download.
    count
        How many examples; by default 1 of tokens, 16 of images.
    twins
        Show the counterfactual twins of each example of tokens.
    split
        Split of the task; by default the preset's own.
    seed
        Seed of the task.
    out
        Where the contact sheet goes.
    data
        Folder of the image banks.
    """
    source = _dataset(preset, split, seed, data, download, options, image_options)
    shown = (16 if isinstance(source, VisualDataset) else 1) if count is None else count
    check_integer("count", shown, 1, 400)
    check_integer("index", index, 0, MAX_INDEX - shown + 1)
    indices = index + np.arange(shown)
    if twins and isinstance(source, VisualDataset):
        raise ValueError(f"twins is True; allowed for the images of {preset}: False")
    if isinstance(source, VisualDataset):
        show_images(source, indices, out, preset, as_json)
    else:
        show_tokens(source, indices, twins, as_json)


def generate(
    *,
    out: Path,
    preset: str = "m0-train",
    split: str | None = None,
    seed: int = 0,
    shard_size: int | None = None,
    threads: int = 1,
    options: TaskOptions = None,
    quiet: Quiet = False,
) -> None:
    """Write a token task to disk: .npy shards, the label in the last column; a killed run goes on where it stopped.

    Nothing needs to be on disk to train: `neophyte train` streams. This is for other programs.

    Parameters
    ----------
    out
        Folder to write; empty, or an unfinished one of the same set.
    preset
        Which task, such as m0-train.
    split
        Split of the task; by default the preset's own.
    seed
        Seed of the task.
    shard_size
        Examples in a shard; by default a million.
    threads
        Threads to draw with.
    """
    from neophyte.pvr.storage import generate as write

    source = pvr.tokens(preset, split=split, seed=seed, **given(options))
    with progress("generate", len(source), "examples", quiet) as advance:
        manifest = write(source, out, shard_size=shard_size, threads=threads, progress=advance)
    console.print(f"{out}: {len(source):,} examples in {len(manifest['shards'])} shards", markup=False)


def train(
    *,
    out: Path,
    model: str | None = None,
    model_args: str = "{}",
    preset: str = "m0-train",
    split: str | None = None,
    data_seed: int = 0,
    epochs: int | None = None,
    test_examples: int = 10_000,
    data: Path = Path("data"),
    download: Download = False,
    options: TaskOptions = None,
    image_options: ImageOptions = None,
    train_options: TrainOptions = None,
    quiet: Quiet = False,
) -> None:
    """Train a classifier by the paper's recipe; a run that was stopped goes on with the same command.

    What is not given is as in appendix A of the paper: of tokens SGD at 0.05, 200 epochs, 800 steps at least; of images
    Adam at 1e-4, 10 epochs. The test accuracy is that on fresh examples, or where something is held out on that.

    Parameters
    ----------
    out
        Folder of the run: run.json, metrics.jsonl and checkpoints.
    model
        A preset (mlp, mlp-2x, transformer, mixer, transformer-64, mixer-64; resnet18 and vgg11-bn of images), by
        default mlp, or resnet18 of images; or the dotted path of your own nn.Module: it is called with num_classes, of
        tokens also length and alphabet, and MODEL_ARGS, and maps inputs uint8 (batch, ...) to logits
        (batch, num_classes).
    model_args
        JSON object of the model's arguments.
    preset
        Which training set, such as m1-train or mnist-iid-train; --num-examples sets its size.
    split
        Split of the task; by default the preset's own.
    data_seed
        Seed of the training set.
    epochs
        Passes over the training set.
    test_examples
        Examples of the test set.
    data
        Folder of the image banks.
    """
    from neophyte.evaluation.classification import measure
    from neophyte.experiments.pvr.scales import IMAGE_RECIPE, TOKEN_RECIPE
    from neophyte.experiments.pvr.trials import make_spec
    from neophyte.models.loading import count_parameters, model_config
    from neophyte.pvr.references import task_law
    from neophyte.training.data import example_batches
    from neophyte.training.loop import Processes, classification_loss, pick_device
    from neophyte.training.loop import train as run

    if epochs is not None:
        check_integer("epochs", epochs, 1)
    check_integer("test_examples", test_examples, 1)
    source = _dataset(preset, split, data_seed, data, download, options, image_options)
    tests = _test_set(source, preset, data)
    recipe = {"betas": (0.9, 0.999), **(TOKEN_RECIPE if isinstance(source, TokenDataset) else IMAGE_RECIPE)}
    recipe |= {name: value for name, value in given(train_options).items() if name != "seed"}
    if recipe.setdefault("epoch_size", len(source)) != len(source):
        raise ValueError(f"epoch_size is {recipe['epoch_size']}; allowed: {len(source)}, the size of the set "
                         "(--num-examples)")  # fmt: skip
    if epochs is not None:
        recipe |= {"epochs": epochs, "min_steps": 1}
    seed = given(train_options).get("seed", 0)
    spec = make_spec(recipe, len(source), seed, 10)
    arguments = json_object("model_args", model_args)
    _check_sizes("model_args", arguments, source, preset)
    model = model or ("mlp" if isinstance(source, TokenDataset) else "resnet18")
    config = model_config(model, {**_sizes(source), **arguments})
    _check_kind("model", config, source, preset)
    device = pick_device(spec.device)
    batch_size = 2000 if isinstance(source, TokenDataset) else 100

    def evaluate(network: Any) -> dict[str, float]:
        count = min(test_examples, 5_000)
        return {"test_accuracy": measure(network, tests, count, device=device, batch_size=batch_size).accuracy}

    with progress("train", spec.steps, "steps", quiet) as advance:
        draw, what = example_batches(source, shuffle_seed=seed)
        network = run(
            config,
            spec,
            draw,
            out,
            data=what,
            loss=classification_loss,
            evaluate=evaluate,
            progress=step_watcher(advance),
        )
    if Processes().rank:
        return
    score = measure(network, tests, test_examples, device=device, batch_size=batch_size)
    constant = tests.label_law().max() if isinstance(tests, VisualDataset) else task_law(tests).max()
    console.print(f"{out}: {count_parameters(network):,} parameters, {spec.steps} steps on {len(source):,} examples, "
                  f"test accuracy {score.accuracy:.4f} [{score.low:.4f}, {score.high:.4f}], best constant guess "
                  f"{constant:.4f}", markup=False)  # fmt: skip


def _test_set(source: TokenDataset | VisualDataset, preset: str, data: Path) -> TokenDataset | VisualDataset:
    """Return the test set of a training set: the same task, of what training lacks where something is held out."""
    if isinstance(source, TokenDataset):
        part = "all" if source.spec.holdout == "none" else "test"
        return TokenDataset(dataclasses.replace(source.spec, part=part), "test", 0)
    name = preset.removesuffix("-train") + "-test"
    spec = VISUAL_PRESETS.get(name, VISUAL_PRESETS[preset]).spec
    changed = {field: getattr(spec, field) for field in ("part", "bank_part", "num_examples")}
    return VisualDataset(dataclasses.replace(source.spec, redraw=False, **changed), "test", 0, data)


def _sizes(source: TokenDataset | VisualDataset) -> dict[str, int]:
    """Return what a network must know of its inputs and labels."""
    if isinstance(source, VisualDataset):
        return {"num_classes": source.num_classes}
    return {"length": source.spec.length, "alphabet": source.spec.alphabet, "num_classes": source.spec.classes}


def _check_sizes(where: str, config: dict[str, Any], source: TokenDataset | VisualDataset, preset: str) -> None:
    """Refuse a network that was made for other inputs or labels."""
    for name, value in _sizes(source).items():
        if config.get(name, value) != value:
            raise ValueError(f"{where}: {name} is {config[name]!r}; allowed: {value}, that of {preset}")


def _check_kind(where: str, config: dict[str, Any], source: TokenDataset | VisualDataset, preset: str) -> None:
    """Refuse a network of this package that takes images where there are tokens, or the other way round."""
    kinds = {"neophyte.models.classifiers": "tokens", "neophyte.models.vision": "images",
             "neophyte.models.decoder": "texts"}  # fmt: skip
    wanted = "tokens" if isinstance(source, TokenDataset) else "images"
    module, _, name = str(config["model"]).partition(":")
    if kinds.get(module, wanted) != wanted:
        raise ValueError(f"{where} is {name}, a network of {kinds[module]}; allowed for {preset}: one of {wanted}")


def evaluate(
    checkpoint: Path,
    *,
    preset: str = "m0-test",
    examples: int = 100_000,
    split: str | None = None,
    seed: int = 0,
    trust_model: bool = False,
    device: str = "auto",
    data: Path = Path("data"),
    download: Download = False,
    options: TaskOptions = None,
    image_options: ImageOptions = None,
    as_json: Json = False,
) -> None:
    """Score a classifier: its accuracy with the exact rule and every control beside it.

    Parameters
    ----------
    checkpoint
        A training run's folder, or a model folder (config.json and model.safetensors).
    preset
        Which test set, such as m1-test.
    examples
        How many examples.
    split
        Split of the task; by default the preset's own.
    seed
        Seed of the task.
    trust_model
        Run the code that the model's folder names, if it is not neophyte's: your own model, or one whose author you
        trust.
    device
        auto, cpu, cuda or mps.
    data
        Folder of the image banks.
    """
    from neophyte.evaluation.classification import measure
    from neophyte.models.loading import load_model
    from neophyte.training.loop import pick_device

    check_integer("examples", examples, 1)
    source = _dataset(preset, split, seed, data, download, options, image_options)
    model, config = load_model(checkpoint, trust=trust_model)
    _check_sizes(str(checkpoint), config, source, preset)
    _check_kind(str(checkpoint), config, source, preset)
    where = pick_device(device)
    batch_size = 2000 if isinstance(source, TokenDataset) else 100
    score = measure(model.to(where), source, examples, device=where, batch_size=batch_size)
    errors = source.losses(np.arange(min(examples, 10_000)))
    controls = {name: 1.0 - float(error.mean()) for name, error in errors.items()}
    if as_json:
        found = {name: getattr(score, name) for name in ("accuracy", "low", "high", "loss_nats", "examples")}
        print_json({**found, "preset": preset, "controls": controls, "checkpoint": str(checkpoint)})
        return
    rows = [[checkpoint.name, score.accuracy], *([name, value] for name, value in controls.items())]
    print_table(f"Accuracy on {preset}", ["what", "accuracy"], rows)
    console.print(f"95 % interval [{score.low:.4f}, {score.high:.4f}], {examples:,} examples; controls on "
                  f"{min(examples, 10_000):,}", markup=False)  # fmt: skip


def bench(
    *,
    window: Annotated[list[int], Parameter(consume_multiple=True)] | None = None,
    threads: Annotated[list[int], Parameter(consume_multiple=True)] | None = None,
    block: Annotated[list[str], Parameter(consume_multiple=True)] | None = None,
    examples: int = 4_000_000,
    repeats: int = 5,
    data: Path = Path("data"),
    download: Download = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure the generators: token examples a second by aggregation, window and threads, and images a second.

    Parameters
    ----------
    window
        Window sizes to measure.
    threads
        Numbers of threads to measure.
    block
        Visual presets to measure; by default mnist-iid-train where MNIST is in DATA, else digits-iid-train.
    examples
        Token examples in a measurement; a hundredth of it for images.
    repeats
        Measurements; the median counts.
    data
        Folder of the image banks.
    """
    from neophyte.core.files import environment
    from neophyte.pvr.bench import bench as measure
    from neophyte.pvr.fetch import fetch_missing
    from neophyte.pvr.visual_spec import preset as visual_preset

    windows, counts = window or [1, 3, 6], threads or [1, 2]
    here = download or (data / "MNIST").exists()
    blocks = block or ["mnist-iid-train" if here else "digits-iid-train"]
    if download:
        specs = [visual_preset(name).spec for name in blocks]
        fetch_missing({bank for spec in specs for bank in (spec.pointer_bank, *spec.cell_banks)}, data)
    results = []
    with progress("bench", (5 * len(windows) + len(blocks)) * len(counts), "results", quiet) as advance:
        for result in measure(windows=windows, threads=counts, blocks=blocks, root=data, examples=examples,
                              repeats=repeats):  # fmt: skip
            results.append(result)
            advance(1)
    if as_json:
        print_json({"family": "pvr", "version": __version__, "machine": environment(), "results": results})
        return
    rows = [
        [r["name"], r["params"].get("aggregation", r["params"].get("preset")), r["params"].get("window", ""),
         r["threads"], f"{r['value'] / 1e6:.3f} M", r["unit"]]
        for r in results
    ]  # fmt: skip
    print_table("Pointer Value Retrieval", ["what", "task", "window", "threads", "value", "unit"], rows)
