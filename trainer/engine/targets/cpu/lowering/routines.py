"""Indexing, suppression, pooling windows, resampling and cumulative sums: kernels without parameters."""

from __future__ import annotations

from dataclasses import replace

from trainer.engine.graph.primitives.resampling import Band
from trainer.engine.graph.storage import CHANNELS_LAST, Layout
from trainer.engine.program.work import KernelSource, View, Work
from trainer.engine.targets.cpu.kernels import gather_sum, index, resample, scan, suppress, window, window_gradient
from trainer.engine.targets.cpu.lowering.expansion import Expansion
from trainer.engine.targets.cpu.lowering.launch import Routine


def expand_index(expansion: Expansion, work: Work) -> None:
    """Expands gathers and scatters of rows of a table, or of one element of each line along an axis; any strides."""
    target = work.writes[0]
    if target.size == 0:
        return
    expansion.add(replace(work, spec=Routine.of(index.IndexKernel.of(work), *work.reads, target)))


def expand_gather_sum(expansion: Expansion, work: Work) -> None:
    """Expands weighted sums of rows of a table, which is copied if the elements of its rows are not contiguous."""
    (table, indices, weights), (target,) = work.reads, work.writes
    if target.size == 0:
        return
    table = expansion.dense(table, lambda strides: strides[2] == 1, Layout.row_major(3))
    (batch, rows, taps), (_, size, channels) = indices.shape, table.shape
    kernel = gather_sum.GatherSum(
        table.dtype, indices.dtype, batch, rows, taps, channels, size, table.strides, indices.strides, weights.strides,
        target.strides,
    )  # fmt: skip
    routine = Routine.of(kernel, table, indices, weights, target)
    expansion.add(replace(work, spec=routine, reads=(table, indices, weights), label=f"{work.label} {indices.shape}"))


def expand_suppress(expansion: Expansion, work: Work) -> None:
    """Expands the suppression of candidates; operands keep their strides."""
    (x,), (target,) = work.reads, work.writes
    if target.size == 0:
        return
    kernel = suppress.Suppress(x.shape, x.strides, target.strides)
    expansion.add(replace(work, spec=Routine.of(kernel, x, target), label=f"{work.label} {x.shape}"))


def expand_window(expansion: Expansion, work: Work) -> None:
    """Expands the maximum of each window, or its position."""
    (x,), (target,), call = work.reads, work.writes, work.spec
    if target.size == 0:
        return
    kernel = window.WindowArgmax(
        x.dtype, _four(x.shape), call.attribute("window"), call.attribute("strides"), call.attribute("padding"),
        call.attribute("dilation"), _four(x.strides), _four(target.strides), call.operation.name == "window_max",
    )  # fmt: skip
    expansion.add(replace(work, spec=Routine.of(kernel, x, target, kernel.rows), label=f"{work.label} {x.shape}"))


def expand_window_gradient(expansion: Expansion, work: Work) -> None:
    """Expands the gradient of window maxima, added at their positions; images are channels-last."""
    dy, _ = work.reads
    rows, columns = window_gradient.covering(dy.shape, *work.spec.attributes)
    _expand_runs(expansion, work, rows, columns, window_gradient.WindowGradient)


def expand_resample(expansion: Expansion, work: Work) -> None:
    """Expands weighted sums of runs of rows and columns; images are channels-last."""
    rows, columns = work.spec.attribute("rows"), work.spec.attribute("columns")
    _expand_runs(expansion, work, rows, columns, resample.Resample)


def _expand_runs(expansion: Expansion, work: Work, rows: Band, columns: Band, kind: type[resample.Resample]) -> None:
    """Expands a kernel over runs of rows and columns of its operands, which all have the same shape."""
    target, first, name = work.writes[0], work.reads[0], work.spec.operation.name
    if target.size == 0:
        return
    if first.size == 0:
        assert target.buffer is not None
        return expansion.fill(target.buffer, 0)
    reads = tuple(expansion.laid_out(view, CHANNELS_LAST) for view in work.reads)
    (images, channels, height, width), (_, _, down, across) = _four(first.shape), _four(target.shape)
    kernel, share = kind.of(target.dtype, channels), resample.rows_per_task(rows, columns, channels)
    words: list[int | View] = [reads[0], target, down, across, channels, images * down, share]
    for lines, pixels in ((height, width), (down, across)):
        words += [lines * pixels * channels, pixels * channels, channels]
    words += reads[1:]
    words += resample.tail_words(target.dtype, rows, columns, len(words))
    routine = Routine(KernelSource(kernel, kernel.render), tuple(words), -(-images * down // share))
    expansion.add(replace(work, spec=routine, reads=reads, label=f"{name} {first.shape}"))


def expand_scan(expansion: Expansion, work: Work) -> None:
    """Expands cumulative sums or products along an axis."""
    (x,), (target,) = work.reads, work.writes
    if target.size == 0:
        return
    axis, multiplies = work.spec.attribute("axis"), work.spec.operation.name == "cumulative_prod"
    kernel = scan.Scan("multiply" if multiplies else "add", x.dtype, x.shape, axis, x.strides, target.strides)
    expansion.add(replace(work, spec=Routine.of(kernel, x, target)))


def _four(values: tuple[int, ...]) -> tuple[int, int, int, int]:
    return values[0], values[1], values[2], values[3]
