"""The memory plan: an offset in the arena for every buffer, and where a program's threads must wait for each other."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from trainer.engine.program.launch import Buffer, Launch

ALIGNMENT = 256


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Offsets in bytes, the size of the arena, and the buffers that are alive when most of it is used."""

    offsets: dict[Buffer, int]
    size: int
    peak: tuple[Buffer, ...]


def plan_memory(launches: Sequence[Launch]) -> MemoryPlan:
    """Place every arena buffer: in order of first use, in place of one that ends there or in the lowest gap that is
    free for its whole life.
    """
    last: dict[Buffer, int] = {}
    for index, launch in enumerate(launches):
        for buffer in (*launch.reads, *launch.writes):
            if buffer.in_arena:
                last[buffer] = index
    first: dict[Buffer, int] = {}
    offsets: dict[Buffer, int] = {}
    live: list[tuple[int, int, Buffer]] = []
    size = used = most = fullest = 0
    for index, launch in enumerate(launches):
        for buffer in (*launch.writes, *launch.reads):  # one that nothing writes is empty
            if not buffer.in_arena or buffer in offsets:
                continue
            length = -(-buffer.nbytes // ALIGNMENT) * ALIGNMENT
            replaced = _replaced(buffer, launch, index, last, offsets, first)
            if replaced is not None:
                offsets[buffer], first[buffer] = offsets[replaced], index
                last[replaced] = index - 1
                at = next(number for number, block in enumerate(live) if block[2] is replaced)
                live[at] = (live[at][0], live[at][1], buffer)
                continue
            offset = _lowest_gap(live, length)
            offsets[buffer], first[buffer] = offset, index
            insort(live, (offset, offset + length, buffer), key=itemgetter(0))
            used += length
            size = max(size, offset + length)
            if used > most:
                most, fullest = used, index
        if any(last.get(buffer) == index for buffer in (*launch.writes, *launch.reads)):
            used -= sum(end - begin for begin, end, buffer in live if last[buffer] == index)
            live = [block for block in live if last[block[2]] > index]
    peak = sorted((buffer for buffer in offsets if first[buffer] <= fullest <= last[buffer]), key=offsets.__getitem__)
    return MemoryPlan(offsets, size, tuple(peak))


def _replaced(
    buffer: Buffer, launch: Launch, index: int, last: dict[Buffer, int], offsets: dict[Buffer, int],
    first: dict[Buffer, int],
) -> Buffer | None:  # fmt: skip
    """The input whose memory `buffer`, an output of `launch`, may take: it ends here and no other output has it."""
    taken = {offsets[other] for other in launch.writes if other in offsets and first.get(other) == index}
    for output, source in launch.in_place:
        alive = source in offsets and first[source] < index and last[source] == index
        if output is buffer and alive and offsets[source] not in taken and source not in launch.writes:
            return source
    return None


def _lowest_gap(live: Sequence[tuple[int, int, Buffer]], length: int) -> int:
    start = 0
    for begin, end, _ in live:
        if begin - start >= length:
            return start
        start = max(start, end)
    return start


def barriers(launches: Sequence[Launch], offsets: dict[Buffer, int]) -> list[bool]:
    """For each launch, whether all earlier ones must have ended before it starts.

    Two launches conflict where one writes memory that the other touches. Launches of a single task run on the calling
    thread in order and never wait for each other.
    """
    flags: list[bool] = []
    read: list[tuple[object, int, int]] = []
    written: list[tuple[object, int, int]] = []
    read_alone: list[tuple[object, int, int]] = []
    written_alone: list[tuple[object, int, int]] = []
    for launch in launches:
        reads = [_range(buffer, offsets) for buffer in launch.reads]
        writes = [_range(buffer, offsets) for buffer in launch.writes]
        wait = _overlap(reads, written) or _overlap(writes, written) or _overlap(writes, read)
        if not wait and launch.tasks > 1:
            wait = _overlap(reads, written_alone) or _overlap(writes, written_alone) or _overlap(writes, read_alone)
        flags.append(wait)
        if wait:
            read, written, read_alone, written_alone = [], [], [], []
        if launch.tasks > 1:
            read += reads
            written += writes
        else:
            read_alone += reads
            written_alone += writes
    return flags


def _range(buffer: Buffer, offsets: dict[Buffer, int]) -> tuple[object, int, int]:
    if buffer.in_arena:
        start = offsets[buffer]
        return "arena", start, start + buffer.nbytes
    return id(buffer.storage) if buffer.storage is not None else ("result", buffer.result), 0, buffer.nbytes


def _overlap(first: Sequence[tuple[object, int, int]], second: Sequence[tuple[object, int, int]]) -> bool:
    return any(a == b and x < v and u < y for a, x, y in first for b, u, v in second)
