"""One kernel over several argument blocks, for a group of equal loops over different arrays.

Arguments: [grain, total tasks, then for each part: its tasks, the words of its argument block]. Task t runs the
flattened tasks [t * grain, (t + 1) * grain) of all parts in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trainer.engine.targets.cpu.kernels.loop_kernel import LoopKernel, argument_words
from trainer.engine.targets.ir.writer import internal

HEADER_WORDS = 2


@dataclass(frozen=True, slots=True)
class RepeatedKernel:
    """`kernel` for each of any number of argument blocks."""

    kernel: LoopKernel


def render(kernel: RepeatedKernel, part: Callable[[str], str], name: str) -> str:
    """The module text, exporting `void name(ptr arguments, i64 task)`; `part(name)` renders the kernel itself."""
    return internal(part("part"), "part") + _WALK.format(
        name=name, header=HEADER_WORDS, step=1 + argument_words(kernel.kernel)
    )


_WALK = """
define void @{name}(ptr noalias %arguments, i64 %task) nounwind {{
entry:
  %grain = load i64, ptr %arguments
  %total.place = getelementptr i64, ptr %arguments, i64 1
  %total = load i64, ptr %total.place
  %first = mul i64 %task, %grain
  %rest.all = sub i64 %total, %first
  %is.last = icmp ult i64 %rest.all, %grain
  %count = select i1 %is.last, i64 %rest.all, i64 %grain
  %parts = getelementptr i64, ptr %arguments, i64 {header}
  br label %look
look:
  %place = phi ptr [ %parts, %entry ], [ %after, %further ], [ %place, %run ]
  %index = phi i64 [ %first, %entry ], [ %beyond, %further ], [ %following, %run ]
  %left = phi i64 [ %count, %entry ], [ %left, %further ], [ %fewer, %run ]
  %tasks = load i64, ptr %place
  %is.inside = icmp ult i64 %index, %tasks
  br i1 %is.inside, label %run, label %further
further:
  %beyond = sub i64 %index, %tasks
  %after = getelementptr i64, ptr %place, i64 {step}
  br label %look
run:
  %block = getelementptr i64, ptr %place, i64 1
  call void @part(ptr %block, i64 %index)
  %following = add i64 %index, 1
  %fewer = sub i64 %left, 1
  %is.done = icmp eq i64 %fewer, 0
  br i1 %is.done, label %done, label %look
done:
  ret void
}}
"""
