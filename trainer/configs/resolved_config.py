"""Writes a validated configuration as YAML: every value, with its origin."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainer.configs.load import Loaded
from trainer.configs.problems import KeyPath, dotted
from trainer.configs.reader import plain_value

_PLAIN_TEXT = re.compile(r"[A-Za-z_./][A-Za-z0-9_./-]*")
_COLUMN = 44


def dump_resolved(loaded: Loaded) -> str:
    """The whole configuration, readable by `load_resolved` from any folder.

    Paths are absolute, `extends` is resolved, and a comment after each value gives its origin.
    """
    tree = loaded.config.model_dump(mode="json", by_alias=True, exclude={"extends"})
    lines = ["# The configuration as resolved: every value, and where it came from."]
    lines += _lines(tree, (), loaded.provenance)
    return "\n".join(lines) + "\n"


def _lines(tree: Mapping[str, Any], path: KeyPath, provenance: Mapping[str, str]) -> Iterator[str]:
    indent = "  " * len(path)
    for key, value in tree.items():
        here = (*path, key)
        if isinstance(value, Mapping) and value:
            yield f"{indent}{_scalar(key)}:"
            yield from _lines(value, here, provenance)
        else:
            text = f"{indent}{_scalar(key)}: {_flow(value)}"
            yield f"{text:<{_COLUMN}}  # {provenance.get(dotted(here), 'default')}"


def _flow(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        is_plain = _PLAIN_TEXT.fullmatch(value) is not None and plain_value(value) == value
        return value if is_plain else json.dumps(value)
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    return json.dumps(value)
