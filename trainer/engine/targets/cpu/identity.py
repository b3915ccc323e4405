"""What kernels and decisions are kept under on disk: digests that are the same in every process.

A key is written out by its values alone: no addresses, no hashes, no sets. What can't be written so has no digest, and
nothing is kept for it.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FunctionType, NoneType
from typing import Any

from trainer.engine.graph.dtypes import DType

ENGINE = "trainer.engine."
ROOT = Path(__file__).resolve().parents[2]


def digest(key: object, *circumstances: object) -> str | None:
    """The digest of a key under further circumstances and the engine's source; None for a key that has none.

    Keys are made of numbers, strings, tuples, element types, dataclasses and the engine's own functions and classes.
    """
    words: list[str] = []
    try:
        _write(key, words)
        _write(circumstances, words)
    except TypeError:
        return None
    return hashlib.sha256("\n".join((source_hash(), *words)).encode()).hexdigest()


def _write(value: object, words: list[str]) -> None:
    writer = _WRITERS.get(type(value))
    if writer is not None:
        words.append(writer(value))
    elif isinstance(value, tuple):
        words.append(f"({len(value)}")
        for part in value:
            _write(part, words)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        words.append(f"{type(value).__module__}.{type(value).__qualname__}")
        for name in _field_names(type(value)):
            _write(getattr(value, name), words)
    else:
        raise TypeError(f"{type(value).__name__} has no digest")


def _named(value: Any) -> str:
    """A function or a class by its name; the source hash covers its behavior, so it must be the engine's."""
    if not value.__module__.startswith(ENGINE) or "<" in value.__qualname__:
        raise TypeError(f"{value.__qualname__} has no digest")
    return f"{value.__module__}.{value.__qualname__}"


_WRITERS: dict[type, Callable[[Any], str]] = {
    NoneType: repr,
    bool: repr,
    int: repr,
    str: repr,
    float: lambda value: struct.pack("<d", value).hex() + "f",  # NaN by its bits, zeros by their sign
    DType: lambda value: f"dtype {value.name}",
    FunctionType: _named,
    type: _named,
}


@functools.cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


@functools.cache
def source_hash() -> str:
    """The hash of the source of the engine: of all that has a say in what a key is rendered to."""
    return hash_of_files(ROOT, ROOT.rglob("*.py"))


@functools.cache
def templates_hash() -> str:
    """The hash of the source of all templates, and of what their kernels are made of."""
    root = ROOT / "targets"
    parts = ("ir/*.py", "cpu/kernels/*.py", "cpu/templates/*.py", "cpu/template.py")
    return hash_of_files(root, (path for part in parts for path in root.glob(part)))


def hash_of_files(root: Path, paths: Iterable[Path]) -> str:
    """The hash of files' contents and of their places below `root`."""
    total = hashlib.sha256()
    for path in sorted(paths):
        content = path.read_bytes()
        total.update(f"{path.relative_to(root).as_posix()}\n{len(content)}\n".encode() + content)
    return total.hexdigest()
