"""The protocol of executors, which start runs, and the executor for processes of this machine."""

from __future__ import annotations

from typing import Protocol

from trainer import TrainerError
from trainer.cli.order import Order
from trainer.cli.starting import Worker


class Job(Protocol):
    """A run that an executor has started."""

    @property
    def mistake(self) -> str:
        """Why the run could not be started; empty if it was."""

    def is_over(self) -> bool:
        """Whether the run has ended; if so, its run directory has the end event.

        Raises:
            TrainerError: the run can't be executed any more.
        """

    def end(self) -> None:
        """Ends the run after its current step, with a checkpoint, and waits for its end."""


class Executor(Protocol):
    """Starts runs.

    Attributes:
        threads: threads of each run.
    """

    threads: int

    def start(self, order: Order) -> Job:
        """Starts the run of an order of `trainer run`."""


class LocalProcesses:
    """Trains each run in a process of this machine, which ends with this one.

    Args:
        runs: number of runs at the same time, which share the physical cores.
        threads: threads of each run; None: an equal share.
    """

    def __init__(self, runs: int = 1, threads: int | None = None) -> None:
        from trainer.engine.targets.cpu.topology import available_threads  # imports the engine, 60 ms

        self.threads = threads or max(1, available_threads() // runs)

    def start(self, order: Order) -> LocalJob:
        """Starts a worker process."""
        return LocalJob(Worker(order, attached=True, holds_output=True))

    def __enter__(self) -> LocalProcesses:
        return self

    def __exit__(self, *exception: object) -> None:
        """Does nothing: the processes have ended, or end with this one."""


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
