"""Specs: frozen dataclasses that are Python argument, command line, TOML preset and manifest at once."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import math
import sys
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

Spec = TypeVar("Spec")


def check_integer(field: str, value: Any, low: int, high: int | None = None) -> None:
    """Raise ValueError unless `value` is an integer, Python's or NumPy's, in [low, high].

    Booleans are refused: `True` is an integer in Python and never what the user meant.
    """
    allowed = f"an integer of at least {low}" if high is None else f"an integer in [{low}, {high}]"
    good = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not good or value < low or (high is not None and value > high):
        raise ValueError(f"{field} is {value!r}; allowed: {allowed}")


def check_real(field: str, value: Any, low: float, high: float = math.inf, *, open_low: bool = False) -> None:
    """Raise ValueError unless `value` is a finite number in [low, high], or in (low, high] with `open_low`."""
    # Compared, not math.isfinite, which fails on an integer too large for a float.
    good = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    if not good or value > high or value < low or (open_low and value == low):
        upper = "a finite number" if math.isinf(high) else f"at most {high}"
        lower = f"above {low}" if open_low else f"at least {low}"
        raise ValueError(f"{field} is {value!r}; allowed: {upper}, {lower}")


def check_boolean(field: str, value: Any) -> None:
    """Raise ValueError unless `value` is True or False; 1 and 0 equal them, but are other JSON."""
    if not isinstance(value, bool):
        raise ValueError(f"{field} is {value!r}; allowed: True or False")


def set_plain(spec: Any) -> None:
    """Turn the NumPy scalars in a frozen spec's fields into Python's own, which JSON and addresses take.

    Args:
        spec: The spec, still in its `__post_init__`.
    """

    def plain(value: Any) -> Any:
        return value.item() if isinstance(value, np.generic) else value

    for field in dataclasses.fields(spec):
        value = getattr(spec, field.name)
        new = tuple(plain(item) for item in value) if isinstance(value, tuple) else plain(value)
        object.__setattr__(spec, field.name, new)


def set_reals(spec: Any, *fields: str) -> None:
    """Turn the numbers in these fields of a frozen spec, checked before, into floats.

    5 equals 5.0 but is other JSON: without this, equal specs would have different identities.

    Args:
        spec: The spec, still in its `__post_init__`.
        *fields: Names of fields that hold a real number or a tuple of them.
    """
    for field in fields:
        value = getattr(spec, field)
        real = tuple(float(item) for item in value) if isinstance(value, tuple) else float(value)
        object.__setattr__(spec, field, real)


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
    if not isinstance(values, Mapping):
        raise ValueError(f"spec is {values!r}; allowed: an object with the fields of {cls.__name__}")
    fields = {field.name for field in dataclasses.fields(cls) if field.init}  # type: ignore[arg-type]
    for name in values:
        if name not in fields:
            allowed = ", ".join(sorted(fields))
            raise ValueError(f"{name} is not a field of {cls.__name__}{suggestion(name, fields)}; allowed: {allowed}")
    return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


def change(spec: Spec, **changes: Any) -> Spec:
    """Return the spec with some fields changed, checked as by `from_mapping`."""
    fields = {field.name: getattr(spec, field.name) for field in dataclasses.fields(spec)}  # type: ignore[arg-type]
    return from_mapping(type(spec), {**fields, **changes})


def to_mapping(spec: Any) -> dict[str, Any]:
    """Return the spec's fields as plain JSON values; `from_mapping` is its inverse."""
    return json.loads(json.dumps(dataclasses.asdict(spec)))


def digest(value: Any, length: int = 12) -> str:
    """Return the first `length` hex digits of a blake2b hash of the canonical JSON of `value`."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode()).hexdigest()[:length]
