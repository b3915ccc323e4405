"""Normalizes axis arguments: counted from the front, each once, in order."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from trainer.engine.graph.errors import IndexingError, refusal


def one_axis(operation: str, axis: Any, ndim: int) -> int:
    """Returns `axis`, which may be negative, as a number from 0 to `ndim` - 1.

    Raises:
        TrainerError: the axis is out of range.
    """
    number = _whole(operation, axis)
    if not -ndim <= number < ndim:
        expected = f"-{ndim} to {ndim - 1}" if ndim else "none: the tensor has no axes"
        raise refusal(
            operation, "no such axis", found=f"axis {number} of {ndim}", expected=expected, kind=IndexingError
        )
    return number % ndim


def rising_axes(operation: str, axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Returns the axes in `axis` (None: all) in ascending order, counted from the front."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [one_axis(operation, each, ndim) for each in given]
    if len(set(axes)) != len(axes):
        raise refusal(operation, "an axis is repeated", found=f"axes {list(given)} of {ndim}")
    return tuple(sorted(axes))


def _whole(operation: str, value: Any, name: str = "an axis") -> int:
    try:
        return index(value)
    except TypeError:
        raise refusal(operation, f"{name} must be an integer", found=repr(value), expected="int") from None


def extents(operation: str, shape: Any) -> tuple[int, ...]:
    """Returns `shape`, an int or a sequence of ints, as a tuple of extents of at least 0."""
    result = tuple(integer_list(operation, shape))
    if any(extent < 0 for extent in result):
        raise refusal(operation, "an extent is negative", found=list(result), expected="extents of at least 0")
    return result


def integer_list(operation: str, shape: Any) -> list[int]:
    """Returns `shape`, an int or a sequence of ints, as a list."""
    try:
        return [index(extent) for extent in shape] if isinstance(shape, (tuple, list)) else [index(shape)]
    except TypeError:
        raise refusal(operation, "a shape is integers", found=repr(shape), expected="ints") from None


def diagonal(operation: str, k: Any, rows: int, columns: int) -> int:
    """Returns diagonal number `k`, limited to -`rows` to `columns`; these two limits lie just outside the matrix."""
    return max(-rows, min(_whole(operation, k, "a diagonal's number"), columns))


def how_many(operation: str, name: str, value: Any) -> int:
    """Returns `value`, checked to be an integer of at least 0."""
    if not isinstance(value, int) or value < 0:
        raise refusal(operation, f"{name} is an integer", found=repr(value), expected="an int of at least 0")
    return value


def each_axis(operation: str, name: str, value: Any, rank: int) -> tuple[int, ...]:
    """Returns one int for each of `rank` spatial axes; a single int applies to all."""
    each = (value,) * rank if isinstance(value, int) else tuple(value) if isinstance(value, (tuple, list)) else ()
    if len(each) != rank or not all(isinstance(one, int) for one in each):
        expected = f"an int, or {rank} for {rank} spatial axes"
        raise refusal(operation, f"{name} is one number, or one for each spatial axis", found=repr(value),
                      expected=expected)  # fmt: skip
    return each


def pair(operation: str, name: str, value: Any) -> tuple[int, int]:
    """Returns one int for each of two spatial axes; a single int applies to both."""
    rows, columns = each_axis(operation, name, value, 2)
    return rows, columns


def padding_pairs(operation: str, value: Any, rank: int = 2) -> tuple[tuple[int, int], ...]:
    """Returns (before, after) for each axis, from an int, an int or pair for each axis, or one pair if `rank` is 1."""
    if rank == 1 and isinstance(value, (tuple, list)) and len(value) == 2:
        value = (value,)
    if isinstance(value, (tuple, list)) and len(value) == rank and all(isinstance(one, (tuple, list)) for one in value):
        return tuple(pair(operation, "padding", ends) for ends in value)
    return tuple((one, one) for one in each_axis(operation, "padding", value, rank))
