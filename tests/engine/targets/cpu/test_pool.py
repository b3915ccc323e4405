"""The thread pool: every task runs exactly once, records wait for each other, threads sleep and end."""

from pathlib import Path

import numpy as np
import pytest

from trainer.engine.graph.storage import aligned_empty
from trainer.engine.targets.cpu import native
from trainer.engine.targets.cpu.pool import BARRIER, RECORD_WORDS, SINGLE, Pool

# counter[task] += 1, then total[task] = counter[(task + 1) % 64] to notice a missing barrier
_IR = """
define void @count(ptr %a, i64 %t, ptr %s) {
  %p = load ptr, ptr %a
  %q = getelementptr i64, ptr %p, i64 %t
  %v = load i64, ptr %q
  %w = add i64 %v, 1
  store i64 %w, ptr %q
  ret void
}
define void @copy(ptr %a, i64 %t, ptr %s) {
  %p = load ptr, ptr %a
  %n = add i64 %t, 17
  %m = urem i64 %n, 64
  %q = getelementptr i64, ptr %p, i64 %m
  %v = load i64, ptr %q
  %o = getelementptr i64, ptr %p, i64 64
  %r = getelementptr i64, ptr %o, i64 %t
  store i64 %v, ptr %r
  ret void
}
define void @product(ptr %a, i64 %t, ptr %s) {
  %p = load ptr, ptr %a
  %v = load volatile float, ptr %p
  %w = fmul float %v, 0.5
  store float %w, ptr %p
  ret void
}
define void @meet(ptr %a, i64 %t, ptr %s) {
entry:
  %p = load ptr, ptr %a
  %begun = atomicrmw add ptr %p, i64 1 seq_cst
  br label %wait
wait:
  %now = load atomic i64, ptr %p seq_cst, align 8
  %both = icmp sge i64 %now, 2
  br i1 %both, label %note, label %wait
note:
  %n = add i64 %t, 1
  %q = getelementptr i64, ptr %p, i64 %n
  store ptr %s, ptr %q
  ret void
}
"""


@pytest.fixture(scope="module")
def kernels():
    return native.link({"module": native.compile_object(_IR)}, exports=("count", "copy", "product", "meet"))


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_task_runs_once_and_barriers_order_records(kernels, threads):
    pool = Pool(threads)
    data = aligned_empty(128, np.dtype(np.int64))
    data[:] = 0
    arguments = np.array([data.ctypes.data], np.int64)
    repeats = 50
    tape = aligned_empty(2 * repeats * RECORD_WORDS, np.dtype(np.int64)).reshape(2 * repeats, RECORD_WORDS)
    tape[0::2, :4] = kernels["count"], arguments.ctypes.data, 64, BARRIER
    tape[1::2, :4] = kernels["copy"], arguments.ctypes.data, 64, BARRIER
    for launch in range(1, 21):
        pool.run(tape.ctypes.data, len(tape))
        assert (data == launch * repeats).all()
    pool.close()


def test_single_records_run_on_the_calling_thread_in_order(kernels):
    pool = Pool(2)
    data = aligned_empty(128, np.dtype(np.int64))
    data[:] = 0
    arguments = np.array([data.ctypes.data], np.int64)
    tape = np.zeros((20, RECORD_WORDS), np.int64)
    tape[:, :4] = kernels["count"], arguments.ctypes.data, 5, SINGLE
    pool.run(tape.ctypes.data, len(tape))
    assert data[:5].tolist() == [20] * 5
    pool.close()


def test_a_thread_begins_with_the_same_tasks_each_time(kernels):
    pool = Pool(2)
    data = aligned_empty(3, np.dtype(np.int64))
    arguments = np.array([data.ctypes.data], np.int64)
    tape = np.zeros((1, RECORD_WORDS), np.int64)
    tape[0, :4] = kernels["meet"], arguments.ctypes.data, 2, BARRIER
    for _ in range(20):
        data[:] = 0
        pool.run(tape.ctypes.data, 1)  # either task waits for the other, so each thread has one of them
        assert data[1:].tolist() == [scratch.ctypes.data for scratch in pool._scratch]
    pool.close()


@pytest.mark.parametrize("threads", [1, 2])
def test_flush_to_zero_holds_only_while_a_program_that_asks_for_it_runs(kernels, threads):
    pool = Pool(2)
    value = aligned_empty(1, np.dtype(np.float32))
    arguments = np.array([value.ctypes.data], np.int64)
    tape = np.zeros((1, RECORD_WORDS), np.int64)
    tape[0, :3] = kernels["product"], arguments.ctypes.data, 1
    for flush, expected in ((True, 0.0), (False, np.float32(1e-38) * np.float32(0.5))):
        value[0] = 1e-38
        pool.run(tape.ctypes.data, 1, threads=threads, flush=flush)
        assert value.view(np.int32)[0] == np.float32(expected).view(np.int32)
    pool.close()


def test_threads_end_when_the_pool_is_closed():
    tasks = Path("/proc/self/task")
    if not tasks.is_dir():
        pytest.skip("lists threads through /proc")

    def threads() -> set[str]:
        return {task.name for task in tasks.iterdir()}

    before = threads()
    pool = Pool(4)
    started = threads() - before  # threads of earlier tests may end meanwhile
    assert len(started) == 3
    pool.close()
    assert not started & threads()


def test_any_number_of_the_threads_may_take_part_in_a_run(kernels):
    """Those that don't miss launches without harm, and take part again."""
    pool = Pool(4)
    data = aligned_empty(128, np.dtype(np.int64))
    data[:] = 0
    arguments = np.array([data.ctypes.data], np.int64)
    tape = np.zeros((20, RECORD_WORDS), np.int64)
    tape[0::2, :4] = kernels["count"], arguments.ctypes.data, 64, BARRIER
    tape[1::2, :4] = kernels["copy"], arguments.ctypes.data, 64, BARRIER
    for launch in range(1, 301):
        pool.run(tape.ctypes.data, len(tape), threads=(4, 2, 1, 3, 2, 2, 0)[launch % 7])
        assert (data == 10 * launch).all()
    pool.close()


def test_a_pool_has_at_least_one_thread():
    with pytest.raises(ValueError, match="found 0"):
        Pool(0)
