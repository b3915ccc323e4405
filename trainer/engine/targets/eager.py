"""Programs of graphs that are not traced: values, numbers and the starts of slices are arguments of each run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Node, make_node
from trainer.engine.graph.rewrite import replaced
from trainer.engine.graph.signature import Arguments
from trainer.engine.graph.storage import HOST, Storage
from trainer.engine.program.views import NodeView, view_through
from trainer.engine.targets import Run

CACHED_PROGRAMS = 512

Path = tuple[int, list[tuple[int, list[int]]]]
"""The path to a slice: the number of its leaf, and for each slice on the path its number and strides in bytes."""


class Compiled(Protocol):
    """A compiled program that takes the addresses of its inputs."""

    def run_at(self, inputs: Sequence[int]) -> Run: ...


class EagerProgram:
    """The program of all graphs whose signatures have the same key. It keeps no reference to the data of any graph.

    `compile` compiles outputs on inputs; `address` moves an input to the device's memory and returns its address.
    """

    def __init__(
        self, outputs: Sequence[Node], arguments: Arguments, compile: Callable[[list[Node], list[Node]], Compiled],
        address: Callable[[Storage], int],
    ) -> None:  # fmt: skip
        self._address = address
        leaves, constants, slices = arguments
        inputs = [_without_memory(leaf) for leaf in leaves]
        instead = dict(zip(leaves, inputs, strict=True))
        self._numbers, self._stored = _place_numbers(constants, instead)
        self._paths: list[Path] = []
        for node in slices:
            leaf, path, instead[node] = _from_the_start(node, leaves, slices)
            inputs.append(leaf)
            self._paths.append(path)
        self._program = compile(replaced(outputs, instead), inputs)

    def run(self, arguments: Arguments) -> Run:
        """Returns the values of the outputs of a graph with these arguments; the caller holds the device's lock."""
        leaves, constants, slices = arguments
        address_of = self._address
        addresses = [address_of(leaf.value) for leaf in leaves]  # type: ignore[arg-type]
        for place, node in enumerate(constants):
            self._numbers[place][place] = node.attributes[0]
        for storage, values in self._stored:
            if storage.owner is not HOST:
                storage.owner.upload(storage.block, values)
        for number, path in self._paths:
            address = addresses[number]
            for place, steps in path:
                for start, step in zip(slices[place].attributes[0], steps, strict=True):
                    address += start * step
            addresses.append(address)
        return self._program.run_at(addresses)


def _without_memory(leaf: Node) -> Node:
    """Returns a leaf of the same shape, dtype and layout, without the values."""
    assert leaf.value is not None
    storage = Storage(leaf.shape, leaf.dtype, name="input")
    storage.layout = leaf.value.layout
    return p.buffer(storage)


def _place_numbers(
    constants: Sequence[Node], instead: dict[Node, Node]
) -> tuple[list[np.ndarray], list[tuple[Storage, np.ndarray]]]:
    """Maps each of `constants` in `instead` to an element of a storage. Returns the flat memory for each constant, in
    which constant n is element n, and the storages with their memory.
    """
    leaves: dict[dtypes.DType, Node] = {}
    memory = []
    stored: dict[Storage, np.ndarray] = {}
    for place, node in enumerate(constants):
        dtype = dtypes.float32 if node.dtype.is_half else node.dtype
        if dtype not in leaves:
            leaves[dtype] = p.buffer(Storage.of(np.zeros(len(constants), dtype.storage), dtype, name="numbers"))
        number = p.reshape(p.slice_(leaves[dtype], (place,), (place + 1,), (1,)), ())
        instead[node] = number if dtype is node.dtype else p.cast(number, node.dtype)
        storage = leaves[dtype].attributes[0]
        memory.append(stored.setdefault(storage, storage.flat()))
    return memory, list(stored.items())


def _from_the_start(node: Node, leaves: list[Node], slices: list[Node]) -> tuple[Node, Path, Node]:
    """Returns a leaf that begins at slice `node`, the path to `node`, and its equal on that leaf, sliced from 0."""
    moves = []
    while node.value is None:
        moves.append(node)
        node = node.inputs[0]
    leaf = moved = _without_memory(node)
    leaf.value.is_aligned = False  # type: ignore[union-attr]
    view: NodeView | None = NodeView.dense(leaf, node.value.layout)
    path = []
    for move in reversed(moves):
        assert view is not None
        attributes = move.attributes
        if move in slices:
            starts, stops, steps = attributes
            path.append((slices.index(move), [step * leaf.dtype.itemsize for step in view.strides]))
            extents = tuple([stop - start for start, stop in zip(starts, stops, strict=True)])
            attributes = (0,) * len(starts), extents, steps
        moved = make_node(move.operation, (moved,), attributes)
        view = view_through(moved, view)
    return leaf, (leaves.index(node), path), moved
