"""Custom operations: kernels in LLVM IR, and values whose gradient the user wrote.

The primitives are not in `TABLE` or `BUNDLES`: a program file can't hold native code or a Python function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.node import Node, Primitive, Shape, make_node

NodeGradient = Callable[[Node, Node, Sequence[Node]], Sequence[Node | None]]
"""(cotangent, result, inputs) -> a node or None (zero) for each input."""

KERNEL = "kernel"
"""The name of the function that the source of a custom kernel defines."""


@dataclass(frozen=True, slots=True)
class CustomKernel:
    """A kernel in LLVM IR. `sources` are modules that compute the same bits: the tuner picks the fastest.

    gradient and reference (a function of NumPy arrays) may be None.
    """

    name: str
    sources: tuple[str, ...]
    shape: Shape
    dtype: DType
    tasks: int
    gradient: NodeGradient | None
    reference: Callable[..., Any] | None


def _kernel_reference(attributes: tuple[Any, ...], *arrays: np.ndarray) -> np.ndarray:
    kernel: CustomKernel = attributes[0]
    if kernel.reference is None:
        raise TrainerError(f"{kernel.name}: a custom kernel in LLVM IR runs on the cpu device",
                           found="device reference", hint="Give engine.custom a `reference`, a function of NumPy "
                           "arrays, to compute it elsewhere.")  # fmt: skip
    return np.asarray(kernel.reference(*arrays))


_CUSTOM = Primitive(
    "custom", "index", lambda inputs, attributes: attributes[0].shape, lambda inputs, attributes: attributes[0].dtype,
    _kernel_reference, ("kernel",),
)  # fmt: skip
_WITH_GRADIENT = Primitive(
    "with_gradient", "marker", lambda inputs, attributes: inputs[0].shape, lambda inputs, attributes: inputs[0].dtype,
    lambda attributes, x, *inputs: x, ("gradient",),
)  # fmt: skip


def custom(kernel: CustomKernel, inputs: Sequence[Node]) -> Node:
    """The result of a custom kernel on `inputs`."""
    return make_node(_CUSTOM, tuple(inputs), (kernel,))


def with_gradient(x: Node, inputs: Sequence[Node], gradient: NodeGradient) -> Node:
    """`x`, with `gradient` as its derivative with respect to `inputs`, however x was computed."""
    return make_node(_WITH_GRADIENT, (x, *inputs), (gradient,))
