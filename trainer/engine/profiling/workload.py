"""The work of an item, independent of its time: operations, and minimum bytes read and written."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainer.engine.program.spec import Instruction
from trainer.engine.program.work import Work
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec
from trainer.engine.targets.cpu.kernels.recurrent import ScanStep
from trainer.engine.targets.cpu.kernels.winograd_choice import WinogradSpec
from trainer.engine.targets.cpu.lowering.launch import Routine, Templated
from trainer.engine.targets.cpu.templates.contraction import MatmulSpec
from trainer.engine.targets.cpu.templates.depthwise import DepthwiseSpec
from trainer.engine.targets.cpu.templates.few_outputs import FewOutputsSpec
from trainer.engine.targets.cpu.templates.statistics import StatisticsSpec

_NO_ARITHMETIC = frozenset(
    {"load", "constant", "cast", "where", "equal", "not_equal", "less", "less_equal", "logical_and"}
    | {"logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert"}
    | {"shift_left", "shift_right", "shift_right_logical", "isnan", "isinf", "isfinite"}
)


@dataclass(frozen=True, slots=True)
class Load:
    """`operations` on elements, or None if unknown; a fused multiply-add counts as two. `dtype` of contractions."""

    nbytes: int
    operations: int | None
    dtype: str = "float32"


def load_of(work: Work) -> Load:
    """Returns the work of one item. Bytes that are read again come from caches and are not counted."""
    if work.kind == "repeat" and work.spec.steps:  # operands advance within buffers, which are read once
        nbytes = sum(buffer.nbytes for buffer in work.buffers)
        return Load(nbytes, work.spec.count * sum(_scan_operations(part) for part in work.parts))
    if work.parts:
        parts = [load_of(part) for part in work.parts]
        times = work.spec.count if work.kind == "repeat" else 1
        return Load(times * sum(part.nbytes for part in parts), times * sum(part.operations or 0 for part in parts))
    if work.extents:
        return _loop(work)
    if work.kind == "index":
        return _index(work)
    spec = work.spec.spec if isinstance(work.spec, Templated) else None
    nbytes = sum(buffer.nbytes for buffer in (*work.sources, *work.targets))
    if isinstance(spec, MatmulSpec):
        products = math.prod(spec.batch) * spec.rows * spec.columns * spec.depth
        outputs = math.prod(spec.batch) * spec.rows * spec.columns
        return Load(nbytes, 2 * products + outputs * _arithmetic(spec.epilogue.body), _dtype(spec))
    if isinstance(spec, DepthwiseSpec | FewOutputsSpec | StatisticsSpec | WinogradSpec):
        spec = spec.convolution  # the computed convolution; an algorithm with fewer products exceeds the roofline
    if isinstance(spec, ConvolutionSpec):
        around = work.targets[0].size * _arithmetic(spec.epilogue.body)
        around += work.sources[0].size * _arithmetic(spec.prologue.body)
        return Load(nbytes, 2 * _products(spec) + around, _dtype(spec))
    return Load(nbytes, None)


def _scan_operations(part: Work) -> int:
    """Operations of the products in one step of a recurrent scan, with all rows active."""
    step = part.spec.code.key if isinstance(part.spec, Routine) else None
    return 2 * step.batch * step.depth * step.units * step.gates if isinstance(step, ScanStep) else 0


def extents_of(work: Work) -> tuple[int, ...]:
    """Returns the iteration space of a loop, outermost first; for other work the size of its first target."""
    return work.extents or tuple(buffer.size for buffer in work.targets[:1])


def _dtype(spec: MatmulSpec | ConvolutionSpec) -> str:
    return "bfloat16" if spec.pairs else spec.dtype.name


def _products(spec: ConvolutionSpec) -> int:
    """Products with pixels inside the image: those with padding need not be computed (18 % of a 3x3 window on 7x7)."""
    inside = [
        sum(
            0 <= output * spec.strides[axis] - spec.padding[axis][0] + tap * spec.dilation[axis] < spec.spatial[axis]
            for output in range(spec.output_spatial[axis])
            for tap in range(spec.window[axis])
        )
        for axis in range(2)
    ]
    return spec.images * spec.filters * (spec.channels // spec.groups) * math.prod(inside)


def _loop(work: Work) -> Load:
    nbytes = 0
    for view in work.reads:
        if view.buffer is not None:
            touched = math.prod(extent for extent, step in zip(work.extents, view.strides, strict=True) if step)
            nbytes += touched * view.dtype.itemsize
    operations = _arithmetic(work.body)
    if work.kind == "loop":
        nbytes += work.points * sum(view.dtype.itemsize for view in work.writes)
    else:
        nbytes += sum(buffer.nbytes for buffer in work.targets)
        operations += len(work.writes)
    return Load(nbytes, work.points * operations)


def _index(work: Work) -> Load:
    """Work of an indexing item: each element is read once and written once, and each index is read once."""
    (values, indices, *weights), target = work.reads, work.writes[0]
    if weights:  # each tap of `gather_sum` reads a row, with a multiply-add for each element
        terms = indices.size * target.shape[-1]
        shares = indices.size * (indices.dtype.itemsize + values.dtype.itemsize)
        return Load((terms + target.size) * values.dtype.itemsize + shares, 2 * terms)
    adds = work.label.startswith("scatter")
    elements = values.size if adds else target.size
    places = math.prod(extent for extent, step in zip(indices.shape, indices.strides, strict=True) if step)
    nbytes = 2 * elements * values.dtype.itemsize + places * indices.dtype.itemsize
    return Load(nbytes, elements if adds else 0)


def _arithmetic(body: tuple[Instruction, ...]) -> int:
    return sum(instruction.operation not in _NO_ARITHMETIC for instruction in body)
