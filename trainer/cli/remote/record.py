"""The record of an attempt on another machine: `remote-N.json` in the run directory."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trainer import TrainerError
from trainer.cli.remote.places import Place, place_named
from trainer.rundir import RunPaths, write_text

Pairs = Sequence[Sequence[str]]
"""Pairs of paths: (on this machine, on the other machine)."""
_NAME = re.compile(r"remote-(\d+)\.json")


@dataclass
class RemoteAttempt:
    """An attempt on another machine.

    Attributes:
        number: number of the attempt.
        place, python: as given with --on and --python.
        folder: the run's folder on the other machine.
        process_start: when the command started, in seconds since 1970.
        pairs: folders and files on this machine and on the other one.
        starts: the sizes of the growing files on this machine when the attempt began.
        own: position and length of the event lines that this machine wrote itself.
        has_started: whether the agent has been asked to start the worker.
        is_over: whether everything has arrived.
    """

    number: int
    place: str
    python: str | None
    folder: str
    process_start: float
    pairs: list[list[str]] = field(default_factory=list)
    starts: dict[str, int] = field(default_factory=dict)
    own: list[list[int]] = field(default_factory=list)
    has_started: bool = False
    is_over: bool = False

    def write(self, paths: RunPaths) -> None:
        """Replaces the file atomically.

        Raises:
            TrainerError: it can't be written.
        """
        write_text(_file(paths, self.number), json.dumps(asdict(self), indent=1) + "\n")

    def where(self) -> Place:
        """The place where the attempt trains."""
        return place_named(self.place, self.python)


def remote_attempt(paths: RunPaths, number: int) -> RemoteAttempt | None:
    """The record of an attempt; None for one of this machine.

    Raises:
        TrainerError: the record is damaged.
    """
    path = _file(paths, number)
    try:
        return RemoteAttempt(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise TrainerError("damaged record of a run on another machine", where=str(path), found=str(error)) from error


def unfinished(paths: RunPaths) -> RemoteAttempt | None:
    """The record of the last attempt on another machine, if its end has not arrived here.

    The attempt may have become several: a scheduler that takes away its machine continues it as the next attempt.
    """
    numbers = [int(match[1]) for name in os.listdir(paths.root) if (match := _NAME.fullmatch(name))]
    record = remote_attempt(paths, max(numbers)) if numbers else None
    return record if record is not None and record.has_started and not record.is_over else None


def how_to_continue(paths: RunPaths) -> str | None:
    """One sentence about a run whose end has not arrived from another machine; None for all others."""
    record = unfinished(paths)
    if record is None:
        return None
    command = f"trainer run --resume {shlex.quote(str(paths.root))}"
    return f"It trains on {record.place}, or has ended there: `{command}` continues to receive it."


def there(text: str, pairs: Pairs) -> str:
    """The text with paths of this machine replaced by those of the other one."""
    return _replaced(text, pairs)


def here(text: str, pairs: Pairs) -> str:
    """The text with paths of the other machine replaced by those of this one."""
    return _replaced(text, [(other, own) for own, other in pairs])


def as_here(paths: RunPaths, value: Any) -> Any:
    """Plain data of a checkpoint of this run, with the paths of this machine."""
    records = sorted(paths.root.glob("remote-*.json"))
    pairs = [pair for file in records for pair in json.loads(file.read_text(encoding="utf-8"))["pairs"]]
    return json.loads(here(json.dumps(value), pairs)) if pairs else value


def _replaced(text: str, pairs: Iterable[Sequence[str]]) -> str:
    known: dict[str, str] = {}
    for old, new in pairs:
        known[old] = new
        known[json.dumps(old)[1:-1]] = json.dumps(new)[1:-1]
    if not known:
        return text
    longest_first = "|".join(re.escape(old) for old in sorted(known, key=len, reverse=True))
    whole = rf"(?<![\w./-])({longest_first})(?![\w.-])"
    return re.sub(whole, lambda match: known[match[1]], text)


def _file(paths: RunPaths, number: int) -> Path:
    return paths.root / f"remote-{number}.json"
