"""The rule of attempts: a resumed attempt replaces records of earlier attempts above the step it resumed from.

Values computed again at that step (an interrupted validation, a test) replace the earlier ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from trainer.rundir.events import EndEvent, Event, MetricEvent, Record, ReportEvent, ResumedEvent, SampleEvent


class TimeTaken:
    """The duration of a run: the sum over its attempts, from the start of the process to the last event.

    Time between attempts is excluded.
    """

    def __init__(self) -> None:
        self._by_attempt: dict[int, float] = {}

    def see(self, record: Record) -> None:
        """Adds a record; the records of an attempt arrive in order."""
        self._by_attempt[record.attempt] = record.since_start

    @property
    def seconds(self) -> float:
        """The sum over the attempts so far."""
        return sum(self._by_attempt.values())


def without_superseded(records: Iterable[Record]) -> list[Record]:
    """The valid records, in order.

    A record is dropped if a later attempt, or the same attempt after a rollback, resumed from a smaller step; records
    without a step are kept. The `end` of an earlier attempt is dropped after any resumption.
    """
    records = list(records)
    resumed = [
        (index, record.attempt, record.event.from_step)
        for index, record in enumerate(records)
        if isinstance(record.event, ResumedEvent)
    ]
    if not resumed:
        return records
    limits = {
        attempt: min((step for _, later, step in resumed if later > attempt), default=math.inf)
        for attempt in {record.attempt for record in records}
    }
    kept, rolled_back = [], {attempt: math.inf for attempt in limits}
    resumptions, resumptions_at = 0, dict[tuple[object, ...], int]()
    for index in reversed(range(len(records))):
        record = records[index]
        if isinstance(record.event, ResumedEvent):
            rolled_back[record.attempt] = min(rolled_back[record.attempt], record.event.from_step)
            resumptions += 1
        keys = _keys(record.event)
        current = [name for name, key in keys.items() if resumptions_at.setdefault(key, resumptions) == resumptions]
        if not _still_counts(record, limits[record.attempt], rolled_back[record.attempt]) or (keys and not current):
            continue
        if isinstance(record.event, MetricEvent) and len(current) < len(keys):
            values = {name: record.event.values[name] for name in current}
            record = record._replace(event=replace(record.event, values=values))
        kept.append(record)
    return kept[::-1]


def _still_counts(record: Record, last_step: float, rolled_back_to: float) -> bool:
    if isinstance(record.event, EndEvent):
        return last_step == math.inf
    step = getattr(record.event, "step", None)
    return step is None or step <= min(last_step, rolled_back_to)


def _keys(event: Event) -> dict[str, tuple[object, ...]]:
    """Keys, by name, of the values that a later event can replace: the same metric, report or sample at the same step.

    Metrics that are computed in another process are reported with others or later, so each has its own key.
    """
    match event:
        case MetricEvent():
            return {name: (event.kind, event.step, event.split, name) for name in event.values}
        case ReportEvent() | SampleEvent():
            return {event.name: (event.kind, event.step, event.split, event.name)}
    return {}
