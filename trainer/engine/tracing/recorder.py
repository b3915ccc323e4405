"""Records a step while it is traced: the values that it reads and assigns, and the resulting graph."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy as np

from trainer.engine import tracing
from trainer.engine.graph import primitives as p
from trainer.engine.graph import sequence
from trainer.engine.graph.node import Node, uncomputed
from trainer.engine.graph.rewrite import replaced, typed
from trainer.engine.graph.storage import Storage
from trainer.engine.state import State
from trainer.engine.tensor import Tensor
from trainer.engine.tracing.pytree import flatten


class Recorder:
    """Collects the values that a step reads and assigns while it is traced."""

    def __init__(self) -> None:
        self.current: dict[State, Node] = {}
        self.leaves: dict[State, Node] = {}
        self.assigned: dict[State, Node] = {}
        self.effect: Node | None = None
        self.hosts: set[CodeType] = set()
        self.began = sequence.now()

    def on_read(self, operation: str) -> None:
        """Raises, since no values exist while a step is traced."""
        tracing.refuse_read(operation)

    def on_state_read(self, state: State) -> Node:
        """Returns the last value assigned within the step, or a leaf of the state's memory, unlike older handles."""
        node = self.current.get(state)
        if node is None:
            node = self.current[state] = self.leaves[state] = p.buffer(state.storage)
            node.handle = weakref.ref(state)
        return node

    def on_assign(self, state: State, node: Node) -> None:
        """Makes `node` the state's value from here on."""
        self.on_state_read(state)
        self.current[state] = self.assigned[state] = node
        node.handle = weakref.ref(state)

    def on_host_call(self, function: Callable[..., Any], token: Node | None) -> None:
        """Orders an effect after all earlier ones: each reads the token of the previous effect."""
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        self.hosts |= set() if code is None else {code}
        self.effect = token or self.effect

    @property
    def effects(self) -> list[Node]:
        """The nodes that must be computed so that all effects happen."""
        return [] if self.effect is None else [self.effect]

    def updated(self) -> list[State]:
        """The states whose value at the end of the step differs from that at its beginning."""
        return [state for state, node in self.assigned.items() if p.origin(node) is not self.leaves[state]]

    def close(self) -> None:
        """Ends the trace after the step is compiled: tensors that remain from tracing have no value outside it."""
        for state, node in self.leaves.items():
            node.value = Storage(state.shape, state.dtype, name=state.name or "a state")


@dataclass(frozen=True, slots=True)
class Graph:
    """A step's computation: its structure, and for each leaf the number of the input or the memory that it reads."""

    structure: Any
    leaves: tuple[int | np.ndarray, ...]

    @classmethod
    def of(cls, outputs: Sequence[Node], placeholders: Sequence[Node]) -> Graph:
        inputs = {node: index for index, node in enumerate(placeholders)}
        number: dict[Node, int] = {}
        parts: list[Any] = []
        leaves: list[int | np.ndarray] = []
        for node in depth_first(outputs):
            number[node] = len(number)
            if node.value is not None:
                leaves.append(inputs[node] if node in inputs else node.value.flat())
                parts.append((node.shape, node.dtype))
            else:
                parts.append((node.name, tuple([number[source] for source in node.inputs]), typed(node.attributes)))
        return cls((tuple(parts), tuple([number[node] for node in outputs])), tuple(leaves))

    def is_same(self, other: Graph) -> bool:
        """Whether both compute the same function of the same inputs."""
        return self.structure == other.structure and all(
            _is_same_memory(first, second) for first, second in zip(self.leaves, other.leaves, strict=True)
        )


def depth_first(outputs: Sequence[Node]) -> list[Node]:
    """All nodes, inputs before users, in an order that depends only on the structure, not on the time of creation."""
    done: dict[Node, None] = {}
    stack = [(node, False) for node in reversed(outputs)]
    while stack:
        node, is_ready = stack.pop()
        if is_ready:
            done[node] = None
        elif node not in done:
            stack.append((node, True))
            if node.value is None:
                stack.extend((source, False) for source in reversed(node.inputs))
    return list(done)


def _is_same_memory(first: int | np.ndarray, second: int | np.ndarray) -> bool:
    if isinstance(first, int) or isinstance(second, int):
        return first == second
    return first is second or bool(np.array_equal(first.view(np.uint8), second.view(np.uint8)))


def outputs_of(returned: Any, recorder: Recorder) -> list[Node]:
    """All nodes that a step computes: the tensors that it returns, its effects, and the values that it assigns."""
    results = [value.node for _, value in flatten(returned) if isinstance(value, Tensor)]
    return [*results, *recorder.effects, *(recorder.assigned[state] for state in recorder.updated())]


def detached(outputs: Sequence[Node], known: set[Node]) -> list[Node]:
    """`outputs` without the history of known values, and with copies of old states, which the step will write to."""
    leaves: dict[Node, Node] = {}
    for node in uncomputed(outputs):
        storage = node.value
        if storage is None or node in known:
            continue
        if storage.is_state:
            leaves[node] = p.buffer(storage.copied())
        elif node.inputs:
            leaves[node] = p.buffer(storage)
    return replaced(outputs, leaves) if leaves else list(outputs)


def frozen(value: Any) -> Any:
    """The returned form of `value`: for a state, its value at the end of the step."""
    return Tensor(value.node) if isinstance(value, Tensor) else value
