"""Build a network by preset or dotted path, save it as a folder, and load it again.

A model folder holds `model.safetensors` and `config.json`: the network's path under "model", and its arguments. It is
the layout that `Decoder.from_pretrained` and `push_to_hub` of huggingface_hub read and write.
"""

from __future__ import annotations

import errno
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_model as load_weights
from safetensors.torch import save_model as save_weights
from torch import nn

from neophyte.core.files import read_json, write_json
from neophyte.core.spec import suggestion
from neophyte.models.presets import CLASSIFIERS, PRESETS

_DECODER = "neophyte.models.decoder:Decoder"
CONFIG, WEIGHTS = "config.json", "model.safetensors"


def model_config(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config of a network: its path under "model", and all its arguments.

    Args:
        name: A preset ("tiny", "standard", "mlp", "resnet18", ...) or a dotted path to a class or function that returns
            an `nn.Module`, such as "my_models.GRU" or "my_models:GRU".
        arguments: What to call it with; they go over a preset's own.
    """
    if name in PRESETS:
        return {"model": _DECODER, **PRESETS[name], **arguments}
    if name in CLASSIFIERS:
        return {**CLASSIFIERS[name], **arguments}
    if "." not in name and ":" not in name:
        known = [*PRESETS, *CLASSIFIERS]
        allowed = f"{', '.join(known)}, or a dotted path such as my_models.GRU"
        raise ValueError(f"model is {name!r}; allowed: {allowed}{suggestion(name, known)}")
    if ":" not in name:
        name = ":".join(name.rsplit(".", 1))
    return {"model": name, **arguments}


def build_model(config: Mapping[str, Any], *, trust: bool = True) -> nn.Module:
    """Build the network of a config.

    Args:
        config: Its path under "model", and its arguments.
        trust: Import and call whatever the path names. Otherwise only networks of this package, as becomes a config
            from a file that somebody else may have written.

    Raises:
        ValueError: Its path cannot be imported, does not take these arguments, or is not trusted.
    """
    arguments = {name: value for name, value in config.items() if name != "model"}
    module_name, _, attribute = str(config.get("model", _DECODER)).partition(":")
    if not trust and not module_name.startswith("neophyte.models."):
        raise ValueError(
            f"model is {config['model']!r}, code outside neophyte; allowed: a network of neophyte.models, or any "
            "with --trust-model (trust=True), if you trust who wrote the folder"
        )
    try:
        make = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError, TypeError) as error:  # the last two: an empty or relative path
        if module_name.startswith("neophyte.") and isinstance(error, ImportError) and error.name != module_name:
            raise  # an extra that is not installed
        raise ValueError(f"model is {config.get('model')!r}, which cannot be imported: {error}") from None
    if not trust and not (isinstance(make, type) and issubclass(make, nn.Module)):
        raise ValueError(f"model is {config['model']!r}, which is no nn.Module class")
    try:
        model = make(**arguments)
    except TypeError as error:
        raise ValueError(f"model {attribute} does not take {arguments}: {error}") from None
    if not isinstance(model, nn.Module):
        raise ValueError(f"model is {config['model']!r}, which makes a {type(model).__name__}; allowed: an nn.Module")
    return model


def save_model(model: nn.Module, config: Mapping[str, Any], folder: str | Path) -> None:
    """Write a model folder (the caller makes it appear whole)."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        save_weights(model, str(folder / WEIGHTS))
    except SafetensorError as error:
        raise OSError(errno.EIO, f"cannot be written ({error})", str(folder / WEIGHTS)) from None
    write_json(folder / CONFIG, dict(config))


def load_model(folder: str | Path, *, trust: bool = False) -> tuple[nn.Module, dict[str, Any]]:
    """Load a model folder, or the newest checkpoint of a training run's folder.

    Args:
        folder: What to load.
        trust: Run the code that its config names, even if it is not this package's.

    Returns:
        The network in evaluation mode on the CPU, and its config.

    Raises:
        ValueError: There is no model, or its weights are damaged or those of another architecture.
    """
    folder = newest_checkpoint(folder) or Path(folder)
    config = read_json(folder / CONFIG)
    if not isinstance(config, dict):
        raise ValueError(f"{folder / CONFIG}: holds no JSON object; allowed: a network's arguments")
    model = build_model(config, trust=trust)
    load_into(model, folder)
    return model.eval(), config


def load_into(model: nn.Module, folder: str | Path) -> None:
    """Load the weights of a model folder into a network.

    Raises:
        ValueError: The weights are missing, damaged or those of another architecture.
    """
    path = Path(folder) / WEIGHTS
    if not path.exists():
        raise ValueError(f"{path}: no such file")
    try:
        load_weights(model, str(path))
    except SafetensorError as error:
        raise ValueError(f"{path}: is damaged ({error})") from None
    except RuntimeError as error:
        detail = " ".join(str(error).split())[:200]
        raise ValueError(f"{path}: holds the weights of another architecture ({detail})") from None


def newest_checkpoint(run: str | Path) -> Path | None:
    """Return the newest complete checkpoint of a training run's folder, or None."""
    found = sorted((Path(run) / "checkpoints").glob("step-*"))
    return found[-1] if found else None


def count_parameters(model: nn.Module) -> int:
    """Return the number of trainable parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
