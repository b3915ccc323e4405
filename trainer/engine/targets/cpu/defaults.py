"""The cost model: template parameters for a contraction, at once and without running anything.

A tile of m rows by v vectors takes, for each step of the reduction, the longest of its multiply-adds (two a cycle),
its loads (two a cycle), the right operand's way from the second-level cache and the latency of one multiply-add; it
must fit the registers with v vectors of the right operand and one broadcast. Tiles that cut the shape without small
remainders win by that. Tasks are sized so that there are enough of them for the threads, copies into scratch stay
small, and what a task reads again stays in the second-level cache.

What a template's tiles and tasks cost stands in `costs`, a file each.

Any choice gives the same bits: the model can only be slow, never wrong.
"""

from __future__ import annotations

import functools
import math

from trainer.engine.graph.dtypes import float32
from trainer.engine.targets.cpu.costs.convolution import convolution_parameters
from trainer.engine.targets.cpu.costs.depthwise import depthwise_parameters
from trainer.engine.targets.cpu.costs.few_outputs import few_outputs_parameters
from trainer.engine.targets.cpu.costs.matmul import matmul_parameters
from trainer.engine.targets.cpu.costs.statistics import statistics_parameters
from trainer.engine.targets.cpu.costs.weight_gradient import weight_gradient_parameters
from trainer.engine.targets.cpu.costs.winograd import winograd_gradient_parameters, winograd_parameters
from trainer.engine.targets.cpu.kernels import few_outputs
from trainer.engine.targets.cpu.kernels.contraction import MatmulParameters, MatmulSpec
from trainer.engine.targets.cpu.kernels.convolution import ConvolutionParameters
from trainer.engine.targets.cpu.kernels.depthwise import DepthwiseParameters, DepthwiseSpec
from trainer.engine.targets.cpu.kernels.few_outputs import FewOutputsParameters, FewOutputsSpec
from trainer.engine.targets.cpu.kernels.geometry import RSCK, ConvolutionSpec
from trainer.engine.targets.cpu.kernels.statistics import StatisticsSpec
from trainer.engine.targets.cpu.kernels.weight_gradient import WeightGradientParameters
from trainer.engine.targets.cpu.kernels.winograd import WinogradParameters
from trainer.engine.targets.cpu.kernels.winograd_choice import WinogradSpec
from trainer.engine.targets.cpu.kernels.winograd_gradient import WinogradGradientParameters
from trainer.engine.targets.cpu.machine import Machine, host_machine

Spec = MatmulSpec | ConvolutionSpec | StatisticsSpec | DepthwiseSpec | FewOutputsSpec | WinogradSpec
Parameters = (
    MatmulParameters
    | ConvolutionParameters
    | DepthwiseParameters
    | FewOutputsParameters
    | WeightGradientParameters
    | WinogradParameters
    | WinogradGradientParameters
)

PACKED_ROWS, PACKED_COLUMNS = 256, 1024
"""Each row of a wider right operand lies on a page of its own; packing it pays from so many rows of the left one on."""

FEW_PIXELS = 1
"""Weights that so few pixels read are read as they lie, and taps in the padding not at all: packing them takes longer
than the product. For more pixels it didn't pay (pix2pix's step with 256: 565 ms against 324).
"""


def choose(spec: Spec, machine: Machine | None = None) -> Parameters:
    """The parameters to begin with."""
    return candidates(spec, machine)[0]


@functools.lru_cache(maxsize=4096)
def _ranked(spec: Spec, machine: Machine) -> tuple[Parameters, ...]:
    if isinstance(spec, MatmulSpec):
        return matmul_parameters(spec, machine)
    if isinstance(spec, WinogradSpec):
        backward = spec.convolution.direction == "weight_gradient"
        return winograd_gradient_parameters(spec, machine) if backward else winograd_parameters(spec, machine)
    if isinstance(spec, DepthwiseSpec):
        return depthwise_parameters(spec, machine)
    if isinstance(spec, FewOutputsSpec):
        return few_outputs_parameters(spec, machine)
    if isinstance(spec, StatisticsSpec):
        return statistics_parameters(spec, machine)
    if spec.direction == "weight_gradient":
        return weight_gradient_parameters(spec, machine)
    return convolution_parameters(spec, machine)


def candidates(spec: Spec, machine: Machine | None = None) -> list[Parameters]:
    """Parameters worth trying, best first by the model; all of one numerics class."""
    return list(_ranked(spec, machine or host_machine()))


def prefers_packed(spec: MatmulSpec | ConvolutionSpec, machine: Machine) -> bool:
    """Whether the right operand should be packed.

    Read in place it costs as little, unless its columns are apart, or so much of it is walked in strides that the
    second-level cache's sets overflow (measured: 3x3 convolutions lose a tenth beyond 1 MB; products of 2,048 and 4,096
    a quarter, those of few rows or columns nothing).
    """
    if spec.pairs:
        return True
    if isinstance(spec, MatmulSpec):
        return spec.b_strides[1] != 1 or (spec.rows >= PACKED_ROWS and spec.columns > PACKED_COLUMNS)
    if spec.direction != "forward" or spec.weight_order != RSCK:
        return True
    weights = math.prod(spec.window) * (spec.channels // spec.groups) * spec.filters * spec.dtype.itemsize
    few = spec.images * math.prod(spec.output_spatial) <= FEW_PIXELS
    return math.prod(spec.window) > 1 and weights > machine.level2_bytes and not few


def takes_prologue(spec: ConvolutionSpec) -> bool:
    """Whether a convolution, or a weight gradient, computes element-wise work on its input rather than have it stored.

    Only where the window is copied into scratch anyway, for its padding: then it costs what reading it costs (ResNet-50
    at batch 8 and pix2pix, two threads: no difference in time, 62 and 12 MB less in the arena). 1x1 layers would have
    to copy theirs for it: 49 MB less still, and no difference in time that could be measured.
    """
    padded = any(map(any, spec.padding))
    if spec.direction == "forward" and few_outputs.few_outputs(spec) is not None:
        return False  # that template copies its input channel by channel
    return padded and spec.dtype == float32 and spec.groups == 1 and not spec.pairs
