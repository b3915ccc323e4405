"""Caches lowered programs for later processes: a step that is traced a second time gets its launches without any pass.

The key is the digest of the graph and of everything that affects its lowering. Like kernels, plans are private to the
user and verified by hash before they are read.
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
    """Calls `choose`, and records the parameters that it returns for each specification."""

    choose: Choose
    made: dict[Any, Any] = field(default_factory=dict)

    def __call__(self, spec: Any) -> Any:
        parameters = self.made[spec] = self.choose(spec)
        return parameters


@dataclass(frozen=True, slots=True)
class Graph:
    """The digest of a graph under given circumstances, and the storages of its leaves in the digest's numbering."""

    digest: str
    storages: tuple[Storage, ...]

    @classmethod
    def of(
        cls, results: Sequence[Node], updates: Sequence[tuple[Storage, Node]], inputs: Sequence[Node],
        *circumstances: object,
    ) -> Graph | None:  # fmt: skip
        """Returns None if the graph has a node without a digest: a function of the host, a scan, or a sum over shards.

        Nodes are written in the order of their creation, which is the order in which passes visit them.
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
"""Classes of the objects in a graph's attributes, in addition to Python's built-in ones."""


class _Description(pickle.Pickler):
    """Writes equal values as equal bytes in every process; rejects values for which that is not certain."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.fast = True  # otherwise the bytes depend on which equal values are the same object

    def reducer_override(self, value: object) -> Any:
        if type(value) in _DESCRIBED or (isinstance(value, type) and value in _DESCRIBED):
            return NotImplemented
        raise TypeError(f"{type(value).__name__} has no digest")


@dataclass(frozen=True, slots=True)
class _Plan:
    """A lowered program, the layout of each storage and whether it is settled, and the chosen template parameters."""

    lowered: Lowered
    layouts: tuple[tuple[Layout, bool], ...]
    choices: dict[Any, Any]


def keep(graph: Graph, lowered: Lowered, choices: Choices) -> None:
    """Stores the lowered program of a graph, unless it refers to objects that no other process has."""
    layouts = tuple([(storage.layout, storage.settled) for storage in graph.storages])
    content = io.BytesIO()
    try:
        _Writer(content, graph.storages).dump(_Plan(lowered, layouts, choices.made))
    except (pickle.PicklingError, TypeError, AttributeError):
        return
    disk_cache.keep(graph.digest, content.getvalue(), PLAN)


def kept(graph: Graph, choose: Choose | None) -> Lowered | None:
    """Returns the stored program of an equal graph, bound to the storages of this graph, and restores their layouts.

    Returns None if nothing is stored, or if `choose` (passed if its choices may change) now gives other parameters.
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
    """Writes storages as their numbers, primitives as their names, and code as the key that it is rendered from."""

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
"""The fields of classes that consist only of fields. Calling the class takes half as long as filling an object."""


def _is_plain(kind: type) -> bool:
    """Whether objects of a class can be reconstructed from their fields; if so, records the fields in `_PLAIN`."""
    if not dataclasses.is_dataclass(kind) or kind.__reduce__ is not object.__reduce__:
        return False
    fields = dataclasses.fields(kind)
    if not kind.__dataclass_params__.frozen or not all(field.init and not field.kw_only for field in fields):  # type: ignore[attr-defined]
        return False
    _PLAIN[kind] = tuple([field.name for field in fields])
    return True


def _primitive(name: str) -> Primitive:
    return TABLE.get(name) or BUNDLES[name]
