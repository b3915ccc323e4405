"""The thread pool: native threads that walk a program's tape together and meet at barriers.

The runtime is LLVM IR like the kernels, so that a step costs one dispatch from Python. A waiting thread spins for some
tens of microseconds and then sleeps on a futex, so that a busy machine costs little. Threads claim tasks with an atomic
counter, several in a row while many are left, first those of their own half. Results never depend on which thread ran a
task, because tasks write disjoint memory and only the shape determines how work is split.

Record of a tape (8 words): function, argument block, tasks, flags, claimed tasks, 3 spare. Kinds of records: kernels,
which all threads share; kernels with one task, including host calls, which run on the calling thread and may stop the
walk; and repeats (`repeats`). Copies are kernels like any other loop.
"""

from __future__ import annotations

import ctypes
import functools
import os
import weakref
from collections.abc import Callable

import numpy as np

from trainer.engine import targets
from trainer.engine.graph.errors import refusal
from trainer.engine.graph.storage import aligned_empty
from trainer.engine.targets.cpu import native
from trainer.engine.targets.cpu.control_block import (
    BARRIER,
    COUNT,
    FAILED,
    MASKS,
    MOST_THREADS,
    READY,
    RECORD_WORDS,
    SINGLE,
    STAMPS,
)
from trainer.engine.targets.cpu.runtime import runtime_ir
from trainer.engine.targets.cpu.system import processor_masks, system_functions
from trainer.engine.targets.cpu.topology import available_threads

__all__ = ["BARRIER", "RECORD_WORDS", "SCRATCH_BYTES", "SINGLE", "STAMPS", "Pool", "shared_pool"]

_EXPORTS = ("run", "work", "leave", "ticks")

SCRATCH_BYTES = 4 << 20
"""Scratch memory of each thread."""


class Pool:
    """`threads` threads, including the caller's. They end when the pool is closed or collected, or with the process."""

    def __init__(self, threads: int) -> None:
        if not 0 < threads <= MOST_THREADS:
            raise ValueError(f"a pool has 1 to {MOST_THREADS} threads, found {threads}")
        self.threads = threads
        self.lock = targets.lock
        """Held while compiling for the pool or running on it: one program at a time, from any Python thread."""
        self._control = aligned_empty(128, np.dtype(np.int64))
        self._failure: BaseException | None = None
        self._masks = processor_masks()
        self._reset()
        library = native.link({"run": native.compile_object(runtime_ir())}, "runtime", exports=_EXPORTS)
        self._library = library
        self._leave = ctypes.CFUNCTYPE(None, ctypes.c_int64)(library["leave"])
        self.ticks: Callable[[], int] = ctypes.CFUNCTYPE(ctypes.c_int64)(library["ticks"])
        """Reads the clock of the time stamps."""
        self._run = ctypes.CFUNCTYPE(None, ctypes.c_int64)(library["run"])
        self._scratch = [aligned_empty(SCRATCH_BYTES, np.dtype(np.uint8), 4096) for _ in range(threads)]
        self._blocks: list[np.ndarray] = []
        self._handles: list[ctypes.c_ulong] = []
        request = aligned_empty(8, np.dtype(np.int64))  # passing one word takes half the time of seven
        request[[0, 4]] = self._control.ctypes.data, self._scratch[0].ctypes.data
        self._request, self._request_address = request.data, request.ctypes.data
        self._start_all()
        kept = (self._library, self._scratch, self._blocks, self._masks)
        self._end = weakref.finalize(self, _end_threads, self._control, self._leave, self._handles, *kept)
        self._end.atexit = False  # the threads end with the process
        _pools.add(self)

    def _reset(self) -> None:
        """Resets the control block to its state before the first thread starts."""
        self._control[:] = 0
        self._control[MASKS] = 0 if self._masks is None else self._masks.ctypes.data
        for word, address in system_functions().items():
            self._control[word] = address

    def forget_threads(self) -> None:
        """Drops the threads in a forked child, which has only the forking thread; the next run starts new ones."""
        self._has_threads = False
        self._handles.clear()
        self._blocks.clear()
        self._reset()

    def _start_all(self) -> None:
        self._has_threads = True
        for thread in range(1, self.threads):
            self._start(thread)

    def _start(self, thread: int) -> None:
        block = aligned_empty(8, np.dtype(np.int64))
        block[3] = 0
        block[:3] = self._control.ctypes.data, thread, self._scratch[thread].ctypes.data
        self._blocks.append(block)
        handle = ctypes.c_ulong()
        error = ctypes.CDLL(None).pthread_create(
            ctypes.byref(handle), None, ctypes.c_void_p(self._library["work"]), ctypes.c_void_p(block.ctypes.data)
        )
        if error:
            raise OSError(error, f"thread {thread} of the pool could not be started: {os.strerror(error)}")
        self._handles.append(handle)
        while int(self._control[READY]) < thread:  # until the thread has read the launch word that it waits past
            os.sched_yield()

    def run(self, tape: int, count: int, *, threads: int = 0, flush: bool = False, stamps: int = 0) -> None:
        """Walks `count` records at address `tape` on `threads` threads (0: all of them); returns when all are done.

        `stamps`: 0, or the address of int64 [threads][count + 1][STAMPS], where each thread writes its ticks: for each
        record arrival, begin and end; in the row after the last one, when it is done, and when all are (thread 0).

        Raises:
            BaseException: the error that a host call raised; the records after it have not run.
        """
        if not self._has_threads:
            self._start_all()
        if _walking:
            raise refusal("host_call", "a host function can't compute with tensors", hint="Compute with NumPy there.")
        request = self._request
        request[1], request[2], request[3] = tape, count, min(threads or self.threads, self.threads)
        request[5], request[6] = flush, stamps
        _walking.append(self)
        try:
            self._run(self._request_address)
        finally:
            _walking.clear()
        if self._failure is not None:
            failure, self._failure, self._control[FAILED] = self._failure, None, 0
            raise failure

    def close(self) -> None:
        """Ends the threads and waits for them; afterwards the pool runs on the calling thread alone."""
        self._end()
        self.threads = 1

    def stop(self, failure: BaseException) -> None:
        """Skips the remaining records of the tape; `run` then raises `failure`."""
        self._failure, self._control[FAILED] = failure, 1


_walking: list[Pool] = []
"""The running pool, if any: `targets.lock` allows one run at a time."""


def fail(failure: BaseException) -> None:
    """Reports the error of a host call; to be called on the thread that runs the pool."""
    _walking[0].stop(failure)


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _forget_threads() -> None:
    for pool in _pools:
        pool.forget_threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def _end_threads(
    control: np.ndarray, leave: Callable[[int], None], handles: list[ctypes.c_ulong], *kept: object
) -> None:
    """Wakes the threads with a negative record count, so that they end; `kept` are the objects that they use."""
    control[COUNT] = -1
    leave(control.ctypes.data)
    for handle in handles:
        ctypes.CDLL(None).pthread_join(handle, None)


@functools.cache
def shared_pool(threads: int | None = None) -> Pool:
    """Returns the process's pool with `threads` threads (default: one for each available core)."""
    return Pool(threads or available_threads())
