"""Functions computed by NumPy: host calls, also in traced steps, with derivatives written in tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from trainer.engine import targets, tracing
from trainer.engine.functions.host import run_now
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import user_line
from trainer.engine.graph.node import Node, Shape
from trainer.engine.graph.primitives.host import HostFunction
from trainer.engine.graph.storage import Storage
from trainer.engine.tensor import Tensor, wrapped

Gradient = Callable[[Sequence[Tensor], Sequence[Tensor], Sequence[Any]], Sequence[Tensor | None]]
"""(inputs, outputs, cotangents: a tensor, or None for zero) -> a tensor or None for each input."""


_computed: WeakKeyDictionary[Node, list[Storage | None]] = WeakKeyDictionary()
"""Results of calls that were computed immediately, because the device can't call functions on the host."""


@dataclass(frozen=True)
class NumpyFunction:
    """A NumPy function `name` with keyword arguments. Equal instances compute the same, so they share programs."""

    name: str
    keywords: tuple[tuple[str, Any], ...]
    dtypes: tuple[np.dtype, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "__qualname__", f"numpy.{self.name}")  # its name in errors

    def __call__(self, *arrays: np.ndarray) -> Any:
        with np.errstate(all="ignore"):
            found = attrgetter(self.name)(np)(*arrays, **dict(self.keywords))
        results = found if isinstance(found, tuple) else (found,)
        kept = tuple(np.asarray(each, dtype) for each, dtype in zip(results, self.dtypes, strict=True))
        return kept if len(kept) > 1 else kept[0]


def numpy_call(
    name: str, inputs: Sequence[Tensor], results: Sequence[tuple[Shape, DType]], gradient: Gradient, **keywords: Any
) -> list[Tensor]:
    """Calls the NumPy function `name` on `inputs`; returns tensors of the shapes and dtypes in `results`.

    Like any host call, it can't be part of a program file.
    """
    function = NumpyFunction(name, tuple(sorted(keywords.items())), tuple(dtype.storage for _, dtype in results))
    arguments = tuple(tensor.dtype for tensor in inputs)
    call = HostFunction(function, arguments, tuple(results), False, user_line(), _of_nodes(gradient))
    if not targets.current().has_host_functions:
        if tracing.active() is None:
            found = run_now(call, inputs)
            for bundle in found[0].node.inputs:  # no inputs if nothing can be differentiated
                _computed[bundle] = [tensor.node.value for tensor in found]
            return found
        targets.check_host_function(call.name)
    bundle = p.host_call(call, [tensor.node for tensor in inputs])
    return [wrapped(p.output(bundle, place), *inputs) for place in range(len(results))]


def _of_nodes(gradient: Gradient) -> Callable[[Node, Sequence[Node | None]], list[Node | None]]:
    """Wraps a gradient of tensors as a rule for nodes."""

    def rule(node: Node, cotangents: Sequence[Node | None]) -> list[Node | None]:
        inputs = [Tensor(source) for source in node.inputs]
        nodes = [p.output(node, place) for place in range(len(cotangents))]
        for output, value in zip(nodes, _computed.get(node, ()), strict=False):
            output.value = value
        outputs = [Tensor(output) for output in nodes]
        given = [None if each is None else Tensor(each) for each in cotangents]
        return [None if part is None else part.node for part in gradient(inputs, outputs, given)]

    return rule
