"""Reductions of the standard: `axis` is None (all), an int or several; `keepdims` keeps reduced axes at extent 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainer.engine.autocast import widened
from trainer.engine.functions.axes import one_axis, rising_axes
from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node
from trainer.engine.graph.primitives.compose import keep_axes
from trainer.engine.tensor import Tensor, as_tensor, wrapped

Axis = int | Sequence[int] | None


def sum(x: Any, /, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """The sum. Bools and small integers are summed in int64, floats in their own dtype (or `dtype`)."""
    return _total("sum", p.reduce_sum, x, axis, dtype, keepdims)


def prod(x: Any, /, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """The product. Bools and small integers are multiplied in int64, floats in their own dtype (or `dtype`)."""
    return _total("prod", p.reduce_prod, x, axis, dtype, keepdims)


def max(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The greatest element, of `x`'s dtype; NaN wins, True is greater than False. Equal ones share the gradient."""
    return _reduced("max", p.reduce_max, x, axis, keepdims)


def min(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The least element, of `x`'s dtype; NaN wins, False is less than True. Equal ones share the gradient."""
    return _reduced("min", p.reduce_min, x, axis, keepdims)


def all(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether every element is true (not zero)."""
    return _of_bools("all", p.reduce_min, x, axis, keepdims, empty=True)


def any(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether some element is true (not zero)."""
    return _of_bools("any", p.reduce_max, x, axis, keepdims, empty=False)


def mean(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean of floating-point elements; 16-bit floats are summed in float32."""
    tensor = _floating("mean", x)
    axes = rising_axes("mean", axis, tensor.ndim)
    return wrapped(_kept(_narrowed(_mean(_widened(tensor.node), axes), tensor.dtype), axes, tensor, keepdims), tensor)


def var(x: Any, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The mean squared distance from the mean, over N - `correction`, accurate however large the mean is.

    NaN where an element is NaN or infinite, over no axes too.
    """
    return _variance("var", x, axis, correction, keepdims, lambda node: node)


def std(x: Any, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The square root of `var`."""
    return _variance("std", x, axis, correction, keepdims, p.sqrt)


def moments(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """Mean and (biased) variance, read from memory in one pass; 16-bit floats give float32.

    The variance is NaN where an element is NaN or infinite. The mean is then not finite: whether it is NaN or infinity
    depends on where the element lies (`mean` and NumPy give infinity).

    Each block, of a length that the shape fixes, takes distances from its middle elements' mean; blocks are merged by
    Chan's formula (Chan, Golub & LeVeque 1979): right to rounding however far from zero the mean is.
    """
    tensor = _floating("moments", x)
    axes = rising_axes("moments", axis, tensor.ndim)
    _not_empty("moments", tensor, axes)
    node = _widened(tensor.node)
    mean, deviations = p.reduce_mean(node, axes), p.reduce_deviations(node, axes)
    variance = p.divide(deviations, p.full_like(deviations, float(_count(node, axes))))
    kept = [wrapped(_kept(each, axes, tensor, keepdims), tensor) for each in (mean, variance)]
    return kept[0], kept[1]


def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the greatest element is, the first of equal ones: int64. Without `axis`, in row-major order."""
    return _position("argmax", p.argmax, x, axis, keepdims)


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the least element is, the first of equal ones: int64. Without `axis`, in row-major order."""
    return _position("argmin", p.argmin, x, axis, keepdims)


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Tensor:
    """Sums up to and including each element along `axis` (needed unless there is one axis only).

    With `include_initial` a zero comes first.
    """
    tensor = widened(as_tensor(x))
    if axis is None and tensor.ndim != 1:
        raise refusal(
            "cumulative_sum", "the axis is open", found=f"{tensor.ndim} axes and axis=None", expected="axis=..."
        )
    number = one_axis("cumulative_sum", 0 if axis is None else axis, tensor.ndim)
    result = p.cumulative_sum(_summable(tensor.node, dtype), number)
    if include_initial:
        low = tuple(int(each == number) for each in range(tensor.ndim))
        result = p.pad(result, low, (0,) * tensor.ndim, (0,) * tensor.ndim, 0)
    return wrapped(result, tensor)


# --- what they share --------------------------------------------------------------------------------------------------


def _kept(node: Node, axes: tuple[int, ...], tensor: Tensor, keepdims: bool) -> Node:
    return keep_axes(node, axes, tensor.shape) if keepdims else node


def _summable(node: Node, dtype: DType | None) -> Node:
    target = dtype or (node.dtype if node.dtype.is_float else dtypes.int64)
    return node if node.dtype is target else p.cast(node, target)


def _total(name: str, build: Any, x: Any, axis: Axis, dtype: DType | None, keepdims: bool) -> Tensor:
    tensor = widened(as_tensor(x, operation=name))
    axes = rising_axes(name, axis, tensor.ndim)
    total = _in_stages(build, _summable(tensor.node, dtype), axes)
    return wrapped(_kept(total, axes, tensor, keepdims), tensor)


def _in_stages(build: Any, node: Node, axes: tuple[int, ...]) -> Node:
    """A reduction of images [N, C, H, W] over channels and pixels: each channel's pixels first.

    The order in which numbers are added is part of the result. This one runs through memory as it lies, be it row by
    row or channels-last; all axes at once are the logical order, which costs channels-last images a copy.
    """
    if node.ndim == 4 and axes[-3:] == (1, 2, 3) and node.size:
        return build(build(node, (2, 3)), axes[:-2])
    return build(node, axes)


def _reduced(name: str, build: Any, x: Any, axis: Axis, keepdims: bool) -> Tensor:
    tensor = as_tensor(x, operation=name)
    axes = rising_axes(name, axis, tensor.ndim)
    _not_empty(name, tensor, axes)
    extremum = _narrowed(build(_ordered(tensor), axes), tensor.dtype)
    return wrapped(_kept(extremum, axes, tensor, keepdims), tensor)


def _ordered(tensor: Tensor) -> Node:
    """Bools as numbers, which primitives compare."""
    return p.cast(tensor.node, dtypes.uint8) if tensor.dtype is dtypes.bool_ else tensor.node


def _not_empty(name: str, tensor: Tensor, axes: tuple[int, ...]) -> None:
    if 0 in [tensor.shape[axis] for axis in axes]:
        raise refusal(name, "of no elements", found=describe([tensor]), expected=f"elements along axes {list(axes)}")


def _of_bools(name: str, build: Any, x: Any, axis: Axis, keepdims: bool, *, empty: bool) -> Tensor:
    tensor = as_tensor(x, operation=name)
    axes = rising_axes(name, axis, tensor.ndim)
    if 0 in [tensor.shape[each] for each in axes]:
        rest = tuple(extent for each, extent in enumerate(tensor.shape) if each not in axes)
        return wrapped(_kept(p.full(rest, empty, dtypes.bool_), axes, tensor, keepdims), tensor)
    truth = p.cast(p.cast(tensor.node, dtypes.bool_), dtypes.uint8)
    return wrapped(_kept(p.cast(build(truth, axes), dtypes.bool_), axes, tensor, keepdims), tensor)


def _floating(name: str, x: Any) -> Tensor:
    tensor = widened(as_tensor(x, operation=name))
    if not tensor.dtype.is_float:
        hint = "Convert it first: `x.astype(engine.float32)`."
        raise refusal(name, "of whole numbers", found=describe([tensor]), expected="a floating-point dtype", hint=hint)
    return tensor


def _widened(node: Node) -> Node:
    return p.cast(node, dtypes.float32) if node.dtype.is_half else node


def _narrowed(node: Node, dtype: DType) -> Node:
    return node if node.dtype is dtype else p.cast(node, dtype)


def _count(node: Node, axes: tuple[int, ...]) -> int:
    count = 1
    for axis in axes:
        count *= node.shape[axis]
    return count


def _mean(node: Node, axes: tuple[int, ...]) -> Node:
    total = _in_stages(p.reduce_sum, node, axes)
    return p.divide(total, p.full_like(total, float(_count(node, axes))))


def _variance(name: str, x: Any, axis: Axis, correction: float, keepdims: bool, finish: Any) -> Tensor:
    tensor = _floating(name, x)
    axes = rising_axes(name, axis, tensor.ndim)
    node = _widened(tensor.node)
    count = _count(node, axes)
    total = p.reduce_deviations(node, axes) if count else p.reduce_sum(node, axes)
    freedom = count - correction
    result = finish(p.divide(total, p.full_like(total, freedom if freedom > 0 else 0.0)))
    return wrapped(_kept(_narrowed(result, tensor.dtype), axes, tensor, keepdims), tensor)


def _position(name: str, build: Any, x: Any, axis: int | None, keepdims: bool) -> Tensor:
    tensor = as_tensor(x, operation=name)
    if axis is None:
        _not_empty(name, tensor, tuple(range(tensor.ndim)))
        found = build(p.reshape(_ordered(tensor), (tensor.size,)), 0)
        return wrapped(p.reshape(found, (1,) * tensor.ndim) if keepdims else found, tensor)
    number = one_axis(name, axis, tensor.ndim)
    _not_empty(name, tensor, (number,))
    return wrapped(_kept(build(_ordered(tensor), number), (number,), tensor, keepdims), tensor)
