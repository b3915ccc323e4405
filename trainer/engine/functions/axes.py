"""Axes as users write them, made plain: counted from the front, each once, in order."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from trainer.engine.graph.errors import refusal


def one_axis(operation: str, axis: Any, ndim: int) -> int:
    """`axis`, which may count from the end, counted from the front.

    Raises:
        TrainerError: there is no such axis.
    """
    number = _whole(operation, axis)
    if not -ndim <= number < ndim:
        expected = f"-{ndim} to {ndim - 1}" if ndim else "none: there are no axes"
        raise refusal(operation, "no such axis", found=f"axis {number} of {ndim}", expected=expected)
    return number % ndim


def rising_axes(operation: str, axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """`axis` (None is all of them) as rising numbers."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [one_axis(operation, each, ndim) for each in given]
    if len(set(axes)) != len(axes):
        raise refusal(operation, "an axis is given twice", found=f"axes {list(given)} of {ndim}")
    return tuple(sorted(axes))


def _whole(operation: str, value: Any, name: str = "an axis") -> int:
    try:
        return index(value)
    except TypeError:
        raise refusal(operation, f"{name} is a whole number", found=repr(value), expected="int") from None


def extents(operation: str, shape: Any) -> tuple[int, ...]:
    """`shape`, an int or a sequence of them, as a tuple; none may be negative."""
    result = tuple(whole_numbers(operation, shape))
    if any(extent < 0 for extent in result):
        raise refusal(operation, "an extent is negative", found=list(result), expected="extents of at least 0")
    return result


def whole_numbers(operation: str, shape: Any) -> list[int]:
    """`shape`, an int or a sequence of them, as a list."""
    try:
        return [index(extent) for extent in shape] if isinstance(shape, (tuple, list)) else [index(shape)]
    except TypeError:
        raise refusal(operation, "a shape is whole numbers", found=repr(shape), expected="ints") from None


def diagonal(operation: str, k: Any, rows: int, columns: int) -> int:
    """The number `k` of a diagonal, or of the nearest one next to a matrix of `rows` and `columns`."""
    return max(-rows, min(_whole(operation, k, "a diagonal's number"), columns))


def how_many(operation: str, name: str, value: Any) -> int:
    """How many: a whole number that is not negative."""
    if not isinstance(value, int) or value < 0:
        raise refusal(operation, f"{name} is a whole number", found=repr(value), expected="an int of at least 0")
    return value


def pair(operation: str, name: str, value: Any) -> tuple[int, int]:
    """An int for both spatial axes, or two."""
    both = (value, value) if isinstance(value, int) else tuple(value) if isinstance(value, (tuple, list)) else ()
    if len(both) != 2 or not all(isinstance(each, int) for each in both):
        raise refusal(operation, f"{name} is one number or two", found=repr(value))
    return both[0], both[1]


def padding_pairs(operation: str, value: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    """An int, one for each spatial axis, or (before, after) for each spatial axis."""
    if isinstance(value, int):
        return (value, value), (value, value)
    height, width = value if len(value) == 2 else (None, None)
    if isinstance(height, int) and isinstance(width, int):
        return (height, height), (width, width)
    if height is None or not isinstance(height, (tuple, list)):
        raise refusal(operation, "padding is a number, two, or two pairs", found=repr(value))
    return pair(operation, "padding", height), pair(operation, "padding", width)
