"""Attention: operands keep their layout unless their elements are not contiguous along the width."""

from __future__ import annotations

import math
from dataclasses import replace

from trainer.engine.graph.primitives.attention import UNLIMITED, options_of, sums_of
from trainer.engine.graph.storage import Layout
from trainer.engine.program import loops
from trainer.engine.program.spec import Instruction
from trainer.engine.program.work import Buffer, View, Work
from trainer.engine.targets.cpu.kernels.attention import Attention
from trainer.engine.targets.cpu.kernels.attention_blocks import AttentionSpec
from trainer.engine.targets.cpu.kernels.attention_gradient import AttentionGradient
from trainer.engine.targets.cpu.lowering.expansion import Expansion
from trainer.engine.targets.cpu.lowering.launch import Routine

_WIDE_TILE, _NARROW_TILE = (6, 4), (6, 1)
"""Rows and vectors of sums that fit, with their factors, into 32 registers of 64 bytes, or into 16 of 32 bytes."""


def expand_attention(expansion: Expansion, work: Work) -> None:
    """Adds the output and the logarithms of sums; each head and 64 queries are one task."""
    out, log_sum = work.writes
    if log_sum.size == 0:
        return
    if work.reads[1].size == 0:
        assert out.buffer is not None and log_sum.buffer is not None
        expansion.fill(out.buffer, 0)
        return expansion.fill(log_sum.buffer, math.inf)
    reads = _along_width(expansion, work.reads, 3)
    kernel = Attention(_spec(expansion, work, reads, tuple(view.strides for view in (*reads[:3], out))))
    routine = replace(Routine.of(kernel, *reads, out, log_sum), scratch=kernel.scratch_bytes)
    expansion.add(replace(work, spec=routine, reads=reads, label=f"attention {reads[0].shape}"))


def expand_attention_gradient(expansion: Expansion, work: Work) -> None:
    """Adds the gradients of query, key and value, and of the scores if they are read. If keys are split among tasks,
    the partial gradients of queries are summed afterwards.
    """
    query, keys, _, scores = work.writes
    writes = work.writes if scores.buffer is not None and not scores.buffer.unread else work.writes[:3]
    for view in writes:
        is_partial = view is scores and min(work.spec.attribute("window")) < UNLIMITED
        if (is_partial or not (query.size and keys.size)) and view.buffer is not None:
            expansion.fill(view.buffer, 0)
    if not (query.size and keys.size):
        return
    reads = _along_width(expansion, work.reads, 4)
    strides = tuple(view.strides for view in (*reads[:4], *writes))
    kernel = AttentionGradient(_spec(expansion, work, reads, strides))
    parts = query
    if kernel.splits > 1:
        dense = Layout.row_major(4).strides(query.shape)
        strides = kernel.spec.strides
        kernel = replace(kernel, spec=replace(kernel.spec, strides=(*strides[:4], dense, *strides[5:])))
        buffer = Buffer(kernel.splits * query.size, query.dtype, "gradients of queries")
        parts = View(buffer, query.dtype, (kernel.splits * query.size,), (1,))
    writes = (parts, *writes[1:])
    routine = replace(Routine.of(kernel, *reads, *writes), scratch=kernel.scratch_bytes)
    label = f"attention_gradient {query.shape}"
    expansion.add(replace(work, spec=routine, reads=reads, writes=writes, label=label))
    if kernel.splits > 1:
        expansion.add(_sum(parts, query, kernel.splits))


def _sum(parts: View, target: View, count: int) -> Work:
    """A loop that adds `count` consecutive arrays of the target's shape, in their order; zeros become positive."""
    strides, dtype = Layout.row_major(4).strides(target.shape), target.dtype
    reads = [replace(parts, shape=target.shape, strides=strides, offset=part * target.size) for part in range(count)]
    body = [Instruction("load", (), dtype, (0,))]
    for part in range(1, count):
        body.append(Instruction("load", (), dtype, (part,)))
        body.append(Instruction("add", (2 * part - 2, 2 * part - 1), dtype, ()))
    body += [Instruction("constant", (), dtype, (0.0,)), Instruction("add", (len(body) - 1, len(body)), dtype, ())]
    return loops.loop(target.shape, body, reads, [target], [len(body) - 1], "attention_gradient sum")


def _along_width(expansion: Expansion, views: tuple[View, ...], count: int) -> tuple[View, ...]:
    """The operands: the first `count` contiguous along the width, with aligned pairs if they are bfloat16; small ones
    dense.
    """

    def fits(strides: tuple[int, ...]) -> bool:
        return strides[3] == 1 and not (views[0].dtype.is_half and any(step % 2 for step in strides[:3]))

    wide = [expansion.dense(view, fits, Layout.row_major(4)) for view in views[:count]]
    others = [
        _along_keys(expansion, view) if view.ndim == 4 else expansion.laid_out(view, Layout.row_major(view.ndim))
        for view in views[count:]
    ]
    return (*wide, *others)


def _along_keys(expansion: Expansion, bias: View) -> View:
    """A bias, contiguous along the keys; one that is broadcast keeps its layout, since a copy would be larger."""
    is_spread = any(step == 0 and extent > 1 for extent, step in zip(bias.shape, bias.strides, strict=True))
    fits = is_spread or bias.shape[3] == 1
    return expansion.dense(bias, lambda strides: fits or strides[3] == 1, Layout.row_major(4))


def _spec(
    expansion: Expansion, work: Work, reads: tuple[View, ...], strides: tuple[tuple[int, ...], ...]
) -> AttentionSpec:
    query, key, value = reads[:3]
    attributes = work.spec.attributes
    scale, window, dropout, operands = attributes
    bias: tuple[int, ...] = ()
    for view in options_of(work.spec.operation.name, reads, attributes).get("bias", ()):
        bias = tuple(0 if extent == 1 else step for extent, step in zip(view.shape, view.strides, strict=True))
    dtype, products = sums_of(query.dtype), "single"
    if dtype is not query.dtype:
        products = "native_pairs" if expansion.machine.bfloat16 else "widened_pairs"
        paired = 3 if work.spec.operation.name == "attention" else 4
        strides = (*(tuple([-(-step // 2) for step in each]) for each in strides[:paired]), *strides[paired:])
    tile = _NARROW_TILE if expansion.machine.is_narrow else _WIDE_TILE
    return AttentionSpec(
        dtype, query.shape[0], query.shape[1], key.shape[1], query.shape[2], key.shape[2], query.shape[3],
        value.shape[3], strides, scale, window, dropout, operands, bias, tile, products,
    )  # fmt: skip
