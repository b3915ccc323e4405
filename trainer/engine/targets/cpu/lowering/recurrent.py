"""Recurrent scans: packs the weights into panels, then repeats the kernel of one step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.primitives.recurrent import CELLS
from trainer.engine.graph.storage import Layout
from trainer.engine.program import loops
from trainer.engine.program.spec import Instruction
from trainer.engine.program.work import Buffer, KernelSource, View, Work
from trainer.engine.targets.cpu.kernels import pack
from trainer.engine.targets.cpu.kernels.recurrent import NARROW, WIDE, ScanStep, Source
from trainer.engine.targets.cpu.lowering.expansion import Expansion
from trainer.engine.targets.cpu.lowering.launch import Routine

Step = tuple[ScanStep, dict[str, View], View]
"""A kernel, its operands by name, and the weights [gates·units, depth]."""


def expand_rnn_scan(expansion: Expansion, work: Work) -> None:
    """Adds the first states, then all steps; a projection adds a second product to each step."""
    x, w, h, *others = dense(expansion, work.reads, (1, 4))
    forward(expansion, work, (x, w, h, *others), work.writes)


def forward(
    expansion: Expansion, work: Work, arrays: Sequence[View], writes: Sequence[View], rows: View | None = None
) -> None:
    """Adds the scan of x (packed if `rows` is a table of ragged rows), w, the first states and further operands."""
    cell, reverse, precision = work.spec.attributes
    x, w, h, *others = arrays
    y, last, *saved = writes
    (steps, batch, _), (wide, size), dtype = x.shape, w.shape, x.dtype
    expansion.copy(h, last, "first state")
    is_projected, neighbor = len(others) == 2, 1 if reverse else -1
    views = {"x": x, "y": y, "h": last, "first": h}
    kept = saved[1:] if cell == "lstm" else saved
    if cell == "lstm":
        expansion.copy(others[0], saved[0], "first state")
        views |= {"c": saved[0], "cells": saved[1], "gates": saved[2]}
    elif cell == "gru":
        views |= {"bias": others[0], "gates": saved[0]}
    units = wide // CELLS[cell]
    source = Source("y", size, step=neighbor, edge="first")
    common = (dtype, precision, steps, batch)
    keeps = is_projected or any(is_read(view) for view in kept)
    kernel = ScanStep(cell, *common, size, units, source, neighbor, rows is not None, not is_projected, keeps=keeps)
    parts: list[Step] = [(kernel, views, w)]
    if is_projected:
        source = Source("gates", 5 * units, 4 * units)
        kernel = ScanStep("projection", *common, units, size, source, neighbor, rows is not None)
        parts.append((kernel, views, others[1]))
    _repeat(expansion, work, parts, writes, rows, descending=reverse)


def expand_rnn_scan_gradient(expansion: Expansion, work: Work) -> None:
    """Adds the scan from its end to its beginning, with the weights transposed."""
    cell = work.spec.attributes[0]
    arrays = dense(expansion, work.reads, {"lstm": (5, 7), "gru": (4,)}.get(cell, (3,)))
    backward(expansion, work, arrays, work.writes)


def backward(
    expansion: Expansion, work: Work, arrays: Sequence[View], writes: Sequence[View], rows: View | None = None
) -> None:
    """Adds the backward scan with the operands of `rnn_scan_gradient`; derivatives of products are packed if `rows` is
    a table of ragged rows.
    """
    cell, reverse, precision = work.spec.attributes
    dy, dh, *others = arrays
    is_lstm = cell == "lstm"
    (steps, batch, size), dtype = dy.shape, dy.dtype
    carried = writes[2 if cell == "gru" else 1]
    expansion.copy(dh, carried, "last state")
    views = {"dy": dy, "dh": carried, "dx": writes[0]}
    projection: list[View] = []
    if is_lstm:
        expansion.copy(others[0], writes[2], "last state")
        _, cells, gates, w, first, *projection = others
        views |= {"dc": writes[2], "cells": cells, "gates": gates, "first": first}
    elif cell == "gru":
        y, gates, w, first = others
        views |= {"y": y, "gates": gates, "first": first, "dp": writes[1]}
    else:
        y, w = others
        views["y"] = y
    wide, neighbor = w.shape[0], 1 if reverse else -1
    units = wide // CELLS[cell]
    source = Source("dp" if cell == "gru" else "dx", wide, step=-neighbor)
    common, is_ragged = (dtype, precision, steps, batch), rows is not None
    if projection:
        views["dhs"] = writes[3]
        kernel = ScanStep("state_back", *common, wide, size, source, neighbor, is_ragged)
        parts: list[Step] = [(kernel, views, transposed(w))]
        source = Source("dhs", size)
        kernel = ScanStep("lstm_back", *common, size, units, source, neighbor, is_ragged, with_states=False)
        parts.append((kernel, views, transposed(projection[0])))
    else:
        kernel = ScanStep(f"{cell}_back", *common, wide, units, source, neighbor, is_ragged)  # type: ignore[arg-type]
        parts = [(kernel, views, transposed(w))]
    _repeat(expansion, work, parts, writes, rows, descending=not reverse)


def dense(expansion: Expansion, arrays: Sequence[View], weights: Sequence[int]) -> list[View]:
    """Makes all arrays dense except those numbered in `weights`, which are packed from any layout."""
    return [
        view if at in weights else expansion.laid_out(view, Layout.row_major(view.ndim))
        for at, view in enumerate(arrays)
    ]


def is_read(view: View) -> bool:
    """Whether anything reads an output."""
    return view.buffer is not None and not view.buffer.unread


def transposed(view: View) -> View:
    return replace(view, shape=view.shape[::-1], strides=view.strides[::-1])


def _repeat(
    expansion: Expansion, work: Work, parts: Sequence[Step], written: Sequence[View], rows: View | None, *,
    descending: bool,
) -> None:  # fmt: skip
    """Adds the parts as a repeat over all time steps."""
    native = expansion.machine.bfloat16
    accumulators = NARROW if expansion.machine.is_narrow else WIDE
    parts = [
        (replace(step, native=native and step.pairs, accumulators=accumulators), views, weights)
        for step, views, weights in parts
    ]
    kernel = parts[0][0]
    if kernel.batch == 0 or kernel.steps == 0:
        return
    time = View(None, dtypes.int64, (), (), kernel.steps - 1 if descending else 0)
    works, steps = [], []
    for step, views, weights in parts:
        known = {**views, "panels": _packed(expansion, step, weights)}
        if rows is not None:
            known["rows"] = rows
        if "zeros" in step.operands:
            known["zeros"] = _zeros(expansion, step.source.width, step.dtype)
        words = [known[name] for name in step.operands]
        writes = tuple(dict.fromkeys(view for view in words if view in written))
        reads = (time, *dict.fromkeys(view for view in words if view not in written or step.source.step == 0))
        code = KernelSource(step, step.render)
        routine = Routine(code, (time, *words), step.tasks, scratch=step.scratch)
        works.append(Work("scan", routine, reads, writes, step.kind))
        steps.append([-1 if descending else 1, *(0,) * (len(reads) + len(writes) - 1)])
    label = f"{work.label} {parts[0][0].kind} {kernel.steps}x{kernel.batch}x{kernel.units}"
    expansion.add(loops.repeat(works, steps, kernel.steps, label))


def _zeros(expansion: Expansion, size: int, dtype: DType) -> View:
    buffer = Buffer(size, dtype, "zeros")
    expansion.fill(buffer, 0)
    return View(buffer, dtype, (size,), (1,))


def _packed(expansion: Expansion, step: ScanStep, weights: View) -> View:
    """Packs weights [gates·units, depth] into panels of vectors, rounded to the precision if there is one."""
    if step.precision is not None:
        weights = rounded(expansion, weights, step.precision, narrow=step.pairs)
    across, along = weights.strides
    block = pack.Block(0, ((step.terms, 2 * along if step.pairs else along),))
    gates = ((step.gates, step.units * across),)
    spec = pack.PackSpec(step.dtype, gates, step.units, across, (block,), along if step.pairs else 0)
    return expansion.prepared(weights, spec, "pack scan", "panels")


def rounded(expansion: Expansion, view: View, precision: DType, *, narrow: bool) -> View:
    """Rounds a matrix to a precision; with `narrow` it is also stored in that dtype."""
    dtype = precision if narrow else view.dtype
    target = View(Buffer(view.size, dtype, "rounded"), dtype, view.shape, _dense(view))
    body = [Instruction("load", (), view.dtype, (0,)), Instruction("cast", (0,), precision)]
    body += [] if narrow else [Instruction("cast", (1,), view.dtype)]
    expansion.add(loops.loop(view.shape, body, [view], [target], [len(body) - 1], "round"))
    return target


def _dense(view: View) -> tuple[int, int]:
    """The strides of a dense copy of a matrix, with its order of axes."""
    rows, columns = view.shape
    return (columns, 1) if view.strides[1] <= view.strides[0] else (1, rows)
