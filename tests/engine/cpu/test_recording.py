"""Time stamps of launches: in order for each thread, on the clock of Python, and no part of any result."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.engine.compile.graphs import leaf
from trainer import TrainerError
from trainer.engine.devices.cpu.device import CpuDevice
from trainer.engine.graph import primitives as p


@pytest.fixture(scope="module")
def device() -> CpuDevice:
    return CpuDevice(threads=2)


def test_each_thread_arrives_begins_and_ends_in_order(device: CpuDevice) -> None:
    x = leaf((300, 300))
    program = device.compile([p.reduce_sum(p.matmul(x, x), (0, 1))], inputs=[x])
    with device.recorded() as recording:
        before = time.perf_counter()
        for _ in range(3):
            program.run([x.attributes[0]])
        after = time.perf_counter()
    clock = recording.clock()
    assert [run.program for run in recording.runs] == [program] * 3
    for run in recording.runs:
        assert run.stamps.shape == (2, len(program.launches) + 1, 3)
        for thread in run.stamps:
            moments = [*thread[:-1].ravel(), thread[-1, 0]]  # what comes after is the calling thread's alone
            assert moments[0] > 0 and (np.diff(moments) >= 0).all()
        assert run.stamps[0, -1, 1] >= run.stamps[0, -1, 0]
        first, last = clock.seconds(run.stamps[0, 0, 0]), clock.seconds(run.stamps[0, -1, 1])
        slack = 1e-4  # of two readings of two clocks
        assert before - slack <= run.begun - slack <= first <= last <= run.begun + run.seconds + slack <= after + slack


def test_a_program_of_one_task_stamps_the_calling_thread_alone(device: CpuDevice) -> None:
    x = leaf((5,))
    program = device.compile([p.negative(x)], inputs=[x])
    with device.recorded() as recording:
        program.run([x.attributes[0]])
    assert len(recording.runs[0].stamps) == 1


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
