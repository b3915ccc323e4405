"""Replaces sums of products over windows with convolutions: a view of windows, broadcasts, a product and a sum become
one operation.

A written-out convolution stores one term per multiplication. The axes of the terms are sorted by their places in both
factors. The result is one of two contractions: the convolution, or its weight gradient, which sums over the positions
of the windows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Node, Shape
from trainer.engine.graph.primitives.contraction import extents_of
from trainer.engine.graph.rewrite import on, rebuilt
from trainer.engine.program.views import Coordinates, identity, through

_VIEWS = frozenset({"reshape", "permute", "expand", "windows"})
_NO_PADDING = ((0, 0), (0, 0))

Term = tuple[int, int]
"""(axis of the product, coefficient): one term of the index along an axis of a factor."""


def contracted(outputs: Sequence[Node]) -> list[Node]:
    """Returns the graph of `outputs` with written-out convolutions replaced by the primitive."""
    return rebuilt(outputs, lambda node, inputs: _contracted(on(node, inputs)))


def _contracted(node: Node) -> Node:
    if node.name != "reduce_sum" or node.dtype not in (dtypes.float32, dtypes.float64):
        return node
    product = node.inputs[0]
    if product.name != "multiply":
        return node
    factors = [_factor(source) for source in product.inputs]
    for x, other in (factors, factors[::-1]):
        if x is not None and other is not None and x.windows and not other.windows:
            return _convolution(node, x, other, product.shape) or node
    return node


@dataclass(frozen=True, slots=True)
class _Factor:
    """An array without axes of extent 1, and the terms of the index along each axis at a point of the product."""

    base: Node
    terms: tuple[tuple[Term, ...], ...]

    @property
    def windows(self) -> list[int]:
        """The axes whose index is the sum of two terms."""
        return [axis for axis, terms in enumerate(self.terms) if len(terms) == 2]

    def axis_of(self, number: int) -> int | None:
        """The axis that the product's axis `number` indexes, or None."""
        found = [axis for axis, terms in enumerate(self.terms) if number in dict(terms)]
        return found[0] if found else None

    def arranged(self, order: Sequence[int], shape: Shape) -> Node:
        """The array with its axes in `order`, reshaped to `shape`."""
        return p.reshape(p.permute(self.base, tuple(order)), shape)


def _factor(node: Node) -> _Factor | None:
    """The array that a factor of a product reads through views; None if it has axes other than plain and windows."""
    rank = node.ndim
    shape, coordinates = node.shape, identity(node.shape)
    while node.name in _VIEWS:
        found = through(node, coordinates, rank)
        if found is None:
            break
        node, coordinates = node.inputs[0], found
    kept = [axis for axis, extent in enumerate(node.shape) if extent != 1]
    terms = tuple(_terms(coordinates, axis) for axis in kept)
    used = [number for each in terms for number, _ in each]
    if any(coordinates[axis].constant for axis in kept) or len(set(used)) != len(used):
        return None
    for axis, each in zip(kept, terms, strict=True):
        is_plain = len(each) == 1 and each[0][1] == 1 and node.shape[axis] == shape[each[0][0]]
        if not is_plain and (len(each) != 2 or min(step for _, step in each) < 1):
            return None
    return _Factor(p.reshape(node, tuple(node.shape[axis] for axis in kept)), terms)


def _terms(coordinates: Coordinates, axis: int) -> tuple[Term, ...]:
    return tuple((number, step) for number, step in enumerate(coordinates[axis].coefficients) if step)


def _convolution(node: Node, x: _Factor, other: _Factor, shape: Shape) -> Node | None:
    """The contraction of `x` and `other` that equals `node`, a sum of products of `shape`; None if there is none."""
    summed = set(node.attributes[0])
    inside: list[tuple[Term, Term]] = []  # for each axis of windows, the kept term and the summed term
    for axis in x.windows:
        first, second = x.terms[axis]
        kept, gone = (second, first) if first[0] in summed else (first, second)
        if (
            kept[0] in summed
            or gone[0] not in summed
            or other.axis_of(gone[0]) is None
            or other.axis_of(kept[0]) is not None
        ):
            return None
        inside.append((kept, gone))
    places = {number for pair in inside for number, _ in pair}
    alone: list[int] = []
    shared: list[int] = []
    others: list[int] = []
    for number, extent in enumerate(shape):
        if number in places or extent == 1:
            continue
        in_x, in_other = x.axis_of(number) is not None, other.axis_of(number) is not None
        if (number in summed) != (in_x and in_other):
            return None
        (shared if in_x and in_other else alone if in_x else others).append(number)
    if len(inside) > 2:
        return None
    return _built(node, x, other, shape, inside, alone, shared, others)


def _built(
    node: Node, x: _Factor, other: _Factor, shape: Shape, inside: Sequence[tuple[Term, Term]], alone: Sequence[int],
    shared: Sequence[int], others: Sequence[int],
) -> Node | None:  # fmt: skip
    """Builds the contraction. Axes are `alone` if only x has them, `shared` (summed) if both do, else in `others`."""

    def extent(numbers: Sequence[int]) -> int:
        return math.prod(shape[number] for number in numbers)

    def axes(factor: _Factor, numbers: Sequence[int]) -> list[int]:
        return [axis for number in numbers if (axis := factor.axis_of(number)) is not None]

    def plane(numbers: Sequence[int]) -> tuple[int, int]:
        """Numbers of at most two axes as numbers of two; 1 for a missing axis."""
        first, last = [1] * (2 - len(numbers)) + list(numbers)
        return first, last

    spatial = plane([x.base.shape[axis] for axis in x.windows])
    strides, spacings = (plane([pair[which][1] for pair in inside]) for which in (0, 1))
    outside, window = (plane([shape[pair[which][0]] for pair in inside]) for which in (0, 1))
    gone = [pair[1][0] for pair in inside]
    rows, columns, depth = extent(alone), extent(others), extent(shared)
    if math.prod(window) <= math.prod(outside):
        left = x.arranged([*axes(x, alone), *axes(x, shared), *x.windows], (rows, depth, *spatial))
        right = other.arranged(axes(other, [*others, *shared, *gone]), (columns, depth, *window))
        if extents_of(spatial, window, strides, _NO_PADDING, spacings) != outside:
            return None
        found = p.convolution(left, right, strides, _NO_PADDING, spacings, 1, None)
        order = [*alone, *others]
    else:  # the window is larger than the output: the sum is over positions of windows
        left = x.arranged([*axes(x, shared), *axes(x, alone), *x.windows], (depth, rows, *spatial))
        right = other.arranged(axes(other, [*shared, *others, *gone]), (depth, columns, *window))
        if extents_of(spatial, outside, spacings, _NO_PADDING, strides) != window:
            return None
        found = p.convolution_weight_gradient(left, right, spacings, _NO_PADDING, strides, 1, outside, None)
        order = [*others, *alone]
    order += [kept[0] for kept, _ in inside]
    spread = p.reshape(found, tuple(shape[number] for number in order))
    return p.reshape(p.permute(spread, tuple(sorted(range(len(order)), key=order.__getitem__))), node.shape)
