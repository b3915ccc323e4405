"""Disks that go wrong: one that remembers what was asked of it, as it would be found after a crash, and one that fails.

    journal = Recorder(); … a run writes checkpoints through it …
    for count in range(len(journal.asked) + 1):
        journal.found(count, crash, folder)     what lies in `folder` if the machine stops after `count` operations

A crash is one of

    killed     the process is gone: all that it did is there, the last write perhaps by half
    no_data    the power is gone: names are as they were last, but what was not flushed is empty
    nothing    the power is gone: neither names nor data that were not flushed are there
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trainer.learner.checkpoints.disk import Disk

OPERATIONS = (
    "make_folder", "create", "put", "flush", "flush_folder", "rename", "remove_file", "remove_empty_folder"
)  # fmt: skip
Crash = Literal["killed", "no_data", "nothing"]


@dataclass
class _File:
    written: bytes = b""
    flushed: bytes = b""


@dataclass
class _Folder:
    entries: dict[str, _File | _Folder] = field(default_factory=dict)
    flushed: dict[str, _File | _Folder] = field(default_factory=dict)


class Recorder(Disk):
    """The real disk, and a journal of what was asked of it below `root`.

    Attributes:
        asked: each operation's name and its words; marks: what `mark()` said before each.
    """

    def __init__(self, root: Path, mark: Callable[[], Any] = lambda: None) -> None:
        self.root, self.mark = root, mark
        self.asked: list[tuple[str, tuple[Any, ...]]] = []
        self.marks: list[Any] = []
        self._open: dict[int, Path] = {}

    def _note(self, name: str, *words: Any) -> None:
        self.marks.append(self.mark())
        self.asked.append((name, words))

    def make_folder(self, path: Path) -> None:
        self._note("make_folder", self._place(path))
        super().make_folder(path)

    def create(self, path: Path) -> int:
        self._note("create", self._place(path))
        descriptor = super().create(path)
        self._open[descriptor] = path
        return descriptor

    def put(self, descriptor: int, piece: bytes | memoryview) -> None:
        self._note("put", self._place(self._open[descriptor]), bytes(piece))
        super().put(descriptor, piece)

    def flush(self, descriptor: int) -> None:
        self._note("flush", self._place(self._open[descriptor]))
        super().flush(descriptor)

    def flush_folder(self, path: Path) -> None:
        self._note("flush_folder", self._place(path))
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    def rename(self, path: Path, target: Path) -> None:
        self._note("rename", self._place(path), self._place(target))
        super().rename(path, target)

    def remove_file(self, path: Path) -> None:
        self._note("remove", self._place(path))
        super().remove_file(path)

    def remove_empty_folder(self, path: Path) -> None:
        self._note("remove", self._place(path))
        super().remove_empty_folder(path)

    def _place(self, path: Path) -> tuple[str, ...]:
        return path.relative_to(self.root).parts

    def found(self, count: int, crash: Crash, *, half: bool = False) -> dict[tuple[str, ...], bytes | None]:
        """What is below `root` after the first `count` operations and a crash: files' content, None of folders.

        `half`: the last of them, a `put`, was done by half.
        """
        root = _Folder()
        for number, (name, words) in enumerate(self.asked[:count], 1):
            _carry_out(root, name, words, 0.5 if half and number == count else 1)
        return dict(_listed(root, crash))


def _carry_out(root: _Folder, name: str, words: tuple[Any, ...], share: float) -> None:
    match name, words:
        case "make_folder", (place,):
            folder = root
            for part in place:
                folder = folder.entries.setdefault(part, _Folder())  # type: ignore[assignment]
        case "create", (place,):
            holder = _at(root, place[:-1])
            file = holder.entries.setdefault(place[-1], _File())
            file.written = b""  # type: ignore[union-attr]
        case "put", (place, piece):
            _at(root, place).written += piece[: int(len(piece) * share)]
        case "flush", (place,):
            _at(root, place).flushed = _at(root, place).written
        case "flush_folder", (place,):
            _at(root, place).flushed = dict(_at(root, place).entries)
        case "rename", (place, target):
            moved = _at(root, place[:-1]).entries.pop(place[-1])
            _at(root, target[:-1]).entries[target[-1]] = moved
        case "remove", (place,):
            if place[:-1] == () or _at(root, place[:-1]) is not None:
                _at(root, place[:-1]).entries.pop(place[-1], None)
        case _:
            raise AssertionError(name)


def _at(root: _Folder, place: tuple[str, ...]) -> Any:
    found: Any = root
    for part in place:
        found = found.entries[part]
    return found


def _listed(folder: _Folder, crash: Crash, place: tuple[str, ...] = ()) -> Any:
    for name, entry in (folder.flushed if crash == "nothing" else folder.entries).items():
        if isinstance(entry, _Folder):
            yield (*place, name), None
            yield from _listed(entry, crash, (*place, name))
        else:
            yield (*place, name), entry.written if crash == "killed" else entry.flushed


def lay_out(found: dict[tuple[str, ...], bytes | None], folder: Path) -> None:
    """Put files and folders where they were found, below another folder."""
    for place, content in found.items():
        path = folder.joinpath(*place)
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.write_bytes(content)


class Failing(Disk):
    """Refuses operations number `first` to `last` with an error of the system; `count` is how many were asked for."""

    def __init__(self, number: int, first: int, last: int) -> None:
        self.number, self.first, self.last, self.count = number, first, last, 0

    def __getattribute__(self, name: str) -> Any:
        if name in OPERATIONS:
            self.count += 1
            if self.first <= self.count <= self.last:
                raise OSError(self.number, os.strerror(self.number))
        return super().__getattribute__(name)
