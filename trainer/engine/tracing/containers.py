"""Keys of containers for guards, equal for equal contents; the attributes of objects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trainer.engine.tensor import Tensor

LONGEST = 4096
"""Longer containers are guarded only by their identity and length."""


@dataclass(frozen=True, slots=True)
class ContainerKey:
    """Class and keys of a container, whose items are compared one by one: containers of equal contents are equal."""

    kind: type
    keys: Any


DECLARED: Any = object()
"""A parameter that has not been created yet; no program depends on it."""


def outline_of(value: Any) -> Any:
    """The key of a container; any other value is returned unchanged."""
    if not isinstance(value, list | tuple | dict | set | frozenset):
        return value
    if is_long(value):
        return ContainerKey(type(value), (id(value), len(value)))
    if isinstance(value, dict):
        return ContainerKey(type(value), tuple([id(key) if isinstance(key, Tensor) else key for key in value]))
    return ContainerKey(type(value), len(value) if isinstance(value, list | tuple) else frozenset(value))


def is_long(value: Any) -> bool:
    """Whether a container has too many entries to guard each of them."""
    return len(value) > LONGEST


def entries(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the items of a container by index or key; members of sets are compared with their set."""
    if isinstance(value, dict):
        yield from dict.items(value)
    elif isinstance(value, list | tuple):
        yield from enumerate(value)


def is_frozen(kind: type) -> bool:
    """Whether a class is a frozen dataclass."""
    return bool(getattr(getattr(kind, "__dataclass_params__", None), "frozen", False))


def fields_of(value: Any) -> dict[str, Any]:
    """The instance attributes of an object, read without running code of its class."""
    try:
        fields = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return fields if isinstance(fields, dict) else {}
