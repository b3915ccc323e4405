"""A configuration given as Python data: the same tree of plain values as from YAML."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from trainer.configs.problems import KeyPath, Place, Problem
from trainer.configs.reader import MOST_DIGITS, NOT_UTF_8, Document, is_unicode, too_long


def plain_document(data: Any, place: Place) -> Document:
    """The document of a tree of mappings, sequences, texts, numbers, booleans and None, all with the position `place`.

    Paths become texts, sections become mappings, NumPy scalars become numbers. Anything else adds a problem to
    the result.
    """
    document = Document()
    document.value = _plain(data, (), place, document)
    return document


def _plain(value: Any, path: KeyPath, place: Place, document: Document) -> Any:
    document.values[path] = place
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, int) and abs(value) >= 10**MOST_DIGITS:
        document.problems.append(Problem(place, path, too_long(int(value.bit_length() * math.log10(2)) + 1)))
        return None
    if isinstance(value, str) and not is_unicode(value):
        document.problems.append(Problem(place, path, f"{NOT_UTF_8}: {value!r}"))
        return None
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return _mapping(value, path, place, document)
    if isinstance(value, list | tuple):
        return [_plain(item, (*path, index), place, document) for index, item in enumerate(value)]
    found = type(value).__name__
    document.problems.append(
        Problem(place, path, f"expected a value that YAML can represent, found an object of type {found}")
    )
    return None


def _mapping(value: Mapping[Any, Any], path: KeyPath, place: Place, document: Document) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, item in value.items():
        here = (*path, str(key))
        if not isinstance(key, str) or not is_unicode(key):
            at = path if isinstance(key, str) else here
            document.problems.append(Problem(place, at, f"expected text as a key, found {key!r}"))
            continue
        document.keys[here] = place
        plain[key] = _plain(item, here, place, document)
    return plain
