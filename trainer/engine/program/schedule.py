"""The order of launches: what frees more memory than it takes runs as soon as it can.

A graph's order puts the updates of all parameters behind the whole backward pass, so every gradient would live until
then. Here each large one is used up right after it was made.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.program.launch import Buffer, Launch, place_of

CACHED_BYTES = 16 << 20
"""Programs whose buffers take less than this in all keep their order: their memory stays in the caches anyway."""

WORTH_MOVING = 256 << 10
"""Bytes that a launch must free, net, before it is moved: smaller ones are better run together."""


SMALL = 64 << 10
"""Bytes that a launch of one task may write and still be moved because one that frees memory waits for it."""


def schedule(launches: Sequence[Launch]) -> list[Launch]:
    """The launches in an order that respects every conflict (one writes what another touches) and lowers the peak."""
    first, last = _lives(launches)
    if sum(buffer.nbytes for buffer in first) < CACHED_BYTES:
        return list(launches)
    before = _predecessors(launches, last)
    moved = [_frees(launch, index, first, last) >= WORTH_MOVING for index, launch in enumerate(launches)]
    for index in range(len(launches) - 1, -1, -1):
        if moved[index]:
            for earlier in before[index]:
                moved[earlier] = moved[earlier] or _is_small(launches[earlier])
    position: list[tuple[int, ...]] = []
    for index in range(len(launches)):
        wait = max((position[earlier] for earlier in before[index]), default=(-1,))
        position.append((*wait, index) if moved[index] else (index,))
    return [launches[index] for index in sorted(range(len(launches)), key=position.__getitem__)]


def _frees(launch: Launch, index: int, first: dict[Buffer, int], last: dict[Buffer, int]) -> int:
    """Bytes of what ends at a launch, less what begins there."""
    ended = sum(buffer.nbytes for buffer in launch.reads if last.get(buffer) == index)
    return ended - sum(buffer.nbytes for buffer in launch.writes if first.get(buffer) == index)


def _is_small(launch: Launch) -> bool:
    return launch.tasks <= 1 and sum(buffer.nbytes for buffer in launch.writes) <= SMALL


def _predecessors(launches: Sequence[Launch], last: dict[Buffer, int]) -> list[set[int]]:
    """For each launch the earlier ones that it must follow, and those that use what it is to free."""
    written: dict[object, int] = {}
    read: dict[object, list[int]] = {}
    found: list[set[int]] = []
    for index, launch in enumerate(launches):
        reads, writes = ({place_of(buffer) for buffer in side} for side in (launch.reads, launch.writes))
        before = {written[place] for place in (*reads, *writes) if place in written}
        for place in writes:
            before.update(read.get(place, ()))
        for buffer in launch.reads:
            if last.get(buffer) == index:
                before.update(read.get(place_of(buffer), ()))
        found.append(before)
        for place in writes:
            written[place] = index
            read[place] = []
        for place in reads:
            read.setdefault(place, []).append(index)
    return found


def _lives(launches: Sequence[Launch]) -> tuple[dict[Buffer, int], dict[Buffer, int]]:
    """The first and the last launch that touches each buffer in the arena."""
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for index, launch in enumerate(launches):
        for buffer in (*launch.reads, *launch.writes):
            if buffer.in_arena:
                first.setdefault(buffer, index)
                last[buffer] = index
    return first, last
