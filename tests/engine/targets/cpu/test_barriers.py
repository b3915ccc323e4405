"""Barriers: conflicting launches are always separated, and others never wait."""

from __future__ import annotations

from hypothesis import given, settings

from tests.engine.program.works import buffer, programs, work
from trainer.engine.graph.dtypes import uint8
from trainer.engine.graph.storage import Storage
from trainer.engine.program.plan import plan_memory
from trainer.engine.program.work import Buffer, KernelSource, Work
from trainer.engine.targets.cpu.barriers import barriers
from trainer.engine.targets.cpu.lowering.launch import Launch


def launched(works: list[Work]) -> list[Launch]:
    """A launch of one task for each point."""
    return [Launch(each, KernelSource("kernel", str), [], each.points) for each in works]


def ranges(buffers: tuple[Buffer, ...], offsets: dict[Buffer, int]) -> list[tuple[object, int, int]]:
    return [
        ("arena", offsets[b], offsets[b] + b.nbytes) if b.in_arena else (b.storage or b.result, 0, b.nbytes)
        for b in buffers
    ]


def touch(first: list[tuple[object, int, int]], second: list[tuple[object, int, int]]) -> bool:
    return any(a == b and s < f and t < e for a, s, e in first for b, t, f in second)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(programs())
def test_conflicting_launches_are_separated(works: list[Work]) -> None:
    """Where one writes what another touches, a barrier lies between, or both run on the calling thread in order."""
    offsets, launches = plan_memory(works).offsets, launched(works)
    flags = barriers(launches, offsets)
    for later, second in enumerate(launches):
        for earlier, first in enumerate(launches[:later]):
            writes, reads = ranges(first.writes, offsets), ranges(first.reads, offsets)
            new_writes, new_reads = ranges(second.writes, offsets), ranges(second.reads, offsets)
            conflict = touch(writes, new_reads) or touch(writes, new_writes) or touch(reads, new_writes)
            alone = first.tasks <= 1 and second.tasks <= 1
            assert not conflict or alone or any(flags[earlier + 1 : later + 1])


def test_launches_that_share_nothing_or_only_read_need_no_barrier() -> None:
    source = buffer(100, storage=Storage((100,), uint8))
    launches = launched([work([source], [buffer(100)]) for _ in range(3)])
    offsets = {each.writes[0]: 1024 * index for index, each in enumerate(launches)}
    assert barriers(launches, offsets) == [False] * 3
