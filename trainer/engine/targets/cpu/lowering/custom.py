"""Custom kernels: operands dense and row-major, as the user's code expects them."""

from __future__ import annotations

from dataclasses import replace

from trainer.engine.graph.primitives.custom import CustomKernel
from trainer.engine.graph.storage import Layout
from trainer.engine.program.work import Work
from trainer.engine.targets.cpu import templates
from trainer.engine.targets.cpu.lowering.expansion import Expansion
from trainer.engine.targets.cpu.lowering.launch import Templated
from trainer.engine.targets.cpu.templates.custom import CustomSpec


def expand_custom(expansion: Expansion, work: Work) -> None:
    """Adds the kernel; operands in other layouts are copied."""
    kernel: CustomKernel = work.spec.attribute("kernel")
    (target,) = work.writes
    if target.size == 0:
        return
    reads = tuple(expansion.laid_out(view, Layout.row_major(view.ndim)) for view in work.reads)
    sizes = tuple((view.dtype, view.size) for view in reads)
    spec = CustomSpec(kernel.name, kernel.sources, sizes, target.dtype, target.size, kernel.tasks)
    expansion.add(replace(work, spec=Templated(templates.CUSTOM, spec), reads=reads, label=f"custom {kernel.name}"))
