"""`x[...]`: whole numbers, slices, Ellipsis and None, all read when the graph is built."""

from __future__ import annotations

from operator import index
from typing import Any

from trainer.engine.graph import primitives as p
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.tensor import Tensor, wrapped

_ALL = slice(None)


def getitem(x: Tensor, key: Any) -> Tensor:
    """The part of `x` that `key` names.

    Raises:
        TrainerError: too many indices, an index out of range, or an index that is an array.
    """
    node = x.node
    entries = _without_ellipsis(x, key if isinstance(key, tuple) else (key,))
    starts, stops, steps, flips = [], [], [], []
    shape: list[int] = []
    axis = 0
    for entry in entries:
        if entry is None:
            shape.append(1)
            continue
        extent = node.shape[axis]
        if entry is _ALL:
            start, stop, step = 0, extent, 1
            shape.append(extent)
        elif isinstance(entry, slice):
            try:
                start, stop, step = entry.indices(extent)
            except (TypeError, ValueError) as error:
                raise refusal("index", "not a slice of whole numbers", found=repr(entry), expected=str(error)) from None
            count = len(range(start, stop, step))
            if step < 0:
                flips.append(axis)
                start, step = start + (count - 1) * step, -step
            if count == 0:
                start = stop = 0
            else:
                stop = start + (count - 1) * step + 1
            shape.append(count)
        else:
            number = entry if type(entry) is int else _whole(x, entry)
            if not -extent <= number < extent:
                expected = f"-{extent} to {extent - 1}" if extent else "nothing: the axis is empty"
                raise refusal(
                    "index", "out of range", found=f"{number} at axis {axis} of {describe([x])}", expected=expected
                )
            start, step = number % extent, 1
            stop = start + 1
        starts.append(start)
        stops.append(stop)
        steps.append(step)
        axis += 1
    if tuple(stops) != node.shape or any(starts) or any(step != 1 for step in steps):
        node = p.slice_(node, tuple(starts), tuple(stops), tuple(steps))
    return wrapped(p.reshape(p.flip(node, tuple(flips)), tuple(shape)), x)


def _without_ellipsis(x: Tensor, entries: tuple[Any, ...]) -> list[Any]:
    """`entries` with full slices for Ellipsis (or the end), one for each axis of `x`, and None for each new one."""
    ellipses = [place for place, entry in enumerate(entries) if entry is Ellipsis]
    named = len([entry for entry in entries if entry is not None and entry is not Ellipsis])
    if len(ellipses) > 1 or named > x.ndim:
        problem = "two ellipses" if len(ellipses) > 1 else "too many indices"
        raise refusal("index", problem, found=f"{named} indices for {describe([x])}", expected=f"at most {x.ndim}")
    place = ellipses[0] if ellipses else len(entries)
    rest = [_ALL] * (x.ndim - named)
    return [*entries[:place], *rest, *entries[place + 1 :]]


def _whole(x: Tensor, entry: Any) -> int:
    if isinstance(entry, Tensor) and entry.ndim == 0 and entry.dtype.is_integer:
        return index(entry)  # reads the value, as the standard has it
    if isinstance(entry, list | Tensor) or getattr(entry, "ndim", False):
        raise refusal(
            "index",
            "an array is no index",
            found=f"{type(entry).__name__} for {describe([x])}",
            expected="whole numbers, slices, ... and None",
            hint="Use engine.take(x, indices, axis=...), engine.take_along_axis, or engine.where for a mask.",
        )
    try:
        if isinstance(entry, bool):
            raise TypeError
        return index(entry)
    except TypeError:
        expected = "whole numbers, slices, ... and None"
        raise refusal("index", "not an index", found=repr(entry), expected=expected) from None
