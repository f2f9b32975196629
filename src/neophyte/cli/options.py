"""Command-line options made from specs: one flag a field, with the spec's own words as its help."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import typing
from collections.abc import Container
from typing import Annotated, Any

from cyclopts import Parameter

# What a person would type for one value where the spec's field is a plural.
_ALIASES = {"orders": ("--orders", "--order")}


def field_help(spec: type) -> dict[str, str]:
    """Return the "Attributes:" of a spec's docstring and of those it inherits from, by field."""
    found: dict[str, str] = {}
    for cls in reversed(spec.__mro__[:-1]):
        _, _, section = (inspect.getdoc(cls) or "").partition("Attributes:\n")
        for match in re.finditer(r"^    (\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE):
            found[match[1]] = " ".join(match[2].split())
    return found


def options_for(spec: type, group: str, without: Container[str] = ()) -> Any:
    """Return a dataclass with the fields of `spec`, all optional: what is not given keeps the preset's value.

    Args:
        spec: A spec class.
        group: Heading of its options in the help.
        without: Fields that get no option.
    """
    hints, words = typing.get_type_hints(spec), field_help(spec)
    fields = []
    for field in dataclasses.fields(spec):
        if field.name in without:
            continue
        names = _ALIASES.get(field.name, (f"--{field.name.replace('_', '-')}",))
        many = str(hints[field.name]).endswith(", ...]")
        parameter = Parameter(
            name=names, help=words.get(field.name, ""), consume_multiple=many, show_default=False, group=group
        )
        annotation: Any = Annotated[hints[field.name] | None, parameter]  # type: ignore[valid-type,name-defined]
        fields.append((field.name, annotation, dataclasses.field(default=None)))
    made = dataclasses.make_dataclass(f"{spec.__name__}Options", fields, frozen=True, kw_only=True)
    made.__module__ = __name__  # cyclopts takes a class of the module "types" for a built-in one
    return Annotated[made, Parameter(name="*")]


def given(options: Any) -> dict[str, Any]:
    """Return the options that were given."""
    if options is None:
        return {}
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    return {name: value for name, value in values.items() if value is not None}


def json_object(field: str, text: str) -> dict[str, Any]:
    """Return the JSON object that an option holds.

    Raises:
        ValueError: It is no JSON, or no object.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{field} is {text!r}, which is not JSON ({error}); allowed: an object such as '{{}}'"
        ) from None
    if not isinstance(value, dict):
        raise ValueError(f"{field} is {text!r}; allowed: a JSON object such as '{{\"hidden\": 128}}'")
    return value


Json = Annotated[bool, Parameter(name="--json", negative="", help="Print one JSON object.")]
Quiet = Annotated[bool, Parameter(name="--quiet", negative="", help="Show no progress.")]
