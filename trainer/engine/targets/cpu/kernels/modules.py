"""Modules that become one: the kernels of several loops, called by another."""

from __future__ import annotations

from collections.abc import Iterable


def internal(text: str, name: str) -> str:
    """The module `text` whose exported function `name` only its own module sees."""
    return text.replace(f"define void @{name}(", f"define internal void @{name}(", 1)


def joined(texts: Iterable[str]) -> str:
    """One module of several, which may share helpers: it has each item once."""
    return "\n".join(dict.fromkeys(item for text in texts for item in _items(text)))


def _items(text: str) -> list[str]:
    """The definitions, declarations and metadata of a module."""
    items: list[str] = []
    is_open = False
    for line in text.splitlines():
        if is_open:
            items[-1] += f"\n{line}"
        elif line:
            items.append(line)
            is_open = line.startswith("define")
        is_open = is_open and line != "}"
    return items
