"""Padding and concatenation: the parts are computed straight into their places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.engine.graph.node import Node

if TYPE_CHECKING:
    from trainer.engine.program.epilogues import Fused
    from trainer.engine.program.lower import Lowering


def emit_pad(lowering: Lowering, node: Node, fused: Fused | None) -> None:
    """Fill with the padding value, then store the input over it; interior padding becomes a stride."""
    target = lowering.buffer_of(node)
    source = node.inputs[0]
    if node.size != source.size:
        lowering.fill(target, node.attribute("value"))
    strides = lowering.plan.layouts[node].strides(node.shape)
    low, interior = node.attribute("low"), node.attribute("interior")
    offset = sum(step * before for step, before in zip(strides, low, strict=True))
    steps = tuple(step * (gap + 1) for step, gap in zip(strides, interior, strict=True))
    lowering.emit_expression(source, target, offset, steps, "pad")


def emit_concatenate(lowering: Lowering, node: Node, fused: Fused | None) -> None:
    """Store each input in its range of the axis."""
    target = lowering.buffer_of(node)
    strides = lowering.plan.layouts[node].strides(node.shape)
    axis, start = node.attribute("axis"), 0
    for source in node.inputs:
        lowering.emit_expression(source, target, start * strides[axis], strides, "concatenate")
        start += source.shape[axis]
