"""Nodes: the immutable, interned vertices of the lazy graph.

Two nodes of the same operation, inputs and attributes are the same object, so common subexpressions
merge while the graph is built, and identity is equality everywhere downstream.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trainer.engine.graph.dtypes import DType

Shape = tuple[int, ...]
Family = Literal["leaf", "source", "elementwise", "movement", "reduction", "contraction", "window", "index", "marker"]


@dataclass(frozen=True, slots=True, eq=False)
class Primitive:
    """One entry of the table of primitives.

    `shape` and `dtype` take (inputs, attributes) and refuse what can't work with a `TrainerError`.
    `gradient` takes (node, cotangent) and returns one node (or None) for each input, written in primitives.
    `reference` takes (attributes, *arrays), NumPy arrays of the logical shape (bfloat16 widened to float32),
    and returns the result before rounding to the node's dtype.
    """

    name: str
    family: Family
    shape: Callable[[Sequence[Node], tuple[Any, ...]], Shape]
    dtype: Callable[[Sequence[Node], tuple[Any, ...]], DType]
    gradient: Callable[[Node, Node], Sequence[Node | None]] | None
    reference: Callable[..., Any]
    attributes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return self.name


class Node:
    """A value of the graph: `operation` applied to `inputs` with `attributes` (a hashable tuple)."""

    __slots__ = ("__weakref__", "attributes", "dtype", "inputs", "operation", "sequence", "shape")

    operation: Primitive
    inputs: tuple[Node, ...]
    attributes: tuple[Any, ...]
    shape: Shape
    dtype: DType
    sequence: int  # counts nodes as they are made: inputs always come before their users, and order is the user's

    @property
    def name(self) -> str:
        return self.operation.name

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        total = 1
        for extent in self.shape:
            total *= extent
        return total

    def attribute(self, name: str) -> Any:
        """The attribute called `name` in the primitive's table entry."""
        return self.attributes[self.operation.attributes.index(name)]

    def __repr__(self) -> str:
        return f"{self.name}{list(self.shape)}:{self.dtype}"


_sequence = itertools.count()
_interned: weakref.WeakValueDictionary[tuple[Any, ...], Node] = weakref.WeakValueDictionary()


def make_node(operation: Primitive, inputs: tuple[Node, ...], attributes: tuple[Any, ...] = ()) -> Node:
    """The one node of `operation` on `inputs` with `attributes`; checks shapes and dtypes when it is new."""
    key = (operation.name, *map(id, inputs), attributes)
    node = _interned.get(key)
    if node is None:
        shape = operation.shape(inputs, attributes)
        dtype = operation.dtype(inputs, attributes)
        node = Node.__new__(Node)
        node.operation, node.inputs, node.attributes = operation, inputs, attributes
        node.shape, node.dtype = shape, dtype
        node.sequence = next(_sequence)
        _interned[key] = node
    return node


def topological(outputs: Sequence[Node]) -> list[Node]:
    """Every node that `outputs` depend on, each once, inputs before users, in the order in which they were made."""
    seen: set[Node] = set(outputs)
    stack = list(seen)
    while stack:
        for child in stack.pop().inputs:
            if child not in seen:
                seen.add(child)
                stack.append(child)
    return sorted(seen, key=_by_sequence)


def _by_sequence(node: Node) -> int:
    return node.sequence
