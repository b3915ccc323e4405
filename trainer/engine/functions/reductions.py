"""Reductions of the standard: `axis` is None (all), an int or several; `keepdims` keeps reduced axes at extent 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from trainer.engine.autocast import widened
from trainer.engine.functions.axes import how_many, one_axis, rising_axes
from trainer.engine.functions.elementwise import not_equal, subtract
from trainer.engine.functions.movement import concat
from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node
from trainer.engine.graph.primitives.compose import keep_axes
from trainer.engine.tensor import Tensor, as_tensor, cast, wrapped

Axis = int | Sequence[int] | None
Axes = tuple[int, ...]


def sum(x: Any, /, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """The sum. Bools and signed integers are summed in int64, unsigned in uint64, others in their dtype (or `dtype`).

    Reduced axes are dropped, or kept with extent 1 with `keepdims`. The sum of no elements is 0.

    Raises:
        TrainerError: an axis is out of range or given twice.
    """
    return _total("sum", p.reduce_sum, x, axis, dtype, keepdims)


def prod(x: Any, /, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """The product. Integers are multiplied as `sum` adds them, others in their own dtype (or `dtype`).

    Axes work as in `sum`. The product of no elements is 1.

    Raises:
        TrainerError: an axis is out of range or given twice.
    """
    return _total("prod", p.reduce_prod, x, axis, dtype, keepdims)


def max(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The maximum, in `x`'s dtype; NaN propagates, True is greater than False. Equal maxima share the gradient.

    Axes work as in `sum`.

    Raises:
        TrainerError: an axis is out of range or given twice, or there are no elements.
    """
    return _reduced("max", p.reduce_max, x, axis, keepdims)


def min(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The minimum, in `x`'s dtype; NaN propagates, False is less than True. Equal minima share the gradient.

    Axes work as in `sum`.

    Raises:
        TrainerError: an axis is out of range or given twice, or there are no elements.
    """
    return _reduced("min", p.reduce_min, x, axis, keepdims)


def all(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether all elements are true (not zero): bool, True for no elements. Axes work as in `sum`.

    Raises:
        TrainerError: an axis is out of range or given twice.
    """
    return _of_bools("all", p.reduce_min, x, axis, keepdims, empty=True)


def any(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether any element is true (not zero): bool, False for no elements. Axes work as in `sum`.

    Raises:
        TrainerError: an axis is out of range or given twice.
    """
    return _of_bools("any", p.reduce_max, x, axis, keepdims, empty=False)


def mean(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean of floating-point elements; 16-bit floats are summed in float32.

    Axes work as in `sum`. The mean of no elements is NaN.

    Raises:
        TrainerError: an axis is out of range or given twice, or `x` is not floating-point.
    """

    def build(node: Node, axes: Axes) -> Node:
        total = _in_stages(p.reduce_sum, _widened(node), axes)
        return cast(p.divide(total, p.full_like(total, float(_count(node, axes)))), node.dtype)

    return _over("mean", _floating("mean", x), axis, keepdims, build)


def var(x: Any, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The sum of squared distances from the mean, divided by N - `correction`; accurate however large the mean is.

    It is NaN if an element is NaN or infinite, also over no axes. The result has x's floating-point dtype; axes work as
    in `sum`.

    Raises:
        TrainerError: an axis is out of range or given twice, or `x` is not floating-point.
    """
    return _variance("var", x, axis, correction, keepdims, lambda node: node)


def std(x: Any, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The square root of `var`. The result has x's floating-point dtype; axes work as in `sum`.

    Raises:
        TrainerError: an axis is out of range or given twice, or `x` is not floating-point.
    """
    return _variance("std", x, axis, correction, keepdims, p.sqrt)


def moments(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """Mean and (biased) variance in one pass over memory; 16-bit floats give float32.

    The variance is NaN if an element is NaN or infinite. The mean is then not finite: whether it is NaN or infinity
    depends on where the element lies (`mean` and NumPy give infinity).

    Each block uses distances from the mean of its middle elements; its length depends only on the shape. Blocks are
    merged by Chan's formula (Chan, Golub & LeVeque 1979), which is accurate to rounding for any mean.

    Raises:
        TrainerError: an axis is out of range or given twice, there are no elements, or `x` is not floating-point.
    """
    tensor = _floating("moments", x)
    axes = rising_axes("moments", axis, tensor.ndim)
    _not_empty("moments", tensor.node, axes)
    node = _widened(tensor.node)
    mean, deviations = p.reduce_mean(node, axes), p.reduce_deviations(node, axes)
    variance = p.divide(deviations, p.full_like(deviations, float(_count(node, axes))))
    kept = [wrapped(_kept(each, axes, tensor, keepdims), tensor) for each in (mean, variance)]
    return kept[0], kept[1]


def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the maximum, the first of equal ones: int64. Without `axis`, x is flattened in row-major order.

    The axis is dropped, or kept with extent 1 with `keepdims`.

    Raises:
        TrainerError: the axis is out of range, or there are no elements.
    """
    return _position("argmax", p.argmax, x, axis, keepdims)


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the minimum, the first of equal ones: int64. Without `axis`, x is flattened in row-major order.

    The axis is dropped, or kept with extent 1 with `keepdims`.

    Raises:
        TrainerError: the axis is out of range, or there are no elements.
    """
    return _position("argmin", p.argmin, x, axis, keepdims)


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Tensor:
    """Sums up to and including each element along `axis` (required unless x has one axis only).

    Bools and small integers are summed in int64, floats in their own dtype (or `dtype`). With `include_initial` a zero
    comes first.

    Raises:
        TrainerError: the axis is out of range, or it is missing.

    >>> engine.cumulative_sum(engine.asarray([1, 2, 3]), include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    return _accumulated("cumulative_sum", p.cumulative_sum, x, axis, dtype, 0 if include_initial else None)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Tensor:
    """Products up to and including each element along `axis` (required unless x has one axis only).

    The dtype is that of `cumulative_sum`. With `include_initial` a one comes first. Derivatives of any order are
    correct even where elements are zero.

    Raises:
        TrainerError: the axis is out of range, or it is missing.

    >>> engine.cumulative_prod(engine.asarray([1, 2, 3])).tolist()
    [1, 2, 6]
    """
    return _accumulated("cumulative_prod", p.cumulative_prod, x, axis, dtype, 1 if include_initial else None)


def count_nonzero(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The number of nonzero elements: int64. Axes work as in `sum`.

    Raises:
        TrainerError: an axis is out of range or given twice.
    """
    tensor = as_tensor(x, operation="count_nonzero")
    return sum(tensor.astype(dtypes.bool_), axis=axis, dtype=dtypes.int64, keepdims=keepdims)


def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any | None = None, append: Any | None = None) -> Tensor:
    """Differences of adjacent elements along `axis`, `n` times; each time leaves one element fewer. Bools give bools.

    `prepend` and `append` are put before and after `x` first.

    Raises:
        TrainerError: the axis is out of range, `n` is negative, or `prepend` or `append` doesn't fit.
    """
    parts = [as_tensor(part, operation="diff") for part in (prepend, x, append) if part is not None]
    number = one_axis("diff", axis, parts[0].ndim)
    tensor = concat(parts, axis=number)
    for _ in range(how_many("diff", "`n`", n)):
        front = (slice(None),) * number
        high, low = tensor[(*front, slice(1, None))], tensor[(*front, slice(None, -1))]
        tensor = not_equal(high, low) if tensor.dtype is dtypes.bool_ else subtract(high, low)
    return tensor


# --- shared helpers --------------------------------------------------------------------------------------------------


def _over(name: str, tensor: Tensor, axis: Axis, keepdims: bool, build: Callable[[Node, Axes], Node]) -> Tensor:
    """Applies `build` to the tensor's node along `axis`, normalized to ascending axes."""
    axes = rising_axes(name, axis, tensor.ndim)
    return wrapped(_kept(build(tensor.node, axes), axes, tensor, keepdims), tensor)


def _kept(node: Node, axes: Axes, tensor: Tensor, keepdims: bool) -> Node:
    return keep_axes(node, axes, tensor.shape) if keepdims else node


def _summable(node: Node, dtype: DType | None) -> Node:
    default = node.dtype if node.dtype.is_inexact else dtypes.uint64 if node.dtype.kind == "uint" else dtypes.int64
    return cast(node, dtype or default)


def _total(name: str, build: Any, x: Any, axis: Axis, dtype: DType | None, keepdims: bool) -> Tensor:
    tensor = widened(as_tensor(x, operation=name))
    axes = rising_axes(name, axis, tensor.ndim)
    return wrapped(_kept(_in_stages(build, _summable(tensor.node, dtype), axes), axes, tensor, keepdims), tensor)


def _in_stages(build: Any, node: Node, axes: Axes) -> Node:
    """Reduces images [N, C, H, W] over channels and pixels in two stages: the pixels of each channel first.

    The order of additions is part of the result. This order follows the memory layout, both row-major and
    channels-last; all axes at once follow the logical order, which costs channels-last images a copy.
    """
    if node.ndim == 4 and axes[-3:] == (1, 2, 3) and node.size:
        return build(build(node, (2, 3)), axes[:-2])
    return build(node, axes)


def _accumulated(name: str, build: Any, x: Any, axis: int | None, dtype: DType | None, initial: int | None) -> Tensor:
    tensor = widened(as_tensor(x, operation=name))
    if axis is None and tensor.ndim != 1:
        raise refusal(name, "the axis is open", found=f"{tensor.ndim} axes and axis=None", expected="axis=...")
    number = one_axis(name, 0 if axis is None else axis, tensor.ndim)
    result = build(_summable(tensor.node, dtype), number)
    if initial is not None:
        low, none = tuple(int(each == number) for each in range(tensor.ndim)), (0,) * tensor.ndim
        result = p.pad(result, low, none, none, initial)
    return wrapped(result, tensor)


def _reduced(name: str, reduce: Any, x: Any, axis: Axis, keepdims: bool) -> Tensor:
    def build(node: Node, axes: Axes) -> Node:
        _not_empty(name, node, axes)
        return cast(reduce(_ordered(node), axes), node.dtype)

    return _over(name, as_tensor(x, operation=name), axis, keepdims, build)


def _ordered(node: Node) -> Node:
    """Returns bools as numbers, which primitives can compare."""
    return cast(node, dtypes.uint8) if node.dtype is dtypes.bool_ else node


def _not_empty(name: str, node: Node, axes: Axes) -> None:
    if not _count(node, axes):
        raise refusal(name, "of no elements", found=describe([node]), expected=f"elements along axes {list(axes)}")


def _of_bools(name: str, reduce: Any, x: Any, axis: Axis, keepdims: bool, *, empty: bool) -> Tensor:
    def build(node: Node, axes: Axes) -> Node:
        if not _count(node, axes):
            rest = tuple(extent for each, extent in enumerate(node.shape) if each not in axes)
            return p.full(rest, empty, dtypes.bool_)
        return p.cast(reduce(p.cast(p.cast(node, dtypes.bool_), dtypes.uint8), axes), dtypes.bool_)

    return _over(name, as_tensor(x, operation=name), axis, keepdims, build)


def _floating(name: str, x: Any) -> Tensor:
    tensor = widened(as_tensor(x, operation=name))
    if not (tensor.dtype.is_float or (name == "mean" and tensor.dtype.is_complex)):
        hint = "Convert it first: `x.astype(engine.float32)`."
        raise refusal(name, "of integers", found=describe([tensor]), expected="a floating-point dtype", hint=hint)
    return tensor


def _widened(node: Node) -> Node:
    return p.cast(node, dtypes.float32) if node.dtype.is_half else node


def _count(node: Node, axes: Axes) -> int:
    return math.prod([node.shape[axis] for axis in axes])


def _variance(name: str, x: Any, axis: Axis, correction: float, keepdims: bool, finish: Any) -> Tensor:
    def build(node: Node, axes: Axes) -> Node:
        wide, count = _widened(node), _count(node, axes)
        total = p.reduce_deviations(wide, axes) if count else p.reduce_sum(wide, axes)
        freedom = count - correction if count > correction else 0.0
        return cast(finish(p.divide(total, p.full_like(total, freedom))), node.dtype)

    return _over(name, _floating(name, x), axis, keepdims, build)


def _position(name: str, build: Any, x: Any, axis: int | None, keepdims: bool) -> Tensor:
    tensor = as_tensor(x, operation=name)
    if axis is None:
        _not_empty(name, tensor.node, tuple(range(tensor.ndim)))
        found = build(p.reshape(_ordered(tensor.node), (tensor.size,)), 0)
        return wrapped(p.reshape(found, (1,) * tensor.ndim) if keepdims else found, tensor)
    number = one_axis(name, axis, tensor.ndim)
    _not_empty(name, tensor.node, (number,))
    return wrapped(_kept(build(_ordered(tensor.node), number), (number,), tensor, keepdims), tensor)
