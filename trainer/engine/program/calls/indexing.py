"""Reading and adding at computed positions. Operands are used as they lie; results lie as the partition decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.engine.graph.node import Node
from trainer.engine.program.launch import Address, KernelSource, Launch
from trainer.engine.targets.cpu.kernels import index

if TYPE_CHECKING:
    from trainer.engine.program.epilogues import Fused
    from trainer.engine.program.lower import Lowering


def emit_gather(lowering: Lowering, root: Node, fused: Fused | None) -> None:
    """Rows of a table by index."""
    _emit_read(lowering, root, along=False)


def emit_take_along(lowering: Lowering, root: Node, fused: Fused | None) -> None:
    """One element of each line along an axis."""
    _emit_read(lowering, root, along=True)


def emit_scatter_add(lowering: Lowering, root: Node, fused: Fused | None) -> None:
    """Rows added into a cleared table by index."""
    _emit_add(lowering, root, along=False)


def emit_scatter_add_along(lowering: Lowering, root: Node, fused: Fused | None) -> None:
    """Elements added into cleared lines along an axis."""
    _emit_add(lowering, root, along=True)


def _emit_read(lowering: Lowering, root: Node, *, along: bool) -> None:
    if root.size == 0:
        return
    table, indices = root.inputs
    make = index.take_along if along else index.gather
    table_place, table_strides = lowering.as_it_lies(table)
    index_place, index_strides = lowering.as_it_lies(indices)
    kernel = make(
        table.shape,
        indices.shape,
        root.attribute("axis"),
        table.dtype,
        indices.dtype,
        table_strides=table_strides,
        index_strides=index_strides,
        dense_strides=lowering.plan.layouts[root].strides(root.shape),
    )
    target = Address(lowering.buffer_of(root))
    _launch(lowering, root, kernel, [table_place, index_place, target], target)


def _emit_add(lowering: Lowering, root: Node, *, along: bool) -> None:
    if root.size == 0:
        return
    updates, indices = root.inputs
    make = index.scatter_add_along if along else index.scatter_add
    update_place, update_strides = lowering.as_it_lies(updates)
    index_place, index_strides = lowering.as_it_lies(indices)
    kernel = make(
        root.shape,
        indices.shape,
        root.attribute("axis"),
        updates.dtype,
        indices.dtype,
        table_strides=lowering.plan.layouts[root].strides(root.shape),
        index_strides=index_strides,
        dense_strides=update_strides,
    )
    target = Address(lowering.buffer_of(root))
    _launch(lowering, root, kernel, [update_place, index_place, target], target)


def _launch(lowering: Lowering, root: Node, kernel: index.IndexKernel, places: list[Address], target: Address) -> None:
    reads = tuple(dict.fromkeys(place.buffer for place in places if place is not target))
    source = KernelSource(kernel, lambda name: index.render_index(kernel, name))
    lowering.emit(Launch(source, [*places], index.tasks(kernel), reads, (target.buffer,), root.name))
