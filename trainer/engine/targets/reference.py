"""The reference device: evaluates any graph with NumPy, slowly and simply. The test oracle for every other device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from trainer.engine.graph import half
from trainer.engine.graph import primitives as p
from trainer.engine.graph.common import merged
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.node import Node, topological, uncomputed
from trainer.engine.graph.primitives.scan import Step
from trainer.engine.graph.primitives.shards import SHARD_SUM
from trainer.engine.graph.rewrite import on, replaced
from trainer.engine.graph.simplify import moves_bits
from trainer.engine.graph.storage import Layout, Storage
from trainer.engine.program.shards import split_nodes
from trainer.engine.targets import Device, Run

_TINY = {
    "float32": np.finfo(np.float32).tiny,
    "bfloat16": np.finfo(np.float32).tiny,
    "float16": 0.0,  # its subnormal numbers are normal numbers of float32, in which they are computed
    "float64": np.finfo(np.float64).tiny,
}
_ARITHMETIC = frozenset({"elementwise", "reduction", "contraction", "window", "index"})


class ReferenceDevice(Device):
    """Evaluates each node with its operation's reference function and rounds to its dtype, in order of creation.

    `flush_subnormals` models the floating-point environment of traced programs: arithmetic reads and returns subnormal
    numbers as zeros of the same sign.
    """

    name = "reference"

    def __init__(self, *, flush_subnormals: bool = False) -> None:
        self.flush_subnormals = flush_subnormals

    def evaluate(self, nodes: Sequence[Node]) -> Run:
        """Returns the values of `nodes`, in memory of their own."""
        values = evaluate(nodes, flush_subnormals=self.flush_subnormals)
        return Run(_stored(value, node) for value, node in zip(values, nodes, strict=True))

    def compile(
        self, results: Sequence[Node], updates: Sequence[tuple[Storage, Node]] = (), inputs: Sequence[Node] = (), *,
        flush: bool = False, progress: Callable[[int, int, str], None] | None = None, shards: int | None = None,
        split: Collection[Storage] = (),
    ) -> ReferenceProgram:  # fmt: skip
        """Returns a program that interprets the graph each time it runs."""
        layouts = [Layout.row_major(node.ndim) for node in results]
        if shards is not None:
            outputs, inputs = over_shards([*results, *(node for _, node in updates)], inputs, frozenset(split), shards)
            results, news = outputs[: len(results)], outputs[len(results) :]
            updates = [(storage, node) for (storage, _), node in zip(updates, news, strict=True)]
        return ReferenceProgram(results, updates, inputs, layouts, flush_subnormals=flush or self.flush_subnormals)


class ReferenceProgram:
    """Interprets one graph: `run` returns results and stores updates."""

    def __init__(
        self,
        results: Sequence[Node],
        updates: Sequence[tuple[Storage, Node]],
        inputs: Sequence[Node],
        layouts: Sequence[Layout],
        *,
        flush_subnormals: bool,
    ) -> None:
        outputs = [*results, *(node for _, node in updates)]
        bound = {
            node: p.buffer(node.value) for node in uncomputed(outputs) if node.value is not None and node not in inputs
        }  # programs are bound to memory: handles may get a copy of the values in it
        for storage in (*(node.attributes[0] for node in bound.values()), *(storage for storage, _ in updates)):
            storage.settled = True
        rebuilt = merged(replaced(outputs, bound))
        self.results, self.inputs = rebuilt[: len(results)], list(inputs)
        self.updates = [(storage, node) for (storage, _), node in zip(updates, rebuilt[len(results) :], strict=True)]
        self.flush_subnormals, self.layouts = flush_subnormals, list(layouts)

    def run(self, inputs: Sequence[Storage]) -> Run:
        """Runs on `inputs`, in the order and with the shapes of the leaves that the program was made for."""
        given = {node: _widened(storage).reshape(node.shape) for node, storage in zip(self.inputs, inputs, strict=True)}
        outputs = [*self.results, *(node for _, node in self.updates)]
        values = evaluate(outputs, given, flush_subnormals=self.flush_subnormals)
        results = Run(_stored(value, node) for value, node in zip(values, self.results, strict=False))
        news = [np.array(value) for value in values[len(self.results) :]]  # a state may get another state's old value
        for (storage, node), new in zip(self.updates, news, strict=True):
            storage.write(half.stored(new, node.dtype))
        return results


def over_shards(
    outputs: Sequence[Node], inputs: Sequence[Node], storages: frozenset[Storage], count: int
) -> tuple[list[Node], list[Node]]:
    """Expands the graph of one shard to `count` shards; returns its outputs and its inputs.

    Outputs that differ between shards are flat, one shard after the other. Inputs in `storages` hold the values of all
    shards along a new first axis.
    """
    order = topological(outputs)
    split = split_nodes(order, storages)
    given = [node for node in inputs if node.attributes[0] in storages]
    stacks = {node: p.buffer(Storage((count, *node.shape), node.dtype)) for node in given}
    made: dict[Node, list[Node]] = {}
    for node in order:
        sources = [made[source] for source in node.inputs]
        if node in stacks:
            made[node] = [_of_shard(stacks[node], number) for number in range(count)]
        elif node.operation is SHARD_SUM:
            made[node] = [_tree(sources[0])] * count
        elif node in split:
            made[node] = [on(node, each) for each in zip(*sources, strict=True)]
        else:
            made[node] = [on(node, tuple([source[0] for source in sources]))] * count
    found = [
        p.concatenate([p.reshape(each, (node.size,)) for each in made[node]], 0) if node in split else made[node][0]
        for node in outputs
    ]
    return found, [stacks.get(node, node) for node in inputs]


def _of_shard(stack: Node, number: int) -> Node:
    rest = stack.shape[1:]
    part = p.slice_(stack, (number, *(0 for _ in rest)), (number + 1, *rest), (1,) * stack.ndim)
    return p.reshape(part, rest)


def _tree(values: Sequence[Node]) -> Node:
    """Sums values, a power of two in number, along a balanced tree, the lower operand first."""
    while len(values) > 1:
        values = [p.add(first, second) for first, second in zip(values[::2], values[1::2], strict=True)]
    return values[0]


def evaluate(
    nodes: Sequence[Node], given: Mapping[Node, np.ndarray] | None = None, *, flush_subnormals: bool = False
) -> list[np.ndarray]:
    """Returns the values of `nodes` as arrays (16-bit floats as float32); `given` overrides values of some nodes."""
    values: dict[Node, np.ndarray] = dict(given or {})
    order = uncomputed(nodes)
    users = Counter(source for node in order if node.value is None for source in node.inputs)
    users.update(nodes)
    with np.errstate(all="ignore"):
        for node in order:
            if node in values:
                pass
            elif node.value is not None:
                values[node] = _widened(node.value)
            else:
                values[node] = _value(node, [values[source] for source in node.inputs], flush_subnormals)
            for source in () if node.value is not None else node.inputs:
                users[source] -= 1
                if not users[source]:
                    del values[source]  # otherwise a whole training step would not fit in memory
    return [values[node] for node in nodes]


def _value(node: Node, arguments: list[np.ndarray], flush_subnormals: bool) -> Any:
    if node.name == "scan":
        return _scanned(node, arguments, flush_subnormals)
    if node.is_bundle:  # its outputs are rounded where they are read
        return node.operation.reference(node.attributes, *arguments)
    flushes = flush_subnormals and node.operation.family in _ARITHMETIC and not moves_bits(node)
    if flushes:
        arguments = [_flushed(x, source.dtype) for x, source in zip(arguments, node.inputs, strict=True)]
    value = half.rounded(np.asarray(node.operation.reference(node.attributes, *arguments)), node.dtype)
    if value.shape != node.shape:
        raise AssertionError(f"the reference of {node.name} gave shape {value.shape}, its rule says {node.shape}")
    return _flushed(value, node.dtype) if flushes else value


def _scanned(node: Node, arguments: list[np.ndarray], flush_subnormals: bool) -> tuple[np.ndarray, ...]:
    """Evaluates a scan step by step and returns its outputs."""
    step: Step = node.attributes[0]
    length, reverse = node.attributes[1:]
    constants, carried, inputs = step.split(arguments)
    stacks: list[list[np.ndarray]] = [[] for _ in step.computed[step.carried :]]
    for place in reversed(range(length)) if reverse else range(length):
        given = [*constants, *carried, *[each[place] for each in inputs]]
        found = evaluate(
            step.computed, dict(zip(step.parameters, given, strict=True)), flush_subnormals=flush_subnormals
        )
        carried = found[: step.carried]
        for stack, value in zip(stacks, found[step.carried :], strict=True):
            stack.append(value)
    return *carried, *[np.stack(stack[::-1] if reverse else stack) for stack in stacks]


def _flushed(value: np.ndarray, dtype: DType) -> np.ndarray:
    if not dtype.is_float:
        return value
    return np.where(np.abs(value) < _TINY[dtype.name], np.copysign(np.zeros_like(value), value), value)


def _stored(value: np.ndarray, node: Node) -> Storage:
    return Storage.of(half.stored(value, node.dtype), node.dtype)


def _widened(storage: Storage) -> np.ndarray:
    """Returns the values of a storage, 16-bit floats as float32."""
    return half.widened(storage.view(), storage.dtype)
