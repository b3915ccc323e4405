"""Nested arguments and results as flat lists: dictionaries, lists and tuples of anything, and their subclasses."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from typing import Any

_BUILTIN = frozenset({dict, list, tuple})


def flatten(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Yields every leaf of nested dictionaries, lists and tuples, with its path as in `batch['image']`."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from flatten(item, f"{where}[{key!r}]")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from flatten(item, f"{where}[{index}]")
    else:
        yield where, value


def rebuild(value: Any, leaves: Iterator[Any]) -> Any:
    """`value` with its leaves replaced, in the order of `flatten`; every container keeps its class."""
    kind = type(value)
    if kind is dict:
        return {key: rebuild(item, leaves) for key, item in value.items()}
    if isinstance(value, dict):
        return _dictionary(value, kind, leaves)
    if not isinstance(value, list | tuple):
        return next(leaves)
    items = [rebuild(item, leaves) for item in value]
    if kind is list:
        return items
    if isinstance(value, list):
        made = list.__new__(kind)
        list.extend(made, items)
        return made
    if hasattr(kind, "n_sequence_fields"):
        return kind(items)  # a C structure, such as time.struct_time
    return tuple.__new__(kind, items)


def _dictionary(value: Any, kind: type, leaves: Iterator[Any]) -> Any:
    """A dictionary of a subclass, created without its `__init__` and `__setitem__`, which may do anything."""
    base: Any = next((each for each in (OrderedDict, defaultdict) if issubclass(kind, each)), dict)
    made = base.__new__(kind)
    if base is defaultdict:
        made.default_factory = value.default_factory
    for key, item in value.items():
        base.__setitem__(made, key, rebuild(item, leaves))
    return made


def outline(value: Any) -> Any:
    """A hashable key of the nesting without the leaves: classes, lengths, keys with their types."""
    if isinstance(value, dict):
        items = tuple([(_typed(key), outline(item)) for key, item in value.items()])
        return (type(value), getattr(value, "default_factory", None), own_attribute(value), items)
    if isinstance(value, list | tuple):
        return (type(value), own_attribute(value), tuple([outline(item) for item in value]))
    return None


def _typed(key: Any) -> Any:
    """A form of a dictionary's key that tells apart 1, 1.0 and True, and 0.0 and -0.0."""
    if type(key) is str:
        return key
    if isinstance(key, tuple):
        return (type(key), tuple([_typed(item) for item in key]))
    return (type(key), repr(key) if isinstance(key, float) else key)


def own_attribute(value: Any) -> str | None:
    """The name of an attribute that a container of a subclass has in addition to its items, if there is one."""
    kind = type(value)
    if kind in _BUILTIN:
        return None
    return next(iter(getattr(value, "__dict__", ())), None) or next((name for name, _ in slots_of(value)), None)


def slots_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the name and the value of each of the `__slots__` that has one."""
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            name = f"_{base.__name__.lstrip('_')}{slot}" if slot.startswith("__") and not slot.endswith("__") else slot
            if slot not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield name, getattr(value, name)
