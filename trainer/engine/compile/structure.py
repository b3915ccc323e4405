"""Nested arguments and results as flat lists: dictionaries, lists and tuples of anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def flatten(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf of nested dictionaries, lists and tuples, with its path as in `batch['image']`."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from flatten(item, f"{where}[{key!r}]")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from flatten(item, f"{where}[{index}]")
    else:
        yield where, value


def rebuild(value: Any, leaves: Iterator[Any]) -> Any:
    """`value` with its leaves replaced, in the order of `flatten`."""
    if isinstance(value, dict):
        return {key: rebuild(item, leaves) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(rebuild(item, leaves) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(rebuild(item, leaves) for item in value)
    return next(leaves)


def outline(value: Any) -> Any:
    """A hashable outline of the nesting, without the leaves."""
    if isinstance(value, dict):
        return ("dict", tuple((key, outline(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return (type(value).__name__, tuple(outline(item) for item in value))
    return None
