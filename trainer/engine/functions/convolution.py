"""Convolution, transposed convolution and pooling over the one, two or three spatial axes of x [N, C, ...].

Kernels work on images. One spatial axis becomes an image of one row. The depth of a volume is folded: a convolution
treats the positions of its window along the depth as channels. This makes one convolution of images and copies x once
per position. Pooling reduces the images first and the depth afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trainer.engine.autocast import precision_of, rounded
from trainer.engine.functions.axes import each_axis, padding_pairs
from trainer.engine.graph import differentiate, dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node
from trainer.engine.graph.primitives.resampling import Band
from trainer.engine.promotion import promoted
from trainer.engine.tensor import Tensor, as_tensor, wrapped

Ends = tuple[int, int]
Axis = tuple[int, int, Ends, Any]
"""Window, stride, padding and dilation of a spatial axis in pooling."""


def convolution(
    x: Any, weight: Any, /, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """Cross-correlation of x [N, C, H, W] with weight [K, C/groups, R, S]: [N, K, P, Q].

    `stride` and `dilation` are one number or one for each spatial axis; `padding` may also be (before, after) for each.
    P = (H + before + after - dilation·(R - 1) - 1) // stride + 1. With one spatial axis, x is [N, C, L] and weight
    [K, C/groups, R]; with three, x is [N, C, D, H, W]. `padding="same"` keeps the extents (needs stride 1 and windows
    with a center); "valid" is no padding. x and weight are promoted to one dtype.

    Raises:
        TrainerError: shapes don't fit, a stride, dilation or window is below 1, or "same" is impossible.

    >>> engine.convolution(engine.ones((1, 2, 5, 5)), engine.ones((3, 2, 3, 3)), padding="same").shape
    (1, 3, 5, 5)
    """
    name = "convolution"
    tensor, filters = _operands(name, x, weight)
    rank = tensor.ndim - 2
    strides, dilations = each_axis(name, "stride", stride, rank), each_axis(name, "dilation", dilation, rank)
    if isinstance(padding, str):
        padding = named_padding(name, padding, filters.shape[2:], strides, dilations)
    paddings, precision = padding_pairs(name, padding, rank), precision_of(tensor.dtype, filters.dtype)
    node = _convolved(tensor.node, filters.node, strides, paddings, dilations, groups, precision)
    return wrapped(rounded(node, precision), tensor, filters)


def named_padding(
    operation: str, name: str, window: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[Ends, ...]:
    """Returns (before, after) for each axis for the padding names "same" and "valid".

    Raises:
        TrainerError: the name is unknown, or no symmetric padding keeps the extents.
    """
    spans = [spacing * (size - 1) for size, spacing in zip(window, dilations, strict=True)]
    if name not in ("same", "valid"):
        raise refusal(operation, "no such padding", found=repr(name), expected="numbers, 'same' or 'valid'")
    if name == "valid":
        return ((0, 0),) * len(spans)
    if any(step != 1 for step in strides) or any(span % 2 for span in spans):
        found = f"window {list(window)}, stride {list(strides)}, dilation {list(dilations)}"
        expected = "stride 1 and windows of odd size, or of even dilation"
        hint = "Give (before, after) for each axis to say which side gets more."
        raise refusal(operation, "no symmetric padding keeps the extents", found=found, expected=expected, hint=hint)
    return tuple((span // 2, span // 2) for span in spans)


def _convolved(
    x: Node, w: Node, strides: tuple[int, ...], paddings: tuple[Ends, ...], dilations: tuple[int, ...], groups: int,
    precision: DType | None,
) -> Node:  # fmt: skip
    if x.ndim == 3:
        x, w = (p.reshape(each, (*each.shape[:2], 1, each.shape[2])) for each in (x, w))
        y = _convolved(x, w, (1, *strides), ((0, 0), *paddings), (1, *dilations), groups, precision)
        return p.reshape(y, (*y.shape[:2], y.shape[3]))
    if x.ndim == 5:
        filters, share, taps, *window = w.shape
        pictures = _depth_as_channels(x, taps, strides[0], paddings[0], dilations[0], groups)
        w = p.reshape(p.permute(w, (0, 2, 1, 3, 4)), (filters, taps * share, *window))
        y = _convolved(pictures, w, strides[1:], paddings[1:], dilations[1:], groups, precision)
        batch = x.shape[0]
        return p.permute(p.reshape(y, (batch, y.shape[0] // max(1, batch), *y.shape[1:])), (0, 2, 1, 3, 4))
    (row, column), (down, across) = strides, dilations
    return p.convolution(x, w, (row, column), (paddings[0], paddings[1]), (down, across), groups, precision)


def _depth_as_channels(x: Node, taps: int, stride: int, padding: Ends, dilation: int, groups: int) -> Node:
    """Rearranges x [N, C, D, H, W] to [N·P, taps·C, H, W]: the images in each window along the depth, group by group.

    They are assembled channels-last, the layout that kernels read: one pass over x and one for each tap.
    """
    batch, channels, extent, height, width = x.shape
    last = extent + sum(padding) - dilation * (taps - 1)  # one past the start of the last window
    if min(taps, stride, dilation, last, groups) < 1 or min(padding) < 0 or channels % groups:
        given = f"{describe([x])}, window {taps}, stride {stride}, padding {padding}, dilation {dilation} of the depth"
        expected = "a window within the padded input, channels divisible by groups"
        raise refusal("convolution", "wrong geometry", found=given, expected=expected)
    share, none = channels // groups, (0,) * 6
    x = p.reshape(p.permute(x, (0, 2, 3, 4, 1)), (batch, extent, height, width, groups, share))
    if any(padding):
        x = p.pad(x, (0, padding[0], 0, 0, 0, 0), (0, padding[1], 0, 0, 0, 0), none, 0)
    met = p.permute(p.windows(x, 1, taps, stride, dilation), (0, 1, 3, 4, 5, 2, 6))
    return p.permute(p.reshape(met, (batch * met.shape[1], height, width, taps * channels)), (0, 3, 1, 2))


def convolution_transpose(
    x: Any,
    weight: Any,
    /,
    *,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The transpose of `convolution`: x [N, K, H, W] with weight [K, C/groups, R, S] gives [N, C, P, Q].

    P = (H - 1)·stride - before - after + dilation·(R - 1) + output_padding + 1; `output_padding` is less than the
    stride or the dilation. One and three spatial axes work as in `convolution`. x and weight are promoted to one dtype.

    Raises:
        TrainerError: shapes don't fit, a stride or an output extent is below 1, or `output_padding` is too large.
    """
    name = "convolution_transpose"
    tensor, filters = _operands(name, x, weight)
    rank = tensor.ndim - 2
    strides, dilations = each_axis(name, "stride", stride, rank), each_axis(name, "dilation", dilation, rank)
    paddings, extra = padding_pairs(name, padding, rank), each_axis(name, "output_padding", output_padding, rank)
    spatial = tuple(
        (extent - 1) * step - low - high + spacing * (size - 1) + more + 1
        for extent, step, (low, high), spacing, size, more in zip(
            tensor.shape[2:], strides, paddings, dilations, filters.shape[2:], extra, strict=True
        )
    )
    too_large = any(
        more >= max(step, spacing) for more, step, spacing in zip(extra, strides, dilations, strict=True) if more
    )
    if too_large or min(*strides, *spatial) < 1 or tensor.shape[1] != filters.shape[0]:
        raise refusal(
            name,
            "no such output",
            found=f"{describe([tensor, filters])}, stride {stride}, padding {padding}, output_padding {output_padding}",
            expected="as many channels as filters, an output of at least 1 along each axis, and output_padding below "
            "the stride or the dilation",
        )
    given, none = tensor.node, (0,) * tensor.ndim
    further = (0, 0, *(more // step for more, step in zip(extra, strides, strict=True)))
    if any(further):  # `output_padding` of at least the stride: append zeros to x
        given = p.pad(given, none, further, none, 0)
    precision = precision_of(tensor.dtype, filters.dtype)
    # the derivative of a convolution with respect to its input; it does not depend on the input's value
    shape = (tensor.shape[0], filters.shape[1] * groups, *spatial)
    read = p.full(shape, 0, filters.dtype if precision is None else dtypes.float32)
    forward = _convolved(read, filters.node, strides, paddings, dilations, groups, precision)
    (node,) = differentiate.gradients(forward, [read], given)
    assert node is not None
    return wrapped(rounded(node, precision), tensor, filters)


def max_pool(x: Any, /, window: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1) -> Tensor:
    """The maximum of each window of x [N, C, H, W]; padding is ignored, NaN propagates.

    `stride` defaults to the window. x has one, two or three spatial axes; each argument is one number or one for each
    axis. The gradient flows to the first of equal maxima. The result has x's dtype.

    Raises:
        TrainerError: x has another rank, padding is more than half the window, or the geometry gives no window.
    """
    name = "max_pool"
    tensor, sizes, strides, paddings = _windows(name, x, window, stride, padding)
    spacings = each_axis(name, "dilation", dilation, len(sizes))
    spans = [spacing * (size - 1) + 1 for size, spacing in zip(sizes, spacings, strict=True)]
    if any(2 * max(amounts) > span for amounts, span in zip(paddings, spans, strict=True)):
        raise refusal(name, "padding is more than half the window", found=f"padding {padding}, window {sizes}")
    axes = list(zip(sizes, strides, paddings, spacings, strict=True))
    return wrapped(_over_axes(_maxima, tensor.node, axes, lambda extent: (1, 1, (0, 0), 1)), tensor)


def _maxima(x: Node, rows: Axis, columns: Axis) -> Node:
    return p.window_max(x, *((one, other) for one, other in zip(rows, columns, strict=True)))


def average_pool(x: Any, /, window: Any, stride: Any = None, padding: Any = 0) -> Tensor:
    """The mean of each window of x [N, C, H, W]; padding counts as zeros, `stride` defaults to the window.

    x has one, two or three spatial axes; each argument is one number or one for each axis. The result has x's
    floating-point dtype.

    Raises:
        TrainerError: x has another rank or is not floating-point, or the window is larger than the padded input.
    """
    return averaged(x, window, stride, padding, None)


def averaged(x: Any, window: Any, stride: Any, padding: Any, counted: Any) -> Tensor:
    """`average_pool` that counts the image and `counted` padding, (before, after) for each axis (None: all padding)."""
    name = "average_pool"
    tensor, sizes, strides, paddings = _windows(name, x, window, stride, padding)
    if not tensor.dtype.is_float:
        raise refusal(name, "of integers", found=describe([tensor]), expected="a floating-point dtype")
    if min(*sizes, *strides) < 1:
        raise refusal(name, "window and stride are positive", found=f"window {sizes}, stride {strides}")
    bands = []
    geometry = (tensor.shape[2:], sizes, strides, paddings, counted or paddings)
    for extent, size, step, (low, high), (before, after) in zip(*geometry, strict=True):
        if extent + low + high < size:
            found = f"{describe([tensor])}, window {sizes}, padding {paddings}"
            raise refusal(name, "the window is larger than the padded input", found=found)
        runs = []
        for first in range(-low, extent + high - size + 1, step):
            terms = min(first + size, extent + after) - max(first, -before)
            begin, stop = max(0, first), min(extent, first + size)
            runs.append((begin, (1.0 / terms,) * (stop - begin)))
        bands.append((extent, tuple(runs)))
    return resampled(tensor, bands)


def resample(x: Any, /, rows: Band, columns: Band) -> Tensor:
    """Weighted sums over x [N, C, H, W]: y[n, c, i, j] sums rows[i][r]·columns[j][s]·x[n, c, i₀ + r, j₀ + s].

    `rows` is (H, ((start, (weight, …)), …)): the extent of the input axis, and for each output row the first input row
    (i₀) and the weights. `columns` is the same for the other axis. Average pooling, interpolation and their gradients
    have this form. The result has x's floating-point dtype.

    Raises:
        TrainerError: x does not have four axes, or the extents differ from x's.
    """
    tensor = as_tensor(x, operation="resample")
    if tensor.ndim != 4:
        raise refusal("resample", "wrong rank", found=describe([tensor]), expected="x [N, C, H, W]")
    return wrapped(p.resample(tensor.node, rows, columns), tensor)


def resampled(x: Tensor, bands: Sequence[Band]) -> Tensor:
    """`resample` for one, two or three spatial axes."""
    return wrapped(_over_axes(p.resample, x.node, bands, _unchanged), x)


def _unchanged(extent: int) -> Band:
    return extent, tuple((place, (1.0,)) for place in range(extent))


def _over_axes(
    pictures: Callable[[Node, Any, Any], Node], x: Node, axes: Sequence[Any], whole: Callable[[int], Any]
) -> Node:
    """Applies `pictures`, which takes two axes, along one, two or three; `whole(extent)` leaves an axis unchanged."""
    batch, channels, *spatial = x.shape
    if len(axes) == 1:
        y = pictures(p.reshape(x, (batch, channels, 1, *spatial)), whole(1), axes[0])
        return p.reshape(y, (batch, channels, y.shape[3]))
    if len(axes) == 2:
        return pictures(x, *axes)
    depth, height, width = spatial
    y = pictures(p.reshape(x, (batch, channels * depth, height, width)), axes[1], axes[2])
    extents = y.shape[2:]
    size = extents[0] * extents[1]
    y = pictures(p.reshape(y, (batch, channels, depth, size)), axes[0], whole(size))
    return p.reshape(y, (batch, channels, y.shape[2], *extents))


def _windows(
    name: str, x: Any, window: Any, stride: Any, padding: Any
) -> tuple[Tensor, tuple[int, ...], tuple[int, ...], tuple[Ends, ...]]:
    """Returns x as a tensor, and the window, stride and padding of each spatial axis."""
    tensor = as_tensor(x, operation=name)
    if tensor.ndim not in (3, 4, 5):
        expected = "x [N, C, L], [N, C, H, W] or [N, C, D, H, W]"
        raise refusal(name, "wrong rank", found=describe([tensor]), expected=expected)
    rank = tensor.ndim - 2
    sizes = each_axis(name, "window", window, rank)
    strides = sizes if stride is None else each_axis(name, "stride", stride, rank)
    return tensor, sizes, strides, padding_pairs(name, padding, rank)


def _operands(name: str, x: Any, weight: Any) -> tuple[Tensor, Tensor]:
    tensor, filters = as_tensor(x, operation=name), as_tensor(weight, operation=name)
    if tensor.ndim not in (3, 4, 5) or tensor.ndim != filters.ndim:
        expected = "x [N, C, L], [N, C, H, W] or [N, C, D, H, W], and weight of as many axes"
        raise refusal(name, "wrong rank", found=describe([tensor, filters]), expected=expected)
    if precision_of(tensor.dtype, filters.dtype) is not None:
        return tensor, filters
    dtype = promoted(name, [tensor.dtype, filters.dtype])
    return tensor.astype(dtype), filters.astype(dtype)
