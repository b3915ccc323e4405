"""One attempt of a run, as the command, the worker and the run directory know it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trainer.rundir import EventWriter, RunLock, RunPaths, complain


@dataclass(frozen=True)
class Attempt:
    """One attempt of a run, whose directory holds its resolved config.

    `process_start`: when the command began, in seconds since 1970. `resumes`: whether it goes on from what an earlier
    attempt left: `checkpoint`, or the latest. `debug`: whether the user's mistakes are shown with their traceback, too.
    `is_forced`: whether it goes on with a state that the config was changed under. `lock`: the run's, which the process
    that carries the attempt out has taken.
    """

    paths: RunPaths
    number: int
    process_start: float
    debug: bool = False
    checkpoint: Path | None = None
    is_forced: bool = False
    lock: RunLock | None = None

    @property
    def resumes(self) -> bool:
        return self.number > 1

    def writer(self, complain: Callable[[str], None] = complain) -> EventWriter:
        """Writes events of this attempt; `complain` hears of a disk that takes none.

        Raises:
            TrainerError: the file can't be opened.
        """
        return EventWriter(self.paths.events, attempt=self.number, process_start=self.process_start, complain=complain)
