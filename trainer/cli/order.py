"""What a command asks a worker for, and the attempt that comes of it: plain data, handed from process to process."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from trainer.rundir import EventWriter, RunPaths


@dataclass(frozen=True)
class Order:
    """The words of `trainer run`, as they were given.

    `command` is the whole command line for the record, `process_start` when it began, in seconds since 1970.
    """

    words: tuple[str, ...]
    process_start: float
    command: tuple[str, ...] = ()
    name: str | None = None
    run_dir: str | None = None
    resume: str | None = None
    debug: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Order:
        fields = json.loads(text)
        return Order(**{**fields, "words": tuple(fields["words"]), "command": tuple(fields["command"])})


@dataclass(frozen=True)
class Attempt:
    """One attempt of a run, whose directory holds its resolved config.

    `resumes`: whether it goes on from what an earlier attempt left. `debug`: whether the user's mistakes are shown with
    their traceback, too.
    """

    paths: RunPaths
    number: int
    process_start: float
    debug: bool = False

    @property
    def resumes(self) -> bool:
        return self.number > 1

    def writer(self) -> EventWriter:
        """Writes events of this attempt.

        Raises:
            TrainerError: the file can't be opened.
        """
        return EventWriter(self.paths.events, attempt=self.number, process_start=self.process_start)
