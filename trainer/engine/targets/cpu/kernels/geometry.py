"""The geometry of a convolution, in one form that the forward pass and the input gradient share.

Both are correlations: output pixel i of a phase sums, over its taps t, input pixel `start + i * step + t * tap_step`.
The forward pass has one phase. The input gradient with stride s has one phase for each residue of the pixel modulo s
along each axis: in it, only every (s / gcd(s, dilation))-th tap reads a pixel of dy, and the outputs are s apart.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import Literal

from trainer.engine.graph.dtypes import DType
from trainer.engine.program.spec import Epilogue
from trainer.engine.targets.cpu.kernels import pack
from trainer.engine.targets.cpu.kernels.products import Quads

Direction = Literal["forward", "input_gradient", "weight_gradient"]
Pair = tuple[int, int]

RSCK = (2, 3, 1, 0)
"""The templates' preferred memory order of a weight's logical axes [K, C/groups, R, S], slowest first."""


@dataclass(frozen=True, slots=True)
class ConvolutionSpec:
    """A two-dimensional convolution of x[N, C, H, W] with w[K, C/groups, R, S], or one of its two gradients.

    Activations are dense and channels-last in memory; weights are dense with their axes in `weight_order`. `padding` is
    ((top, bottom), (left, right)). `packed`: the weights are in panels (`convolution.pack_spec`); only the forward
    pass with weights in RSCK order works without panels. The epilogue applies to the result: y, the gradient of x, or
    the gradient of w. The prologue applies to the elements of x (in the input gradient: of dy) while a task's window of
    them is copied into scratch, before padding is written; its input and output have `dtype`.

    pairs: both operands are bfloat16; `dtype`, that of sums and results, is float32. Pairs are neighbors along the
    reduction: channels of a group in the forward pass, filters of a group in the input gradient (an even number, with
    packed weights), images in the weight gradient, whose operands are interleaved by `interleave.py`.

    tiled: pairs are summed in the order of AMX, a separate numerics class (`tile_registers.py`).

    quads: the forward pass of 8-bit integers in quads of channels, and `dtype` is int32; `channels` counts quads.
    """

    dtype: DType
    direction: Direction
    images: int
    channels: int
    spatial: Pair
    filters: int
    window: Pair
    strides: Pair = (1, 1)
    padding: tuple[Pair, Pair] = ((0, 0), (0, 0))
    dilation: Pair = (1, 1)
    groups: int = 1
    weight_order: tuple[int, int, int, int] = RSCK
    packed: bool = True
    epilogue: Epilogue = field(default_factory=Epilogue)
    prologue: Epilogue = field(default_factory=Epilogue)
    pairs: bool = False
    tiled: bool = False
    quads: Quads = ""

    @property
    def unit(self) -> int:
        """Numbers in one element of the accumulator's size."""
        return 2 if self.pairs else 1

    @property
    def weights(self) -> int:
        """Number of weights."""
        return math.prod(self.window) * (self.channels // self.groups) * self.filters

    @property
    def is_padded(self) -> bool:
        return any(map(any, self.padding))

    @property
    def is_product(self) -> bool:
        """Whether the convolution is a matrix product, with all pixels as one row."""
        return self.window == (1, 1) and self.strides == (1, 1) and not self.is_padded

    @property
    def output_spatial(self) -> Pair:
        """Extents of y."""
        rows, columns = (
            (self.spatial[axis] + sum(self.padding[axis]) - self.dilation[axis] * (self.window[axis] - 1) - 1)
            // self.strides[axis]
            + 1
            for axis in range(2)
        )
        return rows, columns

    @property
    def weight_strides(self) -> tuple[int, int, int, int]:
        """Elements between neighbors along K, C, R and S."""
        shape = (self.filters, self.channels // self.groups, *self.window)
        strides, step = [0] * 4, 1
        for axis in reversed(self.weight_order):
            strides[axis] = step
            step *= shape[axis]
        return strides[0], strides[1], strides[2], strides[3]


@dataclass(frozen=True, slots=True)
class AxisPhase:
    """One axis of a phase: `count` outputs from `output_start` on; `taps` taps, the first reading input `input_start`.

    Tap t is the weight's tap `first + t * step`.
    """

    output_start: int
    count: int
    taps: int
    input_start: int
    first: int
    step: int


@dataclass(frozen=True, slots=True)
class Axis:
    """How one spatial axis is traversed: strides between outputs, inputs of neighboring outputs, and taps."""

    extent: int
    output_extent: int
    output_step: int
    input_step: int
    tap_step: int
    phases: tuple[AxisPhase, ...]
    most_outputs: int = field(init=False)
    """Maximum number of outputs of a phase."""
    leaves_input: bool = field(init=False)
    """Whether some tap reads before the first or after the last input."""
    origin: int = field(init=False)
    """The input at which the first window of any phase begins."""
    windows: int = field(init=False)
    """Number of neighboring windows, from the origin, that contain those of all phases."""

    def __post_init__(self) -> None:  # the cost model reads these thousands of times
        object.__setattr__(self, "most_outputs", max(phase.count for phase in self.phases))
        leaves = any(
            phase.input_start < 0 or phase.input_start + self.span(phase.count, phase.taps) > self.extent
            for phase in self.phases
            if phase.taps
        )
        object.__setattr__(self, "leaves_input", leaves)
        origin = min(phase.input_start for phase in self.phases)
        object.__setattr__(self, "origin", origin)
        object.__setattr__(self, "windows", max(phase.input_start - origin + phase.count for phase in self.phases))

    def span(self, count: int, taps: int) -> int:
        """Inputs from the first to the last that `count` outputs with `taps` taps read."""
        return (count - 1) * self.input_step + (max(taps, 1) - 1) * self.tap_step + 1


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase: its rows and columns, and where its weights begin along the packed depth."""

    rows: AxisPhase
    columns: AxisPhase
    depth_start: int


@dataclass(frozen=True, slots=True)
class Correlation:
    """The common form: `inputs` and `outputs` count all channels, `group_inputs` and `group_outputs` those of a group.

    Inputs are elements of the accumulator's size: channels, or pairs of them.
    """

    images: int
    groups: int
    inputs: int
    outputs: int
    rows: Axis
    columns: Axis
    phases: tuple[Phase, ...]
    packing: pack.PackSpec

    @property
    def group_inputs(self) -> int:
        return self.inputs // self.groups

    @property
    def group_outputs(self) -> int:
        return self.outputs // self.groups

    @property
    def leaves_input(self) -> bool:
        return self.rows.leaves_input or self.columns.leaves_input


@functools.lru_cache(maxsize=1024)
def correlation(spec: ConvolutionSpec) -> Correlation:
    """The common form of the forward pass or of the input gradient."""
    forward = spec.direction == "forward"
    axes = [(_forward_axis if forward else _gradient_axis)(spec, axis) for axis in range(2)]
    images = spec.images
    if spec.is_product:
        pixels = images * math.prod(spec.spatial)
        images, axes = 1, [_whole_axis(1), _whole_axis(pixels)]
    k_stride, c_stride, r_stride, s_stride = spec.weight_strides
    group_channels, group_filters = spec.channels // spec.groups, spec.filters // spec.groups
    depth, depth_stride = (group_channels, c_stride) if forward else (group_filters, k_stride)
    columns, column_stride = (group_filters, k_stride) if forward else (group_channels, c_stride)
    if depth % spec.unit:
        raise ValueError(f"bfloat16 is multiplied in pairs of channels, not of {depth}")
    pair_stride = depth_stride if spec.pairs else 0
    depth, depth_stride = depth // spec.unit, depth_stride * spec.unit
    phases, blocks, start = [], [], 0
    for rows in axes[0].phases:
        for cols in axes[1].phases:
            block = pack.Block(
                rows.first * r_stride + cols.first * s_stride,
                ((rows.taps, rows.step * r_stride), (cols.taps, cols.step * s_stride), (depth, depth_stride)),
            )
            phases.append(Phase(rows, cols, start))
            blocks.append(block)
            start += block.depth
    packing = pack.PackSpec(
        spec.dtype, ((spec.groups, group_filters * k_stride),), columns, column_stride, tuple(blocks), pair_stride
    )
    inputs, outputs = (spec.channels, spec.filters) if forward else (spec.filters, spec.channels)
    return Correlation(images, spec.groups, inputs // spec.unit, outputs, axes[0], axes[1], tuple(phases), packing)


def _whole_axis(extent: int) -> Axis:
    return Axis(extent, extent, 1, 1, 1, (AxisPhase(0, extent, 1, 0, 0, 1),))


def _forward_axis(spec: ConvolutionSpec, axis: int) -> Axis:
    phase = AxisPhase(0, spec.output_spatial[axis], spec.window[axis], -spec.padding[axis][0], 0, 1)
    extents = spec.spatial[axis], spec.output_spatial[axis]
    return Axis(*extents, 1, spec.strides[axis], spec.dilation[axis], (phase,))


def _gradient_axis(spec: ConvolutionSpec, axis: int) -> Axis:
    """Pixel h = output_start + i * stride sums dy[(h + padding - r * dilation) / stride] over taps r, dy ascending."""
    stride, dilation, padding = spec.strides[axis], spec.dilation[axis], spec.padding[axis][0]
    extent, common = spec.spatial[axis], math.gcd(stride, dilation)
    phases = []
    for start in range(min(stride, extent)):
        taps = [r for r in range(spec.window[axis]) if (start + padding - r * dilation) % stride == 0]
        count, last = -(-(extent - start) // stride), taps[-1] if taps else 0
        first_input = (start + padding - last * dilation) // stride if taps else 0
        phases.append(AxisPhase(start, count, len(taps), first_input, last, -(stride // common)))
    return Axis(spec.output_spatial[axis], extent, stride, 1, dilation // common, tuple(phases))
