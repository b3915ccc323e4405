"""What a launch has to do, whatever time it takes: operations, and bytes that it must read and write at least."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from trainer.engine.program.launch import Launch
from trainer.engine.program.spec import Instruction, LoopKernel
from trainer.engine.targets.cpu.kernels.contraction import MatmulSpec
from trainer.engine.targets.cpu.kernels.depthwise import DepthwiseSpec
from trainer.engine.targets.cpu.kernels.few_outputs import FewOutputsSpec
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec
from trainer.engine.targets.cpu.kernels.index import IndexKernel
from trainer.engine.targets.cpu.kernels.statistics import StatisticsSpec
from trainer.engine.targets.cpu.kernels.winograd_choice import WinogradSpec

_NO_ARITHMETIC = frozenset(
    {"load", "constant", "cast", "bitcast", "where", "equal", "not_equal", "less", "less_equal", "logical_and"}
    | {"logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert"}
    | {"shift_left", "shift_right", "shift_right_logical", "isnan", "isinf", "isfinite"}
)


@dataclass(frozen=True, slots=True)
class Work:
    """`operations`: multiplications, additions and other arithmetic on elements, one each (a fused multiply-add is
    two); None where that is not known. `dtype`: what contractions compute in.
    """

    nbytes: int
    operations: int | None
    dtype: str = "float32"


def work_of(launch: Launch) -> Work:
    """The work of one launch, from its specification. Bytes that are read again come from caches and don't count."""
    if launch.parts:
        parts = [work_of(part) for part in launch.parts]
        return Work(sum(part.nbytes for part in parts), sum(part.operations or 0 for part in parts))
    key = launch.source.key
    if isinstance(key, LoopKernel):
        return _loop(launch, key)
    if isinstance(key, IndexKernel):
        return _index(key)
    spec = key[0] if isinstance(key, tuple) and key else None
    nbytes = sum(buffer.nbytes for buffer in (*launch.reads, *launch.writes))
    if isinstance(spec, MatmulSpec):
        products = math.prod(spec.batch) * spec.rows * spec.columns * spec.depth
        outputs = math.prod(spec.batch) * spec.rows * spec.columns
        return Work(nbytes, 2 * products + outputs * _arithmetic(spec.epilogue.body), _dtype(spec))
    if isinstance(spec, DepthwiseSpec | FewOutputsSpec | StatisticsSpec | WinogradSpec):
        spec = spec.convolution  # what it stands for; an algorithm with fewer products passes the roofline
    if isinstance(spec, ConvolutionSpec):
        around = launch.writes[0].size * _arithmetic(spec.epilogue.body)
        around += launch.reads[0].size * _arithmetic(spec.prologue.body)
        return Work(nbytes, 2 * _products(spec) + around, _dtype(spec))
    return Work(nbytes, None)


def extents_of(launch: Launch) -> tuple[int, ...]:
    """The iteration space of a loop, outermost first; else the sizes of what is written."""
    key = launch.source.key
    if isinstance(key, LoopKernel):
        start = len(key.inputs) + len(key.outputs)
        return tuple(int(word) for word in launch.words[start : start + key.rank] if isinstance(word, int))
    return tuple(buffer.size for buffer in launch.writes[:1])


def _dtype(spec: MatmulSpec | ConvolutionSpec) -> str:
    return "bfloat16" if spec.pairs else spec.dtype.name


def _products(spec: ConvolutionSpec) -> int:
    """Products with pixels that there are: those with padding need not be computed (18 % of a 3x3 window on 7x7)."""
    inside = [
        sum(
            0 <= output * spec.strides[axis] - spec.padding[axis][0] + tap * spec.dilation[axis] < spec.spatial[axis]
            for output in range(spec.output_spatial[axis])
            for tap in range(spec.window[axis])
        )
        for axis in range(2)
    ]
    return spec.images * spec.filters * (spec.channels // spec.groups) * math.prod(inside)


def _loop(launch: Launch, kernel: LoopKernel) -> Work:
    extents = extents_of(launch)
    points = math.prod(extents)
    inputs, outputs = len(kernel.inputs), len(kernel.outputs)
    first = inputs + outputs + kernel.rank
    nbytes = 0
    for number, operand in enumerate(kernel.inputs):
        strides = launch.words[first + number * kernel.rank : first + (number + 1) * kernel.rank]
        if not operand.index:
            touched = math.prod(extent for extent, stride in zip(extents, strides, strict=True) if stride)
            nbytes += touched * operand.dtype.itemsize
    operations = _arithmetic(kernel.body)
    if kernel.reduction is None:
        nbytes += points * sum(operand.dtype.itemsize for _, operand in kernel.outputs)
    else:
        nbytes += sum(buffer.nbytes for buffer in launch.writes)
        operations += outputs
    return Work(nbytes, points * operations)


def _index(kernel: IndexKernel) -> Work:
    """Each element is read at one place and written at another; the index once for each place it stands for."""
    places = math.prod(extent for extent, stride in zip(kernel.sizes, kernel.index_strides, strict=True) if stride)
    nbytes = 2 * math.prod(kernel.sizes) * kernel.dtype.itemsize + places * kernel.index_dtype.itemsize
    return Work(nbytes, math.prod(kernel.sizes) if kernel.operation == "scatter_add" else 0)


def _arithmetic(body: tuple[Instruction, ...] | Any) -> int:
    return sum(instruction.operation not in _NO_ARITHMETIC for instruction in body)
