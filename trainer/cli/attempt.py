"""One attempt of a run, as shared by the command, the worker and the run directory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trainer.rundir import EventWriter, RunLock, RunPaths, complain


@dataclass(frozen=True)
class Attempt:
    """One attempt of a run, whose directory holds its resolved config.

    `process_start`: when the command started, in seconds since 1970. `resumes`: whether it resumes an earlier attempt,
    from `checkpoint` or the latest checkpoint. `debug`: whether user errors are shown with their traceback.
    `is_forced`: whether it resumes although changed config values contradict the saved state. `lock`: the run's lock,
    held by the process that executes the attempt.
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
        """Opens the event writer of this attempt; `complain` receives the message if the disk is full.

        Raises:
            TrainerError: the file can't be opened.
        """
        return EventWriter(self.paths.events, attempt=self.number, process_start=self.process_start, complain=complain)
