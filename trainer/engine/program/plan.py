"""The memory plan: an offset in the arena for every buffer."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Protocol

from trainer.engine.program.work import Buffer, Exchanges

ALIGNMENT = 256


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Offsets in bytes, the size of the arena, and the buffers that are alive at the peak."""

    offsets: dict[Buffer, int]
    size: int
    peak: tuple[Buffer, ...]


class Item(Protocol):
    """An item of work or a launch, with the buffers that it reads, writes, and touches."""

    @property
    def sources(self) -> tuple[Buffer, ...]: ...
    @property
    def targets(self) -> tuple[Buffer, ...]: ...
    @property
    def buffers(self) -> tuple[Buffer, ...]: ...
    @property
    def in_place(self) -> Exchanges: ...


def plan_memory(works: Sequence[Item]) -> MemoryPlan:
    """Places arena buffers in order of first use: in place of a buffer that ends there, or in the lowest free gap."""
    last: dict[Buffer, int] = {}
    for index, work in enumerate(works):
        for buffer in work.buffers:
            if buffer.in_arena:
                last[buffer] = index
    first: dict[Buffer, int] = {}
    offsets: dict[Buffer, int] = {}
    live: list[tuple[int, int, Buffer]] = []
    size = used = most = fullest = 0
    for index, work in enumerate(works):
        for buffer in (*work.targets, *work.sources):  # a buffer that nothing writes is empty
            if not buffer.in_arena or buffer in offsets:
                continue
            length = -(-buffer.nbytes // ALIGNMENT) * ALIGNMENT
            replaced = _replaced(buffer, work, index, last, offsets, first)
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
        if any(last.get(buffer) == index for buffer in work.buffers):
            used -= sum(end - begin for begin, end, buffer in live if last[buffer] == index)
            live = [block for block in live if last[block[2]] > index]
    peak = sorted((buffer for buffer in offsets if first[buffer] <= fullest <= last[buffer]), key=offsets.__getitem__)
    return MemoryPlan(offsets, size, tuple(peak))


def _replaced(
    buffer: Buffer, work: Item, index: int, last: dict[Buffer, int], offsets: dict[Buffer, int],
    first: dict[Buffer, int],
) -> Buffer | None:  # fmt: skip
    """The input whose memory `buffer`, an output of `work`, may reuse: it ends here, and no other output reuses it."""
    taken = {offsets[other] for other in work.targets if other in offsets and first.get(other) == index}
    for output, source in work.in_place:
        alive = source in offsets and first[source] < index and last[source] == index
        if output is buffer and alive and offsets[source] not in taken and source not in work.targets:
            return source
    return None


def _lowest_gap(live: Sequence[tuple[int, int, Buffer]], length: int) -> int:
    start = 0
    for begin, end, _ in live:
        if begin - start >= length:
            return start
        if end > start:  # a call of max would take as long as the rest of the function
            start = end
    return start
