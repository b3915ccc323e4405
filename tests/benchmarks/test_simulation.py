"""A step on any number of threads, from the times of its tasks on one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from simulation import Costs, Launch, predicted, slowdown

FREE = Costs(barrier=0.0, claim=0.0, waking=0.0, alone=1e9, together=2e9)
EIGHT = Launch("eight", (1.0,) * 8, waits=True)


@pytest.mark.parametrize(("threads", "seconds"), [(1, 8.0), (2, 4.0), (3, 3.0), (8, 1.0), (64, 1.0)])
def test_tasks_are_shared_out_whole(threads: int, seconds: float) -> None:
    assert predicted([EIGHT], threads, FREE).seconds == seconds


def test_a_thread_that_is_free_goes_on_with_the_next_launch_unless_it_waits() -> None:
    three = Launch("three", (1.0,) * 3, waits=False)
    first = predicted([EIGHT, three], 3, FREE)
    assert first.seconds == 4.0 and first.launches == (3.0, 1.0)  # one of them begins while two tasks run
    assert predicted([three, Launch("after", (1.0, 1.0), waits=True)], 2, FREE).seconds == 3.0
    assert predicted([three, Launch("after", (0.5, 0.5), waits=False)], 2, FREE).seconds == 2.0


def test_one_task_runs_on_the_calling_thread() -> None:
    long, short = Launch("long", (3.0,), waits=False), Launch("short", (1.0, 1.0, 1.0), waits=False)
    assert predicted([long, short], 2, FREE).seconds == 3.0
    assert predicted([long, long], 2, FREE).seconds == 6.0


def test_barriers_claims_and_waking_add_up() -> None:
    costs = Costs(barrier=0.1, claim=0.01, waking=0.5, alone=1e9, together=2e9)
    assert predicted([EIGHT], 1, costs).seconds == 8.0
    # waking, a barrier, two threads that take turns at five claims each, and the last barrier
    assert predicted([EIGHT], 2, costs).seconds == pytest.approx(0.5 + 0.1 + 0.01 + 4 * 1.01 + 0.01 + 0.1)
    assert costs.meeting(64) == pytest.approx(3.2)
    repeat = Launch("repeat", (1.0, 1.0), waits=False, meetings=10)
    assert predicted([repeat], 2, Costs(0.1, 0.0, 0.0, 1e9, 2e9)).seconds == pytest.approx(1.0 + 1.0 + 0.1)


def test_bytes_that_come_from_memory_bound_a_launch() -> None:
    """Two threads here move 1.2 times the bytes of one; what one thread had no time to move came from caches."""
    here = Costs(0.0, 0.0, 0.0, alone=1e9, together=1.2e9)
    copying = Launch("copy", (1.0, 1.0), waits=True, nbytes=2e9)
    assert predicted([copying], 2, here).seconds == pytest.approx(2 / 1.2)
    cached = Launch("cached", (1.0, 1.0), waits=True, nbytes=9e9)
    assert slowdown(cached, 2, here) == slowdown(copying, 2, here)
    busy = Launch("busy", (1.0, 1.0), waits=True, nbytes=1e9)
    assert predicted([busy], 2, here).seconds == pytest.approx(1 + (2 / 1.2 - 1) / 2)
    assert predicted([busy], 2, FREE).seconds == 1.0
    limited = Costs(0.0, 0.0, 0.0, 1e9, 2e9, limit=4e9)
    assert (limited.bandwidth(2), limited.bandwidth(4), limited.bandwidth(64)) == (2e9, 4e9, 4e9)
