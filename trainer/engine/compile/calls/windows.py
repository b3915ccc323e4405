"""Pooling windows, resampling and cumulative sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.engine.compile.calls.contraction import _channels_last
from trainer.engine.compile.launch import Address, KernelSource, Launch
from trainer.engine.graph.node import Node
from trainer.engine.kernels import resample, scan, window

if TYPE_CHECKING:
    from trainer.engine.compile.epilogues import Fused
    from trainer.engine.compile.lower import Lowering


def emit_window_argmax(lowering: Lowering, root: Node, fused: Fused | None) -> None:
    """Where the maximum of each window lies."""
    (x,) = root.inputs
    if root.size == 0:
        return
    place, strides = lowering.as_it_lies(x)
    kernel = window.WindowArgmax(
        x.dtype,
        _four(x.shape),
        root.attribute("window"),
        root.attribute("strides"),
        root.attribute("padding"),
        root.attribute("dilation"),
        _four(strides),
        _four(lowering.plan.layouts[root].strides(root.shape)),
    )
    target = lowering.buffer_of(root)
    lowering.emit(
        Launch(
            KernelSource(kernel, lambda name: window.render_window_argmax(kernel, name)),
            [place, Address(target)],
            window.tasks(kernel),
            (place.buffer,),
            (target,),
            f"window_argmax {x.shape}",
        )
    )


def emit_resample(lowering: Lowering, root: Node, fused: Fused | None) -> None:
    """Weighted sums of runs of rows and columns, images channels-last."""
    (x,) = root.inputs
    if root.size == 0:
        return
    if x.size == 0:
        return lowering.fill(lowering.buffer_of(root), 0)
    place = _channels_last(lowering, x)
    (images, channels, height, width), (_, _, down, across) = _four(x.shape), _four(root.shape)
    rows, columns = root.attribute("rows"), root.attribute("columns")
    kernel, share = resample.kernel_for(root.dtype, channels), resample.rows_per_task(rows, columns, channels)
    target = lowering.buffer_of(root)
    words: list[int | Address] = [place, Address(target), down, across, channels, images * down, share]
    for lines, pixels in ((height, width), (down, across)):
        words += [lines * pixels * channels, pixels * channels, channels]
    words += resample.tail_words(root.dtype, rows, columns)
    source = KernelSource(kernel, lambda name: resample.render_resample(kernel, name))
    tasks = -(-images * down // share)
    lowering.emit(Launch(source, words, tasks, (place.buffer,), (target,), f"resample {x.shape}"))


def emit_cumulative_sum(lowering: Lowering, root: Node, fused: Fused | None) -> None:
    """Sums of all elements up to each one along an axis."""
    (x,) = root.inputs
    if root.size == 0:
        return
    place, strides = lowering.as_it_lies(x)
    steps = lowering.plan.layouts[root].strides(root.shape)
    kernel = scan.CumulativeSum(x.dtype, x.shape, root.attribute("axis"), strides, steps)
    target = lowering.buffer_of(root)
    lowering.emit(
        Launch(
            KernelSource(kernel, lambda name: scan.render_cumulative_sum(kernel, name)),
            [place, Address(target)],
            scan.tasks(kernel),
            (place.buffer,),
            (target,),
            "cumulative_sum",
        )
    )


def _four(values: tuple[int, ...]) -> tuple[int, int, int, int]:
    return values[0], values[1], values[2], values[3]
