"""Matrix products: operands in any strides, one launch for all of a batch, and one for what is fused to its result."""

from __future__ import annotations

import math
from dataclasses import replace

from trainer.engine.graph.storage import Layout
from trainer.engine.program.loops import fill, loop
from trainer.engine.program.work import Buffer, Call, KernelSource, View, Work
from trainer.engine.targets.ptx.kernels.product import THREADS, TILE, ProductKernel
from trainer.engine.targets.ptx.launch import Address, Launch, Word
from trainer.engine.targets.ptx.lowering.loops import lower_loop

OPERANDS = 2


def lower_matmul(work: Work, *, flush: bool) -> list[Launch]:
    """The launches of a[..., M, K] @ b[..., K, N] and its epilogue."""
    call: Call = work.spec
    target = work.writes[0]
    if target.size == 0:
        return []
    if not work.epilogue.body:
        return _product(work, target, flush)
    buffer = Buffer(target.size, call.dtype, "product")
    between = View(buffer, call.dtype, call.shape, Layout.row_major(len(call.shape)).strides(call.shape))
    last = len(work.epilogue.body) - 1
    reads = [between, *work.reads[OPERANDS:]]
    after = loop(target.shape, work.epilogue.body, reads, [target], [last], work.label)
    return [*_product(replace(work, writes=(between,)), between, flush), lower_loop(after, flush=flush)]


def _product(work: Work, target: View, flush: bool) -> list[Launch]:
    left, right = work.reads[:OPERANDS]
    *batch, rows, columns = target.shape
    depth = left.shape[-1]
    assert target.buffer is not None
    if depth == 0:
        return [lower_loop(fill(target.buffer, 0), flush=flush)]
    kernel = ProductKernel(target.dtype, left.dtype, len(batch), flush)
    tiles = -(-rows // TILE), -(-columns // TILE)
    views = (left, right, target)
    words: list[Word] = [*map(Address.of, views), rows, columns, depth, *tiles, *batch[1:]]
    for view in views:
        words += view.strides
    source = KernelSource(kernel, kernel.render)
    return [Launch(work, source, work.targets, words, math.prod((*batch, *tiles)), THREADS)]
