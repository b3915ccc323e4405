"""`x[key]` and `x[key] = value`: integers, slices, Ellipsis, None, integer arrays and masks, as in NumPy.

Integers and slices are read when the graph is built. Integer arrays are data: negative indices count from the end,
and an index out of range reads the nearest element and writes nothing. The shape of a mask's selection depends on
values: it is computed immediately, and refused inside a traced step. Assignment rebinds the tensor to a new value:
results computed from the old value keep it, and there are no views.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from trainer.engine import tracing
from trainer.engine.functions.places import as_indices, as_places
from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node, Shape
from trainer.engine.promotion import check_scalar
from trainer.engine.tensor import NUMBERS, Tensor, as_tensor, broadcast_shape, cast, wrapped

_ALL = slice(None)
_EXPECTED = "integers, slices, ..., None, integer arrays and masks"
_KINDS = ("bool", "uint", "int", "float", "complex")

_PLAIN = frozenset({int, slice, type(None), type(Ellipsis)})
"""Types of entries without data: a key of only these takes half the time to read."""

Bounds = tuple[list[int], list[int], list[int], tuple[int, ...]]
"""Starts, stops and positive steps along each axis, and the axes that are flipped afterwards."""


def getitem(x: Tensor, key: Any) -> Tensor:
    """The part of `x` that `key` selects; its gradient flows to the selected elements.

    Raises:
        TrainerError: too many indices, an index out of range, or a mask inside a traced step.
    """
    keys = key if type(key) is tuple else (key,)
    if _PLAIN.issuperset(map(type, keys)):
        return wrapped(_sliced(x.node, _spread(x, keys, len(keys) - keys.count(None) - (Ellipsis in keys))), x)
    if type(key) is not tuple and _is_mask(key) and not np.ndim(key):
        return getitem(wrapped(p.reshape(x.node, (1, *x.shape)), x), _none_or_one(key))
    entries = _entries(x, key)
    arrays = _arrays(entries)
    places = [
        as_places("index", entry, extent)[1]
        for entry, extent in _axes(entries, x.shape)
        if isinstance(entry, Tensor) and entry.ndim
    ]
    return wrapped(_picked(x.node, entries, places), x, *arrays)


def setitem(x: Tensor, key: Any, value: Any) -> None:
    """Replaces the part of `x` that `key` selects with `value`, broadcast and converted to x's dtype.

    If an integer array selects an element twice, the last value is stored. Gradients flow to `value` where it was
    written, and to the old value elsewhere. A `State` is assigned.

    Raises:
        TrainerError: as for reading; `value` does not broadcast to the part, or is of a wider kind than `x`.
    """
    number = isinstance(value, NUMBERS) and not isinstance(value, np.generic)
    if number:
        check_scalar("index", value, x.dtype)
    values = Tensor(p.full((), value, x.dtype)) if number else as_tensor(value, operation="index")
    if _KINDS.index(values.dtype.kind) > _KINDS.index(x.dtype.kind) and not (
        values.dtype.is_integer and x.dtype.is_integer
    ):
        hint = "Convert the value with `.astype(...)`."
        raise refusal(
            "index", "the value's dtype is of a wider kind", found=describe([values]), expected=repr(x.dtype), hint=hint
        )
    node = cast(values.node, x.dtype)
    if type(key) is not tuple and _is_mask(key) and values.size == 1 and np.shape(key) == x.shape[: np.ndim(key)]:
        mask = as_tensor(key)
        kept = p.broadcast(p.reshape(mask.node, mask.shape + (1,) * (x.ndim - mask.ndim)), x.shape)
        new = wrapped(p.where(kept, p.broadcast(p.reshape(node, ()), x.shape), x.node), x, mask, values)
    elif type(key) is not tuple and _is_mask(key) and not np.ndim(key):
        whole = wrapped(p.reshape(x.node, (1, *x.shape)), x)
        setitem(whole, _none_or_one(key), values)
        new = wrapped(p.reshape(whole.node, x.shape), whole)
    else:
        entries = _entries(x, key)
        arrays = _arrays(entries)
        build = _scattered if arrays else _written
        new = wrapped(build(x.node, entries, node), x, values, *arrays)
    x.rebind(new)


def nonzero(x: Any, /) -> tuple[Tensor, ...]:
    """The indices along each axis, int64, of all elements that are not zero, in row-major order.

    Their number depends on values, so they are computed immediately.

    Raises:
        TrainerError: inside a traced step, or x has no axes.
    """
    tensor = as_tensor(x, operation="nonzero")
    if not tensor.ndim:
        raise refusal("nonzero", "of no axes", found=describe([tensor]), expected="at least one axis")
    return tuple(map(as_tensor, np.nonzero(_values("nonzero", tensor))))


def _values(operation: str, x: Any) -> np.ndarray:
    if isinstance(x, Tensor) and tracing.active() is not None:
        raise refusal(
            operation,
            "the shape of the result depends on values, which a traced step does not have",
            found=describe([x]),
            expected="shapes that are known when the step is traced",
            hint="Choose with engine.where(mask, x, other), or compute it outside of the step.",
        )
    return x.numpy() if isinstance(x, Tensor) else np.asarray(x)


# --- the entries of a key ---------------------------------------------------------------------------------------------


def _is_mask(entry: Any) -> bool:
    if isinstance(entry, Tensor):
        return entry.dtype is dtypes.bool_
    return isinstance(entry, bool | np.bool_) or (isinstance(entry, list | np.ndarray) and _array(entry).dtype == bool)


def _array(entry: Any) -> np.ndarray:
    array = np.asarray(entry)
    return array if array.size else array.astype(array.dtype if isinstance(entry, np.ndarray) else np.int64)


def _none_or_one(mask: Any) -> Tensor:
    """Returns what a mask without axes selects along a new axis of extent 1: index 0 if it is true, otherwise none."""
    return as_tensor(np.zeros(int(bool(_values("index", mask))), np.int64))


def _check_mask(x: Tensor, mask: Tensor, axis: int) -> None:
    """Raises unless the mask has the extents of the axes from `axis` on; extent 0 selects nothing, as in NumPy."""
    extents = x.shape[axis : axis + mask.ndim]
    if len(extents) < mask.ndim or any(own not in (0, extent) for own, extent in zip(mask.shape, extents, strict=True)):
        expected = f"a mask of {list(extents)}"
        raise refusal("index", "the mask has another shape", found=describe([mask]), expected=expected)


def _entries(x: Tensor, key: Any) -> list[Any]:
    """Returns an entry for each axis (an integer, a slice or a tensor of integers), and None for each new axis."""
    keys = key if isinstance(key, tuple) else (key,)
    count = sum(
        max(1, np.ndim(entry)) if _is_mask(entry) else entry is not None and entry is not Ellipsis for entry in keys
    )
    entries: list[Any] = []
    axis = 0
    for entry in _spread(x, keys, count):
        if _is_mask(entry):
            _check_mask(x, as_tensor(entry), axis)
            if not np.ndim(entry):
                raise refusal(
                    "index", "a mask without axes is combined with other entries", found=repr(key), expected="it alone"
                )
            found = list(map(as_tensor, np.nonzero(_values("index", entry))))
        elif isinstance(entry, list | np.ndarray) or (isinstance(entry, Tensor) and entry.ndim):
            found = [as_tensor(entry if isinstance(entry, Tensor) else _array(entry), operation="index")]
            as_indices("index", found[0])
        else:
            found = [entry]
        entries += found
        axis += sum(each is not None for each in found)
    return entries


def _spread(x: Tensor, keys: tuple[Any, ...], count: int) -> list[Any]:
    """Returns `keys`, which index `count` axes, with full slices for the other axes at Ellipsis (or at the end)."""
    ellipses = [place for place, entry in enumerate(keys) if entry is Ellipsis]
    if len(ellipses) > 1 or count > x.ndim:
        problem = "two ellipses" if len(ellipses) > 1 else "too many indices"
        raise refusal("index", problem, found=f"{count} indices for {describe([x])}", expected=f"at most {x.ndim}")
    place = ellipses[0] if ellipses else len(keys)
    return [*keys[:place], *[_ALL] * (x.ndim - count), *keys[place + 1 :]]


def _arrays(entries: Sequence[Any]) -> list[Tensor]:
    return [entry for entry in entries if isinstance(entry, Tensor) and entry.ndim]


def _axes(entries: Sequence[Any], shape: Shape) -> list[tuple[Any, int]]:
    """Returns the entries that index an axis, each with the axis's extent."""
    return list(zip([entry for entry in entries if entry is not None], shape, strict=True))


def _bounds(x: Node, entries: Sequence[Any]) -> tuple[Bounds, Shape]:
    """Returns the bounds and the shape of the selected part; axes that arrays index are included whole."""
    starts, stops, steps, flips = [], [], [], []
    shape: list[int] = []
    axis = 0
    for entry in entries:
        if entry is None:
            shape.append(1)
            continue
        extent = x.shape[axis]
        if entry is _ALL or (isinstance(entry, Tensor) and entry.ndim):
            start, stop, step = 0, extent, 1
            shape.append(extent)
        elif isinstance(entry, slice):
            try:
                start, stop, step = entry.indices(extent)
            except (TypeError, ValueError) as error:
                raise refusal("index", "not a slice of integers", found=repr(entry), expected=str(error)) from None
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
            number = entry if type(entry) is int else _whole(entry)
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
    return (starts, stops, steps, tuple(flips)), tuple(shape)


def _whole(entry: Any) -> int:
    try:
        return index(entry)  # reads the value of a tensor, as the standard requires
    except TypeError:
        raise refusal("index", "not an index", found=repr(entry), expected=_EXPECTED) from None


# --- reading ----------------------------------------------------------------------------------------------------------


def _sliced(x: Node, entries: Sequence[Any]) -> Node:
    """Returns the part of `x` that slices and integers select; axes that arrays index are included whole."""
    (starts, stops, steps, flips), shape = _bounds(x, entries)
    if tuple(stops) != x.shape or any(starts) or any(step != 1 for step in steps):
        x = p.slice_(x, tuple(starts), tuple(stops), tuple(steps))
    return p.reshape(p.flip(x, flips), shape)


def _picked(x: Node, entries: Sequence[Any], places: Sequence[Node]) -> Node:
    """Returns the selected part of `x`; `places` are the arrays' indices, all in range."""
    x = _sliced(x, entries)
    if not places:
        return x
    axes, first = _places_of_arrays(entries)
    together = broadcast_shape("index", [place.shape for place in places])
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    extents = [x.shape[axis] for axis in axes]
    number = p.broadcast(places[0], together)
    for place, extent in zip(places[1:], extents[1:], strict=True):
        wide = p.cast(number, dtypes.int64) if number.dtype is not dtypes.int64 else number
        number = p.add(p.multiply(wide, p.full_like(wide, extent)), cast(p.broadcast(place, together), dtypes.int64))
    order = (*rest[:first], *axes, *rest[first:])
    moved = x if order == tuple(range(x.ndim)) else p.permute(x, order)
    flat = (*moved.shape[:first], math.prod(extents), *moved.shape[first + len(axes) :])
    return p.gather(p.reshape(moved, flat), number, first)


def _places_of_arrays(entries: Sequence[Any]) -> tuple[list[int], int]:
    """Returns the axes of the sliced part that arrays index, and the number of other axes before the arrays' result.

    The result stands where the arrays (and integers among them) stand, or in front if other entries lie between them.
    """
    axes, axis = [], 0
    is_array = [isinstance(entry, Tensor) and entry.ndim > 0 for entry in entries]
    is_advanced = [entry is not None and not isinstance(entry, slice) and entry is not Ellipsis for entry in entries]
    for entry, chosen, advanced in zip(entries, is_array, is_advanced, strict=True):
        if chosen:
            axes.append(axis)
        axis += entry is None or chosen or not advanced
    begin, end = is_advanced.index(True), len(entries) - is_advanced[::-1].index(True)
    return axes, begin if all(is_advanced[begin:end]) else 0


# --- writing ----------------------------------------------------------------------------------------------------------


def _fitted(value: Node, shape: Shape) -> Node:
    """Broadcasts `value` to `shape`, that of the part it is written to."""
    extra = value.ndim - len(shape)
    if extra > 0 and set(value.shape[:extra]) == {1}:
        value = p.reshape(value, value.shape[extra:])
    if value.ndim > len(shape) or broadcast_shape("index", [value.shape, shape]) != shape:
        raise refusal("index", "the value does not fit", found=describe([value]), expected=f"what fills {list(shape)}")
    return p.broadcast(value, shape)


def _written(x: Node, entries: Sequence[Any], value: Node) -> Node:
    """Returns `x` with `value` in the part that slices and integers select."""
    (starts, stops, steps, flips), shape = _bounds(x, entries)
    number = value if value.size == 1 else None
    value = _fitted(value, shape)
    if not value.size:
        return x
    if number is not None:
        return _filled(x, starts, stops, steps, p.broadcast(p.reshape(number, ()), x.shape))
    region = tuple(len(range(*bounds)) for bounds in zip(starts, stops, steps, strict=True))
    value = p.flip(p.reshape(value, region), flips)
    if region == x.shape:
        return value
    high = tuple(extent - stop for extent, stop in zip(x.shape, stops, strict=True))
    margins = (tuple(starts), high, tuple(step - 1 for step in steps))
    inside = p.pad(p.full(region, True, dtypes.bool_), *margins, False)
    return p.where(inside, p.pad(value, *margins, 0), x)


def _filled(x: Node, starts: Sequence[int], stops: Sequence[int], steps: Sequence[int], number: Node) -> Node:
    """Returns `x` with one number in a part. Bounds are scalars in comparisons, so that parts at different places share
    a program; padding would need a program for each.
    """
    inside: list[Node] = []
    for axis, (start, stop, step) in enumerate(zip(starts, stops, steps, strict=True)):
        place = p.iota(x.shape, axis, dtypes.int64)
        if stop - start == 1 and x.shape[axis] > 1:
            inside.append(p.equal(place, p.full_like(place, start)))
        elif stop - start < x.shape[axis] or step > 1:
            inside += [p.less_equal(p.full_like(place, start), place), p.less(place, p.full_like(place, stop))]
        if step > 1:
            distance = p.subtract(place, p.full_like(place, start))
            inside.append(p.equal(p.remainder(distance, p.full_like(place, step)), p.full_like(place, 0)))
    return p.where(functools.reduce(p.logical_and, inside), number, x) if inside else number


def _scattered(x: Node, entries: Sequence[Any], value: Node) -> Node:
    """Returns `x` with `value` at places that are data; the last of several values for one place is stored.

    The row-major numbers of the places are sorted stably; the last of equal numbers selects the value.
    """
    numbers, places = p.reshape(p.iota((x.size,), 0, dtypes.int64), x.shape), []
    for axis, (entry, extent) in enumerate(_axes(entries, x.shape)):
        if isinstance(entry, Tensor) and entry.ndim:
            low, one = (0,) * x.ndim, tuple(int(each == axis) for each in range(x.ndim))
            numbers = p.pad(numbers, low, one, low, x.size)  # the place of an index out of range: not written
            places.append(_or_beyond(as_indices("index", entry), extent))
    numbers = _picked(numbers, entries, places)
    value = p.reshape(_fitted(value, numbers.shape), (numbers.size,))
    if not numbers.size or not x.size:
        return x
    flat = p.reshape(numbers, (numbers.size,))
    order = p.argsort(flat, 0, False)
    ranked = p.gather(flat, order, 0)
    following = p.slice_(p.pad(ranked, (0,), (1,), (0,), -1), (1,), (flat.size + 1,), (1,))
    target = p.where(p.equal(ranked, following), p.full_like(ranked, x.size), ranked)
    winner = p.scatter_add(p.add(order, p.full_like(order, 1)), target, 0, x.size)
    found = p.gather(value, p.maximum(p.subtract(winner, p.full_like(winner, 1)), p.full_like(winner, 0)), 0)
    return p.where(p.reshape(p.equal(winner, p.full_like(winner, 0)), x.shape), x, p.reshape(found, x.shape))


def _or_beyond(places: Node, extent: int) -> Node:
    """Returns indices counted from the front, or `extent` for those out of range."""
    zero, end = p.full_like(places, 0), p.full_like(places, extent)
    places = p.where(p.less(places, zero), p.add(places, end), places)
    return p.where(p.logical_or(p.less(places, zero), p.less(end, places)), end, places)
