"""The dashboard's access to a run: reads its directory in limited time and sends it requests.

Nothing here draws, and nothing else in this package reads or writes the run.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trainer import TrainerError
from trainer.rundir import (
    EventTail,
    HeartbeatMonitor,
    LockState,
    ReportEvent,
    RunPaths,
    SampleEvent,
    host_name,
    read_lock,
    sample_events,
    send_request,
)
from trainer.tui.log_tail import LogTail
from trainer.tui.status import LOST, READING, Status, status_of
from trainer.tui.view import View

if TYPE_CHECKING:
    from trainer.tui.pending_run import PendingRun
    from trainer.tui.pictures import Sample
    from trainer.tui.siblings import Siblings

PREVIEW_BYTES = 4 << 20
"""A longer event file is sampled first, so that charts cover the whole run while it is read (about 4 µs per line)."""

MAX_SAMPLES_IN_MEMORY = 64
"""Maximum number of samples in memory, more than a screen shows."""

LOCK_SECONDS = 1.0
ACKNOWLEDGE_SECONDS = 5.0


class Sent(NamedTuple):
    """A request that this dashboard sent, at a time in seconds since 1970."""

    id: str
    what: str
    time: float


class Feed:
    """Follows one run.

    Args:
        root: the run directory; it may not have events yet.
        clock: the time in seconds since 1970.
        is_read_only: no requests are sent.
        watched: all runs watched together, including this one; empty: this run alone.

    Raises:
        TrainerError: the directory does not exist.
    """

    def __init__(
        self, root: Path, clock: Callable[[], float], *, is_read_only: bool = False, watched: Sequence[Path] = ()
    ) -> None:
        if not root.is_dir():
            raise TrainerError(
                "not a run directory",
                where=str(root),
                hint="Runs are in ./runs by default; `trainer runs list` shows them.",
            )
        self.paths = RunPaths(root)
        self.root = str(root)
        self.clock = clock
        self.is_read_only, self.watched = is_read_only, tuple(path.resolve() for path in watched)
        self.complete = View(self.paths.name, leading=self.paths.leading_metric)
        self.lock: LockState | None = None
        self.sent: Sent | None = None
        self._events = EventTail(self.paths.events)
        self._log = LogTail(self.paths.log)
        self._traceback: LogTail | None = None
        self._preview: View | None = None
        self._lock_read = -LOCK_SECONDS
        self._monitor = HeartbeatMonitor()
        self._has_caught_up = self._has_logged_loss = False
        self._samples: dict[str, Sample | None] = {}

    def continue_from(self, pending: PendingRun) -> None:
        """Shows the pending run's phases until the first records of the run arrive."""
        self.complete.phases.update(pending.view.phases)

    @cached_property
    def siblings(self) -> Siblings:
        """The other runs of the folder, or those watched together; listed at the first use."""
        from trainer.tui.siblings import Siblings  # reads YAML, which the first frame does not need

        return Siblings(self.paths, self.watched)

    def moved_to(self, root: Path) -> Feed:
        """Closes this feed and returns a feed of another run, with the same list of other runs if it is known."""
        other = Feed(root, self.clock, is_read_only=self.is_read_only, watched=self.watched)
        siblings = self.__dict__.pop("siblings", None)
        self.close()
        if siblings is not None:
            other.siblings = siblings
        return other

    @property
    def view(self) -> View:
        """The run as read so far; a sampled preview until a long event file has been read to its end."""
        return self._preview if self._preview is not None else self.complete

    @property
    def share_read(self) -> float:
        """Share of the event file that has been read record by record, 0 to 1."""
        return 1.0 if self._events.at_end or not self._events.size else self._events.bytes_read / self._events.size

    @property
    def is_behind(self) -> bool:
        """Whether the event file has more to read."""
        return not self._events.at_end and self._events.size > 0

    def poll(self, max_seconds: float) -> None:
        """Reads new records, for at most about `max_seconds`."""
        now = self.clock()
        for record in self._events.poll(max_seconds):
            self.complete.apply(record)
            if self._has_caught_up:
                self._monitor.receive(record, now)
        if self._events.at_end:
            self._has_caught_up = True
            self._preview = None
            self._read_output(now)
        if now - self._lock_read >= LOCK_SECONDS or now < self._lock_read:
            self._lock_read = now
            self.lock = self._monitor.check(read_lock(self.paths), now)
            self._log_loss(now)

    @property
    def worker_time(self) -> float:
        """The time on the worker's machine in seconds since 1970, the clock of the records' timestamps."""
        return self._monitor.clock_of(self.view.host, self.clock())

    def _log_loss(self, now: float) -> None:
        """Logs once, below the last lines, that the worker is gone without an end event."""
        is_lost = self._has_caught_up and self.status() == LOST
        if is_lost and not self._has_logged_loss:
            beat = None if self.lock is None else datetime.fromtimestamp(self.lock.heartbeat)
            last_beat = f"; last heartbeat at {beat:%Y-%m-%d %H:%M:%S}" if beat is not None else ""
            self.complete.say(now, "error", f"{self._worker()} is gone without an end{last_beat}")
        self._has_logged_loss = is_lost

    def _worker(self) -> str:
        """The training process in words."""
        if self.lock is None:
            return "the training process"
        elsewhere = f" on {self.lock.host}" if self.lock.host != host_name() else ""
        return f"the training process {self.lock.pid}{elsewhere}"

    def _read_output(self, now: float) -> None:
        """Reads the worker's output and, after a failure, its traceback."""
        for line in self._log.poll():
            self.complete.say(now, "output", line)
        end = self.complete.end
        if end is not None and end.traceback and self._traceback is None:
            self._traceback = LogTail(self.paths.root / Path(end.traceback).name)
            for line in self._traceback.poll():
                self.complete.say(now, "output", line)

    def read_preview(self) -> bool:
        """Samples a long event file over its whole length; returns whether the file was long."""
        if self._events.size - self._events.bytes_read < PREVIEW_BYTES:
            return False
        preview = View(self.paths.name, leading=self.complete.leading)
        for record in sample_events(self.paths.events):
            preview.apply(record)
        self._preview = preview
        return True

    def status(self) -> Status:
        """The current state of the run; READING while a run without a worker may have an unread end event."""
        status = status_of(self.view, self.lock, self.clock())
        return READING if status == LOST and not self._has_caught_up and self._preview is None else status

    def why_over(self) -> str | None:
        """The reason why the run no longer accepts requests; None while it accepts them."""
        status = self.status()
        if not status.is_over:
            return None
        return f"{self._worker()} is gone" if status == LOST else f"the run is over ({status.word.lower()})"

    def request(self, what: str) -> str:
        """Sends a request to the worker; returns a message, also for a refused request."""
        if (why := self.why_over()) is not None:
            return f"can't {what}: {why}"
        if self.is_read_only:
            return f"can't {what}: this dashboard is read-only"
        try:
            identity = send_request(self.paths, what)
        except TrainerError as error:
            return f"can't {what}: {error}"
        self.sent = Sent(identity, what, self.clock())
        return f"{what}: requested"

    def acknowledgement(self) -> str | None:
        """The state of the last request: requested, received, done, refused, or no answer. None without a request."""
        if self.sent is None:
            return None
        answer = self.complete.requests.get(self.sent.id)
        if answer is not None:
            return f"{self.sent.what}: {answer.state}" + (f" ({answer.why})" if answer.why else "")
        if (why := self.why_over()) is not None:
            return f"{self.sent.what}: not answered, {why}"
        if self.clock() - self.sent.time > ACKNOWLEDGE_SECONDS:
            return f"{self.sent.what}: no answer from the training process yet"
        return f"{self.sent.what}: requested"

    def interrupt(self) -> str:
        """Sends SIGINT to the worker, as Ctrl-C in its own terminal does; returns a message."""
        if self.is_read_only:
            return "this dashboard is read-only"
        lock = read_lock(self.paths)
        if lock is None or not lock.alive:
            return "no training process to interrupt"
        if lock.host != host_name():
            return f"the training process runs on {lock.host}: interrupt it there"
        try:
            os.kill(lock.pid, signal.SIGINT)
        except (ProcessLookupError, PermissionError) as error:
            return f"can't interrupt process {lock.pid}: {error.strerror}"
        return f"interrupt sent to process {lock.pid}"

    def sample(self, event: SampleEvent) -> Sample | None:
        """The content of a sample's file; None if it is missing, damaged or outside of the run directory."""
        from trainer.tui.pictures import read_sample  # imports NumPy

        if event.file not in self._samples:
            while len(self._samples) >= MAX_SAMPLES_IN_MEMORY:
                del self._samples[next(iter(self._samples))]
            path = self.paths.inside(event.file)
            self._samples[event.file] = None if path is None else read_sample(path)
        return self._samples[event.file]

    def report(self, event: ReportEvent) -> Any:
        """The content of a report's file as plain JSON; None if it is missing or damaged."""
        path = self.paths.inside(event.file)
        try:
            return None if path is None else json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def config_text(self) -> str:
        """The resolved configuration of the latest attempt, with the origin of each value; empty without an attempt."""
        attempt = self.paths.last_attempt
        return self.paths.config(attempt).read_text(encoding="utf-8", errors="replace") if attempt else ""

    def close(self) -> None:
        """Closes the files."""
        self._events.close()
        if "siblings" in self.__dict__:
            self.siblings.close()
