"""The rule of attempts: a resumed attempt takes back what earlier ones recorded above the step it resumed from."""

from __future__ import annotations

import math
from collections.abc import Iterable

from trainer.rundir.events import EndEvent, Record, ResumedEvent


def without_superseded(records: Iterable[Record]) -> list[Record]:
    """The records that still count, in their order.

    A record goes when a later attempt resumed from a step below its own; records without a step stay. An `end` of
    an earlier attempt goes with any later resumption, since the run went on.
    """
    records = list(records)
    resumed = [(record.attempt, record.event.from_step) for record in records if isinstance(record.event, ResumedEvent)]
    if not resumed:
        return records
    limits = {
        attempt: min((step for later, step in resumed if later > attempt), default=math.inf)
        for attempt in {record.attempt for record in records}
    }
    return [record for record in records if _still_counts(record, limits[record.attempt])]


def _still_counts(record: Record, last_step: float) -> bool:
    if last_step == math.inf:
        return True
    if isinstance(record.event, EndEvent):
        return False
    step = getattr(record.event, "step", None)
    return step is None or step <= last_step
