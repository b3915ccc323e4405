"""From a listed program to its launches: the only file here that touches what the compiler is made of."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.engine.golden.program import Program
from trainer.engine import targets
from trainer.engine.graph.node import Node, topological
from trainer.engine.graph.primitives import compose
from trainer.engine.graph.simplify import simplify
from trainer.engine.graph.storage import Layout, Storage
from trainer.engine.program.build import Request
from trainer.engine.program.legalize import legalize
from trainer.engine.program.partition import Policy
from trainer.engine.program.plan import plan_memory
from trainer.engine.program.state_layouts import settle_layouts
from trainer.engine.program.work import Buffer
from trainer.engine.targets import Device
from trainer.engine.targets.cpu.barriers import barriers
from trainer.engine.targets.cpu.lowering.expansion import Bfloat16, Numerics
from trainer.engine.targets.cpu.lowering.launch import Launch
from trainer.engine.targets.cpu.machine import Machine
from trainer.engine.targets.cpu.target import CpuTarget


@dataclass
class Graph:
    """What a device is asked to compile; `leaves` are the memories that it reads, in the order of the graph, and
    `inputs` those that are given to each run.
    """

    results: list[Node]
    updates: list[tuple[Storage, Node]]
    flush: bool
    leaves: list[Storage]
    inputs: list[Storage]


@dataclass
class Lowered:
    """Launches, where threads wait before one, where arena buffers lie, and each result's buffer and layout."""

    launches: list[Launch]
    waits: list[bool]
    offsets: dict[Buffer, int]
    arena_bytes: int
    results: list[Buffer]
    layouts: list[Layout]


class _Recorded(Exception):
    """Ends a program's run once its graph is known."""


class _Recording(Device):
    """A device that keeps the graph of the first step, or of the first evaluation, and computes nothing of it."""

    name = "recording"

    def __init__(self, *, is_traced: bool) -> None:
        self.is_traced = is_traced
        self.graph: Graph | None = None

    def evaluate(self, nodes: Sequence[Node]) -> list[Storage]:
        if self.is_traced:
            return targets.get("cpu").evaluate(nodes)
        self._keep(nodes, (), (), flush=False)

    def compile(
        self,
        results: Sequence[Node],
        updates: Sequence[tuple[Storage, Node]] = (),
        inputs: Sequence[Node] = (),
        *,
        flush: bool = False,
        progress: Any = None,
    ) -> Any:
        self._keep(results, updates, inputs, flush=flush)

    def _keep(
        self,
        results: Sequence[Node],
        updates: Sequence[tuple[Storage, Node]],
        inputs: Sequence[Node],
        *,
        flush: bool,
    ) -> None:
        self.graph = as_graph(results, updates, inputs, flush=flush)
        raise _Recorded


def as_graph(
    results: Sequence[Node], updates: Sequence[tuple[Storage, Node]], inputs: Sequence[Node], *, flush: bool
) -> Graph:
    """What a device was asked to compile, with the memories that it reads."""
    outputs = [*results, *(node for _, node in updates)]
    leaves = [node.attributes[0] for node in topological(outputs) if node.operation.family == "leaf"]
    return Graph(list(results), list(updates), flush, leaves, [node.attributes[0] for node in inputs])


def forget_constants() -> None:
    """Empty the cache of constants: one that an earlier program made would come earlier in the next one's order."""
    compose._full.cache_clear()


def graph_of(program: Program) -> Graph:
    """The graph that the program's first step, or first evaluation, asks a device to compute."""
    device = _Recording(is_traced=program.is_traced)
    forget_constants()
    with contextlib.suppress(_Recorded):
        list(program.run(device))
    assert device.graph is not None, f"{program.name} compiles nothing"
    return device.graph


def lowered(graph: Graph, numerics: Numerics, bfloat16: Bfloat16, machine: Machine) -> Lowered:
    """What the cpu device makes of a graph; no cache on disk is read or written."""
    target = CpuTarget(machine, numerics, bfloat16)
    outputs = simplify([*graph.results, *(node for _, node in graph.updates)])
    outputs = legalize(outputs, target.features.wide_groups)
    results, targets_of_updates = outputs[: len(graph.results)], outputs[len(graph.results) :]
    updates = [(storage, node) for (storage, _), node in zip(graph.updates, targets_of_updates, strict=True)]
    if updates or graph.flush:
        settle_layouts(topological(outputs), updates)
    varying = {*graph.inputs, *(storage for storage, _ in updates)} if graph.flush else None
    made = target.lower(Request(tuple(results), tuple(updates)), Policy(), varying=varying)
    plan = plan_memory([launch.work for launch in made.launches])
    waits = barriers(made.launches, plan.offsets)
    return Lowered(made.launches, waits, plan.offsets, plan.size, made.results, made.layouts)
