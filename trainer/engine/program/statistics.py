"""Statistics of what a convolution stores, taken by its own tasks: a pass over memory less for each batch norm.

A reduction over pixels that follows a convolution becomes one item with it where the target has a kernel for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainer.engine.program.target import Target
from trainer.engine.program.work import Pass, Work, place_of


def with_statistics(works: Sequence[Work], target: Target) -> list[Work]:
    """The items, with every reduction that fits in the convolution before it."""
    result: list[Work] = []
    for work in works:
        place = _written_by(result, work)
        spec = None if place is None else target.statistics(result[place], work)
        if place is None or spec is None or not _may_move(result[place + 1 :], work):
            result.append(work)
        else:
            result[place] = _joined(result[place], work, spec)
    return result


def _written_by(works: Sequence[Work], work: Work) -> int | None:
    """Which of the items, last of all, wrote what a reduction of one array reads."""
    if not isinstance(work.spec, Pass) or len(work.sources) != 1:
        return None
    return next((place for place in reversed(range(len(works))) if work.sources[0] in works[place].targets), None)


def _may_move(between: Sequence[Work], work: Work) -> bool:
    """Whether `work` may run before those between: none of them touches what it writes, or writes what it reads."""
    writes = {place_of(buffer) for buffer in work.targets}
    reads = {place_of(buffer) for buffer in work.sources}
    return not any(
        writes & {place_of(buffer) for buffer in (*other.sources, *other.targets)}
        or reads & {place_of(buffer) for buffer in other.targets}
        for other in between
    )


def _joined(convolution: Work, reduction: Work, spec: Any) -> Work:
    return Work(
        "statistics",
        spec,
        convolution.reads,
        (*convolution.writes, *reduction.writes),
        f"{convolution.label} + {reduction.label}",
        epilogue=convolution.epilogue,
        prologue=convolution.prologue,
        in_place=convolution.in_place,
    )
