"""The interface of templates, which build kernels from specifications; each template is a file in `templates`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from trainer.engine.graph.dtypes import DType, bfloat16
from trainer.engine.program.spec import Epilogue
from trainer.engine.targets.cpu.kernels.access import Elements
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec
from trainer.engine.targets.ir.expression import lanes_of
from trainer.engine.targets.ir.writer import Writer

Spec = TypeVar("Spec")
Parameters = TypeVar("Parameters")

OPERANDS = 2
"""Number of arrays that every template reads before its epilogue operands; the output's address lies between them."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An array argument of a kernel: number of elements that the kernel may access, and whether it writes them all."""

    dtype: DType
    elements: int
    written: bool = False


class TemplateKernel(Generic[Spec, Parameters]):
    """The kernel of a template for a specification and parameters; any parameters give the same bits.

    A subclass defines its `grid`, the tasks along each dimension, and writes the function through `w`; `memory`
    accesses the elements of `dtype`.
    """

    def __init__(self, spec: Spec, parameters: Parameters) -> None:
        self.spec, self.parameters = spec, parameters
        self.plain: Any = getattr(spec, "convolution", spec)
        self.dtype: DType = self.plain.dtype
        self.lanes = lanes_of(self.dtype)

    @property
    def grid(self) -> tuple[int, ...]:
        """Tasks along each dimension, the outermost first."""
        raise NotImplementedError

    @property
    def tasks(self) -> int:
        """Number of tasks of the kernel."""
        return math.prod(self.grid)

    @property
    def scratch_bytes(self) -> int:
        """Scratch memory that a thread needs."""
        return 0

    def render(self, name: str) -> str:
        """The module of the kernel."""
        self.w = Writer()
        self.memory = Elements(self.w, self.dtype)
        self.write()
        return self.w.module(name, scratch=True)

    def write(self) -> None:
        """Writes the function's body."""
        raise NotImplementedError


def _no_words(spec: Any) -> tuple[int, ...]:
    return ()


def _itself(spec: Any) -> Any:
    return spec


@dataclass(frozen=True, slots=True)
class Template:
    """Builds kernels from specifications of class `specification` with parameters of class `parameters`.

    kernel: builds the kernel from these two. operands: the arrays in the order of the argument block; words: the
    numbers that follow their addresses there. candidates: the parameters worth trying on a machine, best first by the
    cost model, all of one numerics class. All are classes and functions of a module, so that a template can be sent to
    another process. `directions`: the directions of convolutions that it computes; all if empty. `coded`: the
    specification that a kernel is rendered from, the same for all that differ only in their words.
    """

    specification: type
    parameters: type
    kernel: Callable[[Any, Any], TemplateKernel[Any, Any]]
    operands: Callable[[Any], Sequence[Argument]]
    candidates: Callable[[Any, Any], Sequence[Any]]
    words: Callable[[Any], tuple[int, ...]] = _no_words
    directions: tuple[str, ...] = ()
    coded: Callable[[Any], Any] = _itself

    def computes(self, spec: Any) -> bool:
        """Whether this template computes a specification."""
        if type(spec) is not self.specification:
            return False
        convolution: Any = getattr(spec, "convolution", spec)
        return not self.directions or convolution.direction in self.directions

    def render(self, spec: Any, parameters: Any, name: str) -> str:
        """The module of a kernel."""
        return self.kernel(spec, parameters).render(name)

    def tasks(self, spec: Any, parameters: Any) -> int:
        """Returns the number of tasks of a kernel."""
        return self.kernel(spec, parameters).tasks

    def scratch_bytes(self, spec: Any, parameters: Any) -> int:
        """Scratch memory that a thread needs."""
        return self.kernel(spec, parameters).scratch_bytes


def epilogue_arguments(epilogue: Epilogue, elements: int, channels: int) -> list[Argument]:
    """The operands of an epilogue whose output has `elements` elements and `channels` channels."""
    extents = {"same": elements, "channel": channels, "scalar": 1}
    return [Argument(operand.dtype, extents[operand.addressing]) for operand in epilogue.operands]


def prepared(dtype: DType, elements: int, pairs: bool) -> Argument:
    """An operand of `elements` elements of the accumulator's size: numbers, or pairs of bfloat16."""
    return Argument(bfloat16, 2 * elements) if pairs else Argument(dtype, elements)


def activations(spec: ConvolutionSpec) -> tuple[int, int]:
    """The number of elements of x and of y."""
    x, y = spec.channels * math.prod(spec.spatial), spec.filters * math.prod(spec.output_spatial)
    return spec.images * x, spec.images * y
