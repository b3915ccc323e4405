"""The graph of a program file: checked completely before it is used.

Nothing in a file is trusted: operations are looked up in the table of primitives, the kind of each attribute is
checked, inputs come before their users, and shape and dtype of each node are inferred again and compared.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer import TrainerError
from trainer.engine.export.attributes import from_json
from trainer.engine.export.batch import BATCH, PLUS, VARYING_FIELDS, at_batch
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.node import Node, Primitive, make_node
from trainer.engine.graph.primitives import BUNDLES, TABLE
from trainer.engine.graph.storage import Shape, Storage
from trainer.engine.safetensors import is_counts

FORMAT, PROGRAM = "trainer program", "program"
FIXED, ANY_BATCH = 1, 2
"""Versions of the format: programs for fixed shapes, and for any batch size."""
INPUT, ARRAY = "input", "array"
MOST_NODES = 1_000_000
MOST_AXES = 64
MOST_WINDOW_PLACES = 1 << 22
"""Maximum window positions along one axis, which pooling's shape rule visits one by one."""


@dataclass(frozen=True)
class ProgramGraph:
    """Nodes in order, and by name: inputs, arrays (leaves without memory), outputs and new values of arrays."""

    nodes: tuple[Node, ...]
    inputs: dict[str, Node]
    arrays: dict[str, Node]
    outputs: dict[str, Node]
    updates: dict[str, Node]

    def peak_bytes(self) -> int:
        """Maximum bytes of values live at once, without fusion: an upper bound."""
        last = {node: node for node in self.nodes}
        for node in self.nodes:
            last.update((source, node) for source in node.inputs)
        ending: dict[Node, int] = {}
        for node in last.keys() - {*self.outputs.values(), *self.updates.values()}:
            ending[last[node]] = ending.get(last[node], 0) + _nbytes(node)
        peak = live = 0
        for node in self.nodes:
            live += _nbytes(node)
            peak = max(peak, live)
            live -= ending.get(node, 0)
        return peak


def _nbytes(node: Node) -> int:
    return math.prod(node.shape) * node.dtype.itemsize


Kinds = Mapping[str, tuple[Shape, DType]]
"""Shape and dtype of each array of a file."""


@dataclass(frozen=True)
class ProgramDocument:
    """A parsed document, from which a graph is built for each batch size. Nothing in it is trusted.

    where: location for errors. allowed: maximum bytes of the file's arrays and the values live at once.
    """

    content: Any
    kinds: Kinds
    where: str
    allowed: int

    @property
    def has_any_batch(self) -> bool:
        return isinstance(self.content, dict) and self.content.get("version") == ANY_BATCH

    def graph(self, batch: int | None) -> ProgramGraph:
        """Builds the graph for a batch size; None for a program of fixed shapes.

        Raises:
            TrainerError: the document does not follow docs/program.md, or it needs more memory than allowed.
        """
        graph = _Reader(self.kinds, self.where).read(self.content, batch)
        peak = graph.peak_bytes()
        if peak > self.allowed:
            raise too_large(self.where, peak, self.allowed)
        return graph


def too_large(where: str, found: int, allowed: int) -> TrainerError:
    """Returns the error for a program that needs more memory than allowed."""
    return TrainerError(
        "the program needs more memory than allowed", where=where, found=f"{found / 1e9:.3g} GB",
        expected=f"at most {allowed / 1e9:.3g} GB",
        hint="If you trust the file, allow more: load_program(path, memory=…).",
    )  # fmt: skip


class _Reader:
    def __init__(self, kinds: Kinds, where: str) -> None:
        self.kinds, self.where = kinds, where
        self.nodes: list[Node] = []
        self.inputs: dict[str, Node] = {}
        self.arrays: dict[str, Node] = {}

    def refused(self, problem: str, found: object = None, expected: object = None, at: str = "") -> TrainerError:
        return TrainerError(
            f"not a program that can be run: {problem}", where=f"{self.where}{at and f', {at}'}",
            found=None if found is None else f"{found!r:.200}", expected=expected,
        )  # fmt: skip

    def read(self, document: Any, batch: int | None) -> ProgramGraph:
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise self.refused("wrong format", expected=f'"format": "{FORMAT}"')
        version = document.get("version")
        if type(version) is not int or version not in (FIXED, ANY_BATCH):
            raise self.refused("another version of the format", version, f"{FIXED} or {ANY_BATCH}")
        self._fields(document, {"format", "version", "nodes", "outputs", "updates"}, "")
        nodes = document["nodes"]
        if not isinstance(nodes, list) or len(nodes) > MOST_NODES:
            raise self.refused("nodes", type(nodes).__name__, f"a list of at most {MOST_NODES}")
        for index, node in enumerate(nodes):
            self._read_node(index, node if batch is None else self._at_batch(index, node, batch))
        if missing := self.arrays.keys() - self.kinds.keys():
            raise self.refused("arrays that are not in the file", sorted(missing))
        outputs = self._named_nodes(document["outputs"], "outputs", "name")
        updates = self._named_nodes(document["updates"], "updates", "array")
        if updates and batch is not None:
            raise self.refused("a program for any batch size with updates", sorted(updates))
        for name, new in updates.items():
            if name not in self.arrays:
                raise self.refused("an update of an unknown array", name, at="updates")
            old = self.arrays[name]
            if (old.shape, old.dtype) != (new.shape, new.dtype):
                raise self.refused(
                    "an update of another shape or dtype", f"{new.dtype}{list(new.shape)}",
                    f"{old.dtype}{list(old.shape)}", f"updates of {name!r}",
                )  # fmt: skip
        return ProgramGraph(tuple(self.nodes), self.inputs, self.arrays, outputs, updates)

    def _at_batch(self, index: int, node: Any, batch: int) -> Any:
        """Returns the node for a batch size; the batch must be the first axis, and no other, of an input."""
        if not isinstance(node, dict):
            return node
        if node.get("operation") == INPUT:
            shape = node.get("shape")
            if not (isinstance(shape, list) and shape[:1] == [{BATCH: 1, PLUS: 0}] and is_counts(shape[1:])):
                expected = 'a list of {"batch": 1, "plus": 0} and integers of at least 0'
                raise self.refused("the shape of an input", shape, expected, f"node {index}")
        try:
            known = {name: at_batch(node[name], batch) for name in VARYING_FIELDS if isinstance(node.get(name), list)}
            if isinstance(attributes := node.get("attributes"), dict):
                known["attributes"] = {name: at_batch(value, batch) for name, value in attributes.items()}
        except (ValueError, RecursionError) as error:
            raise self.refused(
                "a number that depends on the batch", str(error)[:200], "two integers", f"node {index}"
            ) from None
        return {**node, **known}

    def _read_node(self, index: int, node: Any) -> None:
        at = f"node {index}"
        if not isinstance(node, dict) or not isinstance(node.get("operation"), str):
            raise self.refused("a node without an operation", node, at=at)
        operation = node["operation"]
        is_leaf = operation in (INPUT, ARRAY)
        primitive = None if is_leaf else TABLE.get(operation) or BUNDLES.get(operation)
        if not is_leaf and (primitive is None or primitive.family == "leaf"):
            raise self.refused("unknown primitive", operation, at=at)
        at = f"{at} ({operation})"
        own = {"name"} if is_leaf else {"inputs", "attributes"}
        self._fields(node, {"operation", "dtype", "shape"} | own, at)
        refuse = functools.partial(self._refuse_attribute, at)
        dtype = from_json("dtype", node["dtype"], None, refuse)
        if not is_counts(node["shape"]) or len(node["shape"]) > MOST_AXES:
            raise self.refused("the shape", node["shape"], f"at most {MOST_AXES} integers of at least 0", at)
        shape = tuple(node["shape"])
        if primitive is None:
            made = self._read_leaf(node["name"], operation, dtype, shape, at)
        else:
            made = self._read_primitive(primitive, node, at, refuse)
        if (made.shape, made.dtype) != (shape, dtype):
            found, expected = f"{dtype}{list(shape)}", f"{made.dtype}{list(made.shape)}"
            raise self.refused("shape or dtype differs from the operation's result", found, expected, at)
        self.nodes.append(made)

    def _read_leaf(self, name: Any, kind: str, dtype: DType, shape: tuple[int, ...], at: str) -> Node:
        known_names = self.inputs if kind == INPUT else self.arrays
        if not isinstance(name, str) or not name or name in known_names:
            raise self.refused("a name", name, "a text, once", at)
        if kind == ARRAY and name in self.kinds:
            stored_shape, stored = self.kinds[name]
            if (stored_shape, stored) != (shape, dtype):
                found, expected = f"{stored}{list(stored_shape)}", f"{dtype}{list(shape)}"
                raise self.refused(f"array {name!r} differs", found, expected, at)
        leaf = known_names[name] = p.buffer(Storage(shape, dtype, name=name))
        return leaf

    def _read_primitive(self, primitive: Primitive, node: dict[str, Any], at: str, refuse: Any) -> Node:
        numbers, given = node["inputs"], node["attributes"]
        if not is_counts(numbers) or any(number >= len(self.nodes) for number in numbers):
            raise self.refused("inputs", numbers, "numbers of nodes before this one", at)
        least, most = _arity(primitive)
        if not least <= len(numbers) <= most:
            raise self.refused("how many inputs there are", len(numbers), least if least == most else "at least 1", at)
        if not isinstance(given, dict):
            raise self.refused("attributes", given, "an object", at)
        self._fields(given, set(primitive.attributes), at)
        inputs = tuple(self.nodes[number] for number in numbers)
        if any(source.is_bundle != (primitive.family == "output") for source in inputs):
            raise self.refused("inputs", numbers, "an output of several, or nodes with values", at)
        of = inputs[0].dtype if inputs else from_json("dtype", node["dtype"], None, refuse)
        attributes = tuple(from_json(name, given[name], of, refuse) for name in primitive.attributes)
        if "window" in primitive.attributes and primitive.family == "window":
            self._check_window(inputs[0], dict(zip(primitive.attributes, attributes, strict=True)), at)
        try:
            return make_node(primitive, inputs, attributes)
        except TrainerError as error:
            raise self.refused(error.message, error.found, error.expected, at) from error
        except (ValueError, TypeError, IndexError, ArithmeticError, RecursionError) as error:
            raise self.refused("its parts don't fit together", f"{type(error).__name__}: {error}", at=at) from error

    def _check_window(self, x: Node, attributes: dict[str, Any], at: str) -> None:
        for extent, window, padding in zip(x.shape[2:], attributes["window"], attributes["padding"], strict=False):
            if (extent + sum(padding)) * window > MOST_WINDOW_PLACES:
                raise self.refused("a window too large to check", attributes, at=at)

    def _named_nodes(self, value: Any, field: str, name: str) -> dict[str, Node]:
        if not isinstance(value, list):
            raise self.refused(field, value, "a list")
        found: dict[str, Node] = {}
        for position, item in enumerate(value):
            at = f"{field}[{position}]"
            if not isinstance(item, dict):
                raise self.refused("an entry", item, "an object", at)
            self._fields(item, {name, "node"}, at)
            if not isinstance(item[name], str) or not item[name] or item[name] in found:
                raise self.refused(f"a {name}", item[name], "a text, once", at)
            if not is_counts([item["node"]]) or item["node"] >= len(self.nodes):
                raise self.refused("a node", item["node"], f"below {len(self.nodes)}", at)
            found[item[name]] = self.nodes[item["node"]]
            if found[item[name]].is_bundle:
                raise self.refused("a node", item["node"], "one with a value", at)
        return found

    def _fields(self, value: dict[str, Any], expected: set[str], at: str) -> None:
        if set(value) != expected:
            raise self.refused("fields", sorted(value), ", ".join(sorted(expected)) or "none", at)

    def _refuse_attribute(self, at: str, name: str, found: object, expected: str) -> TrainerError:
        return self.refused(f"the {name}", found, expected, at)


@functools.cache
def _arity(primitive: Primitive) -> tuple[int, float]:
    """Minimum and maximum number of inputs, from the signature of the primitive's reference."""
    parameters: Sequence[inspect.Parameter] = list(inspect.signature(primitive.reference).parameters.values())[1:]
    if any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters):
        return 1, math.inf
    return len(parameters), len(parameters)
