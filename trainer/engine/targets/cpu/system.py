"""Processor and system functions of the runtime, as LLVM IR for this machine: flush-to-zero, a clock, sleeping and
waking, and the core on which a thread runs.

The object code is the same in every process: system functions are called through addresses in the control block.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys

import numpy as np

from trainer.engine.targets.cpu.control_block import CURRENT_CPU, MASK_BYTES, MASKS, PLACE, STAMPS, WAIT

_SET_FLUSHING_X86 = """define internal i64 @{name}() {{
  %slot = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %slot)
  %old = load i32, ptr %slot
  %new = {change}
  store i32 %new, ptr %slot
  call void @llvm.x86.sse.ldmxcsr(ptr %slot)
  %wide = zext i32 %old to i64
  ret i64 %wide
}}
"""
_SET_FLUSHING_ARM = """define internal i64 @{name}() {{
  %old = call i64 @llvm.aarch64.get.fpcr()
  %new = {change}
  call void @llvm.aarch64.set.fpcr(i64 %new)
  ret i64 %old
}}
"""


def floating_point_ir() -> str:
    """Returns IR that turns flush-to-zero on or off and returns the previous state, and IR that restores the state."""
    if platform.machine().lower() in ("x86_64", "amd64"):
        on = _SET_FLUSHING_X86.format(name="flush_on", change="or i32 %old, 32832")
        off = _SET_FLUSHING_X86.format(name="flush_off", change="and i32 %old, -32833")
        return f"""
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
{on}{off}define internal void @flush_restore(i64 %state) {{
  %slot = alloca i32
  %old = trunc i64 %state to i32
  store i32 %old, ptr %slot
  call void @llvm.x86.sse.ldmxcsr(ptr %slot)
  ret void
}}
define internal void @relax() {{
  call void @llvm.x86.sse2.pause()
  ret void
}}
declare void @llvm.x86.sse2.pause()
"""
    on = _SET_FLUSHING_ARM.format(name="flush_on", change="or i64 %old, 16777216")
    off = _SET_FLUSHING_ARM.format(name="flush_off", change="and i64 %old, -16777217")
    return f"""
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
declare void @llvm.aarch64.hint(i32)
{on}{off}define internal void @flush_restore(i64 %state) {{
  call void @llvm.aarch64.set.fpcr(i64 %state)
  ret void
}}
define internal void @relax() {{
  call void @llvm.aarch64.hint(i32 1) ; yield
  ret void
}}
"""


def clock_ir() -> str:
    """Returns IR of `ticks()`, a clock that all cores share at a constant rate, and of `stamp`, which stores its value.

    `profile` is 0, or the address of int64 [threads][count + 1][STAMPS].
    """
    if platform.machine().lower() in ("x86_64", "amd64"):
        declared, read = "declare i64 @llvm.readcyclecounter()", "%t = call i64 @llvm.readcyclecounter()"
    else:  # on ARM only the kernel may read the cycle counter; this LLVM has no parser for ARM assembly
        declared = """declare i64 @llvm.read_volatile_register.i64(metadata)
declare void @llvm.aarch64.isb(i32)
!1 = !{!"cntvct_el0"}"""
        read = """call void @llvm.aarch64.isb(i32 15)
  %t = call i64 @llvm.read_volatile_register.i64(metadata !1)"""
    return f"""
{declared}
define i64 @ticks() {{
  {read}
  ret i64 %t
}}
define internal void @stamp(i64 %profile, i64 %count, i64 %thread, i64 %record, i64 %which) alwaysinline {{
  %on = icmp ne i64 %profile, 0
  br i1 %on, label %keep, label %done
keep:
  %rows = add i64 %count, 1
  %before = mul i64 %thread, %rows
  %row = add i64 %before, %record
  %first = mul i64 %row, {STAMPS}
  %word = add i64 %first, %which
  %stamps = inttoptr i64 %profile to ptr
  %place = getelementptr i64, ptr %stamps, i64 %word
  %t = call i64 @ticks()
  store i64 %t, ptr %place
  br label %done
done:
  ret void
}}
"""


def waiting_ir() -> str:
    """Returns IR of `sleep_while(pool, address, value)` and `wake(pool, address)`: a futex, or else short sleeps."""
    if sys.platform == "linux":
        number = {"x86_64": 202, "aarch64": 98}[platform.machine()]
        return f"""
define internal void @sleep_while(ptr %pool, ptr %address, i32 %value) {{
  %word = getelementptr i64, ptr %pool, i64 {WAIT}
  %f = load ptr, ptr %word
  call i64 (i64, ...) %f(i64 {number}, ptr %address, i64 128, i32 %value, ptr null, ptr null, i64 0)
  ret void
}}
define internal void @wake(ptr %pool, ptr %address) {{
  %word = getelementptr i64, ptr %pool, i64 {WAIT}
  %f = load ptr, ptr %word
  call i64 (i64, ...) %f(i64 {number}, ptr %address, i64 129, i32 2147483647, ptr null, ptr null, i64 0)
  ret void
}}
"""
    return f"""
define internal void @sleep_while(ptr %pool, ptr %address, i32 %value) {{
  %word = getelementptr i64, ptr %pool, i64 {WAIT}
  %f = load ptr, ptr %word
  call i32 %f(i32 50)
  ret void
}}
define internal void @wake(ptr %pool, ptr %address) {{
  ret void
}}
"""


def placement_ir() -> str:
    """Returns IR of `current_cpu(pool)` and `leave_cpu(pool, cpu)`, which moves a thread away from the core of the
    calling thread.

    A scheduler may leave two spinning threads on one core while another core is idle, which halves the speed
    (measured). The masks are sets of processors: all allowed ones, then for each processor all allowed ones but this
    one; null if threads can't be placed.
    """
    return f"""
define internal i64 @current_cpu(ptr %pool) {{
  %masks.word = getelementptr i64, ptr %pool, i64 {MASKS}
  %masks = load i64, ptr %masks.word
  %known = icmp ne i64 %masks, 0
  br i1 %known, label %ask, label %unknown
ask:
  %word = getelementptr i64, ptr %pool, i64 {CURRENT_CPU}
  %f = load ptr, ptr %word
  %cpu = call i32 %f()
  %wide = sext i32 %cpu to i64
  ret i64 %wide
unknown:
  ret i64 -1
}}
define internal void @leave_cpu(ptr %pool, i64 %cpu) {{
  %masks.word = getelementptr i64, ptr %pool, i64 {MASKS}
  %all = load ptr, ptr %masks.word
  %word = getelementptr i64, ptr %pool, i64 {PLACE}
  %f = load ptr, ptr %word
  %row = add i64 %cpu, 1
  %offset = mul i64 %row, {MASK_BYTES}
  %others = getelementptr i8, ptr %all, i64 %offset
  %a = call i32 %f(i32 0, i64 {MASK_BYTES}, ptr %others)
  %b = call i32 %f(i32 0, i64 {MASK_BYTES}, ptr %all)
  ret void
}}
"""


def system_functions() -> dict[int, int]:
    """Returns the addresses of the system functions that the runtime calls, by their word in the control block."""
    libc = ctypes.CDLL(None)
    names = {WAIT: "usleep"}
    if sys.platform == "linux":
        names = {WAIT: "syscall", CURRENT_CPU: "sched_getcpu", PLACE: "sched_setaffinity"}
    return {word: ctypes.cast(getattr(libc, name), ctypes.c_void_p).value or 0 for word, name in names.items()}


def processor_masks() -> np.ndarray | None:
    """Returns the set of allowed processors, then for each processor the set without it; None if it can't be used."""
    if sys.platform != "linux":
        return None
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2 or max(allowed) >= MASK_BYTES * 8:
        return None
    masks = np.zeros((max(allowed) + 2, MASK_BYTES * 8), np.uint8)
    masks[:, sorted(allowed)] = 1
    for cpu in allowed:
        masks[cpu + 1, cpu] = 0
    return np.ascontiguousarray(np.packbits(masks, axis=1, bitorder="little"))
