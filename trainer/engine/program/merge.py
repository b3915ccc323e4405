"""Merges equal loops over different arrays into one item: the updates of all parameters, the statistics of all norms.

An item is delayed to a later one with the same code if nothing in between depends on it, so any group of independent
loops with the same body is merged. The results do not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trainer.engine.program.target import Features
from trainer.engine.program.work import KernelSource, Work, joined, place_of


@dataclass(eq=False, slots=True)
class _Waiting:
    """Items with the same code that have not been emitted yet."""

    members: list[Work] = field(default_factory=list)
    held: int = 0


def merged(works: Sequence[Work], features: Features) -> list[Work]:
    """The items in order, with equal independent loops merged; a group precedes any later item that conflicts."""
    result: list[Work] = []
    open_groups: dict[KernelSource, _Waiting] = {}
    readers: dict[object, set[KernelSource]] = {}
    writers: dict[object, set[KernelSource]] = {}

    def close(code: KernelSource) -> None:
        group = open_groups.pop(code, None)
        if group is not None:
            result.append(_joined(group.members))

    for work in works:
        reads, writes = (dict.fromkeys(map(place_of, side)) for side in (work.sources, work.targets))
        needed = [writers.pop(place) for place in (*reads, *writes) if place in writers]
        needed += [readers.pop(place) for place in writes if place in readers]
        for codes in needed:
            for code in sorted(codes & open_groups.keys(), key=list(open_groups).index):
                close(code)
        held = sum(buffer.nbytes for buffer in (*work.sources, *work.targets) if buffer.in_arena)
        if work.code is None or not work.points or held > features.held_bytes:
            result.append(work)
            continue
        group = open_groups.setdefault(work.code, _Waiting())
        if group.members and group.held + held > features.held_bytes:
            close(work.code)
            group = open_groups.setdefault(work.code, _Waiting())
        group.members.append(work)
        group.held += held
        for place in reads:
            readers.setdefault(place, set()).add(work.code)
        for place in writes:
            writers.setdefault(place, set()).add(work.code)
    for code in list(open_groups):
        close(code)
    return result


def _joined(parts: Sequence[Work]) -> Work:
    if len(parts) == 1:
        return parts[0]
    in_place = tuple(pair for part in parts for pair in part.in_place if _is_alone(pair[1], part, parts))
    return joined("group", None, parts, f"{parts[0].label} of {len(parts)}", in_place=in_place)


def _is_alone(buffer: object, part: Work, parts: Sequence[Work]) -> bool:
    """Whether no other part touches `buffer`."""
    return not any(buffer in other.buffers for other in parts if other is not part)
