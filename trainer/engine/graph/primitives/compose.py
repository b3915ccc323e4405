"""Small compositions of primitives that gradients and the tensor layer share."""

from __future__ import annotations

import functools

from trainer.engine.graph.dtypes import BY_NAME, DType
from trainer.engine.graph.node import Node, Shape, make_node, nobody
from trainer.engine.graph.primitives.elementwise import add, multiply
from trainer.engine.graph.primitives.movement import EXPAND, RESHAPE, expand, permute, reshape
from trainer.engine.graph.primitives.sources import CONSTANT, canonical
from trainer.engine.graph.primitives.table import OF_COMPLEX


def full(shape: Shape, value: bool | int | float | complex, dtype: DType) -> Node:
    """`value` at every place of `shape`."""
    if isinstance(dtype, DType) and dtype.is_complex:
        number = complex(value)
        return OF_COMPLEX["complex"](full(shape, number.real, dtype.part), full(shape, number.imag, dtype.part))
    return _full(shape, canonical(value, dtype), dtype.name)


@functools.lru_cache(maxsize=4096)
def _full(shape: Shape, value: bool | int | float, dtype: str) -> Node:
    """As `broadcast` of a constant, without checks: an eager program makes one for each new number."""
    node, ones = make_node(CONSTANT, (), (value, BY_NAME[dtype]), ()), (1,) * len(shape)
    if shape:
        node = make_node(RESHAPE, (node,), (ones,), ones)
    if shape != ones:
        node = make_node(EXPAND, (node,), (shape,), shape)
    node.handle = nobody
    return node


def full_like(x: Node, value: bool | int | float | complex) -> Node:
    """`value` in the shape and dtype of `x`."""
    return full(x.shape, value, x.dtype)


def scale(x: Node, factor: float) -> Node:
    """x · factor."""
    return multiply(x, full_like(x, factor))


def broadcast(x: Node, shape: Shape) -> Node:
    """`x` broadcast to `shape`: new axes in front, and axes of extent 1 repeated."""
    if x.shape == shape:
        return x
    if len(x.shape) < len(shape):
        x = reshape(x, (1,) * (len(shape) - len(x.shape)) + x.shape)
    return x if x.shape == shape else expand(x, shape)


def transpose_last(x: Node) -> Node:
    """`x` with its last two axes swapped."""
    axes = tuple(range(x.ndim))
    return permute(x, (*axes[:-2], axes[-1], axes[-2]))


def keep_axes(reduced: Node, axes: tuple[int, ...], shape: Shape) -> Node:
    """`reduced`, from which a reduction dropped `axes` of `shape`, with these restored at extent 1."""
    return reshape(reduced, tuple(1 if axis in axes else extent for axis, extent in enumerate(shape)))


def spread(reduced: Node, axes: tuple[int, ...], shape: Shape) -> Node:
    """`reduced`, from which a reduction dropped `axes` of `shape`, repeated along these."""
    return expand(keep_axes(reduced, axes, shape), shape)


def add_all(terms: list[Node]) -> Node:
    """The sum of `terms`, added from the first to the last."""
    return functools.reduce(add, terms)
