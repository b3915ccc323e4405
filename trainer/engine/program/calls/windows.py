"""Pooling windows, resampling and cumulative sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from trainer.engine.graph.node import Node
from trainer.engine.graph.primitives.resampling import Band
from trainer.engine.program.calls.contraction import channels_last
from trainer.engine.program.launch import Address, KernelSource, Launch
from trainer.engine.targets.cpu.kernels import resample, scan, window, window_gradient

if TYPE_CHECKING:
    from trainer.engine.program.epilogues import Fused
    from trainer.engine.program.lower import Lowering


def emit_window_argmax(lowering: Lowering, root: Node, fused: Fused | None) -> None:
    """Where the maximum of each window lies."""
    _emit_window(lowering, root, values=False)


def emit_window_max(lowering: Lowering, root: Node, fused: Fused | None) -> None:
    """The maximum of each window."""
    _emit_window(lowering, root, values=True)


def emit_window_max_gradient(lowering: Lowering, root: Node, fused: Fused | None) -> None:
    """Gradients added where the maxima were, images channels-last."""
    dy, positions = root.inputs
    if root.size == 0:
        return
    if dy.size == 0:
        return lowering.fill(lowering.buffer_of(root), 0)
    rows, columns = window_gradient.covering(dy.shape, *root.attributes)
    _emit_runs(lowering, root, rows, columns, [dy, positions], window_gradient.render_window_gradient)


def _emit_window(lowering: Lowering, root: Node, *, values: bool) -> None:
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
        values,
    )
    target = lowering.buffer_of(root)
    lowering.emit(
        Launch(
            KernelSource(kernel, lambda name: window.render_window_argmax(kernel, name)),
            [place, Address(target)],
            window.tasks(kernel),
            (place.buffer,),
            (target,),
            f"{root.name} {x.shape}",
        )
    )


def emit_resample(lowering: Lowering, root: Node, fused: Fused | None) -> None:
    """Weighted sums of runs of rows and columns, images channels-last."""
    (x,) = root.inputs
    if root.size == 0:
        return
    if x.size == 0:
        return lowering.fill(lowering.buffer_of(root), 0)
    rows, columns = root.attribute("rows"), root.attribute("columns")
    _emit_runs(lowering, root, rows, columns, [x], resample.render_resample)


def _emit_runs(
    lowering: Lowering,
    root: Node,
    rows: Band,
    columns: Band,
    sources: list[Node],
    render: Callable[[resample.Resample, str], str],
) -> None:
    """A kernel that takes runs of rows and columns of `sources`, which are of one shape."""
    places = [channels_last(lowering, source) for source in sources]
    (images, channels, height, width), (_, _, down, across) = _four(sources[0].shape), _four(root.shape)
    kernel, share = resample.kernel_for(root.dtype, channels), resample.rows_per_task(rows, columns, channels)
    target = lowering.buffer_of(root)
    words: list[int | Address] = [places[0], Address(target), down, across, channels, images * down, share]
    for lines, pixels in ((height, width), (down, across)):
        words += [lines * pixels * channels, pixels * channels, channels]
    words += places[1:]
    words += resample.tail_words(root.dtype, rows, columns, len(words))
    source = KernelSource((root.name, kernel), lambda name: render(kernel, name))
    reads = tuple(dict.fromkeys(place.buffer for place in places))
    label = f"{root.name} {sources[0].shape}"
    lowering.emit(Launch(source, words, -(-images * down // share), reads, (target,), label))


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
