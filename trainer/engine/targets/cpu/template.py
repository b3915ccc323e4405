"""What a template is: what makes kernels of specifications, each in a file of its own in `templates`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.engine.graph.dtypes import DType, bfloat16
from trainer.engine.program.epilogue import Epilogue
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec


@dataclass(frozen=True, slots=True)
class Argument:
    """An array that a kernel is handed: how many elements it may touch, and whether it writes them all."""

    dtype: DType
    elements: int
    written: bool = False


def _no_words(spec: Any) -> tuple[int, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Template:
    """Makes kernels of specifications of class `specification` with parameters of class `parameters`.

    render, tasks and scratch_bytes take (specification, parameters). operands: the arrays in the order of the argument
    block; words: the numbers that follow their addresses there. candidates: the parameters worth trying on a machine,
    best first by the cost model, all of one numerics class. All are module-level functions, so that a template can be
    sent to another process. `directions`: those of the convolutions that it computes; all if empty.
    """

    specification: type
    parameters: type
    render: Callable[[Any, Any, str], str]
    tasks: Callable[[Any, Any], int]
    scratch_bytes: Callable[[Any, Any], int]
    operands: Callable[[Any], Sequence[Argument]]
    candidates: Callable[[Any, Any], Sequence[Any]]
    words: Callable[[Any], tuple[int, ...]] = _no_words
    directions: tuple[str, ...] = ()

    def computes(self, spec: Any) -> bool:
        """Whether a specification is one of this template's."""
        if type(spec) is not self.specification:
            return False
        convolution: Any = getattr(spec, "convolution", spec)
        return not self.directions or convolution.direction in self.directions


def epilogue_arguments(epilogue: Epilogue, elements: int, channels: int) -> list[Argument]:
    """The operands of an epilogue whose output has so many elements and channels."""
    extents = {"same": elements, "channel": channels, "scalar": 1}
    return [Argument(operand.dtype, extents[operand.addressing]) for operand in epilogue.operands]


def prepared(dtype: DType, elements: int, pairs: bool) -> Argument:
    """An operand of so many elements of the accumulator's size: numbers, or pairs of bfloat16."""
    return Argument(bfloat16, 2 * elements) if pairs else Argument(dtype, elements)


def activations(spec: ConvolutionSpec) -> tuple[int, int]:
    """Elements of x and of y."""
    x, y = spec.channels * math.prod(spec.spatial), spec.filters * math.prod(spec.output_spatial)
    return spec.images * x, spec.images * y
