"""Sorting and suppression. Operands are used as they lie."""

from __future__ import annotations

from dataclasses import replace

from trainer.engine.program.work import KernelSource, Work
from trainer.engine.targets.cpu.kernels import order
from trainer.engine.targets.cpu.lowering.expansion import Expansion
from trainer.engine.targets.cpu.lowering.launch import Routine


def expand_order(expansion: Expansion, work: Work) -> None:
    """The indices that sort along an axis, or which candidates stay."""
    (x,), (target,), call = work.reads, work.writes, work.spec
    if target.size == 0:
        return
    if call.operation.name == "argsort":
        kernel = order.Argsort(
            x.dtype, x.shape, call.attribute("axis"), call.attribute("descending"), x.strides, target.strides
        )
        code, tasks = KernelSource(kernel, lambda name: order.render_argsort(kernel, name)), order.argsort_tasks(kernel)
    else:
        boxes = order.Suppress(x.shape, x.strides, target.strides)
        code, tasks = KernelSource(boxes, lambda name: order.render_suppress(boxes, name)), order.suppress_tasks(boxes)
    expansion.add(replace(work, spec=Routine(code, (x, target), tasks), label=f"{work.label} {x.shape}"))
