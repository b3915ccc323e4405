"""Sorting, searching and set functions of the standard, the top k, and greedy suppression of overlapping candidates."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trainer.engine import tracing
from trainer.engine.functions.axes import how_many, one_axis
from trainer.engine.functions.elementwise import equal, imag, logical_not, real
from trainer.engine.functions.movement import concat, expand_dims, reshape, take
from trainer.engine.functions.reductions import any as any_of
from trainer.engine.functions.reductions import cumulative_sum
from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node
from trainer.engine.promotion import beside, promoted
from trainer.engine.tensor import NUMBERS, Tensor, as_tensor, evaluate, wrapped


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that sort `x` along `axis`, int64 of x's shape. NaN counts as greater than any number.

    Equal elements, such as 0 and -0, keep their order, also in descending order and regardless of `stable`: the result
    is unique. Up to 64 elements are sorted by counting, more by their digits, in linear time.

    Raises:
        TrainerError: the axis is out of range.

    >>> engine.argsort(engine.asarray([3.0, 1.0, 2.0])).tolist()
    [1, 2, 0]
    """
    tensor = as_tensor(x, operation="argsort")
    return wrapped(p.argsort(tensor.node, one_axis("argsort", axis, tensor.ndim), bool(descending)), tensor)


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """`x` sorted along `axis`, in its shape and dtype; each element's gradient flows to its original position.

    NaN counts as greater than any number. Of zeros, -0 comes first (last in descending order).

    Raises:
        TrainerError: the axis is out of range.

    >>> engine.sort(engine.asarray([3.0, 1.0, 2.0]), descending=True).tolist()
    [3.0, 2.0, 1.0]
    """
    tensor = as_tensor(x, operation="sort")
    return wrapped(p.sort(tensor.node, one_axis("sort", axis, tensor.ndim), bool(descending)), tensor)


def top_k(x: Any, /, k: int, *, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The `k` largest elements along `axis` in descending order, and their indices, int64; among equal elements
    the first are chosen.

    With `largest=False` the smallest ones in ascending order. The axis has `k` elements in both results. A small `k`
    takes one pass, without sorting the others.

    Raises:
        TrainerError: there are fewer than `k` elements along the axis.

    >>> values, places = engine.top_k(engine.asarray([3.0, 1.0, 2.0]), 2)
    >>> values.tolist(), places.tolist()
    ([3.0, 2.0], [0, 2])
    """
    tensor = as_tensor(x, operation="top_k")
    number = one_axis("top_k", axis, tensor.ndim)
    if not 0 < k <= tensor.shape[number]:
        raise refusal("top_k", "wrong number of elements", found=f"k={k} of {describe([tensor])}, axis {axis}")
    places = p.top_k(tensor.node, number, how_many("top_k", "k", k), bool(largest))
    return wrapped(p.take_along(tensor.node, places, number), tensor), wrapped(places, tensor)


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any | None = None) -> Tensor:
    """Where each element of `x2` would be inserted into the sorted `x1` [N] so that it stays sorted: int64, x2's shape.

    `x2` may be a Python number. `side="left"` gives the first such index, from 0, "right" the last one, up to N. NaN
    counts as greater than any number. `sorter` holds the indices that sort `x1`, if `x1` is not sorted itself.

    Raises:
        TrainerError: `x1` does not have one axis, `side` is unknown, or the dtypes are of different kinds.

    >>> engine.searchsorted(engine.asarray([1.0, 2.0, 2.0, 5.0]), engine.asarray([2.0, 9.0])).tolist()
    [1, 4]
    """
    table = as_tensor(x1, operation="searchsorted")
    alone = beside("searchsorted", x2, table.dtype) if isinstance(x2, NUMBERS) else None
    values = as_tensor(x2, alone, operation="searchsorted")
    if table.ndim != 1 or side not in ("left", "right"):
        found = f"{describe([table])}, side={side!r}"
        raise refusal(
            "searchsorted",
            "x1 has the wrong rank, or `side` is unknown",
            found=found,
            expected="x1 [N], side 'left' or 'right'",
        )
    dtype = promoted("searchsorted", [table.dtype, values.dtype])
    table, values = table.astype(dtype), values.astype(dtype)
    if sorter is not None:
        table = take(table, sorter)
    count = length = table.shape[0]
    low = p.full(values.shape, 0, dtypes.int64)

    def step(low: Node, span: int) -> Node:
        """Returns `low`, increased by `span` where the `span` elements from `low` on all come before the value."""
        last = p.gather(table.node, p.add(low, p.full_like(low, span - 1)), 0)
        before = _is_less(last, values.node) if side == "left" else p.logical_not(_is_less(values.node, last))
        return p.where(before, p.add(low, p.full_like(low, span)), low)

    while length > 1:  # the answer lies within `length` places from `low` on
        low, length = step(low, length // 2), length - length // 2
    return wrapped(step(low, 1) if count else low, table, values)


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """Whether each element of `x1` is equal to one of `x2`, of any shape: bool of x1's shape. NaN is equal to nothing.

    With `invert`, whether it is equal to none. `x2` is sorted and searched; complex numbers, which have no order, are
    compared in pairs. Either may be a Python number.

    Raises:
        TrainerError: the dtypes are of different kinds.

    >>> engine.isin(engine.asarray([1, 2, 3]), engine.asarray([3, 1])).tolist()
    [True, False, True]
    """
    found = _is_member(x1, x2)
    return logical_not(found) if invert else found


def _is_member(x1: Any, x2: Any) -> Tensor:
    if isinstance(x2, NUMBERS):
        return equal(x1, x2)
    if isinstance(x1, NUMBERS):
        return any_of(equal(x1, x2))
    values, table = as_tensor(x1, operation="isin"), as_tensor(x2, operation="isin")
    dtype = promoted("isin", [values.dtype, table.dtype])
    values, table = values.astype(dtype), reshape(table.astype(dtype), (-1,))
    if dtype.is_complex or not table.size:
        return any_of(equal(expand_dims(values, axis=-1), table), axis=-1)
    table = sort(table)
    return equal(take(table, searchsorted(table, values)), values)  # a place past the end reads the last element


def _is_less(a: Node, b: Node) -> Node:
    """Whether a < b, NaN being greater than any number."""
    if a.dtype is dtypes.bool_:
        return p.logical_and(p.logical_not(a), b)
    if not a.dtype.is_float:
        return p.less(a, b)
    return p.logical_or(p.less(a, b), p.logical_and(p.isnan(b), p.logical_not(p.isnan(a))))


# --- sets: the number of distinct elements is known only when they are computed ----------------


class UniqueAll(NamedTuple):
    """The result of `unique_all`."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The result of `unique_counts`."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The result of `unique_inverse`."""

    values: Tensor
    inverse_indices: Tensor


def unique_values(x: Any, /) -> Tensor:
    """The distinct elements of `x`, sorted: [K].

    K depends on the elements, so they are computed immediately. Gradients flow to the first of equal elements. The
    result has x's dtype.

    Raises:
        TrainerError: a step is being traced; sort there, and compare neighbors.

    >>> engine.unique_values(engine.asarray([3, 1, 3])).tolist()
    [1, 3]
    """
    tensor = as_tensor(x, operation="unique_values")
    flat = reshape(tensor, (-1,))
    if not flat.size:
        return flat
    values = take(flat, _order(flat)) if flat.dtype.is_complex else sort(flat)
    return take(values, _places_of(_begins(values), "unique_values", values))


def unique_counts(x: Any, /) -> UniqueCounts:
    """`values`, as in `unique_values`, and their `counts`, int64 [K].

    Raises:
        TrainerError: see `unique_values`.

    >>> engine.unique_counts(engine.asarray([3, 1, 3])).counts.tolist()
    [1, 2]
    """
    values, _, _, counts = _unique("unique_counts", x, inverse=False)
    return UniqueCounts(values, counts)


def unique_inverse(x: Any, /) -> UniqueInverse:
    """`values`, as in `unique_values`, and the index of each element in them: `inverse_indices`, int64 of x's shape.

    Raises:
        TrainerError: see `unique_values`.

    >>> engine.unique_inverse(engine.asarray([3, 1, 3])).inverse_indices.tolist()
    [1, 0, 1]
    """
    values, _, inverse, _ = _unique("unique_inverse", x, inverse=True)
    return UniqueInverse(values, inverse)


def unique_all(x: Any, /) -> UniqueAll:
    """`values`, the first index of each in the flattened x (`indices`, int64 [K]), `inverse_indices` and `counts`.

    Raises:
        TrainerError: see `unique_values`.

    >>> engine.unique_all(engine.asarray([3, 1, 3])).indices.tolist()
    [1, 0]
    """
    return UniqueAll(*_unique("unique_all", x, inverse=True))


def _unique(operation: str, x: Any, *, inverse: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    tensor = as_tensor(x, operation=operation)
    flat = reshape(tensor, (-1,))
    empty = Tensor(p.full((0,), 0, dtypes.int64))
    if not flat.size:
        return flat, empty, reshape(empty, tensor.shape), empty
    order = _order(flat)
    values = take(flat, order)
    begins = _begins(values)
    starts = _places_of(begins, operation, order, values)
    ends = concat([starts[1:], Tensor(p.full((1,), flat.size, dtypes.int64))])
    belongs = empty
    if inverse:
        number = cumulative_sum(begins, dtype=dtypes.int64) - 1
        belongs = reshape(
            wrapped(p.scatter_add_along(number.node, order.node, 0, flat.size), number, order), tensor.shape
        )
    return take(values, starts), take(order, starts), belongs, ends - starts


def _order(flat: Tensor) -> Tensor:
    """The indices that sort elements; complex numbers by the real part, then by the imaginary one."""
    if not flat.dtype.is_complex:
        return argsort(flat)
    order = argsort(imag(flat))
    return take(order, argsort(take(real(flat), order)))


def _begins(values: Tensor) -> Tensor:
    """Marks sorted values that differ from the one before."""
    first = Tensor(p.full((1,), True, dtypes.bool_))
    return concat([first, values[1:] != values[:-1]])


def _places_of(mask: Tensor, operation: str, *others: Tensor) -> Tensor:
    """Returns the indices where a mask [N] is true. Computes it now, together with `others`, which are read again."""
    if tracing.active() is not None:
        raise refusal(
            operation,
            "the number of elements depends on values, which a traced step does not have",
            expected="shapes that are known when the step is traced",
            hint="Call it outside of the step; inside, use engine.sort and compare neighbors.",
        )
    evaluate(mask, *others)
    return as_tensor(np.flatnonzero(mask.numpy()))


def suppress(overlaps: Any, /) -> Tensor:
    """Greedy suppression: whether each of N candidates is kept, bool [..., N].

    From the first to the last, a candidate is kept unless an earlier kept one overlaps it. `overlaps` is bool [..., N,
    N]; row i marks the candidates that candidate i suppresses. With candidates sorted by descending score this is
    greedy non-maximum suppression, for boxes, masks or anything else that can be compared.

    Raises:
        TrainerError: the matrices are not square.

    >>> engine.suppress(engine.asarray([[True, True], [True, True]])).tolist()
    [True, False]
    """
    tensor = as_tensor(overlaps, operation="suppress")
    return wrapped(p.suppress(tensor.node), tensor)
