"""A detected layout: the format, and the reader settings of each split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Part:
    """One split: the settings of its reader (with `name`), and its number of items (None: known after reading)."""

    settings: Mapping[str, Any]
    items: int | None


@dataclass(frozen=True)
class Layout:
    """The detected layout of a folder."""

    format: str
    """The format as text: "YOLO (Ultralytics)"."""
    splits: Mapping[str, Part]
    """By split: train, valid, test; a folder without splits has train only."""
    reason: str
    """The files and folders by which the format was recognized."""
    unread: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Files of unsupported formats: number and first path by file extension."""

    @property
    def reader(self) -> str:
        """The name of the reader, as in `data.reader.name`."""
        return str(next(iter(self.splits.values())).settings["name"])

    def line(self) -> str:
        """The format and the number of items of each split in one line, with the unread files."""
        counts = ", ".join(
            split if part.items is None else f"{split} {part.items}" for split, part in self.splits.items()
        )
        unread = ", ".join(f"{count} {suffix} ({first})" for suffix, (count, first) in self.unread.items())
        return f"{self.format}: {counts}" + (f"; not read: {unread}" if unread else "")
