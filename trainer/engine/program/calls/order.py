"""Sorting and suppression. Operands are used as they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.engine.graph.node import Node
from trainer.engine.program.launch import Address, KernelSource, Launch
from trainer.engine.targets.cpu.kernels import order

if TYPE_CHECKING:
    from trainer.engine.program.epilogues import Fused
    from trainer.engine.program.lower import Lowering


def emit_argsort(lowering: Lowering, root: Node, fused: Fused | None) -> None:
    """The indices that sort along an axis."""
    (x,) = root.inputs
    if root.size == 0:
        return
    place, strides = lowering.as_it_lies(x)
    steps = lowering.plan.layouts[root].strides(root.shape)
    kernel = order.Argsort(x.dtype, x.shape, root.attribute("axis"), root.attribute("descending"), strides, steps)
    source = KernelSource(kernel, lambda name: order.render_argsort(kernel, name))
    _launch(lowering, root, source, place, order.argsort_tasks(kernel))


def emit_suppress(lowering: Lowering, root: Node, fused: Fused | None) -> None:
    """Which candidates stay."""
    (x,) = root.inputs
    if root.size == 0:
        return
    place, strides = lowering.as_it_lies(x)
    kernel = order.Suppress(x.shape, strides, lowering.plan.layouts[root].strides(root.shape))
    source = KernelSource(kernel, lambda name: order.render_suppress(kernel, name))
    _launch(lowering, root, source, place, order.suppress_tasks(kernel))


def _launch(lowering: Lowering, root: Node, source: KernelSource, place: Address, tasks: int) -> None:
    target = lowering.buffer_of(root)
    label = f"{root.name} {root.inputs[0].shape}"
    lowering.emit(Launch(source, [place, Address(target)], tasks, (place.buffer,), (target,), label))
