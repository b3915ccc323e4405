"""Convolution, transposed convolution and pooling over the last one or two axes of x [N, C, L] or [N, C, H, W]."""

from __future__ import annotations

from typing import Any

from trainer.engine.autocast import precision_of, rounded
from trainer.engine.functions.axes import padding_pairs, pair
from trainer.engine.functions.movement import reshape
from trainer.engine.graph import primitives as p
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node
from trainer.engine.graph.primitives.resampling import Band
from trainer.engine.promotion import promoted
from trainer.engine.tensor import Tensor, as_tensor, wrapped


def convolution(
    x: Any, weight: Any, /, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """Cross-correlation of x [N, C, H, W] with weight [K, C/groups, R, S]: [N, K, P, Q].

    `stride` and `dilation` are one number or one for each spatial axis; `padding` may also be (before, after) for each.
    P = (H + before + after - dilation·(R - 1) - 1) // stride + 1. With x [N, C, L] and weight [K, C/groups, R], in one
    dimension.
    """
    name = "convolution"
    tensor, filters = _operands(name, x, weight)
    if tensor.ndim == 3:
        return _in_line(convolution, tensor, filters, stride, padding, dilation, groups=groups)
    strides, dilations = pair(name, "stride", stride), pair(name, "dilation", dilation)
    precision, paddings = precision_of(tensor.dtype, filters.dtype), padding_pairs(name, padding)
    node = p.convolution(tensor.node, filters.node, strides, paddings, dilations, groups, precision)
    return wrapped(rounded(node, precision), tensor, filters)


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
    stride or the dilation.
    """
    name = "convolution_transpose"
    tensor, filters = _operands(name, x, weight)
    if tensor.ndim == 3:
        further = {"output_padding": (0, _single(output_padding)), "groups": groups}
        return _in_line(convolution_transpose, tensor, filters, stride, padding, dilation, **further)
    strides, dilations = pair(name, "stride", stride), pair(name, "dilation", dilation)
    paddings, extra = padding_pairs(name, padding), pair(name, "output_padding", output_padding)
    spatial = tuple(
        (extent - 1) * step - low - high + spacing * (size - 1) + more + 1
        for extent, step, (low, high), spacing, size, more in zip(
            tensor.shape[2:], strides, paddings, dilations, filters.shape[2:], extra, strict=True
        )
    )
    too_large = any(
        more >= max(step, spacing) for more, step, spacing in zip(extra, strides, dilations, strict=True) if more
    )
    if too_large or min(spatial) < 1:
        raise refusal(
            name,
            "no such output",
            found=f"{describe([tensor, filters])}, stride {stride}, padding {padding}, output_padding {output_padding}",
            expected="an output of at least 1 x 1, and output_padding below the stride or the dilation",
        )
    precision = precision_of(tensor.dtype, filters.dtype)

    def transposed(uncut: tuple[tuple[int, int], tuple[int, int]], extents: tuple[int, ...]) -> Node:
        operands = tensor.node, filters.node
        node = p.convolution_input_gradient(*operands, strides, uncut, dilations, groups, extents, precision)
        return rounded(node, precision)

    if any(more >= step for more, step in zip(extra, strides, strict=True)):
        # whole windows more: first what padding cut off at the end, then places that no window reaches
        back = tuple(min(more, high) for more, (_, high) in zip(extra, paddings, strict=True))
        rest = tuple(more - given for more, given in zip(extra, back, strict=True))
        (top, bottom), (left, right) = paddings
        uncut = ((top, bottom - back[0]), (left, right - back[1]))
        inner = tuple(extent - more for extent, more in zip(spatial, rest, strict=True))
        return wrapped(p.pad(transposed(uncut, inner), (0,) * 4, (0, 0, *rest), (0,) * 4, 0), tensor, filters)
    return wrapped(transposed(paddings, spatial), tensor, filters)


def max_pool(x: Any, /, window: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1) -> Tensor:
    """The maximum of each window of x [N, C, H, W]; `stride` defaults to the window; padding never wins, NaN does.

    The gradient goes to the first of equal maxima.
    """
    name = "max_pool"
    tensor = _images(name, x)
    sizes = pair(name, "window", window)
    strides = sizes if stride is None else pair(name, "stride", stride)
    paddings, spacings = padding_pairs(name, padding), pair(name, "dilation", dilation)
    reaches = [spacing * (size - 1) + 1 for size, spacing in zip(sizes, spacings, strict=True)]
    if any(2 * max(amounts) > reach for amounts, reach in zip(paddings, reaches, strict=True)):
        raise refusal(name, "padding is more than half the window", found=f"padding {padding}, window {sizes}")
    return wrapped(p.window_max(tensor.node, sizes, strides, paddings, spacings), tensor)


def average_pool(x: Any, /, window: Any, stride: Any = None, padding: Any = 0) -> Tensor:
    """The mean of each window of x [N, C, H, W], padding counted as zeros; `stride` defaults to the window."""
    return averaged(x, window, stride, padding, None)


def averaged(x: Any, window: Any, stride: Any, padding: Any, counted: Any) -> Tensor:
    """`average_pool` over the picture and `counted` places of padding: (before, after) of each axis; None: all."""
    name = "average_pool"
    tensor = _images(name, x)
    if not tensor.dtype.is_float:
        raise refusal(name, "of whole numbers", found=describe([tensor]), expected="a floating-point dtype")
    sizes = pair(name, "window", window)
    strides = sizes if stride is None else pair(name, "stride", stride)
    low_high = padding_pairs(name, padding)
    if min(*sizes, *strides) < 1:
        raise refusal(name, "window and stride are positive", found=f"window {sizes}, stride {strides}")
    bands = []
    geometry = (tensor.shape[2:], sizes, strides, low_high, counted or low_high)
    for extent, size, step, (low, high), (before, after) in zip(*geometry, strict=True):
        if extent + low + high < size:
            found = f"{describe([tensor])}, window {sizes}, padding {low_high}"
            raise refusal(name, "the window is larger than the padded input", found=found)
        runs = []
        for first in range(-low, extent + high - size + 1, step):
            terms = min(first + size, extent + after) - max(first, -before)
            begin, stop = max(0, first), min(extent, first + size)
            runs.append((begin, (1.0 / terms,) * (stop - begin)))
        bands.append((extent, tuple(runs)))
    return wrapped(p.resample(tensor.node, *bands), tensor)


def resample(x: Any, /, rows: Band, columns: Band) -> Tensor:
    """Weighted sums over x [N, C, H, W]: y[n, c, i, j] adds up rows[i][r]·columns[j][s]·x[n, c, i₀ + r, j₀ + s].

    `rows` is (H, ((start, (weight, …)), …)): the extent of the axis that is read, and for each output row where it
    begins to read (i₀) and the weights. `columns` is the same of the other axis. Pooling by averages and interpolation
    are of this form, and so are their gradients.
    """
    tensor = _images("resample", x)
    return wrapped(p.resample(tensor.node, rows, columns), tensor)


def _images(name: str, x: Any) -> Tensor:
    tensor = as_tensor(x, operation=name)
    if tensor.ndim != 4:
        raise refusal(name, "wrong rank", found=describe([tensor]), expected="x [N, C, H, W]")
    return tensor


def _operands(name: str, x: Any, weight: Any) -> tuple[Tensor, Tensor]:
    tensor, filters = as_tensor(x, operation=name), as_tensor(weight, operation=name)
    if tensor.ndim not in (3, 4) or tensor.ndim != filters.ndim:
        expected = "x [N, C, H, W] and weight of four axes, or x [N, C, L] and weight of three"
        raise refusal(name, "wrong rank", found=describe([tensor, filters]), expected=expected)
    if precision_of(tensor.dtype, filters.dtype) is not None:
        return tensor, filters
    dtype = promoted(name, [tensor.dtype, filters.dtype])
    return tensor.astype(dtype), filters.astype(dtype)


def _in_line(
    function: Any, x: Tensor, weight: Tensor, stride: Any, padding: Any, dilation: Any, **further: Any
) -> Tensor:
    """`function` of lines, as of pictures of one pixel's height."""
    flat = [reshape(each, (*each.shape[:2], 1, each.shape[2])) for each in (x, weight)]
    geometry = {"stride": (1, _single(stride)), "padding": _line_padding(padding), "dilation": (1, _single(dilation))}
    result = function(*flat, **geometry, **further)
    return reshape(result, (*result.shape[:2], result.shape[3]))


def _single(value: Any) -> int:
    return value if isinstance(value, int) else value[0]


def _line_padding(value: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    """An int, (n,), (before, after) or ((before, after),) for the one spatial axis."""
    if isinstance(value, int):
        return (0, 0), (value, value)
    ends = value[0] if len(value) == 1 else value
    return (0, 0), (ends, ends) if isinstance(ends, int) else (ends[0], ends[1])
