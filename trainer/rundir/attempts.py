"""The rule of attempts: a resumed attempt takes back what earlier ones recorded above the step it resumed from.

What it measures again at that very step (a validation that was cut short, a test) takes the place of what was told
before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from trainer.rundir.events import EndEvent, Event, MetricEvent, Record, ReportEvent, ResumedEvent, SampleEvent


class TimeTaken:
    """How long a run took: the time of its attempts, from the start of each one's process to its last event.

    What lies between two attempts does not count.
    """

    def __init__(self) -> None:
        self._by_attempt: dict[int, float] = {}

    def see(self, record: Record) -> None:
        """Take in a record; later ones of an attempt come later."""
        self._by_attempt[record.attempt] = record.since_start

    @property
    def seconds(self) -> float:
        """The sum over the attempts so far."""
        return sum(self._by_attempt.values())


def without_superseded(records: Iterable[Record]) -> list[Record]:
    """The records that still count, in their order.

    A record goes when a later attempt, or its own attempt further on (a rollback), resumed from a step below its own;
    records without a step stay. An `end` of an earlier attempt goes with any later resumption, since the run went on.
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
    resumptions, told_after = 0, dict[tuple[object, ...], int]()
    for index in reversed(range(len(records))):
        record = records[index]
        if isinstance(record.event, ResumedEvent):
            rolled_back[record.attempt] = min(rolled_back[record.attempt], record.event.from_step)
            resumptions += 1
        what = _what_it_tells(record.event)
        is_told_again = what is not None and told_after.setdefault(what, resumptions) < resumptions
        if _still_counts(record, limits[record.attempt], rolled_back[record.attempt]) and not is_told_again:
            kept.append(record)
    return kept[::-1]


def _still_counts(record: Record, last_step: float, rolled_back_to: float) -> bool:
    if isinstance(record.event, EndEvent):
        return last_step == math.inf
    step = getattr(record.event, "step", None)
    return step is None or step <= min(last_step, rolled_back_to)


def _what_it_tells(event: Event) -> tuple[object, ...] | None:
    """What another event can tell anew: the same metrics, report or sample of the same step."""
    match event:
        case MetricEvent():
            return event.kind, event.step, event.split, frozenset(event.values)
        case ReportEvent() | SampleEvent():
            return event.kind, event.step, event.split, event.name
    return None
