"""A run without a directory yet, while its configuration is being read."""

from __future__ import annotations

from collections.abc import Callable

from trainer.rundir import LockState, PhaseEvent, Record
from trainer.tui.status import STARTING, Status
from trainer.tui.view import View


class PendingRun:
    """Replaces a `Feed` for the first frame; its only record is the start of reading the configuration.

    Args:
        name: the requested name of the run; the name of its directory may get a number.
        clock: the time in seconds since 1970.
        age: seconds since the request.
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
        """The current time: the worker runs on this machine."""
        return self.clock()

    def poll(self, max_seconds: float) -> None:
        """Does nothing: there is nothing to read."""

    def read_preview(self) -> bool:
        """Returns False: there is nothing to sample."""
        return False

    def status(self) -> Status:
        """Returns STARTING."""
        return STARTING
