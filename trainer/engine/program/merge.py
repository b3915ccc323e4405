"""Equal loops over different arrays as one launch: the updates of all parameters, the statistics of all norms.

A launch waits for a later one of the same kernel as long as nothing in between needs it to have run, so any group of
independent loops with the same body is merged, whoever wrote them. What is computed does not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trainer.engine.program.launch import Address, KernelSource, Launch, place_of
from trainer.engine.program.loops import TASK_ELEMENTS
from trainer.engine.program.spec import LoopKernel
from trainer.engine.targets.cpu.kernels.repeated import RepeatedKernel, render

HELD_BYTES = 4 << 20
"""How much memory in the arena the launches of a group may keep alive by waiting."""


@dataclass(eq=False, slots=True)
class _Waiting:
    """Launches of one kernel that have not been emitted yet."""

    members: list[Launch] = field(default_factory=list)
    held: int = 0


def merged(launches: Sequence[Launch]) -> list[Launch]:
    """The launches in order, with groups of equal independent loops in the place of their last."""
    result: list[Launch] = []
    open_groups: dict[KernelSource, _Waiting] = {}
    readers: dict[object, set[KernelSource]] = {}
    writers: dict[object, set[KernelSource]] = {}

    def close(source: KernelSource) -> None:
        group = open_groups.pop(source, None)
        if group is not None:
            result.append(_joined(group.members))

    for launch in launches:
        reads, writes = (dict.fromkeys(map(place_of, side)) for side in (launch.reads, launch.writes))
        needed = [writers.pop(place) for place in (*reads, *writes) if place in writers]
        needed += [readers.pop(place) for place in writes if place in readers]
        for sources in needed:
            for source in sorted(sources & open_groups.keys(), key=list(open_groups).index):
                close(source)
        held = sum(buffer.nbytes for buffer in (*launch.reads, *launch.writes) if buffer.in_arena)
        if not isinstance(launch.source.key, LoopKernel) or not launch.tasks or held > HELD_BYTES:
            result.append(launch)
            continue
        group = open_groups.setdefault(launch.source, _Waiting())
        if group.members and group.held + held > HELD_BYTES:
            close(launch.source)
            group = open_groups.setdefault(launch.source, _Waiting())
        group.members.append(launch)
        group.held += held
        for place in reads:
            readers.setdefault(place, set()).add(launch.source)
        for place in writes:
            writers.setdefault(place, set()).add(launch.source)
    for source in list(open_groups):
        close(source)
    return result


def _joined(parts: Sequence[Launch]) -> Launch:
    if len(parts) == 1:
        return parts[0]
    first, total = parts[0], sum(part.tasks for part in parts)
    kernel = first.source.key
    assert isinstance(kernel, LoopKernel)
    points = sum(_points(part, kernel) for part in parts)
    grain = -(-total // max(1, min(total, -(-points // TASK_ELEMENTS))))
    words: list[int | Address] = [grain, total]
    for part in parts:
        words += [part.tasks, *part.words]
    repeated = RepeatedKernel(kernel)
    return Launch(
        KernelSource(repeated, lambda name: render(repeated, first.source.render, name)),
        words,
        -(-total // grain),
        tuple(dict.fromkeys(buffer for part in parts for buffer in part.reads)),
        tuple(dict.fromkeys(buffer for part in parts for buffer in part.writes)),
        f"{first.label} of {len(parts)}",
        in_place=tuple(pair for part in parts for pair in part.in_place if _is_alone(pair[1], part, parts)),
        parts=tuple(parts),
    )


def _points(launch: Launch, kernel: LoopKernel) -> int:
    """Elements that a loop runs over."""
    start, points = len(kernel.inputs) + len(kernel.outputs), 1
    for size in launch.words[start : start + kernel.rank]:
        assert isinstance(size, int)
        points *= size
    return points


def _is_alone(buffer: object, part: Launch, parts: Sequence[Launch]) -> bool:
    """Whether no other part touches `buffer`."""
    return not any(buffer in (*other.reads, *other.writes) for other in parts if other is not part)
