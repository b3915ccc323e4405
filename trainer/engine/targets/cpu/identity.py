"""Keys of kernels and decisions in the cache on disk: digests that are the same in every process.

A digest depends only on the values of a key: no addresses, no hashes, no sets. A key that can't be written this way has
no digest, and nothing is cached for it.
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
    """Returns the digest of a key, further circumstances and the engine's source; None for a key without a digest.

    Keys consist of numbers, strings, tuples, dtypes, dataclasses, and functions and classes of the engine.
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
    """Returns the name of a function or class. It must belong to the engine: the source hash covers its behavior."""
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
    """Returns the hash of the engine's source, which determines the code that a key is rendered to."""
    return hash_of_files(ROOT, ROOT.rglob("*.py"))


@functools.cache
def templates_hash() -> str:
    """Returns the hash of the source of all templates, and of the modules that their kernels are built from."""
    root = ROOT / "targets"
    parts = ("ir/*.py", "cpu/kernels/*.py", "cpu/templates/*.py", "cpu/template.py")
    return hash_of_files(root, (path for part in parts for path in root.glob(part)))


def hash_of_files(root: Path, paths: Iterable[Path]) -> str:
    """Returns the hash of the files' contents and of their paths relative to `root`."""
    total = hashlib.sha256()
    for path in sorted(paths):
        content = path.read_bytes()
        total.update(f"{path.relative_to(root).as_posix()}\n{len(content)}\n".encode() + content)
    return total.hexdigest()
