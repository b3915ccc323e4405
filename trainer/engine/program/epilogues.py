"""Epilogues: element-wise work on a contraction's result, done by its kernel before the result is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainer.engine.graph.node import Node
from trainer.engine.program.body import Body, Load, as_epilogue
from trainer.engine.program.group import Group
from trainer.engine.program.partition import Partition
from trainer.engine.program.spec import Epilogue
from trainer.engine.program.work import Exchanges, View

_TAKES = {"matmul": -1, "convolution": 1, "convolution_input_gradient": 1}
"""Contractions whose templates have epilogues, and the axis that "channel" operands run along."""


@dataclass(frozen=True, slots=True)
class Fused:
    """A contraction whose kernel computes `root` from its accumulators; `loads` are the epilogue's operands."""

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
    layout = plan.layouts[contraction]
    if any(source.size == 0 for source in contraction.inputs):
        return None  # no kernel runs: zeros are stored
    if root.shape != contraction.shape or body.shape != root.shape or plan.layouts[root] != layout:
        return None
    channel = _TAKES[contraction.name] % contraction.ndim
    found = as_epilogue(root, body, layout, channel, lambda load, how: load.base is contraction)
    if found is None or not all(body.holds(contraction, load) for load in found[1]):
        return None
    return Fused(contraction, root, found[0], found[2])


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
