"""A run in plain lines: from records to `key=value` text, thinned out so that a person can read it.

Changes of phase, validation, checkpoints, warnings and the end are printed each; progress and training metrics every
few seconds, the latest of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
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
    Record,
    ReportEvent,
    RequestEvent,
    ResumedEvent,
    RunEvent,
    SystemEvent,
    WarningEvent,
)

SECONDS_BETWEEN = 2.0
"""The least time between two lines of the same progress, in the run's own time."""

_BARE = re.compile(r"[^\s\"'=]+")
_MULTI_LINE = re.compile(r"\s*\n\s*")


class PlainLines:
    """Turns records into lines, in the order of the records.

    `lines(record)` returns what is to be printed now. A thinned-out line that is still held back comes out before the
    next line that ends its phase, so that the last number before a change is always seen.
    """

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._held: dict[str, str] = {}

    def lines(self, record: Record) -> list[str]:
        event = record.event
        describe = _DESCRIBE.get(type(event))
        if describe is None:
            return []
        line = key_values({"time": round(record.since_start, 3), **describe(event)})
        stream = _thinned_stream(event)
        if stream is None:
            ended = list(self._held.values())
            self._held.clear()
            return [*ended, line]
        if record.since_start - self._last.get(stream, -SECONDS_BETWEEN) < SECONDS_BETWEEN:
            self._held[stream] = line
            return []
        self._held.pop(stream, None)
        self._last[stream] = record.since_start
        return [line]


def key_values(fields: Mapping[str, Any]) -> str:
    """`a=1 b="two words"`; fields that are None or empty are left out."""
    return " ".join(f"{key}={_text(value)}" for key, value in fields.items() if value not in (None, ""))


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = _MULTI_LINE.sub("; ", str(value).strip())
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _thinned_stream(event: Event) -> str | None:
    """What the event is one of many of, or None when it is printed by itself."""
    if isinstance(event, PhaseEvent) and event.state == "progress":
        return f"phase {event.name}"
    if isinstance(event, MetricEvent) and event.split == "train" and not event.final:
        return "train"
    if isinstance(event, AutotuneEvent | BadItemEvent | SystemEvent):
        return event.kind
    return None


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
        "run": event.name, "task": event.task, "device": event.device, "threads": event.threads, "pid": event.pid,
        "host": event.host, "version": event.version,
    }  # fmt: skip


def _autotune(event: AutotuneEvent) -> dict[str, Any]:
    return {"autotune": event.operation, "shape": event.shape, "default_ms": event.default_ms, "best_ms": event.best_ms}


def _checkpoint(event: CheckpointEvent) -> dict[str, Any]:
    return {"checkpoint": event.path, "step": event.step, "reasons": ",".join(event.reasons) or None}


def _system(event: SystemEvent) -> dict[str, Any]:
    return {"cpu": event.cpu, "memory": event.memory, "data_wait": event.data_wait, "step_ms": event.step_ms}


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
    CheckpointEvent: _checkpoint,
    BadItemEvent: _bad_item,
    ReportEvent: lambda event: {"report": event.name, "split": event.split, "step": event.step, "file": event.file},
    WarningEvent: lambda event: {"warning": event.message, "where": event.where},
    LogEvent: lambda event: {"log": event.message, "level": event.level, "where": event.where},
    RequestEvent: lambda event: {"request": event.what, "state": event.state, "why": event.why},
    ResumedEvent: lambda event: {"resumed_from": event.from_step, "checkpoint": event.checkpoint},
    EndEvent: _end,
}
