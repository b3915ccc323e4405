"""Where the runs of a sweep train: a protocol, and processes of this machine."""

from __future__ import annotations

from typing import Protocol

from trainer import TrainerError
from trainer.cli.order import Order
from trainer.cli.starting import Worker


class Job(Protocol):
    """A run that trains."""

    @property
    def mistake(self) -> str:
        """Why the run could not be started; empty if it was."""

    def is_over(self) -> bool:
        """Whether it has ended; if so, its run directory has the end event."""

    def end(self) -> None:
        """Ends it after its current step, with a checkpoint, and waits for that."""


class Executor(Protocol):
    """Starts runs."""

    def start(self, order: Order) -> Job:
        """Starts the run of an order of `trainer run`."""


class LocalProcesses:
    """Each run in a process of this machine, which ends with this one."""

    def start(self, order: Order) -> LocalJob:
        """Starts a worker process."""
        return LocalJob(Worker(order, attached=True, holds_output=True))


class LocalJob:
    """A run in a process of this machine."""

    def __init__(self, worker: Worker) -> None:
        self._worker, self._has_begun, self.mistake = worker, False, ""

    def is_over(self) -> bool:
        """Whether the process has ended."""
        if not self._has_begun:
            if not self._worker.has_reported():
                return False
            self._has_begun = True
            try:
                self._worker.begin()
            except TrainerError as error:
                self.mistake = str(error)
        return self._worker.over()

    def end(self) -> None:
        """Sends a signal and waits; the run ends as interrupted."""
        self._worker.end()
