"""Reads a run from a notebook or a program: `trainer.open_run("runs/digits")`."""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from trainer import TrainerError
from trainer.rundir.attempts import TimeTaken
from trainer.rundir.control import ENDING_REQUESTS
from trainer.rundir.events import EndEvent, Event, MetricEvent, PhaseEvent, Record, RequestEvent, ResumedEvent, RunEvent
from trainer.rundir.heartbeat import HeartbeatMonitor
from trainer.rundir.layout import RunPaths
from trainer.rundir.lock import read_lock
from trainer.rundir.reader import EventTail, read_events

STARTING_SECONDS = 30.0
"""Seconds after its last event for which a run without a lock counts as starting."""

SILENT_AFTER_SECONDS = 15.0
"""Seconds without a heartbeat after which a live worker counts as silent."""

RUNNING, PAUSED, STOPPING = "running", "paused", "stopping"

ALIVE = ("starting", RUNNING, PAUSED, STOPPING, "silent")
"""The states of a run that has not ended."""

STATES = (*ALIVE, "done", "stopped", "pruned", "interrupted", "failed", "lost")
"""All states of a run. `silent`: a live process without heartbeat; `lost`: it ended without an end event."""


@dataclass(frozen=True)
class Series:
    """One metric over the run, four arrays of float64 of equal length.

    They support the buffer protocol: `numpy.asarray(series.value)` makes no copy. `time` is in seconds since 1970.
    """

    step: array[float]
    epoch: array[float]
    value: array[float]
    time: array[float]

    def __len__(self) -> int:
        return len(self.step)


class Metrics(Mapping[str, Series]):
    """All metrics of a run by "split/name", such as "train/loss"."""

    def __init__(self) -> None:
        self._columns: dict[str, _Columns] = {}

    def __getitem__(self, key: str) -> Series:
        try:
            return self._columns[key].series()
        except KeyError:
            known = ", ".join(self._columns) or "none yet"
            raise KeyError(f"no metric {key!r}; available: {known}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        width = max(map(len, self._columns), default=0)
        lines = [f"{name:{width}}  {len(at.value)} values, last {at.value[-1]:.6g} at step {at.step[-1]:g}"
                 for name, at in self._columns.items() if at.value]  # fmt: skip
        return "\n".join(lines) or "no metrics yet"

    def add(self, record: Record) -> None:
        """Adds one record; records without metrics change nothing (except `resumed`, which removes values)."""
        event = record.event
        if isinstance(event, MetricEvent):
            for name, value in event.values.items():
                key = f"{event.split}/{name}"
                columns = self._columns.get(key)
                if columns is None:
                    columns = self._columns[key] = _Columns()
                columns.append(event.step, event.epoch, value, record.time)
        elif isinstance(event, ResumedEvent):
            for columns in self._columns.values():
                columns.take_back(event.from_step)


class Liveness:
    """Determines the status of a run from its records, passed one by one and not stored."""

    def __init__(self, paths: RunPaths) -> None:
        self.paths, self.attempt, self.last_time = paths, 1, 0.0
        self.end: EndEvent | None = None
        self._monitor, self._requested = HeartbeatMonitor(), RUNNING

    def see(self, record: Record) -> None:
        """Adds the next record; those of a superseded attempt change nothing."""
        if record.attempt < self.attempt:
            return
        if record.attempt > self.attempt:
            self.attempt, self.end, self._requested = record.attempt, None, RUNNING
        self.last_time = record.time
        self._requested = requested_state(self._requested, record.event)
        if isinstance(record.event, EndEvent):
            self.end = record.event

    @property
    def status(self) -> str:
        """One of STATES."""
        return status_of(self.paths, self.end, self.last_time, self._monitor, self._requested)


class Run:
    """A view of one run directory; `refresh` reads new records.

    Attributes:
        metrics: every metric as arrays.
        phases: the latest event of each phase of the current attempt, in the order of their start.
        head: the current attempt's `run` event.
        end: the current attempt's `end` event, None while it runs.
        attempt: the number of the current attempt.
    """

    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths
        self.metrics = Metrics()
        self.phases: dict[str, PhaseEvent] = {}
        self.head: RunEvent | None = None
        self.end: EndEvent | None = None
        self.attempt = 1
        self._last_time, self._monitor, self._requested = 0.0, HeartbeatMonitor(is_trusting=False), RUNNING
        self._taken = TimeTaken()
        self._tail = EventTail(paths.events)
        self.refresh()

    @property
    def name(self) -> str:
        return self.paths.name

    def __repr__(self) -> str:
        return f"<run {self.name}, attempt {self.attempt}: {self.status}, {len(self.metrics)} metrics>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(name)}</td>" + "".join(f"<td>{value:.4g}</td>" for value in _in_short(series)) + "</tr>"
            for name, series in self.metrics.items()
            if len(series)
        )
        head = "".join(f"<th>{word}</th>" for word in ("metric", "last", "step", "minimum", "maximum"))
        heading = f"<p><b>{escape(self.name)}</b>, attempt {self.attempt}: {escape(self.status)}</p>"
        return f"{heading}<table><tr>{head}</tr>{rows}</table>"

    @property
    def status(self) -> str:
        """One of STATES: starting, running, paused, stopping, silent (no heartbeat for 15 s), done, stopped,
        interrupted, failed, pruned (stopped by a sweep), or lost (its process ended without an end event).
        """
        return status_of(self.paths, self.end, self._last_time, self._monitor, self._requested)

    @property
    def seconds(self) -> float:
        """The duration of all attempts together, without the time between them."""
        return self._taken.seconds

    @property
    def config_text(self) -> str:
        """The current attempt's resolved config as YAML text."""
        return self.paths.config(max(self.paths.last_attempt, 1)).read_text(encoding="utf-8", errors="replace")

    def events(self) -> list[Record]:
        """All records, read again, without those that a resumed attempt replaced."""
        return read_events(self.paths.events)

    def metric(self, split: str, name: str) -> Series:
        """The series of one metric, such as `run.metric("valid", "accuracy")`."""
        return self.metrics[f"{split}/{name}"]

    def refresh(self) -> None:
        """Reads everything written since the last refresh."""
        for record in self._tail.poll():
            self._add(record)

    def _add(self, record: Record) -> None:
        if record.attempt < self.attempt:
            return  # a superseded worker that was still alive
        if record.attempt > self.attempt:
            self.attempt, self.end, self.head = record.attempt, None, None
            self.phases, self._requested = {}, RUNNING
        self._last_time = record.time
        self._taken.see(record)
        event = record.event
        self._requested = requested_state(self._requested, event)
        if isinstance(event, PhaseEvent):
            self.phases[event.name] = event
        elif isinstance(event, RunEvent):
            self.head = event
        elif isinstance(event, EndEvent):
            self.end = event
        self.metrics.add(record)


def open_run(path: str | os.PathLike[str]) -> Run:
    """The run in a directory, finished or not.

    Raises:
        TrainerError: no run directory at `path`.
    """
    paths = RunPaths(Path(path))
    if not paths.events.is_file() and not paths.config(1).is_file():
        raise TrainerError(
            "not a run directory",
            where=os.fspath(path),
            expected="a folder with events.jsonl",
            hint="Runs are in ./runs by default.",
        )
    return Run(paths)


def status_of(
    paths: RunPaths,
    end: EndEvent | None,
    last_time: float,
    monitor: HeartbeatMonitor | None = None,
    requested: str = RUNNING,
) -> str:
    """The status of a run from the end of its current attempt, if any, and the time of its last event.

    Repeated callers pass their observations of its heartbeat as `monitor`. `requested` is the state of a run with a
    recent heartbeat, see `requested_state`.
    """
    if end is not None:
        return end.status
    lock = read_lock(paths)
    if monitor is not None:
        lock = monitor.check(lock, time.time())
    if lock is None:
        return "starting" if time.time() - last_time < STARTING_SECONDS else "lost"
    if not lock.alive:
        return "lost"
    has_one_clock = lock.is_within_sight or monitor is not None
    return "silent" if has_one_clock and time.time() - lock.heartbeat > SILENT_AFTER_SECONDS else requested


def requested_state(state: str, event: Event) -> str:
    """The state after an event: PAUSED or STOPPING after such a request, RUNNING after a resume, otherwise `state`."""
    if not isinstance(event, RequestEvent) or event.state == "refused":
        return state
    if event.what in ENDING_REQUESTS:
        return STOPPING
    if event.what in ("pause", "resume") and event.state == "done":
        return PAUSED if event.what == "pause" else RUNNING
    return state


def _in_short(series: Series) -> tuple[float, float, float, float]:
    """The last value and its step, the minimum and the maximum."""
    return series.value[-1], series.step[-1], min(series.value), max(series.value)


@dataclass
class _Columns:
    """The growing form of a series. Returns copies, because an array with views can't grow."""

    step: array[float] = field(default_factory=lambda: array("d"))
    epoch: array[float] = field(default_factory=lambda: array("d"))
    value: array[float] = field(default_factory=lambda: array("d"))
    time: array[float] = field(default_factory=lambda: array("d"))
    _series: Series | None = None

    def append(self, step: float, epoch: float, value: float, time: float) -> None:
        """Adds one value; a value of the last step replaces it (after a resume)."""
        if self.step and self.step[-1] == step:
            for column in (self.step, self.epoch, self.value, self.time):
                column.pop()
        self.step.append(step)
        self.epoch.append(epoch)
        self.value.append(value)
        self.time.append(time)
        self._series = None

    def take_back(self, from_step: float) -> None:
        kept = [index for index, step in enumerate(self.step) if step <= from_step]
        if len(kept) < len(self.step):
            for name in ("step", "epoch", "value", "time"):
                column = getattr(self, name)
                setattr(self, name, array("d", (column[index] for index in kept)))
            self._series = None

    def series(self) -> Series:
        if self._series is None:
            self._series = Series(self.step[:], self.epoch[:], self.value[:], self.time[:])
        return self._series
