"""Expands target-independent items into CPU items, with operands in the forms that the CPU's kernels read.

A reduction becomes one or two passes, a contraction the packing of its weights and a template. Later passes
(`program.schedule`, `program.rows`, ...) treat these items like all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from trainer.engine.program.constants import constant_first
from trainer.engine.program.loops import repeat_of
from trainer.engine.program.work import INDEXED, SCANS, Call, Repeat, Work
from trainer.engine.targets.cpu.lowering import attention, contraction, ragged, recurrent, routines, sorting
from trainer.engine.targets.cpu.lowering.custom import expand_custom
from trainer.engine.targets.cpu.lowering.expansion import Bfloat16, Expansion, Numerics
from trainer.engine.targets.cpu.lowering.host import expand_host
from trainer.engine.targets.cpu.lowering.reductions import expand_reduction
from trainer.engine.targets.cpu.machine import Machine

_EXPANSIONS: dict[str, Callable[[Expansion, Work], None]] = {
    "attention": attention.expand_attention,
    "attention_gradient": attention.expand_attention_gradient,
    "matmul": contraction.expand_matmul,
    "convolution": contraction.expand_convolution,
    "convolution_input_gradient": contraction.expand_input_gradient,
    "convolution_weight_gradient": contraction.expand_weight_gradient,
    **dict.fromkeys(INDEXED, routines.expand_index),
    "window_argmax": routines.expand_window,
    "window_max": routines.expand_window,
    "window_max_gradient": routines.expand_window_gradient,
    "resample": routines.expand_resample,
    "gather_sum": routines.expand_gather_sum,
    **dict.fromkeys(SCANS, routines.expand_scan),
    **dict.fromkeys(("argsort", "sort", "top_k"), sorting.expand_sort),
    "suppress": routines.expand_suppress,
    "custom": expand_custom,
    "rnn_scan": recurrent.expand_rnn_scan,
    "rnn_scan_gradient": recurrent.expand_rnn_scan_gradient,
    "rnn_scan_ragged": ragged.expand_rnn_scan_ragged,
    "rnn_scan_ragged_gradient": ragged.expand_rnn_scan_ragged_gradient,
    "host_call": expand_host,
    "host_effect": expand_host,
}


def expand(
    works: Sequence[Work], machine: Machine, numerics: Numerics, bfloat16: Bfloat16, *, per_item: bool = False
) -> list[Work]:
    """Expands items for a machine, in the given numerics classes."""
    expansion = Expansion(machine, numerics, bfloat16, per_item)
    for work in works:
        if work.kind == "loop":
            expansion.add(work)
        elif work.kind == "reduction":
            expand_reduction(expansion, work)
        elif work.kind == "repeat" and work.spec.stand_ins:
            parts = expand(work.parts, machine, numerics, bfloat16, per_item=per_item)
            expansion.works += _with_constants_first(work, parts)
        elif work.kind == "repeat":
            parts = [_one(expand([part], machine, numerics, bfloat16, per_item=per_item), part) for part in work.parts]
            expansion.add(replace(work, parts=tuple(parts)))
        else:
            call: Call = work.spec
            _EXPANSIONS[call.operation.name](expansion, work)
    return expansion.works


def _with_constants_first(work: Work, parts: Sequence[Work]) -> list[Work]:
    """Moves the parts that are the same in each iteration before the repeat: weights are packed once."""
    spec: Repeat = work.spec
    varying = {each.storage for each in spec.stand_ins if each.step or each.is_written}
    first, parts = constant_first(parts, varying)
    for part in first:
        for buffer in part.targets:
            buffer.kept = False
    items = [repeat_of(first, spec.stand_ins, 1, f"{work.label}, once")] if first else []
    return [*items, repeat_of(parts, spec.stand_ins, spec.count, work.label)]


def _one(items: Sequence[Work], part: Work) -> Work:
    """Returns the item of a repeat's part, which must stay a single item, since each operand has its own step."""
    if len(items) != 1 or (len(items[0].reads), len(items[0].writes)) != (len(part.reads), len(part.writes)):
        raise AssertionError(f"a repeat's part must be one item on the same operands: {part.label}")
    return items[0]
