"""What a step computes, how near it comes to the processor's peak, and where its time goes."""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from typing import Any

import numpy as np

from trainer.engine import devices
from trainer.engine.devices.cpu import native
from trainer.engine.devices.cpu.pool import BARRIER, RECORD_WORDS
from trainer.engine.graph.storage import aligned_empty

STEPS = 3
CHAINS = 16
"""Independent chains of multiply-adds: more than a multiply-add's latency times how many start in a cycle."""

ROUNDS = 1 << 20


def describe(workload: Any) -> str:
    """Lines about a workload that has run before."""
    program = workload.traced.programs[-1]
    operations = 2 * sum(multiply_adds(launch.source.key) for launch in program.launches)
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        workload()
        times.append(time.perf_counter() - start)
    rate, peak = operations / statistics.median(times) / 1e9, peak_rate()
    shares = ", ".join(f"{name} {share:.0%}" for name, share in shares_of(workload).items() if share >= 0.005)
    return (
        f"  {len(program.launches)} launches, arena {program.memory.size / 1e6:.0f} MB, contractions of "
        f"{1e-9 * operations:.3g} GFLOP: {rate:.0f} of {peak:.0f} GFLOP/s, {rate / peak:.0%} of the peak\n  {shares}"
    )


def multiply_adds(key: Any) -> int:
    """The multiply-adds of a kernel, from what it was rendered from; 0 for all but contractions."""
    spec = key[0] if isinstance(key, tuple) else key
    if hasattr(spec, "multiply_adds"):
        return int(spec.multiply_adds)
    if hasattr(spec, "depth") and hasattr(spec, "rows"):
        return int(spec.rows * spec.columns * spec.depth * math.prod(spec.batch))
    return 0


def shares_of(workload: Any) -> dict[str, float]:
    """The share of a step's cycles by kind of launch, largest first."""
    device, program = devices.current(), workload.traced.programs[-1]
    before = Counter[str]()
    after = Counter[str]()
    for counted in (before, after):
        for label, cycles in program.cycles():
            counted[label.split()[0]] += cycles
        if counted is before:
            device.profile = True
            workload()
            device.profile = False
    spent = {name: after[name] - before[name] for name in after}
    whole = max(1, sum(spent.values()))
    return {name: cycles / whole for name, cycles in sorted(spent.items(), key=lambda item: -item[1])}


def peak_rate() -> float:
    """GFLOP/s of float32 multiply-adds that never leave the registers, on all threads of the device: the best of a
    few.
    """
    pool = devices.current().pool
    library = native.link({"kernel": native.compile_object(_chains())}, "peak")
    sink = np.zeros(16 * pool.threads, np.float32)
    block = np.array([sink.ctypes.data], np.int64)
    tape = aligned_empty(RECORD_WORDS, np.dtype(np.int64))
    tape[:] = 0
    tape[:4] = library["kernel"], block.ctypes.data, pool.threads, BARRIER
    fastest = math.inf
    for _ in range(5):
        start = time.perf_counter()
        pool.run(tape.ctypes.data, 1)
        fastest = min(fastest, time.perf_counter() - start)
    return 2 * 16 * CHAINS * ROUNDS * pool.threads / fastest / 1e9


def _chains() -> str:
    """A kernel of `ROUNDS` rounds of `CHAINS` vector multiply-adds; every task stores the sums in a place of its
    own.
    """
    kind = "<16 x float>"
    phis = "\n".join(f"  %s{i} = phi {kind} [ zeroinitializer, %entry ], [ %t{i}, %loop ]" for i in range(CHAINS))
    call = f"call {kind} @llvm.fma.v16f32({kind} %x, {kind} %x, {kind} %s"
    steps = "\n".join(f"  %t{i} = {call}{i})" for i in range(CHAINS))
    sums = "\n".join(f"  %u{i} = fadd {kind} {f'%u{i - 1}' if i > 1 else '%t0'}, %t{i}" for i in range(1, CHAINS))
    return f"""
declare {kind} @llvm.fma.v16f32({kind}, {kind}, {kind})
define void @kernel(ptr %arguments, i64 %task, ptr %scratch) {{
entry:
  %sink = load ptr, ptr %arguments
  %place = getelementptr {kind}, ptr %sink, i64 %task
  %x = load {kind}, ptr %place, align 4
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{phis}
{steps}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, {ROUNDS}
  br i1 %more, label %loop, label %done
done:
{sums}
  store {kind} %u{CHAINS - 1}, ptr %place, align 4
  ret void
}}"""
