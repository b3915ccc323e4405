"""Tries a candidate: compiles it, runs it on guarded memory, and compares its output bit for bit with the default's.

Runs in the helper process, because a candidate may crash it.
"""

from __future__ import annotations

import ctypes
import mmap
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.cpu import native
from trainer.engine.targets.cpu.loaded_kernels import rendered
from trainer.engine.targets.cpu.lowering.launch import Tunable

ALIGNMENT = 64
TIMED_SECONDS, TIMED_RUNS = 0.01, 4
"""A candidate runs until it reaches this total time or this number of runs, but at least twice."""

_CANARY = 0xFF
"""Byte that fills the margins of arrays, the outputs and scratch before a run: NaN in every floating-point type."""


GUARD_BYTES = 1 << 20
"""Size of the inaccessible address ranges before and after each array; they take no memory."""


class Guarded:
    """Memory between two inaccessible address ranges; apart from alignment, it ends where the second one begins."""

    def __init__(self, nbytes: int) -> None:
        body = -(-max(nbytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._mapping = mmap.mmap(-1, body + 2 * GUARD_BYTES)
        whole = np.frombuffer(self._mapping, np.uint8)
        for edge in (0, GUARD_BYTES + body):
            _protect(whole.ctypes.data + edge, GUARD_BYTES, 0)
        start = GUARD_BYTES + (body - nbytes) // ALIGNMENT * ALIGNMENT
        self.bytes = whole[start : start + nbytes]
        self._around = whole[GUARD_BYTES:start], whole[start + nbytes : GUARD_BYTES + body]
        for part in self._around:
            part[:] = _CANARY

    def keep(self) -> None:
        """Makes the memory read-only."""
        start = self.bytes.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
        _protect(start, self.bytes.ctypes.data + self.bytes.size - start, mmap.PROT_READ)

    @property
    def is_intact(self) -> bool:
        """Whether the margins around the array are unchanged."""
        return all(bool((part == _CANARY).all()) for part in self._around)


def _protect(address: int, nbytes: int, allowed: int) -> None:
    if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), allowed):
        raise OSError(ctypes.get_errno(), "memory could not be guarded")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of trying a kernel: the reason to reject it (or ""), seconds on one thread, name and object code."""

    reason: str
    seconds: float = 0.0
    name: str = ""
    code: bytes = b""


class Bench:
    """Memory for one specification, and the output of the default kernel."""

    def __init__(self, tunable: Tunable, target: native.Target) -> None:
        self.tunable, self._target = tunable, target
        random = np.random.default_rng(0)
        self._memory: list[Guarded] = []
        self._written: list[Guarded] = []
        for operand in tunable.template.operands(tunable.spec):
            memory = Guarded(operand.elements * operand.dtype.itemsize)
            self._memory.append(memory)
            if operand.written:
                self._written.append(memory)
            else:
                memory.bytes[:] = np.resize(_values(random, operand.dtype).view(np.uint8), memory.bytes.size)
                memory.keep()
        addresses = [memory.bytes.ctypes.data for memory in self._memory]
        self._words = np.array([*addresses, *tunable.template.words(tunable.spec)], np.int64)
        self.default, self._expected = self._run(tunable)

    def attempt(self, parameters: Any) -> Outcome:
        """Tries the template with other parameters."""
        tunable = Tunable(self.tunable.template, self.tunable.spec, parameters)
        outcome, found = self._run(tunable)
        if not outcome.reason and any(not np.array_equal(a, b) for a, b in zip(found, self._expected, strict=True)):
            return Outcome("wrong")
        return outcome

    def _run(self, tunable: Tunable) -> tuple[Outcome, list[np.ndarray]]:
        """Compiles and runs a kernel; returns the outcome with the minimum time, and the written arrays."""
        name, ir = rendered(tunable.source)
        code = native.compile_object(ir, self._target)
        library = native.link({name: code})
        kernel = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(library[name])
        scratch = Guarded(tunable.scratch)
        for memory in (*self._written, scratch):
            memory.bytes[:] = _CANARY
        words, tasks, place = self._words.ctypes.data, range(tunable.tasks), scratch.bytes.ctypes.data

        def seconds() -> float:
            start = time.process_time()
            for task in tasks:
                kernel(words, task, place)
            return time.process_time() - start

        spent = [seconds()]
        written = [memory.bytes.copy() for memory in self._written]
        if not all(memory.is_intact for memory in (*self._memory, scratch)):
            return Outcome("out_of_bounds"), written
        while len(spent) < 2 or (sum(spent) < TIMED_SECONDS and len(spent) < TIMED_RUNS):
            spent.append(seconds())
        return Outcome("", max(min(spent), 1e-9), name, code), written


def _values(random: np.random.Generator, dtype: DType) -> np.ndarray:
    """A block of random values in their memory representation."""
    if dtype.name == "bfloat16":
        return (random.standard_normal(1 << 14).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if dtype.is_float:
        return random.standard_normal(1 << 14).astype(dtype.storage)
    return random.integers(0, 2, 1 << 14).astype(dtype.storage)
