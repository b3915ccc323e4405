"""A profile in the trace event format that Chrome and Perfetto read.

Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU, "complete" events (X) with
times in microseconds since the first call. The row "calls" holds the calls and, nested in them, the programs; below it,
each thread has a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from trainer.engine.profiling.timeline import Span, Timeline

CALLS = 0
"""The row of calls; thread n has row n + 1."""


def chrome_trace(timelines: Sequence[Timeline]) -> dict[str, Any]:
    """Returns the trace with the events of all timelines."""
    origin = timelines[0].begun if timelines else 0.0
    threads = max((len(span.busy) for timeline in timelines for span in timeline.spans), default=0)
    names = {CALLS: "calls", **{thread + 1: f"thread {thread}" for thread in range(threads)}}
    events: list[dict[str, Any]] = [
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": row, "args": {"name": name}} for row, name in names.items()
    ]
    for number, timeline in enumerate(timelines):
        events.append(_event(f"call {number}", "call", CALLS, timeline.begun, timeline.finished, origin))
        for span in timeline.spans:
            events += _events(span, origin)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _events(span: Span, origin: float) -> Iterator[dict[str, Any]]:
    yield _event("program", "program", CALLS, span.begun, span.finished, origin)
    for thread in range(len(span.busy)):
        row = thread + 1
        for index, label in enumerate(span.labels):
            arrived, began, ended = (float(m[thread, index]) for m in (span.arrived, span.began, span.ended))
            if span.waits[index]:
                yield _event("wait", "wait", row, arrived, began, origin)
            yield _event(label, "launch", row, began, ended, origin) | {"args": {"launch": index}}
        yield _event("wait", "wait", row, float(span.through[thread]), span.finished, origin)


def _event(name: str, category: str, row: int, begin: float, end: float, origin: float) -> dict[str, Any]:
    start = round((begin - origin) * 1e6, 3)
    duration = max(0.0, round((end - origin) * 1e6 - start, 3))
    return {"name": name, "cat": category, "ph": "X", "pid": 1, "tid": row, "ts": start, "dur": duration}
