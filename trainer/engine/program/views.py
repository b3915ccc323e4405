"""Affine coordinates: how movement operations fold into the strides of a kernel's operands.

A `Coordinates` gives, for each axis of a node, its index as a linear form of the kernel's iteration axes. A `NodeView`
gives, for each index of a node, the element of a materialized array. Both are values; composing them never touches
data.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from trainer.engine.graph.node import Node, Shape
from trainer.engine.graph.storage import Layout


class Linear(NamedTuple):
    """constant + sum(coefficients[d] * index[d]) over the iteration axes d; hashed for each value of a body."""

    constant: int
    coefficients: tuple[int, ...]

    def scaled(self, start: int, step: int) -> Linear:
        return Linear(start + step * self.constant, tuple(step * c for c in self.coefficients))

    def __add__(self, other: Linear) -> Linear:  # type: ignore[override]
        return Linear(
            self.constant + other.constant,
            tuple(a + b for a, b in zip(self.coefficients, other.coefficients, strict=True)),
        )


Coordinates = tuple[Linear, ...]


@functools.lru_cache(maxsize=1024)
def identity(shape: Shape) -> Coordinates:
    """Coordinates of a node whose axes are the iteration axes; axes of extent 1 have the constant index 0."""
    ndim = len(shape)
    return tuple(Linear(0, tuple(int(d == axis and shape[axis] != 1) for d in range(ndim))) for axis in range(ndim))


def still(ndim: int) -> Linear:
    """The index 0 at every point of the iteration space."""
    return Linear(0, (0,) * ndim)


def through(node: Node, coordinates: Coordinates, rank: int) -> Coordinates | None:
    """Coordinates of a movement node's input, given those of the node; None if they are not affine."""
    source = node.inputs[0]
    match node.name:
        case "permute":
            result: list[Linear] = [still(rank)] * source.ndim
            for axis, moved in zip(node.attribute("axes"), coordinates, strict=True):
                result[axis] = moved
            return tuple(result)
        case "expand":
            return tuple(
                still(rank) if extent == 1 else index for extent, index in zip(source.shape, coordinates, strict=True)
            )
        case "slice":
            return tuple(
                index.scaled(start, step)
                for index, start, step in zip(coordinates, node.attribute("start"), node.attribute("step"), strict=True)
            )
        case "flip":
            axes = node.attribute("axes")
            return tuple(
                index.scaled(extent - 1, -1) if axis in axes else index
                for axis, (extent, index) in enumerate(zip(source.shape, coordinates, strict=True))
            )
        case "windows":
            axis, _, stride, spacing = node.attributes
            start, inside = coordinates[axis].scaled(0, stride), coordinates[axis + 1].scaled(0, spacing)
            return (*coordinates[:axis], start + inside, *coordinates[axis + 2 :])
        case "reshape":
            return _through_reshape(source.shape, node.shape, coordinates, rank)
    raise AssertionError(f"{node.name} does not move elements")


def _through_reshape(before: Shape, after: Shape, coordinates: Coordinates, rank: int) -> Coordinates | None:
    if 0 in before:
        return (still(rank),) * len(before)
    result = [still(rank)] * len(before)
    for inputs, outputs in reshape_groups(before, after):
        if not inputs:
            continue
        if len(inputs) > 1 and len(outputs) >= 1:
            return None  # axes merge: the index of each would need a division
        total = still(rank)
        step = 1
        for axis in reversed(outputs):
            total = total + coordinates[axis].scaled(0, step)
            step *= after[axis]
        result[inputs[0]] = total
    return tuple(result)


def reshape_groups(before: Shape, after: Shape) -> list[tuple[list[int], list[int]]]:
    """The smallest groups of axes (of extent other than 1) that a reshape maps onto each other, in order."""
    left = [axis for axis, extent in enumerate(before) if extent != 1]
    right = [axis for axis, extent in enumerate(after) if extent != 1]
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(left):
        inputs, outputs = [left[i]], [right[j]]
        product_in, product_out = before[left[i]], after[right[j]]
        i, j = i + 1, j + 1
        while product_in != product_out:
            if product_in < product_out:
                inputs.append(left[i])
                product_in *= before[left[i]]
                i += 1
            else:
                outputs.append(right[j])
                product_out *= after[right[j]]
                j += 1
        groups.append((inputs, outputs))
    return groups


@dataclass(frozen=True, slots=True)
class NodeView:
    """The place of a node's elements in the array of `base`: offset + sum(strides[axis] * index[axis])."""

    base: Node
    offset: int
    strides: tuple[int, ...]

    @classmethod
    def dense(cls, base: Node, layout: Layout) -> NodeView:
        return cls(base, 0, layout.strides(base.shape))

    def along(self, coordinates: Coordinates, rank: int) -> tuple[int, tuple[int, ...]]:
        """Offset and one stride for each iteration axis."""
        offset, strides = self.offset, [0] * rank
        for step, index in zip(self.strides, coordinates, strict=True):
            if step:
                offset += step * index.constant
                for axis, coefficient in enumerate(index.coefficients):
                    if coefficient:
                        strides[axis] += step * coefficient
        return offset, tuple(strides)


def view_through(node: Node, view: NodeView) -> NodeView | None:
    """The view of a movement node, given that of its input; None if strides can't express it."""
    source = node.inputs[0]
    if node.name == "reshape":
        strides = [0] * node.ndim
        for inputs, outputs in reshape_groups(source.shape, node.shape) if node.size else ():
            for outer, inner in pairwise(inputs):
                if view.strides[outer] != view.strides[inner] * source.shape[inner]:
                    return None
            step = view.strides[inputs[-1]]
            for axis in reversed(outputs):
                strides[axis] = step
                step *= node.shape[axis]
        return NodeView(view.base, view.offset, tuple(strides))
    coordinates = through(node, identity(node.shape), node.ndim)
    if coordinates is None:
        return None
    offset, strides_ = view.along(coordinates, node.ndim)
    return NodeView(view.base, offset, strides_)


def strides_over(space: Shape, shape: Shape, layout: Layout) -> tuple[int, ...]:
    """The strides, along the axes of `space`, of an array in `layout` whose `shape` merges some of these axes."""
    own = layout.strides(shape)
    if space == shape:
        return own
    strides = [0] * len(space)
    for merged, axes in reshape_groups(shape, space) if 0 not in shape else ():
        if len(merged) > 1:
            return Layout.row_major(len(space)).strides(space)  # axes split and merge: both are row-major
        step = own[merged[0]]
        for axis in reversed(axes):
            strides[axis] = step
            step *= space[axis]
    return tuple(strides)


def is_dense(shape: Shape, strides: tuple[int, ...]) -> Layout | None:
    """The layout under which `shape` has exactly these `strides` (axes of extent 1 are free), or None."""
    axes = sorted((axis for axis in range(len(shape)) if shape[axis] != 1), key=lambda axis: -strides[axis])
    step = 1
    for axis in reversed(axes):
        if strides[axis] != step:
            return None
        step *= shape[axis]
    ones = [axis for axis in range(len(shape)) if shape[axis] == 1]
    return Layout(tuple(ones + axes))
