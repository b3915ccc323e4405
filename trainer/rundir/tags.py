"""`tags.json`: the tags that a user gave a run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from trainer.rundir.layout import RunPaths
from trainer.rundir.writer import write_error


def read_tags(paths: RunPaths) -> tuple[str, ...]:
    """The run's tags, sorted; none if the file is missing or invalid."""
    try:
        found = json.loads(paths.tags.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ()
    return tuple(sorted(tag for tag in found if isinstance(tag, str))) if isinstance(found, list) else ()


def write_tags(paths: RunPaths, tags: Iterable[str]) -> None:
    """Replaces the run's tags.

    Raises:
        TrainerError: the directory can't be written.
    """
    aside = paths.root / f".{paths.tags.name}.{os.getpid()}"
    try:
        aside.write_text(json.dumps(sorted(set(tags)), ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(aside, paths.tags)
    except OSError as error:
        raise write_error(paths.tags, error) from error
