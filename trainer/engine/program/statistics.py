"""Statistics of a convolution's output, computed by the convolution's tasks; saves a pass over memory per batch norm.

A reduction over pixels that follows a convolution is fused with it if the target has a kernel for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainer.engine.program.target import Target
from trainer.engine.program.work import Pass, Work, conflict


def with_statistics(works: Sequence[Work], target: Target) -> list[Work]:
    """The items, with every reduction that fits fused into the convolution before it."""
    result: list[Work] = []
    for work in works:
        place = _written_by(result, work)
        spec = None if place is None else target.statistics(result[place], work)
        if place is None or spec is None or any(conflict(work, other) for other in result[place + 1 :]):
            result.append(work)  # it does not fit, or an item between the two conflicts with it
        else:
            first = result[place]
            label, writes = f"{first.label} + {work.label}", (*first.writes, *work.writes)
            result[place] = replace(first, kind="statistics", spec=spec, writes=writes, label=label)
    return result


def _written_by(works: Sequence[Work], work: Work) -> int | None:
    """The index of the last item that writes the array read by `work`, if this is a reduction of one array."""
    if not isinstance(work.spec, Pass) or len(work.sources) != 1:
        return None
    return next((place for place in reversed(range(len(works))) if work.sources[0] in works[place].targets), None)
