"""Lowers loops and passes of reductions for the CPU: their kernels, argument words and tasks."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trainer.engine.graph.simplify import SPECIAL_NUMBERS
from trainer.engine.program.loops import collapse, laid
from trainer.engine.program.spec import Instruction, Reduction
from trainer.engine.program.work import KernelSource, Pass, View, Work
from trainer.engine.targets.cpu.kernels import elementwise
from trainer.engine.targets.cpu.kernels.loop_kernel import LoopKernel, pack_arguments
from trainer.engine.targets.cpu.kernels.reduction_columns import COLUMN_PART, STRIP_PARTS, ColumnReduction
from trainer.engine.targets.cpu.kernels.reduction_rows import RowReduction
from trainer.engine.targets.cpu.lowering.launch import Launch, Word, word_of
from trainer.engine.targets.ir.expression import LANES
from trainer.engine.targets.ir.operand import Operand, inner_of

TASK_ELEMENTS = 16384
STREAMED_BYTES = 16 << 20
"""Outputs of at least this many bytes bypass the caches, which would no longer hold them when they are read."""

STREAMED_TASK_ELEMENTS = 8 * TASK_ELEMENTS
"""Streaming tasks of this size run a tenth faster than those of TASK_ELEMENTS; the smallest output still has 32."""

ENOUGH_TASKS = 16
"""Neighboring columns are split among tasks only until this number of tasks is reached."""

_ARITHMETIC = frozenset({"add", "subtract", "multiply", "divide", "maximum", "minimum"})
_BITS = {"float32": np.int32, "float64": np.int64}


def with_code(work: Work) -> Work:
    """Attaches its kernel to a loop or a pass of a reduction."""
    kind = None if work.kind == "loop" else Reduction(work.spec.operations, work.spec.orientation)
    if kind is None:
        work = in_strips(with_numbers(work))
    inputs = [Operand(view.dtype, inner_of(view.strides[-1]), index=view.buffer is None) for view in work.reads]
    outputs = [Operand(view.dtype, inner_of(view.strides[-1])) for view in work.writes]
    stored, streamed = zip(work.stored, outputs, strict=True), kind is None and _is_streamed(work)
    work.code = code_of(LoopKernel(len(work.extents), tuple(inputs), work.body, tuple(stored), kind, streamed))
    work.body = kernel_of(work).body
    return work


def with_numbers(work: Work) -> Work:
    """Makes the constants of a loop operands, so that loops that differ only in constants, such as the counts of
    batches, share a kernel. Constants that simplify arithmetic stay in the code. Divisors that are powers of two become
    factors, which give the same bits in a tenth of the time.
    """
    body, reads = list(work.body), list(work.reads)
    for position, step in enumerate(work.body):
        bits, number = _BITS.get(step.dtype.name), step.attributes[0] if step.operation == "constant" else 0
        if number in SPECIAL_NUMBERS or bits is None or position in work.stored:
            continue
        users = [number for number, user in enumerate(work.body) if position in user.arguments]
        if not users or any(work.body[user].operation not in _ARITHMETIC for user in users):
            continue
        divides = [work.body[user].operation == "divide" and work.body[user].arguments[1] == position for user in users]
        if all(divides) and 2.0**-126 <= abs(number) <= 2.0**126 and abs(math.frexp(number)[0]) == 0.5:
            number = 1 / number
            for user in users:
                body[user] = replace(body[user], operation="multiply")
        body[position] = Instruction("load", (), step.dtype, (len(reads),))
        offset = int(np.asarray(number, step.dtype.storage).view(bits))
        reads.append(View(None, step.dtype, work.extents, (0,) * len(work.extents), offset))
    return work if len(reads) == len(work.reads) else replace(work, body=tuple(body), reads=tuple(reads))


def in_strips(work: Work) -> Work:
    """Cuts the rows of a transposing loop into strips; all rows of a strip run before the next strip.

    A task then has whole tiles of neighboring rows. With tasks of a single row of 16,384, without tiles, converting
    images of 32 channels from channels-last to rows ran at 7 GB/s instead of 20.
    """
    if len(work.extents) < 2 or not work.points:
        return work
    *outer, rows, inner = work.extents
    reads = [view.strides for view in work.reads if view.buffer is not None]
    is_transposing = any(strides[-1] not in (0, 1) and strides[-2] == 1 for strides in reads)
    if not is_transposing or TASK_ELEMENTS // inner >= rows or any(view.strides[-1] != 1 for view in work.writes):
        return work
    most = max(LANES, TASK_ELEMENTS // rows)
    width = next((each for each in range(most - most % LANES, 0, -LANES) if inner % each == 0), inner)
    if width == inner:
        return work
    extents = (*outer, inner // width, rows, width)
    views = (*work.reads, *work.writes)
    steps = [(*each[:-2], each[-1] * width, *each[-2:]) for each in (view.strides for view in views)]
    count = len(work.reads)
    return replace(
        work, extents=extents, reads=laid(work.reads, extents, steps[:count]),
        writes=laid(work.writes, extents, steps[count:]),
    )  # fmt: skip


@functools.lru_cache(maxsize=4096)
def code_of(kernel: LoopKernel) -> KernelSource:
    """The code of a kernel. Equal kernels share one object, since programs have many of them."""
    if kernel.reduction is None:
        return KernelSource(kernel, lambda name: elementwise.render(kernel, name))
    reduction = RowReduction if kernel.reduction.orientation == "row" else ColumnReduction
    return KernelSource(kernel, lambda name: reduction(kernel).render(name))


def kernel_of(work: Work) -> LoopKernel:
    """The kernel of a loop or a pass of a reduction."""
    assert work.code is not None and isinstance(work.code.key, LoopKernel)
    return work.code.key


def _is_streamed(work: Work) -> bool:
    """Whether a loop's outputs bypass the caches: they are large, fill whole cache lines, and are not read by the loop.

    A line that was read is in the cache, and writing it there has no further cost.
    """
    for view in work.writes:
        target, itemsize = view.buffer, view.dtype.itemsize
        assert target is not None
        lines = all(count * itemsize % 64 == 0 for count in (view.offset, *view.strides[:-1]))
        if view.strides[-1] != 1 or not lines or work.points * itemsize < STREAMED_BYTES:
            return False
        if any(read is target or (read.storage and read.storage is target.storage) for read in work.sources):
            return False
    return True


def lower_loop(work: Work) -> Launch:
    """Lowers an element-wise loop to a launch."""
    kernel, inner = kernel_of(work), work.extents[-1]
    rows = math.prod(work.extents[:-1])
    elements = STREAMED_TASK_ELEMENTS if kernel.streamed else TASK_ELEMENTS
    if kernel.rank == 1:
        chunk = elements
        tasks = -(-inner // chunk)
    else:
        chunk = max(1, elements // max(1, inner))
        run = work.extents[-2]
        if LANES <= run < chunk < 4 * run and elementwise.tiled_operands(kernel):
            chunk -= chunk % run  # pieces of runs would often have no whole tile
        tasks = -(-rows // chunk)
    return _launch(work, kernel, chunk, 1, tasks if work.points else 0)


def words_of_pass(work: Work) -> tuple[int, ...]:
    """The words that follow the addresses in the argument block of a pass of a reduction."""
    return tuple(word for word in lower_pass(work).words[len(work.reads) + len(work.writes) :] if isinstance(word, int))


def lower_pass(work: Work) -> Launch:
    """Lowers a pass of a reduction to a launch."""
    kernel, block = kernel_of(work), work.spec.block
    if work.spec.orientation == "row":
        *outer, length = work.extents
        parts, cost = math.prod(outer), min(block, length)
    else:
        *outer, length, inner = work.extents
        neighbors = -(-inner // COLUMN_PART)
        parts, cost = math.prod(outer) * neighbors, min(block, length) * min(COLUMN_PART, inner)
    blocks = max(1, -(-length // block))
    grain = max(1, TASK_ELEMENTS // max(1, cost))
    if work.spec.orientation == "column":
        grain = max(grain, column_strip(neighbors, parts, blocks))
    return _launch(work, kernel, block, grain, -(-parts // grain) * blocks)


def _launch(work: Work, kernel: LoopKernel, chunk: int, grain: int, tasks: int) -> Launch:
    views = (*work.reads, *work.writes)
    words: list[Word] = pack_arguments(
        kernel, [word_of(view) for view in views], work.extents, [view.strides for view in views], chunk, grain
    )
    assert work.code is not None
    return Launch(work, work.code, words, tasks)


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of reductions: a body, its operands, and the instruction of each reduction's term."""

    instructions: Sequence[Instruction]
    reads: Sequence[View]
    stored: Sequence[int]


def reduction_pass(
    kept: Sequence[int], length: int, spec: Pass, terms: Terms, writes: Sequence[View], label: str
) -> Work:
    """One pass of a reduction of `length` elements for each of the `kept` ones.

    Strides of its operands run over (kept..., reduced element), those of `writes` over (kept..., block). "column" runs
    the last kept axis innermost.
    """
    steps, count = [view.strides for view in (*terms.reads, *writes)], len(kept)
    inner = count if spec.orientation == "row" else count - 1
    outer, strides = collapse(kept[:inner], [each[:inner] for each in steps], keep_one=False)
    extents = [*outer, length, *kept[inner:]]
    strides = [[*step, each[count], *each[inner:count]] for step, each in zip(strides, steps, strict=True)]
    reads, writes = laid(terms.reads, extents, strides), laid(writes, extents, strides[len(terms.reads) :])
    body, stored = tuple(terms.instructions), tuple(terms.stored)
    return with_code(Work("reduction", spec, reads, writes, label, tuple(extents), body, stored))


def without_streaming(work: Work) -> Work:
    """A loop that stores through the caches."""
    return replace(work, code=code_of(replace(kernel_of(work), streamed=False)))


def column_strip(neighbors: int, parts: int, blocks: int) -> int:
    """Number of adjacent column parts per task, a power of two; a row has `neighbors` parts, a block has `parts`.

    Short pieces of many distant rows are slow because of page misses: on two threads, a sum over 16384x1024 float32
    takes 2.6 ms part by part, 1.7 in strips of 16 (NumPy 2.0); over 25088x256 0.91 and 0.64. A single block gains
    nothing.
    """
    strip = STRIP_PARTS if blocks > 1 else 1
    while strip > 1 and (strip >= 2 * neighbors or -(-parts // strip) * blocks < ENOUGH_TASKS):
        strip //= 2
    return strip
