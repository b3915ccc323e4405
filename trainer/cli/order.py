"""What a command asks a worker for: plain data, handed from process to process.

Imports next to nothing: the worker is started before anything else is imported.
"""

from __future__ import annotations

import json
from typing import NamedTuple


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

    def to_json(self) -> str:
        return json.dumps(self._asdict())

    @staticmethod
    def from_json(text: str) -> Order:
        fields = json.loads(text)
        return Order(**{**fields, "words": tuple(fields["words"]), "command": tuple(fields["command"])})
