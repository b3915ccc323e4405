"""The templates whose parameters may be chosen.

A further template (another instruction set, another algorithm) is an entry here, its specifications are known to
`targets.cpu.defaults.candidates`, and its launches carry a `Tunable`; the tuner asks for nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.engine.graph.dtypes import DType, bfloat16
from trainer.engine.program.epilogue import Epilogue
from trainer.engine.targets.cpu.kernels import (
    contraction,
    convolution,
    depthwise,
    depthwise_weights,
    few_outputs,
    statistics,
    weight_gradient,
    winograd,
    winograd_gradient,
)
from trainer.engine.targets.cpu.kernels.contraction import MatmulSpec
from trainer.engine.targets.cpu.kernels.depthwise import DepthwiseSpec
from trainer.engine.targets.cpu.kernels.few_outputs import FewOutputsSpec
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec
from trainer.engine.targets.cpu.kernels.statistics import StatisticsSpec
from trainer.engine.targets.cpu.kernels.winograd_choice import WinogradSpec


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
    """What makes kernels of specifications: functions of (specification, parameters), the operands in the order of the
    argument block, and the words that follow their addresses there. They are module-level functions, so that a template
    can be sent to another process.
    """

    render: Callable[[Any, Any, str], str]
    tasks: Callable[[Any, Any], int]
    scratch_bytes: Callable[[Any, Any], int]
    operands: Callable[[Any], Sequence[Argument]]
    words: Callable[[Any], tuple[int, ...]] = _no_words


def _epilogue_operands(epilogue: Epilogue, elements: int, channels: int) -> list[Argument]:
    extents = {"same": elements, "channel": channels, "scalar": 1}
    return [Argument(operand.dtype, extents[operand.addressing]) for operand in epilogue.operands]


def _prepared(spec: MatmulSpec | ConvolutionSpec, elements: int) -> Argument:
    """An operand of so many elements of the accumulator's size: numbers, or pairs of bfloat16."""
    return Argument(bfloat16, 2 * elements) if spec.pairs else Argument(spec.dtype, elements)


def _matmul_operands(spec: MatmulSpec) -> list[Argument]:
    def reach(extents: Sequence[int], strides: Sequence[int]) -> int:
        return 1 + sum((extent - 1) * stride for extent, stride in zip(extents, strides, strict=True))

    a = reach((*spec.batch, spec.rows, spec.depth), (*spec.a_batch, *spec.a_strides))
    b = reach((*spec.batch, spec.depth, spec.columns), (*spec.b_batch, *spec.b_strides))
    elements = math.prod(spec.batch) * spec.rows * spec.columns
    return [
        Argument(bfloat16 if spec.pairs else spec.dtype, a),
        _prepared(spec, contraction.pack_spec(spec).size if spec.packed else b),
        Argument(spec.epilogue.output(spec.dtype), elements, written=True),
        *_epilogue_operands(spec.epilogue, elements, spec.columns),
    ]


def _activations(spec: ConvolutionSpec) -> tuple[int, int]:
    """Elements of x and of y."""
    x, y = spec.channels * math.prod(spec.spatial), spec.filters * math.prod(spec.output_spatial)
    return spec.images * x, spec.images * y


def _convolution_operands(spec: ConvolutionSpec) -> list[Argument]:
    x, y = _activations(spec)
    source, target = (x, y) if spec.direction == "forward" else (y, x)
    weights = math.prod(spec.window) * (spec.channels // spec.groups) * spec.filters
    return [
        Argument(bfloat16 if spec.pairs else spec.dtype, source),
        _prepared(spec, convolution.pack_spec(spec).size if spec.packed else weights),
        Argument(spec.epilogue.output(spec.dtype), target, written=True),
        *_epilogue_operands(spec.epilogue, target, spec.filters if spec.direction == "forward" else spec.channels),
        *_epilogue_operands(spec.prologue, source, spec.channels if spec.direction == "forward" else spec.filters),
    ]


def _statistics_operands(spec: StatisticsSpec) -> list[Argument]:
    blocks = -(-spec.words[0] // spec.block)
    elements = blocks * spec.convolution.filters
    partials = [Argument(operand.dtype, elements, written=True) for _, operand in spec.reduction.outputs]
    return [*_convolution_operands(spec.convolution), *partials]


def _weight_gradient_operands(spec: ConvolutionSpec) -> list[Argument]:
    x, y = _activations(spec)
    totals = Argument(spec.dtype, weight_gradient.totals_of(spec).size, written=True)
    if spec.pairs:  # of images, interleaved
        x, y = (elements // max(1, spec.images) * -(-spec.images // 2) for elements in (x, y))
    others = _epilogue_operands(spec.prologue, x, spec.channels)
    return [_prepared(spec, x), _prepared(spec, y), totals, *others]


def _winograd_operands(spec: WinogradSpec) -> list[Argument]:
    source, _, *others = _convolution_operands(spec.convolution)
    return [source, Argument(spec.convolution.dtype, winograd.weights_size(spec)), *others]


def _winograd_gradient_operands(spec: WinogradSpec) -> list[Argument]:
    x, y = _activations(spec.convolution)
    dtype = spec.convolution.dtype
    totals = Argument(dtype, winograd_gradient.totals_of(spec).size, written=True)
    return [Argument(dtype, x), Argument(dtype, y), totals]


def _depthwise_operands(spec: DepthwiseSpec) -> list[Argument]:
    convolution = spec.convolution
    if convolution.direction == "weight_gradient":
        return _weight_gradient_operands(convolution)
    source, _, *others = _convolution_operands(convolution)
    return [
        source,
        Argument(convolution.dtype, math.prod(convolution.window) * spec.group * convolution.filters),
        *others,
    ]


def _few_outputs_operands(spec: FewOutputsSpec) -> list[Argument]:
    return _convolution_operands(spec.convolution)


def _template(module: Any, operands: Callable[[Any], Sequence[Argument]]) -> Template:
    return Template(module.render, module.tasks, module.scratch_bytes, operands, getattr(module, "words", _no_words))


MATMUL = _template(contraction, _matmul_operands)
CONVOLUTION = _template(convolution, _convolution_operands)
FEW_OUTPUTS = _template(few_outputs, _few_outputs_operands)
STATISTICS = _template(statistics, _statistics_operands)
WEIGHT_GRADIENT = _template(weight_gradient, _weight_gradient_operands)
WINOGRAD = _template(winograd, _winograd_operands)
WINOGRAD_GRADIENT = _template(winograd_gradient, _winograd_gradient_operands)
DEPTHWISE = _template(depthwise, _depthwise_operands)
DEPTHWISE_WEIGHTS = _template(depthwise_weights, _depthwise_operands)
