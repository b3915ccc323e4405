"""The runtime of the thread pool, as LLVM IR: walking a tape, barriers that sleep, threads that wait for the next
launch.

The exported functions are `run` (the calling thread), `work` (the body of every other thread), `leave` (wakes them to
go) and `ticks` (the clock of time stamps). They share the pool's control block, whose words are named here. The object
code is the same in every process: what the system offers is called through addresses in the control block.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys

import numpy as np

RECORD_WORDS = 8
BARRIER, SINGLE = 1, 2
"""Flags of a record: wait for all earlier ones; run on the calling thread alone."""

STAMPS = 3
"""Time stamps that a thread leaves for each record: it arrived, it began (past the barrier), it ended."""

_SPIN = 500
_CLASHES = 8
"""Launches in a row that find a thread on the caller's core before it moves: beside a busy process it may be there
rightly.
"""

# Words of the pool's control block, each on a cache line of its own.
LAUNCH, ARRIVED, GENERATION, SLEEPERS, TAPE, COUNT, THREADS, FLUSH, PROFILE, READY, CPU = range(0, 88, 8)
# What the system offers, as addresses: written once, so that the runtime's object code is the same in every process.
WAIT, CURRENT_CPU, PLACE, MASKS = range(96, 100)

MASK_BYTES = 128  # of a set of processors, as the system's calls take it


def _floating_point_ir() -> str:
    """IR that sets flush-to-zero and gives back the state to restore."""
    if platform.machine().lower() in ("x86_64", "amd64"):
        return """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define internal i64 @flush_on() {
  %slot = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %slot)
  %old = load i32, ptr %slot
  %new = or i32 %old, 32832
  store i32 %new, ptr %slot
  call void @llvm.x86.sse.ldmxcsr(ptr %slot)
  %wide = zext i32 %old to i64
  ret i64 %wide
}
define internal void @flush_restore(i64 %state) {
  %slot = alloca i32
  %old = trunc i64 %state to i32
  store i32 %old, ptr %slot
  call void @llvm.x86.sse.ldmxcsr(ptr %slot)
  ret void
}
define internal void @relax() {
  call void @llvm.x86.sse2.pause()
  ret void
}
declare void @llvm.x86.sse2.pause()
"""
    return """
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
declare void @llvm.aarch64.hint(i32)
define internal i64 @flush_on() {
  %old = call i64 @llvm.aarch64.get.fpcr()
  %new = or i64 %old, 16777216
  call void @llvm.aarch64.set.fpcr(i64 %new)
  ret i64 %old
}
define internal void @flush_restore(i64 %state) {
  call void @llvm.aarch64.set.fpcr(i64 %state)
  ret void
}
define internal void @relax() {
  call void @llvm.aarch64.hint(i32 1) ; yield
  ret void
}
"""


def _clock_ir() -> str:
    """IR of `ticks()`, a clock that all cores share and that no frequency changes, and of `stamp`, which keeps one.

    `profile` is 0, or the address of int64 [threads][count + 1][STAMPS].
    """
    if platform.machine().lower() in ("x86_64", "amd64"):
        declared, read = "declare i64 @llvm.readcyclecounter()", "%t = call i64 @llvm.readcyclecounter()"
    else:  # the cycle counter is the kernel's there; of ARM's assembly LLVM has no parser here
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


def _waiting_ir() -> str:
    """IR of `sleep_while(address, value)` and `wake(address)`: futex where there is one, else short naps."""
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


def _placement_ir() -> str:
    """IR of `current_cpu(pool)` and `leave_cpu(pool, cpu)`: a thread on the same core as the calling one moves to
    another.

    A scheduler may leave two threads that spin on one core while another idles, which halves the speed (measured). The
    masks are sets of processors: all that are allowed, then for each processor all but this one; null where threads
    can't be placed.
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
    """The addresses of the system's functions that the runtime calls, by their word in the control block."""
    libc = ctypes.CDLL(None)
    names = {WAIT: "usleep"}
    if sys.platform == "linux":
        names = {WAIT: "syscall", CURRENT_CPU: "sched_getcpu", PLACE: "sched_setaffinity"}
    return {word: ctypes.cast(getattr(libc, name), ctypes.c_void_p).value or 0 for word, name in names.items()}


def processor_masks() -> np.ndarray | None:
    """The allowed processors as a set, then for each processor number the same without it; None where that isn't
    known.
    """
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


def runtime_ir() -> str:
    def field(name: str, word: int) -> str:
        return f"  %{name} = getelementptr i64, ptr %pool, i64 {word}\n"

    handed = {"launch": LAUNCH, "p.tape": TAPE, "p.count": COUNT, "p.threads": THREADS}
    handed |= {"p.flush": FLUSH, "p.profile": PROFILE, "p.cpu": CPU}
    fields = "".join(field(name, word) for name, word in handed.items())
    wait = f"""
define internal void @wait_past(ptr %pool, ptr %address, i32 %value) {{
entry:
{field("sleepers", SLEEPERS)}  br label %spin
spin:
  %i = phi i64 [ 0, %entry ], [ %next, %again ]
  %seen = load atomic i32, ptr %address acquire, align 4
  %same = icmp eq i32 %seen, %value
  br i1 %same, label %again, label %done
again:
  call void @relax()
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, {_SPIN}
  br i1 %more, label %spin, label %doze
doze:
  %a = atomicrmw add ptr %sleepers, i64 1 seq_cst
  br label %check
check:
  %now = load atomic i32, ptr %address seq_cst, align 4
  %still = icmp eq i32 %now, %value
  br i1 %still, label %sleep, label %rise
sleep:
  call void @sleep_while(ptr %pool, ptr %address, i32 %value)
  br label %check
rise:
  %b = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  br label %done
done:
  ret void
}}
define internal void @advance(ptr %pool, ptr %address) {{
  %old = atomicrmw add ptr %address, i32 1 seq_cst
{field("sleepers", SLEEPERS)}  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %any = icmp sgt i64 %asleep, 0
  br i1 %any, label %ring, label %done
ring:
  call void @wake(ptr %pool, ptr %address)
  br label %done
done:
  ret void
}}
define internal void @barrier(ptr %pool, i64 %threads) {{
{field("generation", GENERATION)}{field("arrived", ARRIVED)}  %g = load atomic i32, ptr %generation acquire, align 4
  %before = atomicrmw add ptr %arrived, i64 1 acq_rel
  %count = add i64 %before, 1
  %last = icmp eq i64 %count, %threads
  br i1 %last, label %release, label %hold
release:
  store atomic i64 0, ptr %arrived release, align 8
  call void @advance(ptr %pool, ptr %generation)
  ret void
hold:
  call void @wait_past(ptr %pool, ptr %generation, i32 %g)
  ret void
}}
"""
    walk = f"""
define internal void @walk(ptr %pool, ptr %tape, i64 %count, i64 %threads, i64 %thread, ptr %scratch, i64 %profile) {{
entry:
  %first = icmp eq i64 %thread, 0
  %alone = icmp eq i64 %threads, 1
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %record, label %done
record:
  %i = phi i64 [ 0, %entry ], [ %i.next, %after ]
  %offset = mul i64 %i, {RECORD_WORDS}
  %r = getelementptr i64, ptr %tape, i64 %offset
  %p.arguments = getelementptr i64, ptr %r, i64 1
  %p.tasks = getelementptr i64, ptr %r, i64 2
  %p.flags = getelementptr i64, ptr %r, i64 3
  %p.claimed = getelementptr i64, ptr %r, i64 4
  %function = load ptr, ptr %r
  %arguments = load ptr, ptr %p.arguments
  %tasks = load i64, ptr %p.tasks
  %flags = load i64, ptr %p.flags
  %wants = and i64 %flags, {BARRIER}
  %waits0 = icmp ne i64 %wants, 0
  %together = xor i1 %alone, true
  %waits = and i1 %waits0, %together
  call void @stamp(i64 %profile, i64 %count, i64 %thread, i64 %i, i64 0)
  br i1 %waits, label %meet, label %begin
meet:
  call void @barrier(ptr %pool, i64 %threads)
  br label %begin
begin:
  call void @stamp(i64 %profile, i64 %count, i64 %thread, i64 %i, i64 1)
  %s = and i64 %flags, {SINGLE}
  %single0 = icmp ne i64 %s, 0
  %single = or i1 %single0, %alone
  br i1 %single, label %only, label %claim
only:
  %mine = icmp sgt i64 %tasks, 0
  %run = and i1 %first, %mine
  br i1 %run, label %serial, label %after
serial:
  %t = phi i64 [ 0, %only ], [ %t.next, %serial ]
  call void %function(ptr %arguments, i64 %t, ptr %scratch)
  %t.next = add i64 %t, 1
  %t.more = icmp slt i64 %t.next, %tasks
  br i1 %t.more, label %serial, label %after
claim:
  %c = atomicrmw add ptr %p.claimed, i64 1 monotonic
  %got = icmp slt i64 %c, %tasks
  br i1 %got, label %share, label %after
share:
  call void %function(ptr %arguments, i64 %c, ptr %scratch)
  br label %claim
after:
  call void @stamp(i64 %profile, i64 %count, i64 %thread, i64 %i, i64 2)
  %i.next = add i64 %i, 1
  %i.more = icmp slt i64 %i.next, %count
  br i1 %i.more, label %record, label %done
done:
  call void @stamp(i64 %profile, i64 %count, i64 %thread, i64 %count, i64 0)
  ret void
}}
"""
    worker = f"""
define ptr @work(ptr %block) {{
entry:
  %pool = load ptr, ptr %block
  %p.thread = getelementptr i64, ptr %block, i64 1
  %thread = load i64, ptr %p.thread
  %p.scratch = getelementptr i64, ptr %block, i64 2
  %p.clashes = getelementptr i64, ptr %block, i64 3
  %scratch = load ptr, ptr %p.scratch
{fields}{field("ready", READY)}  %start = load atomic i32, ptr %launch acquire, align 4
  %r = atomicrmw add ptr %ready, i64 1 seq_cst
  br label %idle
idle:
  %g = phi i32 [ %start, %entry ], [ %g.next, %finish ]
  call void @wait_past(ptr %pool, ptr %launch, i32 %g)
  %g.next = add i32 %g, 1
  %count = load i64, ptr %p.count
  %quit = icmp slt i64 %count, 0
  br i1 %quit, label %exit, label %step
step:
  %taken = load i64, ptr %p.cpu
  %cpu = call i64 @current_cpu(ptr %pool)
  %clash0 = icmp eq i64 %cpu, %taken
  %known = icmp sge i64 %cpu, 0
  %clash = and i1 %clash0, %known
  %before = load i64, ptr %p.clashes
  %more = add i64 %before, 1
  %count.clashes = select i1 %clash, i64 %more, i64 0
  %often = icmp sge i64 %count.clashes, {_CLASHES}
  %kept = select i1 %often, i64 0, i64 %count.clashes
  store i64 %kept, ptr %p.clashes
  br i1 %often, label %move, label %placed
move:
  call void @leave_cpu(ptr %pool, i64 %cpu)
  br label %placed
placed:
  %tape = load ptr, ptr %p.tape
  %threads = load i64, ptr %p.threads
  %flush = load i64, ptr %p.flush
  %profile = load i64, ptr %p.profile
  %flushing = icmp ne i64 %flush, 0
  br i1 %flushing, label %flushed, label %plain
flushed:
  %state = call i64 @flush_on()
  call void @walk(ptr %pool, ptr %tape, i64 %count, i64 %threads, i64 %thread, ptr %scratch, i64 %profile)
  call void @flush_restore(i64 %state)
  br label %finish
plain:
  call void @walk(ptr %pool, ptr %tape, i64 %count, i64 %threads, i64 %thread, ptr %scratch, i64 %profile)
  br label %finish
finish:
  call void @barrier(ptr %pool, i64 %threads)
  br label %idle
exit:
  ret ptr null
}}
"""
    run = f"""
define void @run(ptr %pool, ptr %tape, i64 %count, i64 %threads, ptr %scratch, i64 %flush, i64 %profile) {{
entry:
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %reset, label %ready
reset:
  %i = phi i64 [ 0, %entry ], [ %i.next, %reset ]
  %offset = mul i64 %i, {RECORD_WORDS}
  %word = add i64 %offset, 4
  %claimed = getelementptr i64, ptr %tape, i64 %word
  store i64 0, ptr %claimed
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %count
  br i1 %more, label %reset, label %ready
ready:
  %shared = icmp sgt i64 %threads, 1
  br i1 %shared, label %launching, label %body
launching:
{fields}  %cpu = call i64 @current_cpu(ptr %pool)
  store i64 %cpu, ptr %p.cpu
  store ptr %tape, ptr %p.tape
  store i64 %count, ptr %p.count
  store i64 %threads, ptr %p.threads
  store i64 %flush, ptr %p.flush
  store i64 %profile, ptr %p.profile
  call void @advance(ptr %pool, ptr %launch)
  br label %body
body:
  %flushing = icmp ne i64 %flush, 0
  br i1 %flushing, label %flushed, label %plain
flushed:
  %state = call i64 @flush_on()
  call void @walk(ptr %pool, ptr %tape, i64 %count, i64 %threads, i64 0, ptr %scratch, i64 %profile)
  call void @flush_restore(i64 %state)
  br label %finish
plain:
  call void @walk(ptr %pool, ptr %tape, i64 %count, i64 %threads, i64 0, ptr %scratch, i64 %profile)
  br label %finish
finish:
  br i1 %shared, label %meet, label %done
meet:
  call void @barrier(ptr %pool, i64 %threads)
  br label %done
done:
  call void @stamp(i64 %profile, i64 %count, i64 0, i64 %count, i64 1)
  ret void
}}
"""
    leave = f"""
define void @leave(ptr %pool) {{
{field("launch", LAUNCH)}  call void @advance(ptr %pool, ptr %launch)
  ret void
}}
"""
    return leave + _clock_ir() + _placement_ir() + _floating_point_ir() + _waiting_ir() + wait + walk + worker + run
