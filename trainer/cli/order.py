"""The order of a command to its worker, as plain data that is passed between processes.

Has almost no imports: the worker starts before anything else is imported.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


def targets_of(words: Sequence[str]) -> list[str]:
    """The words that name a config or a recipe; all others set values."""
    return [word for word in words if "=" not in word or os.path.isfile(word)]


class Order(NamedTuple):
    """The arguments of `trainer run`, as given.

    `pid` is the command's process; time 0 is its start, or `started` (in seconds since 1970). `command`
    is the full command line, for the record. `on`, `python` and `sent` are the options of a run on another machine.
    """

    words: tuple[str, ...]
    pid: int
    command: tuple[str, ...] = ()
    name: str | None = None
    run_dir: str | None = None
    resume: str | None = None
    debug: bool = False
    force: bool = False
    started: float | None = None
    on: str | None = None
    python: str | None = None
    sent: tuple[str, ...] = ()

    @property
    def run_name(self) -> str:
        """The name of the run before its directory exists."""
        resumed = self.resume if self.resume != "auto" else None
        named = self.name or self.run_dir or resumed or next(iter(targets_of(self.words)), "")
        return os.path.basename(named.rstrip("/")) or named

    def to_json(self) -> str:
        return json.dumps(self._asdict())

    @staticmethod
    def from_json(text: str) -> Order:
        fields = json.loads(text)
        lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
        return Order(**{**fields, **lists})
