"""The file names of a folder, from which layouts are detected."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from trainer.datasets.images import SUFFIXES
from trainer.datasets.paths import folder, is_hidden, natural

_DOCUMENTS = ("readme", "license", "licence", "copying", "citation", "changelog")
"""Prefixes of files that describe a data set and contain none of it."""


@dataclass(frozen=True)
class Listing:
    """The names of all files in a folder and its subfolders, without hidden files and descriptions of the data set.

    Folders are written as in paths relative to the root, with "" for the root itself. Folder names are compared without
    case.
    """

    root: Path
    folders: Mapping[str, Sequence[str]]
    """The file names of each folder, in natural order."""

    @classmethod
    def of(cls, root: Path) -> Listing:
        """The listing of a folder on disk. Raises `TrainerError` if the folder doesn't exist."""
        found: dict[str, Sequence[str]] = {}
        for path, below, files in os.walk(folder(root)):
            below[:] = sorted(name for name in below if not is_hidden(name))
            relative = os.path.relpath(path, root).replace(os.sep, "/")
            kept = [name for name in files if not is_hidden(name) and not name.lower().startswith(_DOCUMENTS)]
            found["" if relative == "." else relative] = sorted(kept, key=natural)
        return cls(root, found)

    @cached_property
    def _by_lower(self) -> Mapping[str, str]:
        return {name.lower(): name for name in reversed(list(self.folders))}

    def folder(self, *names: str) -> str | None:
        """The first existing one of these folders, ignoring case; None if none exists."""
        return next((self._by_lower[name.lower()] for name in names if name.lower() in self._by_lower), None)

    def folders_in(self, parent: str) -> list[str]:
        """The direct subfolders of a folder, as paths from the root."""
        return [name for name in self.folders if name and parent_of(name) == parent]

    def files(self, parent: str, *suffixes: str) -> list[str]:
        """Paths of the files directly in a folder with one of these lowercase extensions."""
        return [join(parent, name) for name in self.folders.get(parent, ()) if suffix_of(name) in suffixes]

    def below(self, parent: str, *suffixes: str) -> list[str]:
        """Paths of the files in a folder and its subfolders with one of these extensions."""
        return [file for name in self._at_or_below(parent) for file in self.files(name, *suffixes)]

    def images(self, parent: str) -> list[str]:
        """Paths of the images directly in a folder."""
        return self.files(parent, *SUFFIXES)

    def images_below(self, parent: str) -> list[str]:
        """Paths of the images in a folder and below it."""
        return self.below(parent, *SUFFIXES)

    def has_files(self, parent: str) -> bool:
        """Whether a folder or its subfolders contain a file."""
        return any(self.folders[name] for name in self._at_or_below(parent))

    def has(self, path: str) -> bool:
        """Whether the file exists."""
        return path in self._files

    def read(self, path: str) -> str:
        """The text of a file. Raises `TrainerError` if it is not UTF-8."""
        from trainer.datasets.readers.files import read_text

        return read_text(self.root / path)

    @cached_property
    def _files(self) -> frozenset[str]:
        return frozenset(join(name, file) for name, files in self.folders.items() for file in files)

    def _at_or_below(self, parent: str) -> Iterator[str]:
        return (name for name in self.folders if not parent or name == parent or name.startswith(f"{parent}/"))


def join(parent: str, name: str) -> str:
    """A path below a folder, which is "" for the root."""
    return f"{parent}/{name}" if parent else name


def parent_of(path: str) -> str:
    """The folder of a path."""
    return path.rpartition("/")[0]


def name_of(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


def suffix_of(name: str) -> str:
    """The lowercase extension of a name: .jpg."""
    return os.path.splitext(name)[1].lower()


def stem_of(path: str) -> str:
    """The last part of a path without its extension."""
    return PurePosixPath(path).stem


def stems_in(paths: Sequence[str], parent: str) -> set[str]:
    """Paths relative to a folder, without extensions."""
    start = len(parent) + 1 if parent else 0
    return {os.path.splitext(path[start:])[0] for path in paths}
