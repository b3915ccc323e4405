"""The runtime of the thread pool, as LLVM IR: the walk of a tape, barriers that sleep, threads that wait for the next
launch.

The exported functions are `run` (the calling thread), `work` (the body of every other thread), `leave` (wakes those
threads to end them) and `ticks` (the clock of time stamps). They share the pool's control block (see control_block.py).
"""

from __future__ import annotations

from trainer.engine.targets.cpu import control_block as control
from trainer.engine.targets.cpu.repeats import repeat_ir
from trainer.engine.targets.cpu.system import clock_ir, floating_point_ir, placement_ir, waiting_ir

_SPIN = 3000
"""Number of pauses before a waiting thread sleeps, 75 microseconds on Zen 4: waking takes longer than most waits within
a step. With 500 pauses, a step of 800 launches took 4 milliseconds longer.
"""
_CLASHES = 8
"""Consecutive launches that find a thread on the caller's core before the thread moves: a few may be chance."""

_PARTS = 4
"""A thread claims 1/_PARTS of its share of the remaining tasks at a time, but at least one: memory that neighboring
tasks share is then in its cache, and a task can prefetch the inputs of the next one. The last claims are single tasks.

The first half of the threads begins with the first half of the tasks, the other half with the second, and each helps
the other at the end: in consecutive launches the same rows stay in the same core's caches. The low 32 bits of a
record's claimed tasks count those of the first half.
"""


def runtime_ir() -> str:
    """Returns the text of the module."""

    def field(name: str, word: int) -> str:
        return f"  %{name} = getelementptr i64, ptr %pool, i64 {word}\n"

    handed = {"launch": control.LAUNCH, "p.tape": control.TAPE, "p.count": control.COUNT, "p.threads": control.THREADS}
    handed |= {"p.flush": control.FLUSH, "p.profile": control.PROFILE, "p.cpu": control.CPU}
    fields = "".join(field(name, word) for name, word in handed.items())
    wait = f"""
define internal void @wait_past(ptr %pool, ptr %address, i32 %value) {{
entry:
{field("sleepers", control.SLEEPERS)}  br label %spin
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
define internal void @advance(ptr %pool, ptr %address, i32 %way) {{
  %old = atomicrmw add ptr %address, i32 %way seq_cst
{field("sleepers", control.SLEEPERS)}  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %any = icmp sgt i64 %asleep, 0
  br i1 %any, label %ring, label %done
ring:
  call void @wake(ptr %pool, ptr %address)
  br label %done
done:
  ret void
}}
define internal void @announce(ptr %pool, ptr %launch, i32 %crew) {{
  %before = load atomic i32, ptr %launch monotonic, align 4
  %last = and i32 %before, {control.MOST_THREADS}
  %number = add i32 {1 << control.THREAD_BITS}, %crew
  %way = sub i32 %number, %last
  call void @advance(ptr %pool, ptr %launch, i32 %way)
  ret void
}}
define internal void @barrier(ptr %pool, i64 %threads) {{
{field("generation", control.GENERATION)}{field("arrived", control.ARRIVED)}
  %g = load atomic i32, ptr %generation acquire, align 4
  %before = atomicrmw add ptr %arrived, i64 1 acq_rel
  %count = add i64 %before, 1
  %last = icmp eq i64 %count, %threads
  br i1 %last, label %release, label %hold
release:
  store atomic i64 0, ptr %arrived release, align 8
  call void @advance(ptr %pool, ptr %generation, i32 1)
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
  %threads.more = add i64 %threads, 1
  %threads.low = lshr i64 %threads.more, 1
  %threads.high = sub i64 %threads, %threads.low
  %parts.low = mul i64 %threads.low, {_PARTS}
  %parts.high = mul i64 %threads.high, {_PARTS}
  %is.high = icmp sge i64 %thread, %threads.low
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %record, label %done
record:
  %i = phi i64 [ 0, %entry ], [ %i.next, %after ]
  %offset = mul i64 %i, {control.RECORD_WORDS}
  %r = getelementptr i64, ptr %tape, i64 %offset
  %p.arguments = getelementptr i64, ptr %r, i64 1
  %p.tasks = getelementptr i64, ptr %r, i64 2
  %p.flags = getelementptr i64, ptr %r, i64 3
  %p.claimed = getelementptr i64, ptr %r, i64 4
  %function = load ptr, ptr %r
  %arguments = load ptr, ptr %p.arguments
  %tasks.all = load i64, ptr %p.tasks
  %flags = load i64, ptr %p.flags
  %wants = and i64 %flags, {control.BARRIER}
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
{field("failed", control.FAILED)}  %failure = load atomic i64, ptr %failed monotonic, align 8
  %goes.on = icmp eq i64 %failure, 0
  %tasks = select i1 %goes.on, i64 %tasks.all, i64 0
  %s = and i64 %flags, {control.SINGLE}
  %single0 = icmp ne i64 %s, 0
  %single = or i1 %single0, %alone
  %again = and i64 %flags, {control.REPEAT}
  %is.repeat = icmp ne i64 %again, 0
  br i1 %is.repeat, label %rounds, label %kernel
rounds:
  %crew = select i1 %single, i64 1, i64 %threads
  %joins = icmp slt i64 %thread, %crew
  %some = icmp sgt i64 %tasks, 0
  %repeats = and i1 %joins, %some
  br i1 %repeats, label %repeat, label %after
repeat:
  call void @repeat(ptr %pool, ptr %r, i64 %crew, i64 %thread, ptr %scratch)
  br label %after
kernel:
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
  %seen = load atomic i64, ptr %p.claimed monotonic, align 8
  %scaled = mul i64 %tasks, %threads.low
  %middle = udiv i64 %scaled, %threads
  br label %next
next:
  %c = phi i64 [ %seen, %claim ], [ %taken, %take ]
  %claimed.low = and i64 %c, 4294967295
  %claimed.high = lshr i64 %c, 32
  %first.high = add i64 %middle, %claimed.high
  %left.low = sub i64 %middle, %claimed.low
  %left.high = sub i64 %tasks, %first.high
  %left.own = select i1 %is.high, i64 %left.high, i64 %left.low
  %helps = icmp sle i64 %left.own, 0
  %takes.high = xor i1 %is.high, %helps
  %left = select i1 %takes.high, i64 %left.high, i64 %left.low
  %got = icmp sgt i64 %left, 0
  br i1 %got, label %take, label %after
take:
  %start = select i1 %takes.high, i64 %first.high, i64 %claimed.low
  %parts = select i1 %takes.high, i64 %parts.high, i64 %parts.low
  %part = udiv i64 %left, %parts
  %few = icmp eq i64 %part, 0
  %some.tasks = select i1 %few, i64 1, i64 %part
  %stop = add i64 %start, %some.tasks
  %unit = select i1 %takes.high, i64 32, i64 0
  %counted = shl i64 %some.tasks, %unit
  %claims = add i64 %c, %counted
  %exchange = cmpxchg ptr %p.claimed, i64 %c, i64 %claims monotonic monotonic, align 8
  %taken = extractvalue {{ i64, i1 }} %exchange, 0
  %won = extractvalue {{ i64, i1 }} %exchange, 1
  br i1 %won, label %share, label %next
share:
  %u = phi i64 [ %start, %take ], [ %u.next, %share ]
  call void %function(ptr %arguments, i64 %u, ptr %scratch)
  %u.next = add i64 %u, 1
  %u.more = icmp slt i64 %u.next, %stop
  br i1 %u.more, label %share, label %claim
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
{fields}{field("ready", control.READY)}  %mine = trunc i64 %thread to i32
  %start = load atomic i32, ptr %launch acquire, align 4
  %r = atomicrmw add ptr %ready, i64 1 seq_cst
  br label %idle
idle:
  %g = phi i32 [ %start, %entry ], [ %g.next, %noted ], [ %g.next, %finish ]
  call void @wait_past(ptr %pool, ptr %launch, i32 %g)
  br label %noted
noted:
  %g.next = load atomic i32, ptr %launch acquire, align 4
  %crew = and i32 %g.next, {control.MOST_THREADS}
  %joins = icmp ult i32 %mine, %crew
  br i1 %joins, label %joined, label %idle
joined:
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
    kinds = {"pool": "ptr", "tape": "ptr", "count": "i64", "threads": "i64"}
    kinds |= {"scratch": "ptr", "flush": "i64", "profile": "i64"}
    arguments = "".join(
        f"  %p{word} = getelementptr i64, ptr %request, i64 {word}\n  %{name} = load {kind}, ptr %p{word}\n"
        for word, (name, kind) in enumerate(kinds.items())
    )
    run = f"""
define void @run(ptr %request) {{
entry:
{arguments}  %some = icmp sgt i64 %count, 0
  br i1 %some, label %reset, label %ready
reset:
  %i = phi i64 [ 0, %entry ], [ %i.next, %reset ]
  %offset = mul i64 %i, {control.RECORD_WORDS}
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
  %crew = trunc i64 %threads to i32
  call void @announce(ptr %pool, ptr %launch, i32 %crew)
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
{field("launch", control.LAUNCH)}  call void @announce(ptr %pool, ptr %launch, i32 {control.MOST_THREADS})
  ret void
}}
"""
    system = clock_ir() + placement_ir() + floating_point_ir() + waiting_ir()
    return leave + system + wait + repeat_ir() + walk + worker + run
