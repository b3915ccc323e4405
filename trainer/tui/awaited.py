"""A run that has been asked for and has no directory yet: its configuration is read, which takes its time."""

from __future__ import annotations

from collections.abc import Callable

from trainer.rundir import LockState, PhaseEvent, Record
from trainer.tui.status import STARTING, Status
from trainer.tui.view import View


class Awaited:
    """What a first frame shows in the place of a `Feed`; it has no record but that the configuration is being read.

    Args:
        name: what the run was asked for by; its directory's name may get a number.
        clock: the time in seconds since 1970.
        age: seconds since it was asked for.
    """

    lock: LockState | None = None
    share_read = 1.0
    root = ""

    def __init__(self, name: str, clock: Callable[[], float], age: float = 0.0) -> None:
        self.clock = clock
        self.view = View(name)
        self.view.apply(Record(PhaseEvent("config", "started"), clock() - age, 0.0, 1))

    @property
    def worker_time(self) -> float:
        """The clock's time: the worker is on this machine."""
        return self.clock()

    def poll(self, max_seconds: float) -> None:
        """There is nothing to read."""

    def read_preview(self) -> bool:
        """There is nothing to sample."""
        return False

    def status(self) -> Status:
        """It is starting."""
        return STARTING
