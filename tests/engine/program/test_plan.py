"""The memory plan: buffers that are alive together never overlap, and memory of what has ended is used again."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings

from tests.engine.program.works import buffer, programs, work
from trainer.engine.program.plan import ALIGNMENT, plan_memory
from trainer.engine.program.work import Buffer, Work

property_test = settings(max_examples=100, deadline=None, derandomize=True, database=None)


def lives(works: list[Work]) -> dict[Buffer, tuple[int, int]]:
    found: dict[Buffer, tuple[int, int]] = {}
    for index, each in enumerate(works):
        for touched in (*each.sources, *each.targets):
            if touched.in_arena:
                found[touched] = (found.get(touched, (index, 0))[0], index)
    return found


@property_test
@given(programs())
def test_buffers_that_are_alive_together_do_not_overlap(works: list[Work]) -> None:
    plan = plan_memory(works)
    alive = lives(works)
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
def test_the_peak_is_alive_at_one_moment_and_bounds_the_arena_from_below(works: list[Work]) -> None:
    plan, alive = plan_memory(works), lives(works)
    if not alive:
        assert (plan.size, plan.peak) == (0, ())
        return
    latest_start, earliest_end = (side(alive[each][i] for each in plan.peak) for i, side in ((0, max), (1, min)))
    assert latest_start <= earliest_end
    peak = sum(each.nbytes for each in plan.peak)
    assert peak <= plan.size
    for moment in range(len(works)):
        assert sum(-(-b.nbytes // ALIGNMENT) for b, (s, e) in alive.items() if s <= moment <= e) * ALIGNMENT <= (
            peak + ALIGNMENT * len(plan.peak)
        )


def test_memory_of_what_has_ended_is_used_again() -> None:
    chain = [buffer(1000) for _ in range(6)]
    works = [work([a], [b]) for a, b in pairwise(chain)]
    works.insert(0, work([], chain[:1]))
    assert plan_memory(works).size == 2 * 1024
