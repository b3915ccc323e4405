"""Random graphs of integers, whose values are exact in any order of computation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import int32
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Storage

LARGEST = 4000


@dataclass(frozen=True)
class Graph:
    """Inputs, results, and states with their next values."""

    inputs: list[Node]
    results: list[Node]
    updates: list[tuple[Storage, Node]]


def leaf(shape: tuple[int, ...], *, seed: int = 0, is_state: bool = False) -> Node:
    values = np.random.default_rng(seed).integers(-9, 9, shape).astype(np.int32)
    return p.buffer(Storage.of(values, int32, is_state=is_state, name=f"leaf {seed}"))


def movement(draw: DrawFn, x: Node) -> Node:
    """One random movement operation on `x`."""
    rank, shape = x.ndim, x.shape
    kind = draw(st.sampled_from(["permute", "expand", "slice", "flip", "reshape", "insert"]))
    if kind == "permute":
        return p.permute(x, tuple(draw(st.permutations(range(rank)))))
    if kind == "expand":
        return p.expand(x, tuple(3 if n == 1 and x.size < LARGEST and draw(st.booleans()) else n for n in shape))
    if kind == "flip" and rank:
        return p.flip(x, tuple(sorted(draw(st.sets(st.integers(0, rank - 1))))))
    if kind == "slice" and rank:
        start = tuple(draw(st.integers(0, max(0, n - 1))) for n in shape)
        step = tuple(draw(st.integers(1, 2)) for _ in shape)
        return p.slice_(x, start, shape, step)
    if kind == "insert" and rank < 4:
        axis = draw(st.integers(0, rank))
        return p.reshape(x, (*shape[:axis], 1, *shape[axis:]))
    split = draw(st.sampled_from([d for d in (1, 2, 3, 4) if x.size % d == 0]))
    return p.reshape(x, draw(st.sampled_from([(x.size,), (split, x.size // split), (x.size // split, 1, split)])))


def _grown(draw: DrawFn, nodes: list[Node]) -> Node:
    x = draw(st.sampled_from(nodes[-6:]))
    kind = draw(st.sampled_from(["unary", "binary", "binary", "binary", "move", "move", "reduce", "other"]))
    if kind == "unary":
        return draw(st.sampled_from([p.negative, p.abs, p.sign]))(x)
    if kind == "binary":
        alike = [node for node in nodes if node.shape == x.shape]
        y = draw(st.sampled_from(alike))
        return draw(st.sampled_from([p.add, p.subtract, p.multiply, p.maximum]))(x, y)
    if kind == "move":
        return movement(draw, x)
    axis = draw(st.integers(0, max(0, x.ndim - 1)))
    if kind == "reduce" and x.ndim:
        reduced = draw(st.sampled_from([p.reduce_sum, p.reduce_max]))(x, (axis,))
        keeps = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        return p.expand(p.reshape(reduced, keeps), x.shape) if draw(st.booleans()) else reduced
    other = draw(st.sampled_from(["pad", "concatenate", "cumulative_sum", "gather"]))
    if not x.ndim or x.size * 2 > LARGEST:
        return p.negative(x)
    if other == "pad":
        return p.pad(x, (1,) * x.ndim, (0,) * x.ndim, (0,) * x.ndim, 3)
    if other == "concatenate":
        return p.concatenate([x, p.negative(x)], axis)
    if other == "cumulative_sum":
        return p.cumulative_sum(x, axis)
    indices = p.buffer(Storage.of(np.array([0, x.shape[axis] - 1, 0], np.int32), int32))
    return p.gather(x, indices, axis)


@st.composite
def graphs(draw: DrawFn, *, operations: int = 14) -> Graph:
    """Graphs with several results, some of them shared, and states that take each other's values."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    inputs = [leaf(shape, seed=1), leaf(shape, seed=2)]
    states = [leaf(shape, seed=3, is_state=True), leaf(shape, seed=4, is_state=True)]
    nodes = [*inputs, *states]
    for _ in range(draw(st.integers(1, operations))):
        grown = _grown(draw, nodes)
        if 0 < grown.size <= LARGEST and grown.ndim <= 5:
            nodes.append(grown)
    results = draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=3))
    fitting = [node for node in nodes if node.shape == shape]
    taken = draw(st.lists(st.sampled_from(fitting), min_size=2, max_size=2))
    updates = [(state.attributes[0], node) for state, node in zip(states, taken, strict=True) if node is not state]
    return Graph(inputs, results, updates)


def size_of(shape: tuple[int, ...]) -> int:
    return math.prod(shape)
