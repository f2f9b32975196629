"""Specs: frozen dataclasses that are the Python argument, the command line, the TOML preset and the manifest at once."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

Spec = TypeVar("Spec")


def check_integer(field: str, value: Any, low: int, high: int | None = None) -> None:
    """Raise ValueError unless `value` is an integer in [low, high].

    Booleans are refused: `True` is an integer in Python and never what the user meant.
    """
    allowed = f"an integer of at least {low}" if high is None else f"an integer in [{low}, {high}]"
    if not isinstance(value, int) or isinstance(value, bool) or value < low or (high is not None and value > high):
        raise ValueError(f"{field} is {value!r}; allowed: {allowed}")


def check_real(field: str, value: Any, low: float, high: float = math.inf, *, open_low: bool = False) -> None:
    """Raise ValueError unless `value` is a finite number in [low, high], or in (low, high] with `open_low`."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not good or value > high or value < low or (open_low and value == low):
        upper = "a finite number" if math.isinf(high) else f"at most {high}"
        lower = f"above {low}" if open_low else f"at least {low}"
        raise ValueError(f"{field} is {value!r}; allowed: {upper}, {lower}")


def check_choice(field: str, value: Any, choices: Iterable[Any]) -> None:
    """Raise ValueError unless `value` is one of `choices`; the message gives the nearest name."""
    choices = list(choices)
    if value not in choices:
        allowed = ", ".join(str(choice) for choice in choices)
        raise ValueError(f"{field} is {value!r}; allowed: {allowed}{suggestion(value, choices)}")


def suggestion(value: Any, choices: Iterable[Any]) -> str:
    """Return " (did you mean NAME?)" for the choice nearest to `value`, or an empty string."""
    near = difflib.get_close_matches(str(value), [str(choice) for choice in choices], n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def from_mapping(cls: type[Spec], values: Mapping[str, Any]) -> Spec:
    """Build the spec `cls` from a mapping such as parsed JSON or TOML; lists become tuples.

    Raises:
        ValueError: A field is unknown (the message gives the nearest name) or a value is out of range.
    """
    fields = {field.name for field in dataclasses.fields(cls) if field.init}  # type: ignore[arg-type]
    for name in values:
        if name not in fields:
            raise ValueError(
                f"{name} is not a field of {cls.__name__}{suggestion(name, fields)}; allowed: {', '.join(sorted(fields))}"
            )
    return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


def to_mapping(spec: Any) -> dict[str, Any]:
    """Return the spec's fields as plain JSON values; `from_mapping` is its inverse."""
    return json.loads(json.dumps(dataclasses.asdict(spec)))


def digest(value: Any, length: int = 12) -> str:
    """Return the first `length` hex digits of a blake2b hash of the canonical JSON of `value`."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode()).hexdigest()[:length]
