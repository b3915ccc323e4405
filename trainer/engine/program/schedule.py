"""The order of launches: an item that frees more memory than it takes runs as soon as possible.

A graph's order puts the updates of all parameters after the whole backward pass, so every gradient would live until
then. This order uses each large gradient right after it is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainer.engine.program.target import Features
from trainer.engine.program.work import Buffer, Work, place_of, places_of


def schedule(works: Sequence[Work], features: Features, is_single: Callable[[Work], bool]) -> list[Work]:
    """The items in an order that respects every conflict (one writes what another touches) and lowers peak memory.

    `is_single` returns whether an item is too small to be divided among threads.
    """
    first, last = _lives(works)
    if sum(buffer.nbytes for buffer in first) < features.cached_bytes:
        return list(works)
    before = _predecessors(works, last)
    moved = [_frees(work, index, first, last) >= features.freed_bytes for index, work in enumerate(works)]
    for index in range(len(works) - 1, -1, -1):
        if moved[index]:
            for earlier in before[index]:
                written = sum(buffer.nbytes for buffer in works[earlier].targets)
                moved[earlier] |= written <= features.small_bytes and is_single(works[earlier])
    position: list[tuple[int, ...]] = []
    for index in range(len(works)):
        wait = max((position[earlier] for earlier in before[index]), default=(-1,))
        position.append((*wait, index) if moved[index] else (index,))
    return [works[index] for index in sorted(range(len(works)), key=position.__getitem__)]


def hosts_first(works: Sequence[Work]) -> list[Work]:
    """Moves host calls and the items that they need before all others: if a call fails, the states are unchanged."""
    first = [work.kind == "host" for work in works]
    if not any(first):
        return list(works)
    before = _predecessors(works, {})
    for index in range(len(works) - 1, -1, -1):
        if first[index]:
            for earlier in before[index]:
                first[earlier] = True
    return [works[index] for index in sorted(range(len(works)), key=lambda index: not first[index])]


def _frees(work: Work, index: int, first: dict[Buffer, int], last: dict[Buffer, int]) -> int:
    """Bytes of the buffers that end at `work` minus bytes of those that begin there."""
    ended = sum(buffer.nbytes for buffer in work.sources if last.get(buffer) == index)
    return ended - sum(buffer.nbytes for buffer in work.targets if first.get(buffer) == index)


def _predecessors(works: Sequence[Work], last: dict[Buffer, int]) -> list[set[int]]:
    """For each item, the earlier items that it must follow, and those that read the buffers that end at it."""
    written: dict[object, int] = {}
    read: dict[object, list[int]] = {}
    found: list[set[int]] = []
    for index, work in enumerate(works):
        reads, writes = places_of(work.sources), places_of(work.targets)
        before = {written[place] for place in (*reads, *writes) if place in written}
        for place in writes:
            before.update(read.get(place, ()))
        for buffer in work.sources:
            if last.get(buffer) == index:
                before.update(read.get(place_of(buffer), ()))
        found.append(before)
        for place in writes:
            written[place] = index
            read[place] = []
        for place in reads:
            read.setdefault(place, []).append(index)
    return found


def _lives(works: Sequence[Work]) -> tuple[dict[Buffer, int], dict[Buffer, int]]:
    """The first and the last item that touches each buffer in the arena."""
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for index, work in enumerate(works):
        for buffer in work.buffers:
            if buffer.in_arena:
                first.setdefault(buffer, index)
                last[buffer] = index
    return first, last
