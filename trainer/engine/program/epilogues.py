"""Epilogues: element-wise work on a contraction's result, done by its kernel before the result is stored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.engine.graph.node import Node, Shape
from trainer.engine.graph.storage import Layout
from trainer.engine.program.body import Body, Load, as_epilogue, is_along
from trainer.engine.program.group import Group
from trainer.engine.program.partition import Partition
from trainer.engine.program.spec import Epilogue
from trainer.engine.program.views import is_dense, strides_over
from trainer.engine.program.work import Exchanges, View

_TAKES = {"matmul": -1, "convolution": 1, "convolution_input_gradient": 1}
"""Contractions whose templates have epilogues, and the axis that "channel" operands run along."""


@dataclass(frozen=True, slots=True)
class Fused:
    """A contraction whose kernel computes `root` from its accumulators; `loads` are the epilogue's operands, along the
    contraction's axes.
    """

    contraction: Node
    root: Node
    epilogue: Epilogue
    loads: tuple[Load, ...]


def fuse_epilogues(
    groups: Sequence[Group], plan: Partition, results: set[Node]
) -> tuple[list[Group], dict[Node, Fused]]:
    """Groups in which contractions take every fitting loop, and what they took, by the loop's root."""
    readers: dict[Node, list[Group]] = {}
    for item in groups:
        for node in item.reads:
            readers.setdefault(node, []).append(item)
    fused: dict[Node, Fused] = {}
    absorbed: set[Node] = set()
    for item in groups:
        if item.kind != "loop" or len(item.roots) != 1 or item.body is None:
            continue
        for load in item.body.loads:
            source = load.base
            if source is None or source.name not in _TAKES or source in results or source in absorbed:
                continue
            found = _fit(source, item.roots[0], item.body, plan) if readers[source] == [item] else None
            if found is not None:
                fused[item.roots[0]] = found
                absorbed.add(source)
                break
    owner = {item.roots[0]: item for item in groups if item.kind == "call"}
    kept: list[Group] = []
    for item in groups:
        if item.kind == "call" and item.roots[0] in absorbed:
            continue
        match = fused.get(item.roots[0])
        if match is not None:
            reads = (item.reads | owner[match.contraction].reads) - {match.contraction}
            item = Group("call", item.roots, None, reads)
        kept.append(item)
    return kept, fused


def _fit(contraction: Node, root: Node, body: Body, plan: Partition) -> Fused | None:
    layout, shape, rows = plan.layouts[contraction], body.shape, None
    channel = _TAKES[contraction.name] % contraction.ndim
    if any(source.size == 0 for source in contraction.inputs):
        return None  # no kernel runs: zeros are stored
    if root.shape != contraction.shape or shape != root.shape or plan.layouts[root] != layout:
        rows = _rows(contraction, root, shape, plan)
        if rows is None:
            return None
        layout, channel = rows, rows.order[-1]
    found = as_epilogue(root, body, layout, channel, lambda load, how: load.base is contraction)
    if found is None or not all(is_along(load, layout.strides(shape), shape) for load in found[1]):
        return None
    loads = found[2]
    if rows is not None:
        steps = Layout.row_major(contraction.ndim).strides(contraction.shape)
        along = {"same": steps, "channel": (*(0,) * (contraction.ndim - 1), 1), "scalar": (0,) * contraction.ndim}
        loads = tuple(
            load._replace(strides=along[operand.addressing])
            for load, operand in zip(loads, found[0].operands, strict=True)
        )
    return Fused(contraction, root, found[0], loads)


def _rows(product: Node, root: Node, shape: Shape, plan: Partition) -> Layout | None:
    """The order of the axes of `shape`, over which `root` is computed, in which `root` has the rows of a product."""
    if product.name != "matmul" or not plan.layouts[product].is_row_major or product.size != math.prod(shape):
        return None
    layout = is_dense(shape, strides_over(shape, root.shape, plan.layouts[root]))
    return layout if layout is not None and shape[layout.order[-1]] == product.shape[-1] else None


def exchanges(operands: Sequence[View], others: Sequence[View], epilogue: Epilogue, write: View) -> Exchanges:
    """(output, input) where an epilogue reads an array like the output as it is stored, and nothing else reads it."""
    target, found = write.buffer, []
    for operand, view in zip(epilogue.operands, others, strict=True):
        source = view.buffer
        assert target is not None and source is not None
        once = sum(other.buffer is source for other in (*operands, *others)) == 1
        alike = (source.size, source.dtype.itemsize) == (target.size, target.dtype.itemsize)
        if operand.addressing == "same" and alike and not view.offset and once and target.in_arena and source.in_arena:
            found.append((target, source))
    return tuple(found)
