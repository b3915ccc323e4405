"""Lowers indexing, cumulative work, sorting, windows and resampling: one launch each, on operands with any strides."""

from __future__ import annotations

import math
from collections.abc import Callable

from trainer.engine.program.work import INDEXED, SCANS, KernelSource, Work
from trainer.engine.targets.ir.indexing import Indexing
from trainer.engine.targets.ir.sort_keys import Keys
from trainer.engine.targets.ptx.kernels.cumulative import CumulativeKernel
from trainer.engine.targets.ptx.kernels.index import GatherKernel, GatherSumKernel, ScatterKernel
from trainer.engine.targets.ptx.kernels.order import RankKernel, SuppressKernel
from trainer.engine.targets.ptx.kernels.points import PointKernel
from trainer.engine.targets.ptx.kernels.windows import (
    ResampleKernel,
    WindowGeometry,
    WindowGradientKernel,
    WindowMaxKernel,
)
from trainer.engine.targets.ptx.launch import Address, Launch


def lower_points(work: Work, *, flush: bool) -> list[Launch]:
    """Lowers an item whose operation is in `POINTS` to one launch, or to none if it writes nothing."""
    kernel = POINTS[work.spec.operation.name](work, flush)
    if not work.writes[0].size or not math.prod(kernel.extents):
        return []
    words = [Address.of(view) for view in (*work.reads, *work.writes)]
    return [Launch(work, KernelSource(kernel, kernel.render), work.targets, [*words], kernel.blocks, kernel.threads)]


def _indexed(work: Work, flush: bool) -> PointKernel:
    indexing = Indexing.of(work)
    return (GatherKernel if indexing.operation == "gather" else ScatterKernel)(indexing, flush)


def _gather_sum(work: Work, flush: bool) -> PointKernel:
    (table, indices, weights), (target,) = work.reads, work.writes
    return GatherSumKernel(
        table.dtype, indices.dtype, target.shape, indices.shape[2], table.shape[1], table.strides, indices.strides,
        weights.strides, target.strides, flush,
    )  # fmt: skip


def _cumulative(work: Work, flush: bool) -> PointKernel:
    (x,), (target,) = work.reads, work.writes
    operation = "multiply" if work.spec.operation.name == "cumulative_prod" else "add"
    return CumulativeKernel(operation, x.dtype, x.shape, work.spec.attribute("axis"), x.strides, target.strides, flush)


def _sorted(work: Work, flush: bool) -> PointKernel:
    (x,), (target,), call = work.reads, work.writes, work.spec
    axis, places = call.attribute("axis"), call.operation.name != "sort"
    keys = Keys(x.dtype, call.attribute("descending"), not places)
    return RankKernel(keys, x.shape, axis, target.shape[axis], places, x.strides, target.strides, flush)


def _suppressed(work: Work, flush: bool) -> PointKernel:
    (x,), (target,) = work.reads, work.writes
    return SuppressKernel(x.shape, x.strides, target.strides, flush)


def _window(work: Work, flush: bool) -> PointKernel:
    (x,), (target,), call = work.reads, work.writes, work.spec
    geometry = WindowGeometry(x.shape[2:], *call.attributes)
    places = call.operation.name == "window_argmax"
    return WindowMaxKernel(x.dtype, target.shape, geometry, places, x.strides, target.strides, flush)


def _window_gradient(work: Work, flush: bool) -> PointKernel:
    (dy, places), (target,) = work.reads, work.writes
    *attributes, spatial = work.spec.attributes
    return WindowGradientKernel(
        dy.dtype, target.shape, dy.shape[2:], WindowGeometry(tuple(spatial), *attributes), dy.strides, places.strides,
        target.strides, flush,
    )  # fmt: skip


def _resampled(work: Work, flush: bool) -> PointKernel:
    (x,), (target,) = work.reads, work.writes
    rows, columns = work.spec.attributes
    return ResampleKernel(x.dtype, target.shape, rows, columns, x.strides, target.strides, flush)


POINTS: dict[str, Callable[[Work, bool], PointKernel]] = {
    **dict.fromkeys(INDEXED, _indexed),
    "gather_sum": _gather_sum,
    **dict.fromkeys(SCANS, _cumulative),
    **dict.fromkeys(("argsort", "sort", "top_k"), _sorted),
    "suppress": _suppressed,
    **dict.fromkeys(("window_argmax", "window_max"), _window),
    "window_max_gradient": _window_gradient,
    "resample": _resampled,
}
"""The kernel of each primitive that is computed point by point."""
