"""Loop launches: collapse an iteration space to what a `LoopKernel` needs, classify operands, split into tasks.

Everything here comes from shapes and strides alone, so equal graphs give equal launches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from trainer.engine.graph.dtypes import DType, int64
from trainer.engine.graph.node import Node
from trainer.engine.program.body import Load
from trainer.engine.program.launch import Address, Buffer, KernelSource, Launch
from trainer.engine.program.spec import Inner, Instruction, LoopKernel, Operand, Reduction, pack_arguments
from trainer.engine.targets.cpu.kernels import elementwise, reduction

TASK_ELEMENTS = 16384
REDUCTION_BLOCK = 512
REDUCTION_BLOCKS = 256
STREAMED_BYTES = 16 << 20
"""Outputs from so many bytes on are stored past the caches, which would hold them no longer when they are read."""

STREAMED_TASK_ELEMENTS = 8 * TASK_ELEMENTS
"""At each task's beginning memory has to be waited for: these run a tenth faster than tasks of TASK_ELEMENTS (logistic
200 MB 0.80 and 0.95 of a copy's speed). The smallest output that is streamed still makes 32 tasks.
"""

ENOUGH_TASKS = 16
"""Neighbouring columns are split among tasks only until there are so many."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a loop stores one of its values: strides of the iteration axes into `buffer`."""

    buffer: Buffer
    offset: int
    strides: tuple[int, ...]
    instruction: int


def loop_launch(
    extents: Sequence[int],
    body: Sequence[Instruction],
    loads: Sequence[Load],
    targets: Sequence[Target],
    buffers: Mapping[Node, Buffer],
    label: str,
) -> Launch:
    """An element-wise loop over `extents` (any order: the first target's strides decide which runs innermost)."""
    order = sorted(
        (axis for axis in range(len(extents)) if extents[axis] != 1),
        key=lambda axis: (-abs(targets[0].strides[axis]), axis),
    )
    operands = [load.strides for load in loads] + [target.strides for target in targets]
    sizes, strides = collapse([extents[a] for a in order], [[s[a] for a in order] for s in operands])
    rank = len(sizes)
    streamed = _is_streamed(sizes, strides[len(loads) :], targets, read_buffers(loads, buffers))
    kernel = LoopKernel(
        rank,
        tuple(
            _operand(load, dtype, step[-1])
            for load, dtype, step in zip(loads, load_dtypes(body, loads), strides, strict=False)
        ),
        tuple(body),
        tuple(
            (target.instruction, Operand(target.buffer.dtype, inner_of(step[-1])))
            for target, step in zip(targets, strides[len(loads) :], strict=True)
        ),
        streamed=streamed,
    )
    inner = sizes[-1]
    rows = 1
    for extent in sizes[:-1]:
        rows *= extent
    elements = STREAMED_TASK_ELEMENTS if streamed else TASK_ELEMENTS
    if rank == 1:
        chunk = elements
        tasks = -(-inner // chunk)
    else:
        chunk = max(1, elements // max(1, inner))
        tasks = -(-rows // chunk)
    if rows * inner == 0:
        tasks = 0
    addresses = load_words(loads, buffers) + [
        Address(target.buffer, target.offset * target.buffer.dtype.itemsize) for target in targets
    ]
    words = pack_arguments(kernel, addresses, sizes, strides, chunk)  # type: ignore[arg-type]
    source = KernelSource(kernel, lambda name: elementwise.render(kernel, name))
    return Launch(
        source,
        list(words),
        tasks,
        read_buffers(loads, buffers),
        tuple(t.buffer for t in targets),
        label,
        in_place=_exchanges(extents, loads, targets, buffers),
    )


def _exchanges(
    extents: Sequence[int], loads: Sequence[Load], targets: Sequence[Target], buffers: Mapping[Node, Buffer]
) -> tuple[tuple[Buffer, Buffer], ...]:
    """(output, input) of equal size that a loop walks alike, element by element, and the input in no other way."""
    found: list[tuple[Buffer, Buffer]] = []
    axes = [axis for axis, extent in enumerate(extents) if extent != 1]
    for target in targets:
        if target.offset or not target.buffer.in_arena or target.buffer.size != _product(extents):
            continue
        for load in loads:
            source = buffers[load.base] if load.base is not None else None
            if source is None or not source.in_arena or source.nbytes != target.buffer.nbytes or load.offset:
                continue
            once = sum(other.base is not None and buffers[other.base] is source for other in loads) == 1
            if once and all(load.strides[axis] == target.strides[axis] for axis in axes):
                found.append((target.buffer, source))
    return tuple(found)


def _is_streamed(
    sizes: Sequence[int], strides: Sequence[Sequence[int]], targets: Sequence[Target], reads: Sequence[Buffer]
) -> bool:
    """Whether a loop's outputs go past the caches: they are large, in whole cache lines, and nothing that it reads.

    A line that was read is in the cache, and is written there at no further cost.
    """
    for target, step in zip(targets, strides, strict=True):
        itemsize = target.buffer.dtype.itemsize
        lines = all(count * itemsize % 64 == 0 for count in (target.offset, *step[:-1]))
        if step[-1] != 1 or not lines or math.prod(sizes) * itemsize < STREAMED_BYTES:
            return False
        if any(read is target.buffer or (read.storage and read.storage is target.buffer.storage) for read in reads):
            return False
    return True


def reduction_block(length: int) -> int:
    """Elements in a block of the fixed tree: from the number of reduced elements alone."""
    return max(REDUCTION_BLOCK, -(-length // REDUCTION_BLOCKS) + 15 & ~15)


def reduction_launch(
    kept: Sequence[int],
    length: int,
    orientation: Literal["row", "column"],
    block: int,
    body: Sequence[Instruction],
    inputs: Sequence[tuple[Load, tuple[int, ...]]],
    outputs: Sequence[tuple[int, str, Buffer, tuple[int, ...]]],
    buffers: Mapping[Node, Buffer],
    label: str,
) -> Launch:
    """One pass of a reduction.

    `inputs` are loads with strides over (kept..., t); `outputs` are (instruction, operation, buffer, strides over
    (kept..., block)). "column" runs the last kept axis innermost.
    """
    operands = [steps for _, steps in inputs] + [steps for *_, steps in outputs]
    count = len(kept)
    if orientation == "row":
        outer, strides = collapse(kept, [steps[:count] for steps in operands], keep_one=False)
        sizes = [*outer, length]
        laid = [[*step, steps[count]] for step, steps in zip(strides, operands, strict=True)]
        parts = _product(outer)
        cost = min(block, length)
    else:
        outer, strides = collapse(kept[:-1], [steps[: count - 1] for steps in operands], keep_one=False)
        sizes = [*outer, length, kept[-1]]
        laid = [[*step, steps[count], steps[count - 1]] for step, steps in zip(strides, operands, strict=True)]
        parts = _product(outer) * -(-kept[-1] // reduction.COLUMN_PART)
        cost = min(block, length) * min(reduction.COLUMN_PART, kept[-1])
    blocks = max(1, -(-length // block))
    grain = max(1, TASK_ELEMENTS // max(1, cost))
    if orientation == "column":
        grain = max(grain, column_strip(-(-kept[-1] // reduction.COLUMN_PART), parts, blocks))
    tasks = -(-parts // grain) * blocks
    loads = [load for load, _ in inputs]
    kernel = LoopKernel(
        len(sizes),
        tuple(
            _operand(load, dtype, step[-1])
            for load, dtype, step in zip(loads, load_dtypes(body, loads), laid, strict=False)
        ),
        tuple(body),
        tuple(
            (instruction, Operand(buffer.dtype, inner_of(step[-1])))
            for (instruction, _, buffer, _), step in zip(outputs, laid[len(loads) :], strict=True)
        ),
        Reduction(tuple(operation for _, operation, _, _ in outputs), orientation),
    )
    addresses = load_words(loads, buffers) + [Address(buffer) for _, _, buffer, _ in outputs]
    words = pack_arguments(kernel, addresses, sizes, laid, block, grain)  # type: ignore[arg-type]
    source = KernelSource(kernel, lambda name: reduction.render_reduction(kernel, name))
    return Launch(source, list(words), tasks, read_buffers(loads, buffers), tuple(o[2] for o in outputs), label)


def column_strip(neighbours: int, parts: int, blocks: int) -> int:
    """How many of `neighbours` parts of columns side by side a task takes, a power of two; a block has `parts`.

    Short pieces of many far rows starve on page misses: a sum over 16384x1024 float32 takes two threads 2.6 ms part by
    part, 1.7 in strips of 16 (NumPy 2.0), over 25088x256 0.91 and 0.64. Rows of one block gain nothing.
    """
    strip = reduction.STRIP_PARTS if blocks > 1 else 1
    while strip > 1 and (strip >= 2 * neighbours or -(-parts // strip) * blocks < ENOUGH_TASKS):
        strip //= 2
    return strip


def collapse(
    extents: Sequence[int], strides: Sequence[Sequence[int]], keep_one: bool = True
) -> tuple[list[int], list[list[int]]]:
    """Merge neighbouring axes (outermost first) wherever every operand steps through both as through one."""
    sizes: list[int] = []
    merged: list[list[int]] = [[] for _ in strides]
    for axis, extent in enumerate(extents):
        if extent == 1:
            continue
        if sizes and all(m[-1] == s[axis] * extent for m, s in zip(merged, strides, strict=True)):
            sizes[-1] *= extent
            for m, s in zip(merged, strides, strict=True):
                m[-1] = s[axis]
        else:
            sizes.append(extent)
            for m, s in zip(merged, strides, strict=True):
                m.append(s[axis])
    if not sizes and keep_one:
        return [1], [[0] for _ in strides]
    return sizes, merged


def inner_of(stride: int) -> Inner:
    """How an operand runs along the innermost dimension."""
    return "contiguous" if stride == 1 else "broadcast" if stride == 0 else "strided"


def _operand(load: Load, dtype: DType, stride: int) -> Operand:
    return Operand(dtype, inner_of(stride), index=load.base is None)


def load_dtypes(body: Sequence[Instruction], loads: Sequence[Load]) -> list[DType]:
    """The dtype of each operand, as the body's load instructions name it."""
    found: list[DType] = [int64] * len(loads)
    for instruction in body:
        if instruction.operation == "load":
            found[instruction.attributes[0]] = instruction.dtype
    return found


def load_words(loads: Sequence[Load], buffers: Mapping[Node, Buffer]) -> list[int | Address]:
    """Addresses of operands; an index operand's word is its base."""
    return [
        load.offset if load.base is None else Address(buffers[load.base], load.offset * load.base.dtype.itemsize)
        for load in loads
    ]


def read_buffers(loads: Sequence[Load], buffers: Mapping[Node, Buffer]) -> tuple[Buffer, ...]:
    """Each buffer that `loads` read, once."""
    return tuple(dict.fromkeys(buffers[load.base] for load in loads if load.base is not None))


def _product(extents: Sequence[int]) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total
