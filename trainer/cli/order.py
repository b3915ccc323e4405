"""What a command asks a worker for: plain data, handed from process to process.

Imports next to nothing: the worker is started before anything else is imported.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


def targets_of(words: Sequence[str]) -> list[str]:
    """Those of the words that name a config or a recipe; the others set values."""
    return [word for word in words if "=" not in word or os.path.isfile(word)]


class Order(NamedTuple):
    """The words of `trainer run`, as they were given.

    `pid` is the command's own, from which times are counted; `command` the whole command line, for the record.
    """

    words: tuple[str, ...]
    pid: int
    command: tuple[str, ...] = ()
    name: str | None = None
    run_dir: str | None = None
    resume: str | None = None
    debug: bool = False
    force: bool = False

    @property
    def wanted(self) -> str:
        """The run as it is asked for, while it has no directory yet."""
        resumed = self.resume if self.resume != "auto" else None
        named = self.name or self.run_dir or resumed or next(iter(targets_of(self.words)), "")
        return os.path.basename(named.rstrip("/")) or named

    def to_json(self) -> str:
        return json.dumps(self._asdict())

    @staticmethod
    def from_json(text: str) -> Order:
        fields = json.loads(text)
        return Order(**{**fields, "words": tuple(fields["words"]), "command": tuple(fields["command"])})
