"""The command line. Commands are imported when they are called, so that --help loads nothing heavy."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, NoReturn

from neophyte import __version__

_FAMILIES = {
    "metalang": ("sample", "generate", "train", "evaluate", "bench"),
    "pvr": ("sample", "generate", "train", "evaluate", "bench"),
    "mazeworld": ("sample", "bench"),
}
_COMMON = "neophyte.cli.common"


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run one command and exit: 0 if all is well, 1 if a result is bad, 2 if the input is (one line says why)."""
    try:
        from cyclopts import App, CycloptsError
    except ImportError:
        _fail("the command line needs more packages: pip install 'neophyte[cli]'", 2)
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # read when torch is loaded; the reason is in running/engines.py
    app = _make_app(App)
    # A console script's path lacks the current folder, where people keep the model that --model names.
    if "" not in sys.path:
        sys.path.append("")
    try:
        app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        _fail(" ".join(str(error).split()), 2)
    except ImportError as error:
        extra = {"torch": "train", "matplotlib": "plots", "datasets": "text", "safetensors": "train",
                 "torchvision": "vision", "sklearn": "vision", "PIL": "vision", "pygame": "play",
                 "gymnasium": "envs"}  # fmt: skip
        name = (error.name or "").partition(".")[0]
        if name not in extra:
            raise
        _fail(f"{name} is not installed: pip install 'neophyte[{extra[name]}]'", 2)
    except ValueError as error:
        if not _raised_here(error):
            raise  # in the user's own model, or a bug: both want the traceback
        _fail(" ".join(str(error).split()), 2)
    except OSError as error:
        _fail(f"{error.filename or 'write'}: {error.strerror or error}", 2)
    except RuntimeError as error:
        if type(error).__name__ != "TrialError":
            raise
        _fail(str(error), 1)
    except MemoryError as error:
        _fail(f"out of memory ({error}); allowed: smaller sizes", 2)
    except FloatingPointError as error:
        _fail(str(error), 1)
    except KeyboardInterrupt:
        _fail("interrupted; run the same command again to go on", 130)
    _leave(0)


def _make_app(app_class: Any) -> Any:
    app = app_class(
        name="neophyte",
        help="Benchmarks for models that begin knowing nothing and must learn in context.",
        version=__version__,
        suppress_keyboard_interrupt=False,
    )
    app.command(f"{_COMMON}:list_all", name="list", help="List tasks, experiments and model presets.")
    families = {
        "sample": "Show a sample in a readable form.",
        "generate": "Write a data set to disk.",
        "train": "Train a model.",
        "evaluate": "Score a model against the oracle and the controls.",
        "bench": "Measure the generator's speed and memory.",
    }
    for verb, text in families.items():
        group = app_class(name=verb, help=text)
        for family in [family for family, verbs in _FAMILIES.items() if verb in verbs]:
            group.command(f"neophyte.cli.{family}:{verb}", name=family, help=text)
        app.command(group)
    app.command("neophyte.cli.mazeworld:play", name="play", help="Walk through a maze with the keys.")
    app.command(f"{_COMMON}:verify", name="verify", help="Check a data set on disk against its recipe.")
    app.command(f"{_COMMON}:certify", name="certify", help="Compare the samples of a training and a test set.")
    app.command(f"{_COMMON}:run", name="run", help="Run an experiment: its table, figure and claims.")
    data = app_class(name="data", help="Fetch outside data sets.")
    data.command(f"{_COMMON}:fetch", name="fetch", help="Download a data set (the only command that uses the network).")
    app.command(data)
    return app


def _raised_here(error: BaseException) -> bool:
    """Whether the line that raised the error is this package's, where every ValueError is worded for the user."""
    frame = error.__traceback__
    while frame and frame.tb_next:
        frame = frame.tb_next
    return frame is not None and Path(frame.tb_frame.f_code.co_filename).is_relative_to(Path(__file__).parent.parent)


def _fail(message: str, code: int) -> NoReturn:
    print(f"neophyte: {message}", file=sys.stderr)  # noqa: T201
    _leave(code)


def _leave(code: int) -> NoReturn:
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        # Under torchrun: gloo's threads can abort a process that exits the usual way after all its work is done.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
