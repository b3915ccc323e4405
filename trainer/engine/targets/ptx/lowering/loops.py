"""Lowers element-wise loops and copies: elements per thread, and the launch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.engine.program.work import KernelSource, View, Work, places_of
from trainer.engine.targets.ir.operand import Operand, inner_of
from trainer.engine.targets.ptx.kernels import elementwise
from trainer.engine.targets.ptx.kernels.elementwise import ACCESS_BYTES, ElementwiseKernel
from trainer.engine.targets.ptx.launch import Address, Launch, Word

THREADS = (256, 128)
"""Threads per block worth trying, the usual number first."""

NARROW = 1 << 31
"""Loops with fewer points than this use 32-bit indices."""


@dataclass(frozen=True, slots=True)
class LoopParameters:
    """The parameters of a loop's candidates: elements per thread, and threads per block."""

    lanes: int
    threads: int


def candidates(work: Work) -> list[LoopParameters]:
    """Parameters worth trying, best first by `cost`."""
    widest = _most_lanes(work)
    lanes = [widest, *([1] if widest > 1 else [])]
    found = [LoopParameters(count, threads) for count in lanes for threads in THREADS]
    return sorted(found, key=lambda parameters: cost(work, parameters))


def cost(work: Work, parameters: LoopParameters) -> float:
    """Relative time: a loop's bytes are fixed, so the cost counts threads, and blocks that leave a processor idle."""
    threads = -(-work.extents[-1] // parameters.lanes) * math.prod(work.extents[:-1])
    return -(-threads // parameters.threads) * (parameters.threads + 16)


def lower_loop(work: Work, parameters: LoopParameters | None = None, *, flush: bool = False) -> Launch:
    """Lowers a loop to a launch."""
    parameters = parameters or candidates(work)[0]
    lanes, threads = parameters.lanes, parameters.threads
    reads, writes = work.reads, work.writes
    written = places_of(work.targets)
    constant = tuple(view.buffer is not None and not places_of([view.buffer]) & written for view in reads)
    kernel = ElementwiseKernel(
        len(work.extents),
        tuple(Operand(view.dtype, inner_of(view.strides[-1]), index=view.buffer is None) for view in reads),
        work.body,
        tuple(
            (stored, Operand(view.dtype, inner_of(view.strides[-1])))
            for stored, view in zip(work.stored, writes, strict=True)
        ),
        constant, lanes, threads, work.extents[-1] % lanes != 0, fits_32_bits(work), flush,
    )  # fmt: skip
    views = (*reads, *writes)
    words: list[Word] = [view.offset if view.buffer is None else Address.of(view) for view in views]
    words += elementwise.words(work.extents, [view.strides for view in views], lanes)
    count = -(-work.extents[-1] // lanes) * math.prod(work.extents[:-1])
    source = KernelSource(kernel, kernel.render)
    return Launch(work, source, work.targets, words, -(-count // threads), threads)


def fits_32_bits(work: Work) -> bool:
    """Whether the indices of a loop's points fit into 32 bits."""
    return work.points < NARROW


def _most_lanes(work: Work) -> int:
    """Maximum number of elements per thread: 16 bytes of the widest contiguous operand, all aligned."""
    moving = [view for view in (*work.reads, *work.writes) if view.buffer is not None and view.strides[-1] != 0]
    if any(view.strides[-1] != 1 for view in moving) or not moving:
        return 1
    lanes = max(1, ACCESS_BYTES // max(view.dtype.itemsize for view in moving))
    while lanes > 1 and not all(_is_aligned(view, work.extents, lanes) for view in moving):
        lanes //= 2
    return 1 if any(view.strides[-1] == 0 for view in work.writes) else lanes


def _is_aligned(view: View, extents: Sequence[int], lanes: int) -> bool:
    """Whether each row of an operand begins at a multiple of `lanes` elements."""
    if view.buffer is not None and not view.buffer.is_aligned:
        return False
    steps = [step for step, extent in zip(view.strides[:-1], extents, strict=False) if extent != 1]
    return view.offset % lanes == 0 and all(step % lanes == 0 for step in steps)
