"""Combines a recipe with the user's data: settings for the recipe's own files no longer apply."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from trainer.configs.reader import Document

_ROOT, _READER = ("data", "root"), ("data", "reader")
_AUTO = "auto"
_WHAT_IS_READ = ("masks", "keypoints", "channels")
"""Keys that state what a task needs from each item, not where the files are. They apply to other data too."""


def without_inherited_reader(document: Document) -> Document:
    """The document with `data.reader: {name: auto}` instead of the recipe's reader if `data.root` is not the recipe's
    own.

    A reader that is set outside of the recipe keeps its keys. Paths that are set without a reader name adapt the
    recipe's reader, which is then kept.
    """
    root = document.values.get(_ROOT)
    data = document.value.get("data")
    reader = data.get("reader") if isinstance(data, dict) else None
    if root is None or root.recipe or not isinstance(reader, dict):
        return document
    given = {at[2] for at, place in document.values.items() if at[:2] == _READER and len(at) > 2 and not place.recipe}
    inherited = set(reader) - given
    if not inherited:
        return document
    reader = {key: _without_inherited(document, key, value) if key in given else value for key, value in reader.items()}
    if "name" in given:
        kept: dict[str, Any] = {key: reader[key] for key in reader if key in given}
    elif all(_is_kept(key, reader[key], _auto_keys()) for key in given):
        needed = {key for key in inherited if _is_kept(key, reader[key], _WHAT_IS_READ)}
        kept = {"name": _AUTO, **{key: reader[key] for key in reader if key in given | needed}}
    else:
        return document
    dropped = {(*_READER, key) for key in reader if key not in kept}
    changed = Document(
        {**document.value, "data": {**data, "reader": kept}},
        {at: place for at, place in document.keys.items() if at[:3] not in dropped},
        {at: place for at, place in document.values.items() if at[:3] not in dropped},
        document.problems,
    )
    if kept["name"] == _AUTO:
        changed.keys[(*_READER, "name")] = changed.values[(*_READER, "name")] = root
    return changed


def _without_inherited(document: Document, key: str, value: Any) -> Any:
    """A value of the reader, such as `fractions`, without the inner keys that the recipe sets."""
    if not isinstance(value, dict):
        return value
    return {inner: each for inner, each in value.items() if not document.values[*_READER, key, inner].recipe}


def _is_kept(key: str, value: Any, keys: Collection[str]) -> bool:
    """Whether a key applies to every format: `masks` and `classes` are paths in some formats."""
    return key in keys and not (key in ("masks", "classes") and isinstance(value, str))


def _auto_keys() -> set[str]:
    from trainer.configs.readers.formats import AutoReader  # importing the sections takes time

    return set(AutoReader.model_fields)
