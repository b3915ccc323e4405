"""Merges two documents and keeps the position of every value.

Mappings are merged key by key; everything else is replaced. Two rules prevent contradictions between base and override:
selecting another variant of a section (`optimizer.name: adam` over an `sgd`) drops the settings of the previous one,
and setting one key of an exclusive group (`train.steps` over `train.epochs`) drops the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from trainer.configs.problems import KeyPath
from trainer.configs.reader import Document
from trainer.configs.shape import section_at, variant_keys


def lay_over(base: Document, upper: Document, model: type[BaseModel]) -> Document:
    """`upper` merged over `base`, as a new document; `model` defines which keys exclude each other."""
    merged = Document(base.value, dict(base.keys), dict(base.values), [*base.problems, *upper.problems])
    merged.value = _merge(merged, upper, base.value, upper.value, (), model)
    return merged


def assign(document: Document, path: KeyPath, source: Document) -> None:
    """Sets `path` to the value of `source`, creating mappings on the way, and copies its positions.

    `path` is not empty. List items in it must exist: otherwise the function raises KeyError or IndexError and changes
    nothing.
    """
    _check_items_exist(document.value, path)
    place = source.values[()]
    parent: Any = document.value
    for depth, part in enumerate(path[:-1], 1):
        here = path[:depth]
        child = parent.get(part) if isinstance(parent, dict) else parent[part]
        if not isinstance(child, dict | list):
            child = parent[part] = {}
            document.keys[here] = document.values[here] = place
        parent = child
    _drop(document, path, parent.get(path[-1]) if isinstance(parent, dict) else parent[path[-1]])
    parent[path[-1]] = source.value
    _take(document, source, path)
    document.keys[path] = place


def _check_items_exist(value: Any, path: KeyPath) -> None:
    for part in path:
        if isinstance(part, int):
            if not isinstance(value, list):
                raise KeyError(part)
            value = value[part]
        elif isinstance(value, list):
            raise KeyError(part)
        else:
            value = value.get(part) if isinstance(value, dict) else None


def _merge(into: Document, upper: Document, low: Any, high: Any, path: KeyPath, model: type[BaseModel]) -> Any:
    if not (isinstance(low, dict) and isinstance(high, dict)) or _is_other_variant(low, high, path, model):
        _drop(into, path, low)
        for at in _paths(high, path):
            for places, uppers in ((into.values, upper.values), (into.keys, upper.keys)):
                if at in uppers:
                    places[at] = uppers[at]
        return high
    result = dict(low)
    for key in _excluded(low, high, path, model):
        _drop(into, (*path, key), result.pop(key))
    if path in upper.values and (upper.values[path].line or path not in into.values):
        into.values[path] = upper.values[path]
    for key, value in high.items():
        here = (*path, key)
        into.keys[here] = upper.keys[here]
        result[key] = _merge(into, upper, result.get(key), value, here, model)
    return result


def _is_other_variant(low: dict[str, Any], high: dict[str, Any], path: KeyPath, model: type[BaseModel]) -> bool:
    keys = variant_keys(model, _nested(path, high), path)
    return any(key in low and key in high and low[key] != high[key] for key in keys)


def _excluded(low: dict[str, Any], high: dict[str, Any], path: KeyPath, model: type[BaseModel]) -> list[str]:
    section = section_at(model, _nested(path, {**low, **high}), path)
    groups = [*getattr(section, "exactly_one_of", ()), *getattr(section, "at_most_one_of", ())]
    return [
        key
        for group in groups
        if any(high.get(chosen) is not None for chosen in group)
        for key in group
        if key in low and key not in high
    ]


def _nested(path: KeyPath, value: Any) -> Any:
    """`value` wrapped in the mappings that lead to it: {"a": {"b": value}}; enough for a lookup of `path`."""
    for part in reversed(path):
        value = {part: value}
    return value


def _drop(document: Document, path: KeyPath, value: Any) -> None:
    """Removes the positions of `value` at `path` and of everything inside it."""
    for at in _paths(value, path):
        document.keys.pop(at, None)
        document.values.pop(at, None)


def _paths(value: Any, path: KeyPath) -> Iterator[KeyPath]:
    """The paths of a tree whose root is at `path`. Walking one value costs less than scanning all positions."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _paths(item, (*path, key))


def _take(document: Document, source: Document, path: KeyPath) -> None:
    document.keys.update({(*path, *at): place for at, place in source.keys.items()})
    document.values.update({(*path, *at): place for at, place in source.values.items()})
