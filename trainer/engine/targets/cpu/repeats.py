"""Repeats, as LLVM IR of the runtime: all threads walk a body of records several times, with addresses that advance.

Words of the record: address of the body's records, address of the table, tasks (the maximum over the body), flags,
unused, number of iterations, number of records, number of table entries. A table entry is the address of an argument
word, and the step that is added to the word after each iteration; at the end the words have their initial values.

Thread t runs tasks t, t + threads, … of a record, the same ones in each iteration, so a task's memory stays in one
core's cache. All threads meet between two iterations. Time stamps cover the whole record. A record of the body may
itself be a repeat; its table follows its words, and the outer table advances these words like others.
"""

from __future__ import annotations

from trainer.engine.targets.cpu.control_block import BARRIER, RECORD_WORDS, REPEAT, SINGLE


def repeat_ir() -> str:
    """Returns the IR of `repeat`, which all `threads` call; it uses the runtime's `barrier`."""
    return f"""
define internal void @move(ptr %table, i64 %entries, i64 %times) {{
entry:
  %any = icmp sgt i64 %entries, 0
  br i1 %any, label %move, label %done
move:
  %i = phi i64 [ 0, %entry ], [ %i.next, %move ]
  %offset = mul i64 %i, 2
  %p.word = getelementptr i64, ptr %table, i64 %offset
  %p.step = getelementptr i64, ptr %p.word, i64 1
  %word = load ptr, ptr %p.word
  %step = load i64, ptr %p.step
  %way = mul i64 %step, %times
  %old = load i64, ptr %word
  %new = add i64 %old, %way
  store i64 %new, ptr %word
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %entries
  br i1 %more, label %move, label %done
done:
  ret void
}}
define internal void @repeat(ptr %pool, ptr %r, i64 %threads, i64 %thread, ptr %scratch) {{
entry:
  %p.table = getelementptr i64, ptr %r, i64 1
  %p.times = getelementptr i64, ptr %r, i64 5
  %p.count = getelementptr i64, ptr %r, i64 6
  %p.entries = getelementptr i64, ptr %r, i64 7
  %body = load ptr, ptr %r
  %table = load ptr, ptr %p.table
  %times = load i64, ptr %p.times
  %count = load i64, ptr %p.count
  %entries = load i64, ptr %p.entries
  %back = sub i64 1, %times
  %first = icmp eq i64 %thread, 0
  %together = icmp sgt i64 %threads, 1
  br label %round
round:
  %n = phi i64 [ 1, %entry ], [ %n.next, %next ]
  br label %record
record:
  %b = phi i64 [ 0, %round ], [ %b.next, %after ]
  %offset = mul i64 %b, {RECORD_WORDS}
  %own = getelementptr i64, ptr %body, i64 %offset
  %p.arguments = getelementptr i64, ptr %own, i64 1
  %p.tasks = getelementptr i64, ptr %own, i64 2
  %p.flags = getelementptr i64, ptr %own, i64 3
  %function = load ptr, ptr %own
  %arguments = load ptr, ptr %p.arguments
  %tasks = load i64, ptr %p.tasks
  %flags = load i64, ptr %p.flags
  %wants = and i64 %flags, {BARRIER}
  %waits0 = icmp ne i64 %wants, 0
  %waits = and i1 %waits0, %together
  br i1 %waits, label %meet, label %begin
meet:
  call void @barrier(ptr %pool, i64 %threads)
  br label %begin
begin:
  %inner = and i64 %flags, {REPEAT}
  %nests = icmp ne i64 %inner, 0
  br i1 %nests, label %rounds, label %kernel
rounds:
  %alone = and i64 %flags, {SINGLE}
  %single = icmp ne i64 %alone, 0
  %crew = select i1 %single, i64 1, i64 %threads
  %joins = icmp slt i64 %thread, %crew
  %some = icmp sgt i64 %tasks, 0
  %repeats = and i1 %joins, %some
  br i1 %repeats, label %nest, label %after
nest:
  call void @repeat(ptr %pool, ptr %own, i64 %crew, i64 %thread, ptr %scratch)
  br label %after
kernel:
  %any = icmp slt i64 %thread, %tasks
  br i1 %any, label %task, label %after
task:
  %t = phi i64 [ %thread, %kernel ], [ %t.next, %task ]
  call void %function(ptr %arguments, i64 %t, ptr %scratch)
  %t.next = add i64 %t, %threads
  %t.more = icmp slt i64 %t.next, %tasks
  br i1 %t.more, label %task, label %after
after:
  %b.next = add i64 %b, 1
  %b.more = icmp slt i64 %b.next, %count
  br i1 %b.more, label %record, label %end
end:
  %last = icmp eq i64 %n, %times
  br i1 %together, label %gather, label %ended
gather:
  call void @barrier(ptr %pool, i64 %threads)
  br label %ended
ended:
  br i1 %first, label %turn, label %turned
turn:
  %steps = select i1 %last, i64 %back, i64 1
  call void @move(ptr %table, i64 %entries, i64 %steps)
  br label %turned
turned:
  br i1 %last, label %done, label %onward
onward:
  br i1 %together, label %release, label %next
release:
  call void @barrier(ptr %pool, i64 %threads)
  br label %next
next:
  %n.next = add i64 %n, 1
  br label %round
done:
  ret void
}}
"""
