"""Median and quantiles, by sorting; gradients flow to the two elements that enclose the result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer.engine.autocast import widened
from trainer.engine.functions.axes import rising_axes
from trainer.engine.functions.elementwise import isnan, where
from trainer.engine.functions.movement import expand_dims, moveaxis, reshape, stack
from trainer.engine.functions.reductions import any as any_of
from trainer.engine.functions.sorting import sort
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.tensor import Tensor, as_tensor

Axis = int | Sequence[int] | None

METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def median(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The median along `axis` (None: all). For an even number of elements it is the mean of the two middle ones; it is
    NaN if any element is NaN.

    Raises:
        TrainerError: x is not floating-point, the axis is out of range, or it has no elements.

    >>> engine.median(engine.asarray([3.0, 1.0, 10.0, 2.0])).item()
    2.5
    """
    return _of_sorted("median", x, (0.5,), axis, keepdims, "midpoint")[0]


def quantile(
    x: Any, q: float | Sequence[float], /, *, axis: Axis = None, keepdims: bool = False, method: str = "linear"
) -> Tensor:
    """The `q` quantile of the elements along `axis` (None: all), in x's dtype; NaN if any element is NaN.

    Args:
        q: a number in [0, 1]; several numbers become a new first axis.
        method: the value between two sorted elements: `linear` interpolation, the `lower` or `higher` one, their
            `midpoint`, or the `nearest` (ties to the even index), as in NumPy.

    Raises:
        TrainerError: x is not floating-point, q is outside [0, 1], the axis or the method is unknown, or there are no
            elements.

    >>> engine.quantile(engine.asarray([1.0, 2.0, 3.0, 5.0]), [0.5, 1.0]).tolist()
    [2.5, 5.0]
    """
    shares = np.asarray(q, np.float64)
    if shares.ndim > 1 or not np.all((shares >= 0) & (shares <= 1)) or method not in METHODS:
        found, expected = f"q={q!r}, method={method!r}", f"q in [0, 1], and one of {', '.join(METHODS)}"
        raise refusal("quantile", "wrong quantile", found=found, expected=expected)
    results = _of_sorted("quantile", x, tuple(shares.ravel().tolist()), axis, keepdims, method)
    return stack(results) if shares.ndim else results[0]


def _of_sorted(name: str, x: Any, shares: Sequence[float], axis: Axis, keepdims: bool, method: str) -> list[Tensor]:
    tensor = widened(as_tensor(x, operation=name))
    axes = rising_axes(name, axis, tensor.ndim)
    count = math.prod(tensor.shape[each] for each in axes)
    if not tensor.dtype.is_float or not count:
        expected = "a floating-point dtype, and at least one element along the axes"
        raise refusal(name, "of no numbers", found=f"{describe([tensor])}, axis {axis}", expected=expected)
    last = tuple(range(tensor.ndim - len(axes), tensor.ndim))
    moved = moveaxis(tensor, axes, last) if axes else tensor
    rows = reshape(moved, (*moved.shape[: tensor.ndim - len(axes)], count))
    ranked, missing = sort(rows), any_of(isnan(rows), axis=-1)
    results = []
    for share in shares:
        found = where(missing, math.nan, _between(ranked, share * (count - 1), method))
        results.append(expand_dims(found, axis=axes) if keepdims and axes else found)
    return results


def _between(ranked: Tensor, place: float, method: str) -> Tensor:
    below, above = math.floor(place), math.ceil(place)
    if method == "nearest":
        below = above = round(place)
    elif method in ("lower", "higher"):
        below = above = below if method == "lower" else above
    low, high = ranked[..., below], ranked[..., above]
    if below == above:
        return low
    if method == "midpoint":
        return (low + high) * 0.5
    share = place - below  # interpolates from the nearer end, so that the ends are exact
    return low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)
