"""Creation functions of the standard. The default floating-point dtype is float32, the default integer dtype int64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer.engine.functions.axes import diagonal, extents, how_many
from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import check_dtype, refusal
from trainer.engine.graph.storage import Storage
from trainer.engine.promotion import check_scalar, default_of
from trainer.engine.tensor import NUMBERS, Tensor, as_tensor, wrapped

Extents = int | Sequence[int]


def asarray(x: Any, /, *, dtype: DType | None = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """`x` (tensor, number, array or nested lists of numbers) as a tensor of its shape, converted to `dtype`.

    The conversion is that of `astype`: floats to integers truncate and saturate (NaN becomes 0), integers wrap, nonzero
    is True. Without `dtype`, arrays keep their dtype, and Python numbers become bool, int64, float32 or complex64.
    Arrays, numbers and lists are always copied; a tensor of that dtype is returned itself unless `copy` is True.

    Raises:
        TrainerError: nested lists are ragged; `x` has an unsupported element type and `dtype` is None, or it has
            neither bools nor numbers; complex numbers would become real.
        ValueError: `copy` is False, and `x` is not a tensor of this dtype.
    """
    if copy is False and not (isinstance(x, Tensor) and x.dtype is (dtype or x.dtype)):
        raise ValueError("asarray: copy=False needs a tensor of the dtype; other values are copied")
    tensor = as_tensor(x, dtype)
    return wrapped(tensor.node, tensor) if copy and tensor is x else tensor


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Another library's array in host memory as a tensor of its shape and dtype; a tensor is returned unchanged.

    Row-major memory is shared unless `copy` is True: do not write to it while the tensor lives. Other memory is copied.

    Raises:
        TrainerError: the array's element type is not supported.
        ValueError: `copy` is False, and the memory is not row-major.
    """
    if isinstance(x, Tensor):
        return asarray(x, copy=copy or None)
    array = np.from_dlpack(x)
    dtype = dtypes.from_numpy(array.dtype)
    if copy or dtype is None or not array.flags.c_contiguous or not array.size:
        if copy is False and dtype is not None and array.size:
            raise ValueError("from_dlpack: copy=False needs row-major memory; other memory is copied")
        return as_tensor(array, operation="from_dlpack")
    storage = Storage(array.shape, dtype)
    storage.put(array.reshape(-1), storage.layout)
    return Tensor(p.buffer(storage))


def full(shape: Extents, fill_value: Any, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """A tensor of `shape` filled with `fill_value`, which may be a tensor without axes.

    The default dtype is that of a tensor value, and bool, int64, float32 or complex64 for a Python number.

    Raises:
        TrainerError: an extent is negative or not an integer, the value has axes, or it doesn't fit `dtype`.
    """
    target = extents("full", shape)
    if isinstance(fill_value, NUMBERS):
        if dtype is not None:
            check_scalar("full", fill_value, dtype)
        return Tensor(p.full(target, fill_value, dtype or default_of(fill_value)))
    value = as_tensor(fill_value, dtype)
    if value.ndim:
        raise refusal("full", "the value must be one number", found=list(value.shape), expected="shape ()")
    return wrapped(p.broadcast(value.node, target), value)


def zeros(shape: Extents, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Zeros of `shape`, an extent or a sequence of extents; float32 unless `dtype` is given.

    Raises:
        TrainerError: an extent is negative or not an integer.
    """
    return _filled(shape, 0, dtype)


def ones(shape: Extents, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Ones of `shape`, an extent or a sequence of extents; float32 unless `dtype` is given.

    Raises:
        TrainerError: an extent is negative or not an integer.
    """
    return _filled(shape, 1, dtype)


def empty(shape: Extents, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Zeros of `shape`; float32 unless `dtype` is given. Memory is never uninitialized.

    Raises:
        TrainerError: an extent is negative or not an integer.
    """
    return zeros(shape, dtype=dtype)


def _filled(shape: Extents, value: int, dtype: DType | None) -> Tensor:
    return Tensor(p.full(extents("shape", shape), value, dtype or dtypes.float32))


def full_like(x: Any, /, fill_value: Any, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """A tensor filled with `fill_value`, of x's shape, and of its dtype unless `dtype` is given.

    Raises:
        TrainerError: the value has axes, or doesn't fit the dtype.
    """
    tensor = as_tensor(x)
    return full(tensor.shape, fill_value, dtype=dtype or tensor.dtype)


def zeros_like(x: Any, /, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Zeros of x's shape, and of its dtype unless `dtype` is given.

    Raises:
        TrainerError: `x` can't be converted to a tensor; see `asarray`.
    """
    tensor = as_tensor(x)
    return _filled(tensor.shape, 0, dtype or tensor.dtype)


def ones_like(x: Any, /, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Ones of x's shape, and of its dtype unless `dtype` is given.

    Raises:
        TrainerError: `x` can't be converted to a tensor; see `asarray`.
    """
    tensor = as_tensor(x)
    return _filled(tensor.shape, 1, dtype or tensor.dtype)


def empty_like(x: Any, /, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Zeros of x's shape, and of its dtype unless `dtype` is given.

    Raises:
        TrainerError: `x` can't be converted to a tensor; see `asarray`.
    """
    return zeros_like(x, dtype=dtype)


def arange(
    start: int | float,
    /,
    stop: int | float | None = None,
    step: int | float = 1,
    *,
    dtype: DType | None = None,
    device: Any = None,
) -> Tensor:
    """start, start + step, ... up to `stop`, which is excluded; a single argument is `stop`, with start 0.

    The shape is [ceil((stop - start) / step)], or [0]. The default dtype is int64 for integers, otherwise float32.

    Raises:
        TrainerError: the step is 0.
    """
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise refusal("arange", "the step must not be 0", found=f"from {start} to {stop} by {step}")
    is_whole = all(isinstance(number, int) for number in (start, stop, step))
    target = dtype or (dtypes.int64 if is_whole else dtypes.float32)
    check_dtype("arange", target)
    count = max(0, math.ceil((stop - start) / step)) if not is_whole else len(range(int(start), int(stop), int(step)))
    if is_whole and target.is_integer:
        limits = np.iinfo(target.storage)
        narrow = not (limits.min <= min(start, step) and max(start, step) <= limits.max)  # such as steps down in uint8
        wide = dtypes.int64 if narrow else target
        node = p.iota((count,), 0, wide)
        node = node if step == 1 else p.multiply(node, p.full((count,), _wrapping(step, wide), wide))
        node = node if start == 0 else p.add(node, p.full((count,), _wrapping(start, wide), wide))
        return Tensor(p.cast(node, target) if narrow else node)
    return linear(count, float(start), float(step), target)


def _wrapping(number: Any, dtype: DType) -> int:
    """Wraps a number up to 2**64 to int64, whose arithmetic wraps like uint64's; other dtypes keep the number."""
    return (int(number) + 2**63) % 2**64 - 2**63 if dtype is dtypes.int64 else int(number)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: DType | None = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    """`num` equally spaced numbers from `start` to `stop`, which is included with `endpoint`.

    The shape is [num]. The default dtype is float32, or complex64 if an end is complex.

    Raises:
        TrainerError: `num` is negative or not an integer.
    """
    if isinstance(start, complex) or isinstance(stop, complex) or (dtype is not None and dtype.is_complex):
        target, begin, end = dtype or dtypes.complex64, complex(start), complex(stop)
        real = linspace(begin.real, end.real, num, dtype=target.part, endpoint=endpoint)
        imaginary = linspace(begin.imag, end.imag, num, dtype=target.part, endpoint=endpoint)
        return wrapped(p.complex_(real.node, imaginary.node), real, imaginary)
    parts = how_many("linspace", "`num`", num) - (1 if endpoint else 0)
    step = (stop - start) / parts if parts > 0 else 0.0
    result = linear(num, float(start), step, dtype or dtypes.float32)
    if not endpoint or num < 2:
        return result
    last = p.equal(p.iota((num,), 0, dtypes.int64), p.full((num,), num - 1, dtypes.int64))
    return wrapped(p.where(last, p.full((num,), stop, result.dtype), result.node), result)


def linear(count: int, start: float, step: float, dtype: DType) -> Tensor:
    """start + i·step, computed in float64 and rounded once."""
    place = p.iota((count,), 0, dtypes.float64)
    wide = dtypes.float64
    node = p.add(p.full((count,), start, wide), p.multiply(place, p.full((count,), step, wide)))
    return Tensor(node if dtype is wide else p.cast(node, dtype))


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DType | None = None, device: Any = None
) -> Tensor:
    """Ones along diagonal `k` (above the main one if positive), zeros elsewhere: [n_rows, n_cols].

    float32 unless `dtype` is given.

    Raises:
        TrainerError: an extent is negative or not an integer.
    """
    shape = extents("eye", (n_rows, n_rows if n_cols is None else n_cols))
    offset = diagonal("eye", k, *shape)
    row = p.add(p.iota(shape, 0, dtypes.int64), p.full(shape, offset, dtypes.int64))
    return Tensor(p.cast(p.equal(row, p.iota(shape, 1, dtypes.int64)), dtype or dtypes.float32))


def one_hot(labels: Any, classes: int, /, *, ignore_index: int | None = None, dtype: DType | None = None) -> Tensor:
    """One-hot encoding along a new last axis: [..., classes].

    Labels out of range, and `ignore_index`, become all zeros. The result is float32 unless `dtype` is given.

    Raises:
        TrainerError: labels are not integers, or `classes` is negative.

    >>> engine.one_hot([2, 0, 255], 3, ignore_index=0).tolist()
    [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    tensor = as_tensor(labels, operation="one_hot")
    if not tensor.dtype.is_integer:
        raise refusal("one_hot", "labels must be integers", found=repr(tensor.dtype), expected="an integer dtype")
    shape = (*tensor.shape, how_many("one_hot", "the number of classes", classes))
    is_narrow = classes > 2 ** (8 * tensor.dtype.itemsize - (tensor.dtype.kind == "int"))
    node = p.cast(tensor.node, dtypes.int32) if is_narrow else tensor.node
    spread = p.expand(p.reshape(node, (*tensor.shape, 1)), shape)
    place = p.iota(shape, len(shape) - 1, node.dtype)
    node = p.equal(spread, place)
    if ignore_index is not None and 0 <= ignore_index < classes:
        node = p.logical_and(node, p.not_equal(place, p.full_like(place, ignore_index)))
    return wrapped(p.cast(node, dtype or dtypes.float32), tensor)
