"""Reading and adding at computed positions. Operands are used as they lie."""

from __future__ import annotations

from dataclasses import replace

from trainer.engine.program.work import KernelSource, Work
from trainer.engine.targets.cpu.kernels import index
from trainer.engine.targets.cpu.lowering.expansion import Expansion
from trainer.engine.targets.cpu.lowering.launch import Routine

_READS = {"gather": index.gather, "take_along": index.take_along}
_ADDS = {"scatter_add": index.scatter_add, "scatter_add_along": index.scatter_add_along}


def expand_index(expansion: Expansion, work: Work) -> None:
    """Rows of a table by index or one element of each line along an axis, and what adds into these."""
    (values, indices), target, name = work.reads, work.writes[0], work.spec.operation.name
    if target.size == 0:
        return
    table, dense = (values, target) if name in _READS else (target, values)
    make = _READS[name] if name in _READS else _ADDS[name]
    kernel = make(
        table.shape,
        indices.shape,
        work.spec.attribute("axis"),
        values.dtype,
        indices.dtype,
        table_strides=table.strides,
        index_strides=indices.strides,
        dense_strides=dense.strides,
    )
    code = KernelSource(kernel, lambda name: index.render_index(kernel, name))
    expansion.add(replace(work, spec=Routine(code, (values, indices, target), index.tasks(kernel))))
