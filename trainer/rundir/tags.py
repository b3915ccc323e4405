"""`tags.json` and `note.txt`: the tags and the note that a user gave a run."""

from __future__ import annotations

import json
from collections.abc import Iterable

from trainer.rundir.files import write_text
from trainer.rundir.layout import RunPaths


def read_tags(paths: RunPaths) -> tuple[str, ...]:
    """The run's tags, sorted; none if the file is missing or invalid."""
    try:
        found = json.loads(paths.tags.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ()
    return tuple(sorted(tag for tag in found if isinstance(tag, str))) if isinstance(found, list) else ()


def read_note(paths: RunPaths) -> str:
    """The run's note; empty without one."""
    try:
        return paths.note.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def write_tags(paths: RunPaths, tags: Iterable[str]) -> None:
    """Replaces the run's tags.

    Raises:
        TrainerError: the directory can't be written.
    """
    write_text(paths.tags, json.dumps(sorted(set(tags)), ensure_ascii=False) + "\n")


def write_note(paths: RunPaths, note: str) -> None:
    """Replaces the run's note; an empty note removes it.

    Raises:
        TrainerError: the directory can't be written.
    """
    write_text(paths.note, f"{note.strip()}\n")
