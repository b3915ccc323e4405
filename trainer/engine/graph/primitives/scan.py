"""Scans: a step, itself a graph, runs repeatedly on carried values and on slices of the inputs.

The primitive is not in `TABLE` or `BUNDLES`: a program file can't hold a graph inside a node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.node import Node, Outputs, Primitive, Shape, make_node, reached, topological, uncomputed
from trainer.engine.graph.primitives.output import bundle_dtype
from trainer.engine.graph.primitives.sources import buffer
from trainer.engine.graph.rewrite import replaced, typed
from trainer.engine.graph.storage import Storage

StepGradient = Callable[[Node, Sequence[Node | None]], Sequence[Node | None]]
"""(bundle, cotangents of its outputs) -> a node or None (zero) for each input."""

_KEPT = ("contraction", "reduction", "window", "index", "output")
"""Families whose values the derivative of a step reads instead of recomputing them."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step as a graph. `parameters` are leaves without memory: `constants` values that are the same at every step,
    then `carried` values before the step, then slices of the inputs. `results` are the carried values after the step,
    then the outputs; `kept` are nodes of the step whose values the derivative may read.

    keep: `kept` also holds values that are costly to recompute, not only the carried values. Steps that compute the
    same are equal.
    """

    parameters: tuple[Node, ...]
    constants: int
    carried: int
    results: tuple[Node, ...]
    kept: tuple[Node, ...]
    keep: bool
    gradient: StepGradient
    identity: Hashable = field(init=False)
    _hash: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "identity", self._structure())
        object.__setattr__(self, "_hash", hash(self.identity))

    def _structure(self) -> Hashable:
        number = {node: place for place, node in enumerate(self.parameters)}
        parts: list[Any] = [(self.constants, self.carried, self.keep)]
        parts += [(node.shape, node.dtype.name) for node in self.parameters]
        for node in topological(self.computed):
            if node not in number:
                sources = tuple([number[source] for source in node.inputs])
                number[node] = len(number)
                parts.append((node.operation, sources, typed(node.attributes)))
        return tuple(parts), tuple([number[node] for node in self.computed])

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Step) and self._hash == other._hash and self.identity == other.identity
        )

    @property
    def computed(self) -> tuple[Node, ...]:
        """The nodes behind a scan's outputs: carried values, then outputs and kept values, which it stacks."""
        return (*self.results, *self.kept)

    def split(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """`values`, one for each parameter, split into those of constants, carried values and inputs."""
        first, second = self.constants, self.constants + self.carried
        return list(values[:first]), list(values[first:second]), list(values[second:])

    def needed(self, used: Sequence[int]) -> tuple[list[int], dict[Node, None]]:
        """Returns the places in `computed` that those in `used` require, and the nodes that compute them."""
        carried = self.parameters[self.constants :][: self.carried]
        places = set(used)
        while True:
            nodes = reached([self.computed[place] for place in places], lambda node: node.inputs)
            more = {place for place, node in enumerate(carried) if node in nodes} - places
            if not more:
                return sorted(places), nodes
            places |= more


def _outputs(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Outputs:
    step, length, _ = attributes
    shapes = [node.shape if place < step.carried else (length, *node.shape) for place, node in enumerate(step.computed)]
    return tuple([(shape, node.dtype) for shape, node in zip(shapes, step.computed, strict=True)])


def _reference(attributes: tuple[Any, ...], *arrays: Any) -> Any:
    raise AssertionError("devices compute the steps of a scan themselves")


_SCAN = Primitive(
    "scan", "bundle", lambda inputs, attributes: (),
    lambda inputs, attributes: bundle_dtype(_outputs(inputs, attributes)), _reference,
    ("step", "length", "reverse"), _outputs,
)  # fmt: skip


def placeholder(shape: Shape, dtype: DType, name: str) -> Node:
    """A parameter of a step."""
    return buffer(Storage(shape, dtype, name=name))


def scan(
    results: Sequence[Node], carried: Mapping[Node, Node], inputs: Mapping[Node, Node], length: int, *,
    gradient: StepGradient, reverse: bool = False, keep: bool = True, outside: Mapping[Node, Node] | None = None,
) -> Node:  # fmt: skip
    """The bundle of `length` steps that compute `results`: carried values, then outputs, which are stacked.

    Values that the results need and that depend on no parameter are computed once, before the first step.

    Args:
        carried: parameter -> value before the first step, in the order of `results`.
        inputs: parameter -> value whose slices along its first axis the steps read.
        gradient: the derivative of the scan; it is not among the primitives, since it differentiates the step.
        reverse: begin with the last slice.
        outside: other leaves of `results` -> the values that they represent.
    """
    varying = {*carried, *inputs}
    for node in uncomputed(results):
        if node.value is None and not varying.isdisjoint(node.inputs):
            varying.add(node)
    read = [source for node in uncomputed(results) if node in varying and node.value is None for source in node.inputs]
    fixed = [node for node in dict.fromkeys([*read, *results]) if node not in varying and not _is_made_again(node)]
    leaves = [placeholder(node.shape, node.dtype, "constant") for node in fixed]
    own = replaced(results, dict(zip(fixed, leaves, strict=True)))
    nodes = dict.fromkeys(topological(own))
    used = {parameter: value for parameter, value in inputs.items() if parameter in nodes}
    costly = [node for node in nodes if keep and node.operation.family in _KEPT]
    parameters = (*leaves, *carried, *used)
    step = Step(parameters, len(fixed), len(carried), tuple(own), (*carried, *costly), keep, gradient)
    constants = replaced(fixed, outside) if outside else fixed
    return make_node(_SCAN, (*constants, *carried.values(), *used.values()), (step, length, reverse))


def _is_made_again(node: Node) -> bool:
    """Whether each step recomputes `node` because it reads no memory: a broadcast number, or an `iota`.

    A node with a handle is excluded: its derivative can be requested.
    """
    while node.name in ("expand", "reshape") and not _has_handle(node):
        node = node.inputs[0]
    return node.operation.family == "source" and not node.inputs and not _has_handle(node)


def _has_handle(node: Node) -> bool:
    return node.handle is not None and node.handle() is not None
