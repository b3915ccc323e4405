"""Overlapping windows as a view; the columns of a convolution (im2col) and their sum (col2im)."""

from __future__ import annotations

from typing import Any

from trainer.engine.functions.axes import integer_list, one_axis, padding_pairs, pair
from trainer.engine.functions.movement import permute_dims, reshape
from trainer.engine.functions.padding import pad
from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.tensor import Tensor, as_tensor, wrapped


def windows(x: Any, size: Any, /, *, axis: Any = -1, stride: Any = 1, dilation: Any = 1) -> Tensor:
    """Windows of `size` elements along `axis`, starting every `stride` elements, with elements `dilation` apart.

    The axis becomes the number of windows, (extent - dilation·(size - 1) - 1) // stride + 1, and the window's elements
    are a new last axis: `y[..., i, ..., r] = x[..., i·stride + r·dilation, ...]`. With several axes, `size` and the
    others are one number for all or one for each, and the new axes come in that order. The result is a view that fuses
    with its users, even if windows overlap; gradients of overlapping windows are added. x may have any dtype.

    Raises:
        TrainerError: the axis is out of range; size, stride or dilation is below 1; or a window is longer than the
            axis.

    >>> engine.windows(engine.asarray([1, 2, 3, 4]), 2, stride=2).tolist()
    [[1, 2], [3, 4]]
    """
    tensor = as_tensor(x, operation="windows")
    axes = [one_axis("windows", each, tensor.ndim) for each in integer_list("windows", axis)]
    columns = [
        _each(name, value, len(axes)) for name, value in (("size", size), ("stride", stride), ("dilation", dilation))
    ]
    if len(set(axes)) != len(axes):
        raise refusal("windows", "an axis is given twice", found=f"axis {axis}")
    node = tensor.node
    for number, length, step, spacing in zip(axes, *columns, strict=True):
        node = p.windows(node, number, length, step, spacing)
        order = (*(each for each in range(node.ndim) if each != number + 1), number + 1)
        node = p.permute(node, order)
    return wrapped(node, tensor)


def unfold(x: Any, kernel_size: Any, /, *, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of x [N, C, H, W] as columns [N, C·R·S, P·Q] (im2col), the operand of a convolution's matrix product.

    Arguments are those of `convolution`; padding counts as zeros. x may have any dtype.

    Raises:
        TrainerError: x does not have four axes, or the geometry gives no windows.

    >>> engine.unfold(engine.ones((1, 3, 4, 5)), 2).shape
    (1, 12, 12)
    """
    tensor = as_tensor(x, operation="unfold")
    if tensor.ndim != 4:
        raise refusal("unfold", "wrong rank", found=describe([tensor]), expected="x [N, C, H, W]")
    sizes, strides, spacings = (pair("unfold", "geometry", each) for each in (kernel_size, stride, dilation))
    padded = pad(tensor, ((0, 0), (0, 0), *padding_pairs("unfold", padding)))
    found = permute_dims(windows(padded, sizes, axis=(2, 3), stride=strides, dilation=spacings), (0, 1, 4, 5, 2, 3))
    batch, channels, rows, columns, height, width = found.shape
    return reshape(found, (batch, channels * rows * columns, height * width))


def fold(
    x: Any, output_size: Any, kernel_size: Any, /, *, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The transpose of `unfold`: adds columns [N, C·R·S, P·Q] at their windows in [N, C, H, W].

    `output_size` is (H, W). x may have any dtype but bool.

    Raises:
        TrainerError: x does not have three axes, or its number of columns or windows does not match the geometry.

    >>> engine.fold(engine.unfold(engine.ones((1, 1, 3, 3)), 2), 3, 2)[0, 0, 1].tolist()
    [2.0, 4.0, 2.0]
    """
    tensor = as_tensor(x, operation="fold")
    (height, width), (rows, columns) = (
        pair("fold", "output_size", output_size),
        pair("fold", "kernel_size", kernel_size),
    )
    strides, spacings = pair("fold", "stride", stride), pair("fold", "dilation", dilation)
    margins = padding_pairs("fold", padding)
    if min(*strides, *spacings, rows, columns) < 1:
        raise refusal("fold", "wrong geometry", found=f"stride {stride}, dilation {dilation}, window {kernel_size}",
                      expected="numbers of at least 1")  # fmt: skip
    extents = [extent + sum(around) for extent, around in zip((height, width), margins, strict=True)]
    counts = [
        (extent - spacing * (size - 1) - 1) // step + 1
        for extent, size, step, spacing in zip(extents, (rows, columns), strides, spacings, strict=True)
    ]
    if tensor.ndim != 3 or tensor.shape[1] % (rows * columns) or tensor.shape[2] != counts[0] * counts[1]:
        expected = f"[N, C·{rows}·{columns}, {counts[0] * counts[1]}]"
        raise refusal("fold", "columns don't fit the geometry", found=describe([tensor]), expected=expected)
    batch, channels = tensor.shape[0], tensor.shape[1] // (rows * columns)
    node = p.reshape(tensor.node, (batch, channels, rows, columns, *counts))
    node = p.permute(node, (0, 1, 4, 2, 5, 3))  # [N, C, P, R, Q, S]
    for axis, size in ((4, columns), (2, rows)):
        place = axis // 2 - 1
        shape = (counts[place], size)
        first, inside = (p.iota(shape, each, dtypes.int32) for each in range(2))
        starts = p.multiply(first, p.full(shape, strides[place], dtypes.int32))
        places = p.add(starts, p.multiply(inside, p.full(shape, spacings[place], dtypes.int32)))
        node = p.scatter_add(node, places, axis, extents[place])
    (top, bottom), (left, right) = margins
    start, stop = (0, 0, top, left), (batch, channels, extents[0] - bottom, extents[1] - right)
    return wrapped(p.slice_(node, start, stop, (1, 1, 1, 1)), tensor)


def _each(name: str, value: Any, count: int) -> list[int]:
    numbers = integer_list("windows", value)
    if len(numbers) == 1:
        numbers *= count
    if len(numbers) != count:
        raise refusal("windows", f"{name} is one number, or one for each axis", found=repr(value))
    return numbers
