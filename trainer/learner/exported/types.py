"""Checks plain data against the types that a dataclass declares."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


def misfit(kind: type, values: Mapping[str, Any]) -> str | None:
    """The first of `values`, by name, whose type differs from the dataclass `kind`; None if all match.

    Types are those of JSON, with tuples for lists: numbers, booleans, text, None, tuples, mappings, unions and
    literals.
    """
    hints = hints_of(kind)
    return next((name for name, value in values.items() if not is_of(value, hints.get(name))), None)


@functools.cache
def hints_of(kind: type) -> Mapping[str, Any]:
    """The types of a dataclass's fields, by name; string annotations are evaluated."""
    return get_type_hints(kind)


def is_of(value: Any, kind: Any) -> bool:
    """Whether a value has a type; an integer is accepted as a float, a boolean is not an integer."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if kind is None or kind is type(None):
        return value is None
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in parts)
    if origin in (Union, UnionType):
        return any(is_of(value, one) for one in parts)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(parts) == 2 and parts[1] is Ellipsis:
            return all(is_of(one, parts[0]) for one in value)
        return len(value) == len(parts) and all(map(is_of, value, parts))
    if origin is not None:  # a mapping
        return isinstance(value, Mapping) and all(
            is_of(key, parts[0]) and is_of(one, parts[1]) for key, one in value.items()
        )
    return type(value) in ((int, float) if kind is float else (kind,))
