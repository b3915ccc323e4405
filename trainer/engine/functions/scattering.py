"""Writing and adding at indices that are data: `scatter` with every reduction, and sums of segments."""

from __future__ import annotations

from typing import Any

from trainer.engine.functions.axes import how_many, one_axis
from trainer.engine.functions.places import as_indices, as_places
from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node
from trainer.engine.promotion import promoted
from trainer.engine.tensor import Tensor, as_tensor, cast, wrapped

REDUCTIONS = ("set", "add", "multiply", "mean", "max", "min")


def scatter(
    x: Any, indices: Any, updates: Any, /, *, axis: int = -1, reduction: str = "set", include_self: bool = True
) -> Tensor:
    """`x` with `updates` written along `axis` at `indices`; both have the same shape, x's except along `axis`.

    Args:
        indices: integers; negative ones count from the end, those out of range go to the nearest element.
        reduction: `set` (the last of several updates of one element is stored), or x and its updates combined: `add`,
            `multiply`, `mean`, `max` or `min`.
        include_self: False ignores x's elements that have updates.

    Gradients go to x and to the updates; equal maxima or minima share theirs. Derivatives of a product are correct even
    where elements are zero.

    Raises:
        TrainerError: shapes or dtypes don't match, the indices are not integers, or the reduction is unknown.

    >>> engine.scatter(engine.zeros(3), [0, 0, 2], engine.asarray([1.0, 2.0, 3.0]), reduction="add").tolist()
    [3.0, 0.0, 3.0]
    """
    tensor, values = as_tensor(x, operation="scatter"), as_tensor(updates, operation="scatter")
    number = one_axis("scatter", axis, tensor.ndim)
    size = tensor.shape[number]
    if reduction not in REDUCTIONS:
        raise refusal("scatter", "unknown reduction", found=repr(reduction), expected=", ".join(REDUCTIONS))
    if reduction == "mean" and not tensor.dtype.is_float:
        raise refusal("scatter", "a mean of integers", found=describe([tensor]), expected="a floating-point dtype")
    places, where = as_places("scatter", indices, size)
    if values.shape != places.shape or [*values.shape[:number], size, *values.shape[number + 1 :]] != [*tensor.shape]:
        expected = f"indices and updates of one shape, which is x's but along axis {number}"
        raise refusal("scatter", "shapes don't fit", found=describe([tensor, places, values]), expected=expected)
    if values.size and not size:
        raise refusal("scatter", "the axis to write to is empty", found=describe([tensor]), expected="a longer axis")
    dtype = promoted("scatter", [tensor.dtype, values.dtype])
    old, new = cast(tensor.node, dtype), cast(values.node, dtype)
    return wrapped(_scattered(old, where, new, number, reduction, include_self), tensor, places, values)


def _scattered(x: Node, places: Node, updates: Node, axis: int, reduction: str, include_self: bool) -> Node:
    size = x.shape[axis]
    if not updates.size:
        return x
    if reduction == "set":
        numbers = p.iota(places.shape, axis, dtypes.int32)
        last = p.scatter_max_along(numbers, places, axis, size)
        is_written = p.less_equal(p.full_like(last, 0), last)
        return p.where(is_written, p.take_along(updates, p.maximum(last, p.full_like(last, 0)), axis), x)
    if reduction == "add" and include_self:
        return p.add(x, p.scatter_add_along(updates, places, axis, size))
    counts = p.scatter_add_along(p.full(updates.shape, 1, dtypes.int32), places, axis, size)
    is_written = p.less(p.full_like(counts, 0), counts)
    if reduction in ("add", "mean"):
        total = p.scatter_add_along(updates, places, axis, size)
        total = p.add(x, total) if include_self else total
        if reduction == "mean":
            terms = p.add(counts, p.full_like(counts, 1)) if include_self else counts
            total = p.divide(total, p.cast(p.maximum(terms, p.full_like(terms, 1)), x.dtype))
        return p.where(is_written, total, x)
    scatter_along, combine = _COMBINING[reduction]
    own = scatter_along(updates, places, axis, size)
    own = p.where(is_written, own, p.full_like(own, 1))  # replaces the infinity of an extremum of nothing
    return p.where(is_written, combine(x, own) if include_self else own, x)


_COMBINING = {
    "multiply": (p.scatter_prod_along, p.multiply),
    "max": (p.scatter_max_along, p.maximum),
    "min": (p.scatter_min_along, p.minimum),
}


def segment_sum(x: Any, segments: Any, /, count: int) -> Tensor:
    """Sums of the slices x[i] of each segment: [count, *x.shape[1:]], where slice i belongs to segment `segments[i]`.

    `segments` is integers [N] in any order; slices of segments outside 0 to count - 1 are ignored. Slices are added in
    order.

    Raises:
        TrainerError: `segments` does not have one integer for each slice of x.

    >>> engine.segment_sum(engine.asarray([1.0, 2.0, 4.0]), [1, 0, 1], 3).tolist()
    [2.0, 5.0, 0.0]
    """
    tensor, numbers = as_tensor(x, operation="segment_sum"), as_tensor(segments, operation="segment_sum")
    if not tensor.ndim or numbers.shape != tensor.shape[:1]:
        raise refusal(
            "segment_sum", "a segment for each slice", found=describe([tensor, numbers]), expected="x [N, ...], [N]"
        )
    places, size = as_indices("segment_sum", numbers), how_many("segment_sum", "count", count)
    return wrapped(p.scatter_add(tensor.node, places, 0, size), tensor, numbers)
