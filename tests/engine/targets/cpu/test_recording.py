"""Time stamps of launches: in order for each thread, told in seconds of Python's clock, and no part of any result."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from tests.engine.program.graphs import leaf
from trainer import TrainerError
from trainer.engine.graph import primitives as p
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.recording import READINGS, ProgramRun, Recording, read_together


@pytest.fixture(scope="module")
def device() -> CpuDevice:
    return CpuDevice(threads=2)


def test_each_thread_arrives_begins_and_ends_in_order(device: CpuDevice) -> None:
    x = leaf((300, 300))
    program = device.compile([p.reduce_sum(p.matmul(x, x), (0, 1))], inputs=[x])
    with device.recorded() as recording:
        for _ in range(3):
            program.run([x.attributes[0]])
    assert [run.program for run in recording.runs] == [program] * 3
    for run in recording.runs:
        assert run.stamps.shape == (2, len(program.launches) + 1, 3)
        for thread in run.stamps:
            moments = [*thread[:-1].ravel(), thread[-1, 0]]  # what comes after is the calling thread's alone
            assert moments[0] > 0 and (np.diff(moments) >= 0).all()
        assert run.stamps[0, -1, 1] >= run.stamps[0, -1, 0]


@dataclass
class Clocks:
    """Two clocks that each reading of one moves on: seconds, and three ticks to a nanosecond; some readings are held
    up.
    """

    held_up: dict[int, float] = field(default_factory=dict)
    moment: float = 100.0
    reading: int = 0

    def _pass(self) -> float:
        self.moment += 5e-8 + self.held_up.get(self.reading, 0.0)
        self.reading += 1
        return self.moment

    def now(self) -> float:
        return self._pass()

    def ticks(self) -> int:
        return round(self._pass() * 3e9)


@pytest.mark.parametrize("late", range(3 * READINGS))
def test_a_reading_that_was_held_up_is_not_the_one_that_counts(late: int) -> None:
    clocks = Clocks({late: 0.03})
    moment, ticks = read_together(clocks.now, clocks.ticks)
    assert moment == pytest.approx(ticks / 3e9, abs=1e-9)


def test_ticks_become_seconds_on_the_clock_of_python() -> None:
    clocks = Clocks({1: 0.004, 3 * READINGS + 4: 0.02})  # in between two clocks, both times
    clock = Recording(clocks, now=clocks.now).clock()  # type: ignore[arg-type]
    assert clock.seconds_per_tick == pytest.approx(1 / 3e9, rel=1e-6)
    np.testing.assert_allclose(clock.seconds(np.array([300_000_000_000, 303_000_000_000])), [100.0, 101.0], atol=1e-6)


def test_a_program_of_one_task_stamps_the_calling_thread_alone(device: CpuDevice) -> None:
    x = leaf((5,))
    program = device.compile([p.negative(x)], inputs=[x])
    with device.recorded() as recording:
        program.run([x.attributes[0]])
    assert len(recording.runs[0].stamps) == 1


def test_a_program_that_runs_alone_beside_a_busy_process_is_recorded_on_all_threads(device: CpuDevice) -> None:
    x = leaf((300, 300))
    program = device.compile([p.matmul(x, x)], inputs=[x])
    choice = program._thread_choice
    assert choice is not None
    choice.threads = 1
    with device.recorded() as recording:
        program.run([x.attributes[0]])
    assert len(recording.runs[0].stamps) == 2
    assert choice.threads == 1  # what was recorded says nothing of how it runs alone


def test_recording_changes_no_bit_and_ends_with_its_block(device: CpuDevice) -> None:
    x = leaf((64, 64))
    program = device.compile([p.negative(p.matmul(x, x))], inputs=[x])
    plain = program.run([x.attributes[0]])[0].view().copy()
    with device.recorded() as recording:
        seen = program.run([x.attributes[0]])[0].view().copy()
        with pytest.raises(TrainerError, match="already"), device.recorded():
            pass
    program.run([x.attributes[0]])
    np.testing.assert_array_equal(plain, seen)
    assert len(recording.runs) == 1 and device.recording is None


@dataclass
class Tape:
    """As much of a program as its runs ask for."""

    waits: np.ndarray


def work(*threads: list[tuple[int, int]], waits: tuple[bool, ...]) -> list[float]:
    """`launch_work` in ticks, where each thread was at each launch from one tick to another."""
    stamps = np.zeros((len(threads), len(waits) + 1, 3), np.int64)
    for thread, moments in enumerate(threads):
        stamps[thread, :-1, 1:] = moments
    stamps[0, 0, 1], stamps[0, -1, 1] = threads[0][0][0], max(moments[-1][1] for moments in threads)
    whole = int(stamps[0, -1, 1] - stamps[0, 0, 1])
    run = ProgramRun(Tape(np.array(waits)), stamps, 0.0, float(whole))  # type: ignore[arg-type]
    return list(run.launch_work())


def test_work_between_barriers_lasts_until_the_last_thread_is_through() -> None:
    assert work([(0, 10), (10, 30)], [(0, 6), (10, 24)], waits=(False, True)) == [10, 20]


def test_what_overlaps_a_kernel_is_no_part_of_its_work() -> None:
    late = work([(0, 10), (10, 50)], [(0, 40), (40, 50)], waits=(False, False))
    even = work([(0, 25), (25, 50)], [(0, 25), (25, 50)], waits=(False, False))
    assert late == even == [25, 25]


def test_a_thread_that_comes_too_late_for_a_kernel_does_not_make_it_slow() -> None:
    assert work([(0, 5), (5, 15), (90, 100)], [(0, 90), (90, 90), (90, 100)], waits=(False, False, True))[1] == 5


def test_one_thread_alone_is_waited_for_where_the_next_launch_waits() -> None:
    assert work([(0, 20), (20, 30)], [(0, 0), (20, 30)], waits=(False, True)) == [20, 10]
    assert work([(0, 20), (20, 25)], [(0, 0), (0, 25)], waits=(False, False))[0] == 10
