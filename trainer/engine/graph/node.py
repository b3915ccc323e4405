"""Nodes: the vertices of the lazy graph. Each call that builds a node makes a new one: equal nodes are different values
to a user who differentiates with respect to one of them. `graph.common` merges them before anything is computed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from trainer.engine.graph import lines, sequence
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.storage import Shape, Storage

_Element = TypeVar("_Element")
Outputs = tuple[tuple[Shape, DType], ...]
Family = Literal[
    "leaf", "source", "elementwise", "movement", "reduction", "contraction", "window", "index", "marker",
    "bundle", "output",
]  # fmt: skip


Gradient = Callable[["Node", Any], Sequence["Node | None"]]
"""(node, cotangent) -> a node or None (zero) for each input. A bundle takes a tuple: a cotangent for each output."""


@dataclass(frozen=True, slots=True, eq=False)
class Primitive:
    """One entry of the table of primitives.

    `shape` and `dtype` take (inputs, attributes), and raise a `TrainerError` if these are invalid.
    `reference` takes (attributes, *arrays), NumPy arrays of the logical shape (bfloat16 widened to float32),
    and returns the result before rounding to the node's dtype.

    A primitive with `outputs` makes bundles: nodes without a value, whose outputs are read by nodes of the primitive
    "output". `outputs` takes (inputs, attributes) and returns the shape and dtype of each output; `reference` returns
    a tuple of arrays. Nodes of a primitive with an `effect` are never merged: each runs once.
    """

    name: str
    family: Family
    shape: Callable[[Sequence[Node], tuple[Any, ...]], Shape]
    dtype: Callable[[Sequence[Node], tuple[Any, ...]], DType]
    reference: Callable[..., Any]
    attributes: tuple[str, ...] = ()
    outputs: Callable[[Sequence[Node], tuple[Any, ...]], Outputs] | None = None
    effect: bool = False

    def __repr__(self) -> str:
        return self.name


class Node:
    """A value of the graph: `operation` applied to `inputs` with `attributes` (a hashable tuple).

    `value` is the memory of the value once it has been computed; a leaf has it from the beginning. `handle` returns
    the tensor of the node, or None once that is deleted; it is None itself until a tensor takes the node. A node has
    at most one handle, so a derivative with respect to a tensor is one with respect to its node. `witness` is a node
    with a live handle, found among its dependencies (`engine.history`). `line` is the user's line that made the node,
    if lines are noted (`graph.lines`).
    """

    __slots__ = (
        *("__weakref__", "attributes", "dtype", "handle", "inputs", "line", "operation", "sequence", "shape", "value"),
        "witness",
    )

    operation: Primitive
    inputs: tuple[Node, ...]
    attributes: tuple[Any, ...]
    shape: Shape
    dtype: DType
    sequence: int  # grows as nodes are made: inputs come before their users, in the order of the user's calls
    handle: Callable[[], Any] | None
    value: Storage | None
    witness: Node | None
    line: str | None

    @property
    def name(self) -> str:
        return self.operation.name

    @property
    def is_bundle(self) -> bool:
        """Whether it computes several outputs and has no value itself."""
        return self.operation.outputs is not None

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


def make_node(
    operation: Primitive, inputs: tuple[Node, ...], attributes: tuple[Any, ...] = (), shape: Shape | None = None
) -> Node:
    """Makes a node of `operation` on `inputs` with `attributes`; checks dtypes, and shapes unless `shape` is known."""
    node = Node.__new__(Node)
    node.operation, node.inputs, node.attributes = operation, inputs, attributes
    node.shape = operation.shape(inputs, attributes) if shape is None else shape
    node.dtype = operation.dtype(inputs, attributes)
    node.sequence = next(sequence.count) + sequence.ticks
    node.handle = node.value = node.witness = None
    node.line = lines.current() if lines.noting else None
    return node


def equality_key(node: Node, inputs: tuple[Node, ...]) -> tuple[Any, ...]:
    """Returns a key that equal nodes on `inputs` share; a node with an effect is equal only to itself."""
    key = (node.operation, *map(id, inputs), node.attributes)
    return (*key, id(node)) if node.operation.effect else key


def nobody() -> None:
    """The `handle` of a node that several users share: each tensor of it takes an alias instead."""


def topological(outputs: Sequence[Node], since: int = 0) -> list[Node]:
    """Returns every node that `outputs` depend on, in the order in which they were made; none older than `since`."""
    found = dict.fromkeys(outputs)
    waiting = list(found)
    for node in waiting:  # the list grows; as `reached`, without two calls for each node
        for source in node.inputs:
            if source not in found and source.sequence >= since:
                found[source] = None
                waiting.append(source)
    waiting.sort(key=_SEQUENCE)
    return waiting


def reached(starts: Iterable[_Element], following: Callable[[_Element], Iterable[_Element]]) -> dict[_Element, None]:
    """Returns `starts` and all that is reachable from them by `following`, each once, in breadth-first order."""
    found = dict.fromkeys(starts)
    waiting = list(found)
    for each in waiting:  # the list grows
        for other in following(each):
            if other not in found:
                found[other] = None
                waiting.append(other)
    return found


def uncomputed(outputs: Sequence[Node]) -> list[Node]:
    """As `topological`, but does not follow the inputs of nodes with a value."""
    visited = dict.fromkeys(outputs)
    found = list(visited)
    for node in found:  # the list grows
        if node.value is None:
            for source in node.inputs:
                if source not in visited:
                    visited[source] = None
                    found.append(source)
    found.sort(key=_SEQUENCE)
    return found


_SEQUENCE = operator.attrgetter("sequence")
