"""Padding in all modes of NumPy, with any value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainer.engine.functions.creation import full
from trainer.engine.functions.elementwise import astype
from trainer.engine.functions.movement import broadcast_to, concat, reshape, take
from trainer.engine.functions.quantiles import median
from trainer.engine.functions.reductions import max as max_of
from trainer.engine.functions.reductions import mean
from trainer.engine.functions.reductions import min as min_of
from trainer.engine.graph import primitives as p
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.tensor import Tensor, as_tensor, wrapped

MODES = ("constant", "edge", "reflect", "symmetric", "wrap", "linear_ramp", "maximum", "minimum", "mean", "median")
_COPYING = frozenset({"edge", "reflect", "symmetric", "wrap"})
_ELSEWHERE = {"replicate": "edge", "circular": "wrap", "zeros": "constant"}
"""Other libraries' names of modes."""

_STATISTICS: dict[str, Callable[..., Tensor]] = {"maximum": max_of, "minimum": min_of, "mean": mean, "median": median}


def pad(
    x: Any, widths: Sequence[tuple[int, int]], /, *, mode: str = "constant", value: bool | int | float = 0
) -> Tensor:
    """Pads x with elements before and after it: `widths` is a pair (before, after) for each axis.

    Args:
        mode: `constant` (`value`), `edge` (the outermost element), `reflect` (mirrored at the outermost element),
            `symmetric` (mirrored including it), `wrap` (from the other end), `linear_ramp` (from the outermost element
            to `value` at the end), or the `maximum`, `minimum`, `mean` or `median` along the axis, as in NumPy. Axes
            are padded in order.
        value: for `constant` and `linear_ramp`; it is rounded to x's dtype.

    The gradients of copies are added to the copied elements.

    Raises:
        TrainerError: the widths are not a pair of at least 0 for each axis, the mode is unknown, a padded axis is
            empty (in all modes but `constant`), or x is not floating-point for `linear_ramp`, `mean` and `median`.

    >>> engine.pad(engine.asarray([1, 2, 3]), [(2, 1)], mode="reflect").tolist()
    [3, 2, 1, 2, 3, 2]
    """
    tensor = as_tensor(x, operation="pad")
    is_pairs = isinstance(widths, (tuple, list)) and all(isinstance(each, (tuple, list)) for each in widths)
    if not is_pairs or len(widths) != tensor.ndim or any(len(each) != 2 for each in widths):
        raise refusal("pad", "a pair for each axis", found=f"{widths!r} for {describe([tensor])}")
    if mode not in MODES:
        hint = f"The mode is named {_ELSEWHERE[mode]!r} here." if mode in _ELSEWHERE else None
        raise refusal("pad", "no such mode", found=repr(mode), expected=", ".join(MODES), hint=hint)
    low, high = tuple(before for before, _ in widths), tuple(after for _, after in widths)
    if mode == "constant":
        return wrapped(p.pad(tensor.node, low, high, (0,) * tensor.ndim, value), tensor)
    if min((*low, *high, 0)) < 0:
        raise refusal("pad", "wrong amounts", found=f"{widths!r}", expected="for each axis two numbers of at least 0")
    if not tensor.dtype.is_float and mode in ("linear_ramp", "mean", "median"):
        raise refusal("pad", f"{mode} of integers", found=describe([tensor]), expected="a floating-point dtype")
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        if before or after:
            if not tensor.shape[axis]:
                raise refusal("pad", f"no elements to pad by {mode} with", found=f"{describe([tensor])}, axis {axis}")
            tensor = _padded(tensor, axis, before, after, mode, value)
    return tensor


def _padded(x: Tensor, axis: int, before: int, after: int, mode: str, value: float) -> Tensor:
    extent = x.shape[axis]
    if mode in _COPYING:
        places = np.pad(np.arange(extent), (before, after), mode=mode)  # type: ignore[call-overload]
        return take(x, places, axis=axis)
    front = (slice(None),) * axis
    parts = []
    for count, edge, side in ((before, 0, -1), (after, extent - 1, 1)):
        shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
        if mode == "linear_ramp":
            steps = np.arange(count, 0, -1) if side < 0 else np.arange(1, count + 1)
            share = astype(reshape(steps / max(count, 1), (count, *(1,) * (x.ndim - axis - 1))), x.dtype)
            outer = x[(*front, slice(edge, edge + 1))]
            part = broadcast_to(outer + (full((), value, dtype=x.dtype) - outer) * share, shape)
        else:
            part = broadcast_to(_STATISTICS[mode](x, axis=axis, keepdims=True), shape)
        parts.append(part)
    return concat([parts[0], x, parts[1]], axis=axis)
