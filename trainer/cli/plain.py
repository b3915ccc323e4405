"""Prints a run as lines of `key=value`, at most one per second.

The header of an attempt, errors, warnings and the end are printed immediately. All other events wait for the next
second, and only the latest of each stream is printed: evaluations and checkpoints before progress, and a phase only if
it takes more than a second. A line has only the most important metrics, and `more_metrics` is the number of the others;
the events, `trainer report` and the dashboard have all of them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trainer.rundir import (
    AutotuneEvent,
    BadItemEvent,
    CheckpointEvent,
    EndEvent,
    Event,
    LogEvent,
    MetricEvent,
    PhaseEvent,
    RanksEvent,
    Record,
    ReportEvent,
    RequestEvent,
    ResumedEvent,
    RunEvent,
    SystemEvent,
    WarningEvent,
    named_first,
    task_name,
)

MOST_METRICS = 6
"""Maximum number of metrics in one line."""

SECONDS_BETWEEN_LINES = 1.0
SECONDS_BETWEEN = 2.0
"""Seconds between two lines of the same progress."""
SECONDS_OF_A_PHASE = 1.0
"""A phase shorter than this many seconds is not printed. All three are in the run's own time."""

_BARE = re.compile(r"[^\s\"'=]+")
_MULTI_LINE = re.compile(r"\s*\n\s*")

_EVALUATION, _TRAINING = "evaluation", "training"
_IMPORTANT = ("request", _EVALUATION, "log")
"""Streams that are printed before progress, in this order."""


@dataclass
class _Held:
    """The latest record of a stream, at time `at`; printed no earlier than `since`."""

    fields: dict[str, Any]
    at: float
    since: float


class PlainLines:
    """Converts records to lines.

    `lines(record)` adds a record and returns the lines to print now, `due(now)` returns the lines that are due by time,
    and `rest()` returns the remaining ones at the end. Times are in seconds since the attempt's process started.

    Args:
        monitored: the metric that is printed first, "split/name"; None if the config sets none.
    """

    def __init__(self, monitored: str | None = None) -> None:
        self._monitored = monitored
        self._held: dict[str, _Held] = {}
        self._printed: dict[str, float] = {}
        self._started: dict[str, float] = {}
        self._last_line = -math.inf
        self._attempt = 0

    def lines(self, record: Record) -> list[str]:
        event, now = record.event, record.since_start
        describe = _DESCRIBE.get(type(event))
        if describe is None:
            return []
        lines: list[str] = []
        if record.attempt != self._attempt:  # the time of a new attempt starts at 0
            lines = self.rest()
            self.__init__(self._monitored)  # type: ignore[misc]
            self._attempt = record.attempt
        fields = {key: value for key, value in describe(event).items() if value is not None}
        if isinstance(event, EndEvent):
            for stream in (*_IMPORTANT, _TRAINING):
                if (held := self._held.get(stream)) is not None:
                    fields = {**fields, **{key: held.fields[key] for key in held.fields if key not in fields}}
            self._held.clear()
            return [*lines, self._line(fields, now)]
        if _is_always_printed(event):
            lines += self.due(now)
            self._last_line = now
            return [*lines, self._line(fields, now)]
        self._hold(event, fields, now)
        return [*lines, *self.due(now)]

    def due(self, now: float) -> list[str]:
        """The next line that is due, if any."""
        if now - self._last_line < SECONDS_BETWEEN_LINES:
            return []
        ready = [stream for stream, held in self._held.items() if held.since <= now]
        if not ready:
            return []
        stream = min(ready, key=lambda stream: (_rank(stream), self._printed.get(stream, -math.inf)))
        self._printed[stream] = self._last_line = now
        return [self._line(self._held.pop(stream).fields, now)]

    def rest(self) -> list[str]:
        """The lines still held at the end: the latest of each important stream."""
        remaining = [self._held[stream] for stream in _IMPORTANT if stream in self._held]
        self._held.clear()
        return [self._line(held.fields, held.at) for held in remaining]

    def _line(self, fields: Mapping[str, Any], time: float) -> str:
        """A line, with the time at which it is printed."""
        metrics = {name: value for name, value in fields.items() if "/" in name}
        shown, left_out = named_first(metrics, self._monitored, MOST_METRICS)
        printed: dict[str, Any] = {"time": round(time, 3)}
        for name, value in fields.items():
            if name not in metrics:
                printed[name] = value
            elif shown:  # all metrics are printed together, at the position of the first one
                printed |= {**shown, "more_metrics": left_out or None}
                shown = {}
        return key_values(printed)

    def _hold(self, event: Event, fields: dict[str, Any], now: float) -> None:
        if isinstance(event, PhaseEvent):
            self._hold_phase(event, fields, now)
            return
        stream = _stream_of(event)
        held = self._held.get(stream)
        if stream == _EVALUATION and held is not None and held.fields.get("step") == fields.get("step"):
            fields = {**held.fields, **fields}  # events of one step share one line
        between = 0.0 if stream in _IMPORTANT else SECONDS_BETWEEN
        self._held[stream] = _Held(fields, now, self._printed.get(stream, -math.inf) + between)

    def _hold_phase(self, event: PhaseEvent, fields: dict[str, Any], now: float) -> None:
        stream = f"phase {event.name}"
        started = self._started.setdefault(event.name, now)
        if event.state == "finished":
            del self._started[event.name]
            if now - started <= SECONDS_OF_A_PHASE:
                self._held.pop(stream, None)
                return
        since = max(started + SECONDS_OF_A_PHASE, self._printed.get(stream, -math.inf) + SECONDS_BETWEEN)
        self._held[stream] = _Held(fields, now, now if event.state == "finished" else since)


def _is_always_printed(event: Event) -> bool:
    """Whether the event is an error, a warning, or the start of an attempt."""
    if isinstance(event, PhaseEvent):
        return event.state == "failed"
    return isinstance(event, WarningEvent | RunEvent | ResumedEvent) or (
        isinstance(event, LogEvent) and event.level in ("warning", "error")
    )


def _stream_of(event: Event) -> str:
    """The stream of an event."""
    if isinstance(event, MetricEvent):
        return _TRAINING if event.split == "train" and not event.final else _EVALUATION
    return _EVALUATION if isinstance(event, CheckpointEvent) else event.kind


def _rank(stream: str) -> int:
    return _IMPORTANT.index(stream) if stream in _IMPORTANT else len(_IMPORTANT)


def key_values(fields: Mapping[str, Any]) -> str:
    """`a=1 b="two words"`; fields that are None or empty are omitted."""
    return " ".join(f"{key}={_text(value)}" for key, value in fields.items() if value not in (None, ""))


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = _MULTI_LINE.sub("; ", str(value).strip())
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _phase(event: PhaseEvent) -> dict[str, Any]:
    return {
        "phase": event.name, "state": event.state, "done": event.done, "total": event.total, "unit": event.unit,
        "now": event.now, "remaining": event.remaining,
    }  # fmt: skip


def _metric(event: MetricEvent) -> dict[str, Any]:
    values = {f"{event.split}/{name}": float(value) for name, value in event.values.items()}
    return {"step": event.step, "epoch": float(event.epoch), **values}


def _run(event: RunEvent) -> dict[str, Any]:
    return {
        "run": event.name, "task": task_name(event.task), "device": event.device, "threads": event.threads,
        "pid": event.pid, "host": event.host, "version": event.version,
    }  # fmt: skip


def _autotune(event: AutotuneEvent) -> dict[str, Any]:
    return {"autotune": event.operation, "shape": event.shape, "default_ms": event.default_ms, "best_ms": event.best_ms}


def _checkpoint(event: CheckpointEvent) -> dict[str, Any]:
    return {"checkpoint": event.path, "step": event.step, "reasons": ",".join(event.reasons) or None}


def _system(event: SystemEvent) -> dict[str, Any]:
    return {"cpu": event.cpu, "memory": event.memory, "data_wait": event.data_wait, "step_ms": event.step_ms}


def _ranks(event: RanksEvent) -> dict[str, Any]:
    slowest = event.ranks[0] if event.ranks else {}
    shown = {name: slowest.get(name) for name in ("host", "state", "step_ms", "wait")}
    return {"ranks": len(event.ranks), "slowest": slowest.get("rank"), **shown}


def _bad_item(event: BadItemEvent) -> dict[str, Any]:
    return {"bad_item": event.source, "reason": event.reason, "action": event.action, "count": event.count}


def _end(event: EndEvent) -> dict[str, Any]:
    metrics = {name: float(value) for name, value in event.metrics.items()}
    return {
        "end": event.status, "exit_code": event.exit_code, "step": event.step, "seconds": event.seconds, **metrics,
        "reason": event.reason, "traceback": event.traceback,
    }  # fmt: skip


_DESCRIBE: dict[type[Event], Callable[[Any], dict[str, Any]]] = {
    RunEvent: _run,
    PhaseEvent: _phase,
    MetricEvent: _metric,
    AutotuneEvent: _autotune,
    SystemEvent: _system,
    RanksEvent: _ranks,
    CheckpointEvent: _checkpoint,
    BadItemEvent: _bad_item,
    ReportEvent: lambda event: {"report": event.name, "split": event.split, "step": event.step, "file": event.file},
    WarningEvent: lambda event: {"warning": event.message, "where": event.where},
    LogEvent: lambda event: {"log": event.message, "level": event.level, "where": event.where},
    RequestEvent: lambda event: {"request": event.what, "state": event.state, "why": event.why},
    ResumedEvent: lambda event: {"resumed_from": event.from_step, "checkpoint": event.checkpoint},
    EndEvent: _end,
}
