"""Nodes: the vertices of the lazy graph. Each call that builds one makes a new one: equal nodes are different values
to a user who differentiates with respect to one of them. `graph.common` merges them before anything is computed.
"""

from __future__ import annotations

import itertools
import operator
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from trainer.engine.graph.dtypes import DType

if TYPE_CHECKING:
    from trainer.engine.graph.storage import Storage

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
    """A value of the graph: `operation` applied to `inputs` with `attributes` (a hashable tuple).

    `value` is the memory of the value once it has been computed; a leaf has it from the beginning. `handle` gives the
    tensor that stands for the node, or None once that is gone; it is None itself until a tensor takes the node. A
    node has at most one handle, so a derivative with respect to a tensor is one with respect to its node. `witness` is
    a node with a live handle that was found among those it depends on (`engine.history`).
    """

    __slots__ = (
        *("__weakref__", "attributes", "dtype", "handle", "inputs", "operation", "sequence", "shape", "value"),
        "witness",
    )

    operation: Primitive
    inputs: tuple[Node, ...]
    attributes: tuple[Any, ...]
    shape: Shape
    dtype: DType
    sequence: int  # grows as nodes are made: inputs always come before their users, and order is the user's
    handle: Callable[[], Any] | None
    value: Storage | None
    witness: Node | None

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


BYTES_PER_TICK = 4096

_count = itertools.count()
_ticks = 0
_ticking = threading.Lock()


def tick(nbytes: int) -> None:
    """Let `nbytes` of new memory count as one node per `BYTES_PER_TICK` in the sequence of nodes: what bounds the
    history of unread values then bounds their memory, too.
    """
    global _ticks
    if nbytes >= BYTES_PER_TICK:
        with _ticking:
            _ticks += nbytes // BYTES_PER_TICK


def make_node(
    operation: Primitive, inputs: tuple[Node, ...], attributes: tuple[Any, ...] = (), shape: Shape | None = None
) -> Node:
    """A new node of `operation` on `inputs` with `attributes`; checks dtypes, and shapes unless `shape` is known."""
    node = Node.__new__(Node)
    node.operation, node.inputs, node.attributes = operation, inputs, attributes
    node.shape = operation.shape(inputs, attributes) if shape is None else shape
    node.dtype = operation.dtype(inputs, attributes)
    node.sequence = next(_count) + _ticks
    node.handle = node.value = node.witness = None
    return node


def nobody() -> None:
    """The `handle` of a node that several users share: a tensor of it takes a node of its own."""


def topological(outputs: Sequence[Node], since: int = 0) -> list[Node]:
    """Every node that `outputs` depend on, each once, inputs before users, in the order in which they were made; none
    whose sequence is below `since`.
    """
    seen: set[Node] = set(outputs)
    stack = list(seen)
    while stack:
        for child in stack.pop().inputs:
            if child.sequence >= since and child not in seen:
                seen.add(child)
                stack.append(child)
    return sorted(seen, key=_SEQUENCE)


def uncomputed(outputs: Sequence[Node]) -> list[Node]:
    """As `topological`, without what a node with a value was computed from."""
    found = list(dict.fromkeys(outputs))
    seen = set(found)
    for node in found:  # which grows
        if node.value is None:
            for source in node.inputs:
                if source not in seen:
                    seen.add(source)
                    found.append(source)
    return sorted(found, key=_SEQUENCE)


_SEQUENCE = operator.attrgetter("sequence")
