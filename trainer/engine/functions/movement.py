"""Manipulation functions of the standard, and reading at indices that are data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer.engine import tracing
from trainer.engine.functions.axes import diagonal, extents, how_many, integer_list, one_axis, rising_axes
from trainer.engine.functions.places import as_indices, as_places
from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.promotion import promoted
from trainer.engine.tensor import Tensor, as_tensor, broadcast_shape, wrapped


def reshape(x: Any, /, shape: Sequence[int] | int, *, copy: bool | None = None) -> Tensor:
    """Reshapes x to `shape` in row-major order; one extent may be -1 and is inferred. x may have any dtype.

    Raises:
        TrainerError: the sizes differ, or an extent is negative.
    """
    tensor = as_tensor(x)
    sizes = integer_list("reshape", shape)
    if sizes.count(-1) == 1:
        known = -math.prod(sizes)
        if known > 0 and tensor.size % known == 0:
            sizes[sizes.index(-1)] = tensor.size // known
    if -1 in sizes or math.prod(sizes) != tensor.size:
        found = f"{describe([tensor])} to {list(shape) if not isinstance(shape, int) else shape}"
        raise refusal("reshape", "sizes differ", found=found, expected=f"a shape of {tensor.size} elements")
    return wrapped(p.reshape(tensor.node, extents("reshape", sizes)), tensor)


def permute_dims(x: Any, /, axes: Sequence[int]) -> Tensor:
    """Permutes the axes: axis i of the result is axis `axes[i]` of x. x may have any dtype.

    Raises:
        TrainerError: `axes` is not a permutation of the axes.
    """
    tensor = as_tensor(x)
    order = tuple(one_axis("permute_dims", axis, tensor.ndim) for axis in axes)
    if sorted(order) != list(range(tensor.ndim)):
        expected = f"each of 0 to {tensor.ndim - 1} once"
        raise refusal(
            "permute_dims", "not a permutation", found=f"{list(axes)} of {describe([tensor])}", expected=expected
        )
    return wrapped(p.permute(tensor.node, order), tensor)


def moveaxis(x: Any, source: int | Sequence[int], destination: int | Sequence[int], /) -> Tensor:
    """Moves the axes `source` to `destination`; the others keep their order. x may have any dtype.

    Raises:
        TrainerError: the axes don't pair up, or the axis is out of range.
    """
    tensor = as_tensor(x)
    sources = [source] if isinstance(source, int) else list(source)
    places = [destination] if isinstance(destination, int) else list(destination)
    taken = [one_axis("moveaxis", axis, tensor.ndim) for axis in sources]
    targets = [one_axis("moveaxis", axis, tensor.ndim) for axis in places]
    if len(taken) != len(targets) or len(set(taken)) != len(taken) or len(set(targets)) != len(targets):
        raise refusal("moveaxis", "axes don't pair up", found=f"{sources} to {places}")
    order = [axis for axis in range(tensor.ndim) if axis not in taken]
    for target, axis in sorted(zip(targets, taken, strict=True)):
        order.insert(target, axis)
    return permute_dims(tensor, order)


def expand_dims(x: Any, /, axis: int | Sequence[int] = 0) -> Tensor:
    """Inserts axes of extent 1 at the places `axis` of the result. x may have any dtype.

    Raises:
        TrainerError: a place is out of range or given twice.
    """
    tensor = as_tensor(x)
    count = 1 if isinstance(axis, int) else len(axis)
    places = rising_axes("expand_dims", axis, tensor.ndim + count)
    shape = list(tensor.shape)
    for place in places:
        shape.insert(place, 1)
    return wrapped(p.reshape(tensor.node, tuple(shape)), tensor)


def squeeze(x: Any, /, axis: int | Sequence[int]) -> Tensor:
    """Drops the axes `axis`, each of extent 1. x may have any dtype.

    Raises:
        TrainerError: the axis is out of range, or its extent is not 1.
    """
    tensor = as_tensor(x)
    axes = rising_axes("squeeze", axis, tensor.ndim)
    if any(tensor.shape[each] != 1 for each in axes):
        raise refusal(
            "squeeze", "an axis is not 1", found=f"{describe([tensor])}, axis {axis}", expected="extents of 1"
        )
    return wrapped(p.reshape(tensor.node, tuple(e for a, e in enumerate(tensor.shape) if a not in axes)), tensor)


def broadcast_to(x: Any, /, shape: Sequence[int] | int) -> Tensor:
    """Broadcasts x to `shape`, along axes of extent 1 and along new axes in front. x may have any dtype.

    Raises:
        TrainerError: x does not broadcast to the shape.
    """
    tensor, target = as_tensor(x), extents("broadcast_to", shape)
    if broadcast_shape("broadcast_to", [tensor.shape, target]) != target:
        raise refusal("broadcast_to", "the shape doesn't hold x", found=f"{describe([tensor])} to {list(target)}")
    return wrapped(p.broadcast(tensor.node, target), tensor)


def broadcast_arrays(*arrays: Any) -> tuple[Tensor, ...]:
    """Broadcasts `arrays` to their common shape. Each keeps its dtype.

    Raises:
        TrainerError: shapes don't broadcast.
    """
    tensors = [as_tensor(array) for array in arrays]
    shape = broadcast_shapes(*[tensor.shape for tensor in tensors])
    return tuple(broadcast_to(tensor, shape) for tensor in tensors)


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that `shapes` broadcast to; () if none are given. The arrays may have any dtype.

    Raises:
        TrainerError: shapes don't broadcast.
    """
    return broadcast_shape("broadcast_shapes", [(), *(tuple(shape) for shape in shapes)])


def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinates of a grid: the values of each vector along its axis, repeated along the axes of the others.

    Axes are in the vectors' order with `indexing` "ij"; "xy" swaps the first two. Each keeps its dtype. For vectors
    [A], [B], [C] the results are [A, B, C] with "ij", [B, A, C] with "xy".

    Raises:
        TrainerError: `indexing` is unknown.
    """
    tensors = [reshape(array, (-1,)) for array in arrays]
    if indexing not in ("xy", "ij"):
        raise refusal("meshgrid", "no such order of axes", found=repr(indexing), expected="'xy' or 'ij'")
    count = len(tensors)
    order = [1, 0, *range(2, count)] if indexing == "xy" and count > 1 else list(range(count))
    lines = [
        reshape(tensor, [-1 if axis == order[n] else 1 for axis in range(count)]) for n, tensor in enumerate(tensors)
    ]
    return broadcast_arrays(*lines)


def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Tensor:
    """Joins `arrays` along `axis` (None flattens them first), in the promoted dtype.

    Shapes may differ along that axis only.

    Raises:
        TrainerError: no arrays are given, dtypes can't be promoted, shapes don't fit, or the axis is out of range.
    """
    tensors = _together("concat", arrays)
    if axis is None:
        tensors, axis = [reshape(tensor, (-1,)) for tensor in tensors], 0
    number = one_axis("concat", axis, tensors[0].ndim)
    if len({(*tensor.shape[:number], *tensor.shape[number + 1 :], tensor.ndim) for tensor in tensors}) > 1:
        expected = f"shapes that differ along axis {number} only"
        raise refusal("concat", "shapes don't fit together", found=describe(tensors), expected=expected)
    return wrapped(p.concatenate([tensor.node for tensor in tensors], number), *tensors)


def stack(arrays: Sequence[Any], /, *, axis: int = 0) -> Tensor:
    """Stacks `arrays` of one shape along a new axis, in the promoted dtype.

    Raises:
        TrainerError: no arrays are given, dtypes can't be promoted, shapes differ, or the axis is out of range.
    """
    tensors = _together("stack", arrays)
    if len({tensor.shape for tensor in tensors}) > 1:
        raise refusal("stack", "shapes differ", found=describe(tensors), expected="arrays of one shape")
    number = one_axis("stack", axis, tensors[0].ndim + 1)
    return concat([expand_dims(tensor, axis=number) for tensor in tensors], axis=number)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Splits x into its slices along `axis`, which is dropped. x may have any dtype.

    Raises:
        TrainerError: the axis is out of range.
    """
    tensor = as_tensor(x)
    number = one_axis("unstack", axis, tensor.ndim)
    return tuple(tensor[(slice(None),) * number + (place,)] for place in range(tensor.shape[number]))


def split(x: Any, sizes: int | Sequence[int], /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Splits x along `axis` into parts of `sizes`: one size for all (the last may be shorter), or one for each part.

    x may have any dtype.

    Raises:
        TrainerError: sizes are below 0 (one size: below 1), or don't add up to the axis.

    >>> [part.tolist() for part in engine.split(engine.asarray([1, 2, 3, 4]), [1, 3])]
    [[1], [2, 3, 4]]
    """
    tensor = as_tensor(x, operation="split")
    number = one_axis("split", axis, tensor.ndim)
    extent, parts = tensor.shape[number], integer_list("split", sizes)
    if isinstance(sizes, int) and sizes > 0:
        parts = [min(sizes, extent - begin) for begin in range(0, extent, sizes)]
    if min(parts, default=0) < 0 or sum(parts) != extent:
        expected = f"a size of at least 1, or sizes that add up to {extent}"
        raise refusal(
            "split", "sizes don't fit", found=f"{sizes} of {describe([tensor])}, axis {axis}", expected=expected
        )
    front, ends = (slice(None),) * number, list(itertools.accumulate(parts))
    return tuple(tensor[(*front, slice(end - size, end))] for size, end in zip(parts, ends, strict=True))


def flip(x: Any, /, *, axis: int | Sequence[int] | None = None) -> Tensor:
    """Reverses the order along `axis` (None: every axis). x may have any dtype.

    Raises:
        TrainerError: an axis is out of range or given twice.
    """
    tensor = as_tensor(x)
    return wrapped(p.flip(tensor.node, rising_axes("flip", axis, tensor.ndim)), tensor)


def roll(x: Any, /, shift: int | Sequence[int], *, axis: int | Sequence[int] | None = None) -> Tensor:
    """Shifts elements by `shift` along `axis`, cyclically; None rolls the flattened x.

    The result has x's shape and dtype, which may be any.

    Raises:
        TrainerError: shifts and axes don't pair up, or the axis is out of range.
    """
    tensor = as_tensor(x)
    if axis is None:
        return reshape(roll(reshape(tensor, (-1,)), shift, axis=0), tensor.shape)
    shifts = [shift] if isinstance(shift, int) else list(shift)
    axes = [axis] if isinstance(axis, int) else list(axis)
    if len(shifts) == 1:
        shifts *= len(axes)
    if len(shifts) != len(axes):
        raise refusal("roll", "shifts and axes don't pair up", found=f"shift {shift}, axis {axis}")
    for amount, each in zip(shifts, axes, strict=True):
        number = one_axis("roll", each, tensor.ndim)
        extent = tensor.shape[number]
        cut = (-amount) % extent if extent else 0
        if cut:
            front = (slice(None),) * number
            tensor = concat([tensor[(*front, slice(cut, None))], tensor[(*front, slice(None, cut))]], axis=number)
    return tensor


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Repeats each element `repeats` times in a row along `axis`; None flattens x first.

    `repeats` is a number, or an array with one number per element along the axis. The shape then depends on its values,
    which are read immediately; a traced step refuses a tensor. x may have any dtype.

    Raises:
        TrainerError: the axis is out of range, `repeats` is negative, or it is a tensor in a traced step.
    """
    tensor = reshape(x, (-1,)) if axis is None else as_tensor(x)
    number = one_axis("repeat", 0 if axis is None else axis, tensor.ndim)
    if isinstance(repeats, Tensor | np.ndarray | list):
        counts = np.broadcast_to(np.asarray(repeats), (tensor.shape[number],))
        places = np.repeat(np.arange(tensor.shape[number]), counts)
        return take(tensor, places, axis=number)
    how_many("repeat", "`repeats`", repeats)
    shape = tensor.shape
    wider = p.reshape(tensor.node, (*shape[: number + 1], 1, *shape[number + 1 :]))
    grown = p.broadcast(wider, (*shape[: number + 1], repeats, *shape[number + 1 :]))
    return wrapped(p.reshape(grown, (*shape[:number], shape[number] * repeats, *shape[number + 1 :])), tensor)


def tile(x: Any, repetitions: Sequence[int], /) -> Tensor:
    """Repeats x `repetitions` times along each axis.

    Extents are multiplied; if x or `repetitions` has fewer axes, ones are added in front. x may have any dtype.

    Raises:
        TrainerError: a number of repetitions is negative.
    """
    tensor = as_tensor(x)
    rank = max(tensor.ndim, len(repetitions))
    counts = (1,) * (rank - len(repetitions)) + extents("tile", tuple(repetitions))
    shape = (1,) * (rank - tensor.ndim) + tensor.shape
    split = tuple(each for extent in shape for each in (1, extent))
    grown = tuple(each for count, extent in zip(counts, shape, strict=True) for each in (count, extent))
    result = tuple(count * extent for count, extent in zip(counts, shape, strict=True))
    return wrapped(p.reshape(p.broadcast(p.reshape(tensor.node, split), grown), result), tensor)


def tril(x: Any, /, *, k: int = 0) -> Tensor:
    """x with the elements above diagonal `k`, any integer, of the last two axes set to 0, in x's shape and dtype.

    Raises:
        TrainerError: x has fewer than two axes.
    """
    return _triangle("tril", x, k)


def triu(x: Any, /, *, k: int = 0) -> Tensor:
    """x with the elements below diagonal `k`, any integer, of the last two axes set to 0, in x's shape and dtype.

    Raises:
        TrainerError: x has fewer than two axes.
    """
    return _triangle("triu", x, k)


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Tensor:
    """Slices of x at `indices` (integers, any shape) along `axis`: x.shape[:axis] + indices.shape + x.shape[axis + 1:].

    Negative indices count from the end. Indices out of range read the nearest slice, which gets the gradient; they
    raise no error, because they are data.

    Raises:
        TrainerError: the indices are not integers, or the axis is empty.
    """
    tensor = as_tensor(x)
    if axis is None and tensor.ndim != 1:
        raise refusal("take", "the axis is missing", found=f"{tensor.ndim} axes and axis=None", expected="axis=...")
    number = one_axis("take", 0 if axis is None else axis, tensor.ndim)
    places, node = as_places("take", indices, tensor.shape[number])
    return wrapped(p.gather(tensor.node, node, number), tensor, places)


def take_rows(x: Tensor, indices: Tensor, /) -> Tensor:
    """`take` along the first axis for indices that are known to be in range: they are not adjusted.

    An index out of range (negative ones included) reads the nearest row, and gets no gradient.
    """
    return wrapped(p.gather(x.node, as_indices("take_rows", indices), 0), x, indices)


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Tensor:
    """The elements of x at `indices` along `axis`, counted as in `take`; the other axes broadcast.

    The result has x's dtype, which may be any; indices are integers.

    Raises:
        TrainerError: the indices are not integers, ranks differ, or the other axes don't broadcast.
    """
    tensor = as_tensor(x)
    number = one_axis("take_along_axis", axis, tensor.ndim)
    places, found = as_places("take_along_axis", indices, tensor.shape[number])
    if tensor.ndim != places.ndim:
        raise refusal("take_along_axis", "ranks differ", found=describe([tensor, places]), expected="equal ranks")
    shapes = [each[:number] + each[number + 1 :] for each in (tensor.shape, places.shape)]
    rest = broadcast_shape("take_along_axis", shapes)
    node, where = (
        p.broadcast(each, (*rest[:number], each.shape[number], *rest[number:])) for each in (tensor.node, found)
    )
    return wrapped(p.take_along(node, where, number), tensor, places)


def bincount(
    x: Any, /, weights: Any | None = None, minlength: int = 0, *, length: int | None = None, axis: int = -1
) -> Tensor:
    """Counts each number from 0 on among the integers along `axis`; negative numbers are ignored.

    The axis has `length` elements in the result; the other axes stay.

    Args:
        weights: numbers of x's shape, summed in their dtype and in element order; without weights, int64 counts.
        minlength: minimum length if `length` is not given. The length is then at least the largest number plus 1, so
            `x` is computed immediately.
        length: number of counts; larger numbers are ignored.

    Raises:
        TrainerError: `x` does not hold integers, the axis is out of range, or `length` is missing in a traced step.

    >>> engine.bincount(engine.asarray([0, 2, 2]), minlength=4).tolist()
    [1, 0, 2, 0]
    """
    tensor = as_tensor(x)
    number = one_axis("bincount", axis, tensor.ndim)
    places = as_indices("bincount", tensor)
    if length is None:
        if tracing.active() is not None:
            raise refusal("bincount", "the length depends on the data", found="a traced step", expected="length=...")
        found = int(tensor.numpy().max()) + 1 if tensor.size else 0
        length = max(how_many("bincount", "`minlength`", minlength), found)
    given = [] if weights is None else [as_tensor(weights)]
    counts = given[0].node if given else p.full(tensor.shape, 1, dtypes.int64)
    return wrapped(p.scatter_add_along(counts, places, number, length), tensor, *given)


def _together(operation: str, arrays: Sequence[Any]) -> list[Tensor]:
    if not isinstance(arrays, (tuple, list, Tensor)):
        raise refusal(operation, "takes several arrays", found=type(arrays).__name__, expected="a list or tuple")
    tensors = [as_tensor(array, operation=operation) for array in arrays]
    if not tensors:
        raise refusal(operation, "of nothing", expected="at least one array")
    dtype = promoted(operation, [tensor.dtype for tensor in tensors])
    return [tensor.astype(dtype) for tensor in tensors]


def _triangle(operation: str, x: Any, k: int) -> Tensor:
    tensor = as_tensor(x)
    if tensor.ndim < 2:
        raise refusal(operation, "takes matrices", found=describe([tensor]), expected="at least two axes")
    offset = diagonal(operation, k, *tensor.shape[-2:])
    row = p.iota(tensor.shape, tensor.ndim - 2, dtypes.int64)
    limit = p.add(row, p.full(tensor.shape, offset, dtypes.int64))
    column = p.iota(tensor.shape, tensor.ndim - 1, dtypes.int64)
    kept = p.less_equal(column, limit) if operation == "tril" else p.less_equal(limit, column)
    return wrapped(p.where(kept, tensor.node, p.full(tensor.shape, 0, tensor.dtype)), tensor)
