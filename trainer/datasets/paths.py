"""Paths in data sets: never outside the data folder, with helpful errors for missing files."""

from __future__ import annotations

import os
import re
from pathlib import Path

from trainer import TrainerError

_DRIVE = re.compile(r"[A-Za-z]:")


def within(root: Path, name: str, where: str) -> Path:
    """The path `name` in `root`, as written in a file of the data set (at `where`).

    Raises:
        TrainerError: the name is absolute, goes up with `..`, or leaves the root through a symbolic link.
    """
    plain = name.replace("\\", "/")
    if not plain or plain.startswith("/") or _DRIVE.match(plain) or ".." in plain.split("/") or "\0" in plain:
        raise TrainerError(
            "a file name leads out of the data set's folder" if plain else "a file name is empty",
            where=where,
            found=repr(name),
            expected=f"a path inside {root}, without ..",
        )
    path = root / plain
    real = os.path.realpath(path)
    real_root = os.path.realpath(root)
    if os.path.commonpath((real, real_root)) != real_root:
        raise TrainerError(
            "a symbolic link leads out of the data set's folder",
            where=where,
            found=f"{name} is {real}",
            expected=f"a file inside {real_root}",
        )
    return path


def missing_file(path: Path) -> TrainerError:
    """The error for a missing file; lists the existing files of its folder."""
    found = "the folder doesn't exist either"
    if path.parent.is_dir():
        nearby = sorted(entry.name for entry in path.parent.iterdir())
        found = f"in that folder: {', '.join(nearby[:8]) or 'nothing'}{', …' if len(nearby) > 8 else ''}"
    return TrainerError(
        "no such file",
        where=str(path),
        found=found,
        hint="Paths of a reader are relative to `data.root`, the folder of the data.",
    )


def folder(path: Path) -> Path:
    """`path`, checked to be a folder. Raises `TrainerError` if it isn't."""
    if path.is_dir():
        return path
    if path.exists():
        raise TrainerError("not a folder", where=str(path), expected="a folder")
    nearby = sorted(entry.name for entry in path.parent.iterdir()) if path.parent.is_dir() else []
    raise TrainerError(
        "no such folder",
        where=str(path),
        found=f"in {path.parent}: {', '.join(nearby[:8]) or 'nothing'}{', …' if len(nearby) > 8 else ''}",
        hint="Paths of a reader are relative to `data.root`, the folder of the data.",
    )


def is_hidden(name: str) -> bool:
    """Whether the name excludes a file or folder from a data set: hidden, or metadata of macOS in an archive."""
    return name.startswith(".") or name == "__MACOSX"


def natural(name: str) -> tuple[object, ...]:
    """A sort key for natural order: 2.jpg before 10.jpg."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part)
