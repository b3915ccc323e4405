"""The machine's peak speeds: multiply-adds per second and bytes per second. Measured once, in about 0.7 s.

Rooflines in profiles use both (Williams, Waterman & Patterson 2009). They are cached next to the compiled kernels, by
processor features, host and thread count.
"""

from __future__ import annotations

import hashlib
import json
import platform
import time
from dataclasses import asdict, dataclass

import numpy as np

from trainer.engine.graph.storage import aligned_empty
from trainer.engine.targets import disk_cache
from trainer.engine.targets.cpu import native
from trainer.engine.targets.cpu.pool import RECORD_WORDS, Pool

PEAKS = ".peaks"
ACCUMULATORS = 12
"""Independent chains: enough for two units with a latency of four or five cycles; they fit sixteen registers."""

ITERATIONS = 1_000_000
STREAM_BYTES = 96 << 20
"""Size of each of two arrays: larger than the last-level cache."""

STREAM_TASKS = 64
READ_BYTES, READ_TOTAL_BYTES = 512, 64 << 20
"""Bytes that one iteration of the loop reads, and that each thread reads in total."""

ROUNDS, REPETITIONS = 4, 6
"""Other work on the machine may slow down one round, but hardly all of them."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """Operations per second by dtype (a fused multiply-add is two), and bytes read and written per second."""

    float32: float
    float64: float
    bfloat16: float
    bandwidth: float

    def operations(self, dtype: str) -> float:
        """Returns operations per second in `dtype`; integers count as float32."""
        return {"float64": self.float64, "bfloat16": self.bfloat16}.get(dtype, self.float32)


def peaks(pool: Pool) -> Peaks:
    """Returns the peaks of `pool`'s threads on this machine; measures them if they are not cached."""
    identity = f"{native.host_target().key}|{platform.node()}|{pool.threads}"
    key = hashlib.sha256(identity.encode()).hexdigest()[:24]
    known = disk_cache.kept(key, PEAKS)
    if known is not None:
        return Peaks(**json.loads(known))
    found = measure(pool)
    disk_cache.keep(key, json.dumps(asdict(found)).encode(), PEAKS)
    return found


def measure(pool: Pool) -> Peaks:
    """Measures the peaks now; other work on the machine lowers them."""
    has_dot = bool(native.host_features().get("avx512bf16"))
    objects = {name: native.compile_object(_multiply_add_ir(name, kind)) for name, kind in _MULTIPLY_ADDS.items()}
    objects["stream"] = native.compile_object(_stream_ir())
    if has_dot:
        objects["dot"] = native.compile_object(_dot_ir())
    library = native.link(objects, "peaks")
    operations = {
        name: 2 * _lanes(kind) * ACCUMULATORS * ITERATIONS * pool.threads for name, kind in _MULTIPLY_ADDS.items()
    }
    operations["dot"] = 64 * ACCUMULATORS * ITERATIONS * pool.threads
    arrays = [aligned_empty(STREAM_BYTES, np.dtype(np.uint8), 4096) for _ in range(2)]
    for array in arrays:
        array[:] = 0
    words = np.array([array.ctypes.data for array in arrays], np.int64)
    fastest = dict.fromkeys(objects, float("inf"))
    with pool.lock:
        for _ in range(ROUNDS):
            for name in objects:
                tasks = STREAM_TASKS if name == "stream" else pool.threads
                fastest[name] = min(fastest[name], _best(pool, library[name], words, tasks))
    rates = {name: operations[name] / seconds for name, seconds in fastest.items() if name != "stream"}
    bandwidth = 2 * STREAM_BYTES / fastest["stream"]
    return Peaks(rates["single"], rates["double"], rates.get("dot", rates["single"]), bandwidth)


def read_bandwidth(pool: Pool, nbytes: int) -> float:
    """Returns the bytes per second that all threads read of an array. Each thread reads its own part repeatedly, from
    the caches if it fits.
    """
    library = native.link({"read": native.compile_object(_read_ir())}, "read")
    part = max(READ_BYTES, nbytes // pool.threads // READ_BYTES * READ_BYTES)
    times = max(1, READ_TOTAL_BYTES // part)
    array = aligned_empty(part * pool.threads, np.dtype(np.uint8), 4096)
    array[:] = 0
    words = np.array([array.ctypes.data, part, times], np.int64)
    with pool.lock:
        fastest = min(_best(pool, library["read"], words, pool.threads) for _ in range(ROUNDS))
    return part * times * pool.threads / fastest


_MULTIPLY_ADDS = {"single": "float", "double": "double"}


def _lanes(kind: str) -> int:
    features = native.host_features()
    width = 64 if features.get("avx512f") else 32 if features.get("avx2") else 16
    return width // (4 if kind == "float" else 8)


def _loop_ir(name: str, vector: str, declaration: str, step: str) -> str:
    """A function that runs `ACCUMULATORS` independent chains of `step`; `%old` is the previous value of a chain."""
    chains = range(ACCUMULATORS)
    phis = "\n".join(f"  %a{i} = phi {vector} [ zeroinitializer, %entry ], [ %n{i}, %loop ]" for i in chains)
    steps = "\n".join(f"  %n{i} = {step.replace('%old', f'%a{i}')}" for i in chains)
    sums = [f"  %s0 = fadd {vector} %n0, %n1"]
    sums += [f"  %s{i - 1} = fadd {vector} %s{i - 2}, %n{i}" for i in chains if i > 1]
    return f"""
{declaration}
define void @{name}(ptr %arguments, i64 %task, ptr %scratch) {{
entry:

  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
{phis}
{steps}
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, {ITERATIONS}
  br i1 %more, label %loop, label %done
done:
{chr(10).join(sums)}
  store {vector} %s{ACCUMULATORS - 2}, ptr %scratch, align 64
  ret void
}}
"""


def _multiply_add_ir(name: str, kind: str) -> str:
    lanes = _lanes(kind)
    vector, suffix = f"<{lanes} x {kind}>", f"v{lanes}f{32 if kind == 'float' else 64}"
    half = ", ".join([f"{kind} 0.5"] * lanes)
    return _loop_ir(
        name,
        vector,
        f"declare {vector} @llvm.fma.{suffix}({vector}, {vector}, {vector})",
        f"call {vector} @llvm.fma.{suffix}({vector} %old, {vector} <{half}>, {vector} <{half}>)",
    )


def _dot_ir() -> str:
    """A function that adds pairs of bfloat16 products to float32 sums."""
    function, half = "@llvm.x86.avx512bf16.dpbf16ps.512", ", ".join(["bfloat 0xR3F00"] * 32)
    return _loop_ir(
        "dot",
        "<16 x float>",
        f"declare <16 x float> {function}(<16 x float>, <32 x bfloat>, <32 x bfloat>)",
        f"call <16 x float> {function}(<16 x float> %old, <32 x bfloat> <{half}>, <32 x bfloat> <{half}>)",
    )


def _stream_ir() -> str:
    """A copy that bypasses the caches, as `memcpy` does for large arrays."""
    chunk = STREAM_BYTES // STREAM_TASKS
    return f"""
define void @stream(ptr %arguments, i64 %task, ptr %scratch) {{
entry:
  %from = load ptr, ptr %arguments
  %second = getelementptr ptr, ptr %arguments, i64 1
  %to = load ptr, ptr %second
  %begin = mul i64 %task, {chunk}
  %end = add i64 %begin, {chunk}
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %p = getelementptr i8, ptr %from, i64 %i
  %q = getelementptr i8, ptr %to, i64 %i
  %v = load <16 x float>, ptr %p, align 64
  store <16 x float> %v, ptr %q, align 64, !nontemporal !0
  %next = add i64 %i, 64
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  fence seq_cst
  ret void
}}
!0 = !{{i32 1}}
"""


def _read_ir() -> str:
    """A function that adds up vectors of 64 bytes, eight at a time."""
    names = range(READ_BYTES // 64)
    kind = "<16 x i32>"
    sums = "\n".join(f"  %s{n} = phi {kind} [ zeroinitializer, %entry ], [ %t{n}, %latch ]" for n in names)
    inner = "\n".join(f"  %x{n} = phi {kind} [ %s{n}, %turn ], [ %t{n}, %loop ]" for n in names)
    loads = "\n".join(
        f"  %p{n} = getelementptr i8, ptr %from, i64 {64 * n}\n  %v{n} = load {kind}, ptr %p{n}, align 64\n"
        f"  %t{n} = add {kind} %x{n}, %v{n}"
        for n in names
    )
    stores = "\n".join(f"  store {kind} %t{n}, ptr %scratch, align 64" for n in names)
    return f"""
define void @read(ptr %arguments, i64 %task, ptr %scratch) {{
entry:
  %base = load ptr, ptr %arguments
  %second = getelementptr i64, ptr %arguments, i64 1
  %part = load i64, ptr %second
  %third = getelementptr i64, ptr %arguments, i64 2
  %times = load i64, ptr %third
  %begin = mul i64 %task, %part
  %own = getelementptr i8, ptr %base, i64 %begin
  br label %turn
turn:
  %n = phi i64 [ 0, %entry ], [ %n.next, %latch ]
{sums}
  br label %loop
loop:
  %i = phi i64 [ 0, %turn ], [ %i.next, %loop ]
{inner}
  %from = getelementptr i8, ptr %own, i64 %i
{loads}
  %i.next = add i64 %i, {READ_BYTES}
  %more = icmp slt i64 %i.next, %part
  br i1 %more, label %loop, label %latch
latch:
  %n.next = add i64 %n, 1
  %again = icmp slt i64 %n.next, %times
  br i1 %again, label %turn, label %done
done:
  call void asm sideeffect "", "~{{memory}}"()
{stores}
  ret void
}}
"""


def _best(pool: Pool, function: int, words: np.ndarray, tasks: int) -> float:
    """Returns the seconds of the fastest of several runs."""
    tape = aligned_empty(RECORD_WORDS, np.dtype(np.int64))
    tape[:] = 0
    tape[:3] = function, words.ctypes.data, tasks
    fastest = float("inf")
    for _ in range(REPETITIONS):
        begun = time.perf_counter()
        pool.run(tape.ctypes.data, 1)
        fastest = min(fastest, time.perf_counter() - begun)
    return fastest
