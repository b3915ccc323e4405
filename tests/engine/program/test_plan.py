"""The memory plan: buffers that are alive together never overlap, and conflicting launches are always separated."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from trainer.engine.graph.dtypes import uint8
from trainer.engine.graph.storage import Storage
from trainer.engine.program.launch import Buffer, KernelSource, Launch
from trainer.engine.program.plan import ALIGNMENT, barriers, plan_memory

property_test = settings(max_examples=300, deadline=None, derandomize=True, database=None)


def buffer(size: int, *, storage: Storage | None = None, result: int | None = None) -> Buffer:
    return Buffer(size, uint8, "buffer", storage, result)


def launch(reads: list[Buffer], writes: list[Buffer], tasks: int = 4) -> Launch:
    return Launch(KernelSource("kernel", str), [], tasks, tuple(reads), tuple(writes), "launch")


@st.composite
def programs(draw: DrawFn) -> list[Launch]:
    """Launches that read what earlier ones wrote, besides leaves and results."""
    outside = [buffer(100, storage=Storage((100,), uint8)) for _ in range(2)] + [buffer(100, result=0)]
    written: list[Buffer] = []
    launches = []
    for _ in range(draw(st.integers(1, 20))):
        fresh = [buffer(draw(st.sampled_from([0, 1, 100, 256, 1000, 5000])))] if draw(st.integers(0, 4)) else []
        again = draw(st.lists(st.sampled_from(written + outside), max_size=1))
        reads = draw(st.lists(st.sampled_from(written + outside), max_size=3, unique=True))
        written += fresh
        launches.append(launch(reads, fresh + again, draw(st.sampled_from([0, 1, 2, 8]))))
    return launches


def lives(launches: list[Launch]) -> dict[Buffer, tuple[int, int]]:
    found: dict[Buffer, tuple[int, int]] = {}
    for index, each in enumerate(launches):
        for touched in (*each.reads, *each.writes):
            if touched.in_arena:
                found[touched] = (found.get(touched, (index, 0))[0], index)
    return found


@property_test
@given(programs())
def test_buffers_that_are_alive_together_do_not_overlap(launches: list[Launch]) -> None:
    plan = plan_memory(launches)
    alive = lives(launches)
    assert plan.offsets.keys() == alive.keys()
    for first, (start, end) in alive.items():
        offset = plan.offsets[first]
        assert offset % ALIGNMENT == 0 and offset + first.nbytes <= plan.size
        for second, (begin, last) in alive.items():
            if first is not second and start <= last and begin <= end:
                other = plan.offsets[second]
                assert offset + first.nbytes <= other or other + second.nbytes <= offset


@property_test
@given(programs())
def test_the_peak_is_alive_at_one_moment_and_bounds_the_arena_from_below(launches: list[Launch]) -> None:
    plan, alive = plan_memory(launches), lives(launches)
    if not alive:
        assert (plan.size, plan.peak) == (0, ())
        return
    latest_start, earliest_end = (side(alive[each][i] for each in plan.peak) for i, side in ((0, max), (1, min)))
    assert latest_start <= earliest_end
    peak = sum(each.nbytes for each in plan.peak)
    assert peak <= plan.size
    for moment in range(len(launches)):
        assert sum(-(-b.nbytes // ALIGNMENT) for b, (s, e) in alive.items() if s <= moment <= e) * ALIGNMENT <= (
            peak + ALIGNMENT * len(plan.peak)
        )


def test_memory_of_what_has_ended_is_used_again() -> None:
    chain = [buffer(1000) for _ in range(6)]
    launches = [launch([a], [b]) for a, b in pairwise(chain)]
    launches.insert(0, launch([], chain[:1]))
    assert plan_memory(launches).size == 2 * 1024


def ranges(buffers: tuple[Buffer, ...], offsets: dict[Buffer, int]) -> list[tuple[object, int, int]]:
    return [
        ("arena", offsets[b], offsets[b] + b.nbytes) if b.in_arena else (b.storage or b.result, 0, b.nbytes)
        for b in buffers
    ]


def touch(first: list[tuple[object, int, int]], second: list[tuple[object, int, int]]) -> bool:
    return any(a == b and s < f and t < e for a, s, e in first for b, t, f in second)


@property_test
@given(programs())
def test_conflicting_launches_are_separated(launches: list[Launch]) -> None:
    """Where one writes what another touches, a barrier lies between, or both run on the calling thread in order."""
    offsets = plan_memory(launches).offsets
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
    launches = [launch([source], [buffer(100)]) for _ in range(3)]
    offsets = {each.writes[0]: 1024 * index for index, each in enumerate(launches)}
    assert barriers(launches, offsets) == [False] * 3
