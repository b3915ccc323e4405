"""A detected layout: the format, and what the reader of each split is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Part:
    """One split: the settings of its reader (with `name`), and how many items it has (None: known once it is read)."""

    settings: Mapping[str, Any]
    items: int | None


@dataclass(frozen=True)
class Layout:
    """What a folder was found to be."""

    format: str
    """In words: "YOLO (Ultralytics)"."""
    splits: Mapping[str, Part]
    """By split: train, valid, test; a folder that is not divided has train alone."""
    reason: str
    """The files and folders by which the format was recognized."""
    unread: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Files of other kinds, which no reader opens: by their ending, how many there are and the first one's path."""

    @property
    def reader(self) -> str:
        """The name of the readers, as `data.reader.name` says it."""
        return str(next(iter(self.splits.values())).settings["name"])

    def line(self) -> str:
        """The format and the number of items of each split in one line, with the files that are not read."""
        counts = ", ".join(
            split if part.items is None else f"{split} {part.items}" for split, part in self.splits.items()
        )
        unread = ", ".join(f"{count} {suffix} ({first})" for suffix, (count, first) in self.unread.items())
        return f"{self.format}: {counts}" + (f"; not read: {unread}" if unread else "")
