"""Overrides from the command line: `a.b=c` and `a[0].b=c`, a path and a value in YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainer.configs.layers import assign, lay_over
from trainer.configs.plain import plain_document
from trainer.configs.problems import KeyPath, Place, Problem
from trainer.configs.reader import Document, is_unicode, read_yaml
from trainer.configs.run import RunConfig

COMMAND_LINE = "<cli>"
KEYWORDS = "<keywords>"
_STEP = re.compile(r"(?:^|\.)([^.\[\]\s=]+)|\[([0-9]{1,9})\]")


Overrides = Sequence[str] | Mapping[str, Any]
"""`key=value` texts, or plain data by the same keys."""


def override(document: Document, overrides: Overrides, folder: str) -> Document:
    """The document with `overrides` applied; the later of two overrides for the same key wins.

    Relative paths in values start from `folder`. Problems are added to the problems of the result.
    """
    place = Place(KEYWORDS if isinstance(overrides, Mapping) else COMMAND_LINE, folder=folder)
    layer = Document({})
    indexed: list[tuple[KeyPath, Document]] = []
    for text, name, value in _read(overrides, place):
        path = parse_path(name)
        if value is None or path is None or not is_unicode(name):
            layer.problems.append(Problem(place, (), f"{text!r} is not of the form key=value, such as train.epochs=5"))
            continue
        if path == ("extends",):
            layer.problems.append(
                Problem(place, path, "can't be overridden: give the recipe or file as the argument of the command")
            )
            continue
        layer.problems += [Problem(place, path + problem.path, problem.message) for problem in value.problems]
        value.values.setdefault((), place)
        if any(isinstance(part, int) for part in path):
            indexed.append((path, value))
        else:
            _assign(layer, path, value)
    merged = lay_over(document, layer, RunConfig)
    for path, value in indexed:
        _assign(merged, path, value)
    return merged


def _read(overrides: Overrides, place: Place) -> Iterator[tuple[str, str, Document | None]]:
    """Each override as text, its key, and its value."""
    if isinstance(overrides, Mapping):
        for name, value in overrides.items():
            yield name, name, plain_document(value, place)
        return
    for text in overrides:
        name, equals, written = text.partition("=")
        yield text, name.strip(), read_yaml(written, place) if equals else None


def _assign(document: Document, path: KeyPath, value: Document) -> None:
    try:
        assign(document, path, value)
    except KeyError:
        message = "no such key or item: the value here has another form"
        document.problems.append(Problem(value.values[()], path, message))
    except IndexError:
        document.problems.append(Problem(value.values[()], path, "no such item: the list is shorter"))


def parse_path(text: str) -> KeyPath | None:
    """`a[0].b` as ("a", 0, "b"), or None if it is not a path."""
    parts: list[str | int] = []
    end = 0
    while end < len(text):
        step = _STEP.match(text, end)
        if step is None:
            return None
        parts.append(step[1] if step[1] is not None else int(step[2]))
        end = step.end()
    return tuple(parts) if parts and isinstance(parts[0], str) else None
