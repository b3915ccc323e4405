"""Kernels that reduce one collapsed dimension, in the order that `spec.Reduction` fixes.

"row" keeps the 16 lanes of the order in one vector (`reduction_rows`); "column" keeps them as 16 rows of a scratch in
the cache and is vectorised over what is kept (`reduction_columns`). Both add the same numbers in the same order, so
they give the same bits.
"""

from __future__ import annotations

from trainer.engine.targets.cpu.kernels.loop_kernel import LoopKernel
from trainer.engine.targets.cpu.kernels.reduction_columns import COLUMN_PART, STRIP_PARTS, ColumnReduction
from trainer.engine.targets.cpu.kernels.reduction_rows import RowReduction

__all__ = ["COLUMN_PART", "STRIP_PARTS", "render_reduction"]


def render_reduction(kernel: LoopKernel, name: str) -> str:
    """The module text of `kernel` (which has a reduction), exporting `void name(ptr arguments, i64 task)`."""
    if kernel.reduction is None:
        raise ValueError("a kernel without a reduction is rendered by elementwise.render")
    row = kernel.reduction.orientation == "row"
    if kernel.rank < (1 if row else 2):
        raise ValueError(f"a {kernel.reduction.orientation} reduction has at least {1 if row else 2} dimensions")
    return (RowReduction if row else ColumnReduction)(kernel).render(name)
