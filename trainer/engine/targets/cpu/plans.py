"""Lowered programs kept for later processes: tracing a step a second time leads to its launches without any pass.

A program is kept under the digest of its graph and of all that has a say in how it is lowered. Like kernels, plans are
private to the user and verified by hash before they are read.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import pickle
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.node import Node, Primitive, topological
from trainer.engine.graph.primitives import BUNDLES, TABLE
from trainer.engine.graph.primitives.sources import BUFFER, NEGATIVE_ZERO
from trainer.engine.graph.storage import Layout, Storage
from trainer.engine.program.work import KernelSource
from trainer.engine.targets import disk_cache
from trainer.engine.targets.cpu import identity
from trainer.engine.targets.cpu.lowering.sources import source_of
from trainer.engine.targets.cpu.target import Lowered

PLAN = ".plan"

Choose = Callable[[Any], Any]


@dataclass(slots=True)
class Choices:
    """Parameters of templates by their specifications, as `choose` gave them."""

    choose: Choose
    made: dict[Any, Any] = field(default_factory=dict)

    def __call__(self, spec: Any) -> Any:
        parameters = self.made[spec] = self.choose(spec)
        return parameters


@dataclass(frozen=True, slots=True)
class Graph:
    """The digest of a graph under given circumstances, and the memories of its leaves as the digest numbers them."""

    digest: str
    storages: tuple[Storage, ...]

    @classmethod
    def of(
        cls, results: Sequence[Node], updates: Sequence[tuple[Storage, Node]], inputs: Sequence[Node],
        *circumstances: object,
    ) -> Graph | None:  # fmt: skip
        """None where a graph holds what has no digest: functions of the host, scans, sums over shards.

        Nodes are written in the order in which they were made, which is that in which passes meet them.
        """
        order = topological([*results, *[node for _, node in updates]])
        number = {node: place for place, node in enumerate(order)}
        storages = dict[Storage, int]()
        parts: list[object] = []

        def memory(storage: Storage) -> int:
            if storage not in storages:
                storages[storage] = len(storages)
                parts.append((storage.shape, storage.dtype, storage.layout, storage.name))
                parts.append((storage.is_state, storage.settled, storage.is_aligned))
            return storages[storage]

        for node in order:
            operation = node.operation
            if operation is BUFFER:
                parts.append(memory(node.attributes[0]))
            elif node.value is None and (TABLE.get(operation.name) or BUNDLES.get(operation.name)) is operation:
                sources = [number[source] for source in node.inputs]
                parts.append((operation.name, sources, node.attributes, node.shape, node.dtype.name, node.line))
            else:
                return None
        parts += [[number[node] for node in results], [(memory(storage), number[node]) for storage, node in updates]]
        parts += [[memory(node.attributes[0]) for node in inputs], platform.python_version(), np.__version__]
        content = io.BytesIO()
        try:
            _Description(content).dump(parts)
        except TypeError:
            return None
        digest = identity.digest(hashlib.sha256(content.getvalue()).hexdigest(), *circumstances)
        return None if digest is None else cls(digest, tuple(storages))


_DESCRIBED = DType, Layout, type(NEGATIVE_ZERO)
"""Classes of which a graph's attributes have objects, besides Python's own."""


class _Description(pickle.Pickler):
    """Writes values that are equal in any process to equal bytes, and no others."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.fast = True  # else it writes which equal values are one object

    def reducer_override(self, value: object) -> Any:
        if type(value) in _DESCRIBED or (isinstance(value, type) and value in _DESCRIBED):
            return NotImplemented
        raise TypeError(f"{type(value).__name__} has no digest")


@dataclass(frozen=True, slots=True)
class _Plan:
    """A lowered program, the layout of each memory and whether it is settled now, and the parameters chosen for it."""

    lowered: Lowered
    layouts: tuple[tuple[Layout, bool], ...]
    choices: dict[Any, Any]


def keep(graph: Graph, lowered: Lowered, choices: Choices) -> None:
    """Keep what the graph was lowered to, unless it holds what no other process has."""
    layouts = tuple([(storage.layout, storage.settled) for storage in graph.storages])
    content = io.BytesIO()
    try:
        _Writer(content, graph.storages).dump(_Plan(lowered, layouts, choices.made))
    except (pickle.PicklingError, TypeError, AttributeError):
        return
    disk_cache.keep(graph.digest, content.getvalue(), PLAN)


def kept(graph: Graph, choose: Choose | None) -> Lowered | None:
    """What the same graph was lowered to before, bound to the memories of this one, whose layouts are then settled.

    None where there is nothing, or where `choose`, if it may change its mind, gives other parameters now.
    """
    content = disk_cache.kept(graph.digest, PLAN)
    if content is None:
        return None
    plan: _Plan = _Reader(io.BytesIO(content), graph.storages).load()
    if choose and any(choose(spec) != parameters for spec, parameters in plan.choices.items()):
        return None
    for storage, (layout, settled) in zip(graph.storages, plan.layouts, strict=True):
        if storage.layout != layout:
            storage.lay_out(layout)
        storage.settled = settled
    return plan.lowered


class _Writer(pickle.Pickler):
    """Writes memories as their numbers, primitives by their names, and code as the key that it is rendered from."""

    def __init__(self, file: io.BytesIO, storages: Sequence[Storage]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._number = {storage: number for number, storage in enumerate(storages)}

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN or _is_plain(kind):
            return kind, tuple([getattr(value, name) for name in _PLAIN[kind]])
        if kind is Storage:
            if value not in self._number:
                raise pickle.PicklingError("a memory that no leaf of the graph has")
            return _memory, (self._number[value],)
        if kind is KernelSource:
            return source_of, (value.key,)
        if kind is Primitive:
            return _primitive, (value.name,)
        return NotImplemented


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, storages: Sequence[Storage]) -> None:
        super().__init__(file)
        self._storages = storages

    def find_class(self, module: str, name: str) -> Any:
        return self._storages.__getitem__ if name == _memory.__name__ else super().find_class(module, name)


def _memory(number: int) -> Storage:
    raise AssertionError("the reader has the memories")


_PLAIN: dict[type, tuple[str, ...]] = {}
"""The fields of classes that are nothing but these. Calling one takes half as long as filling an object."""


def _is_plain(kind: type) -> bool:
    """Whether objects of a class are made again from their fields; notes the fields."""
    if not dataclasses.is_dataclass(kind) or kind.__reduce__ is not object.__reduce__:
        return False
    fields = dataclasses.fields(kind)
    if not kind.__dataclass_params__.frozen or not all(field.init and not field.kw_only for field in fields):  # type: ignore[attr-defined]
        return False
    _PLAIN[kind] = tuple([field.name for field in fields])
    return True


def _primitive(name: str) -> Primitive:
    return TABLE.get(name) or BUNDLES[name]
