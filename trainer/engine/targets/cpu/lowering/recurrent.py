"""Recurrent scans: the weights packed into panels, then one step's kernel, repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.storage import Layout
from trainer.engine.program import loops
from trainer.engine.program.spec import Instruction
from trainer.engine.program.work import Buffer, KernelSource, View, Work
from trainer.engine.targets.cpu.kernels import pack
from trainer.engine.targets.cpu.kernels.recurrent import RaggedRows, ScanStep, Source
from trainer.engine.targets.cpu.lowering.expansion import Expansion
from trainer.engine.targets.cpu.lowering.launch import Routine

Step = tuple[ScanStep, dict[str, View], View]
"""A kernel, its operands by name, and the weights [gates·units, depth]."""


def expand_rnn_scan(expansion: Expansion, work: Work) -> None:
    """The states, then all steps; of a projection a second product in each step."""
    cell, reverse, precision = work.spec.attributes
    arrays, lengths = _operands(expansion, work)
    x, w, h, *others = arrays
    y, last, *saved = work.writes
    (steps, batch, _), (wide, size), dtype = x.shape, w.shape, x.dtype
    expansion.copy(h, last, "first state")
    is_projected, neighbor = len(others) == 2, 1 if reverse else -1
    views = {"x": x, "y": y, "h": last, "first": h}
    if cell == "lstm":
        expansion.copy(others[0], saved[0], "first state")
        views |= {"c": saved[0], "cells": saved[1], "gates": saved[2]}
    elif cell == "gru":
        views |= {"bias": others[0], "gates": saved[0]}
    units = wide // {"lstm": 4, "gru": 3}.get(cell, 1)
    source = Source("y", size, step=neighbor, edge="first")
    common = (dtype, precision, steps, batch)
    kernel = ScanStep(cell, *common, size, units, source, neighbor, lengths is not None, not is_projected)
    parts: list[Step] = [(kernel, views, w)]
    if is_projected:
        source = Source("gates", 5 * units, 4 * units)
        kernel = ScanStep("projection", *common, units, size, source, neighbor, lengths is not None)
        parts.append((kernel, views, others[1]))
    _repeat(expansion, work, parts, lengths, descending=reverse)


def expand_rnn_scan_gradient(expansion: Expansion, work: Work) -> None:
    """As the scan, from its end to its beginning, with the weights transposed."""
    cell, reverse, precision = work.spec.attributes
    arrays, lengths = _operands(expansion, work)
    dy, dh, *others = arrays
    is_lstm = cell == "lstm"
    (steps, batch, size), dtype = dy.shape, dy.dtype
    dx = work.writes[0]
    carried = work.writes[2 if cell == "gru" else 1]
    expansion.copy(dh, carried, "last state")
    views = {"dy": dy, "dh": carried, "dx": dx}
    projection: list[View] = []
    if is_lstm:
        expansion.copy(others[0], work.writes[2], "last state")
        _, cells, gates, w, first, *projection = others
        views |= {"dc": work.writes[2], "cells": cells, "gates": gates, "first": first}
    elif cell == "gru":
        y, gates, w, first = others
        views |= {"y": y, "gates": gates, "first": first, "dp": work.writes[1]}
    else:
        y, w = others
        views["y"] = y
    if projection:
        views["dhs"] = work.writes[3]
    wide, neighbor = w.shape[0], 1 if reverse else -1
    units = wide // {"lstm": 4, "gru": 3}.get(cell, 1)
    source = Source("dp" if cell == "gru" else "dx", wide, step=-neighbor)
    common = (dtype, precision, steps, batch)
    own = f"{cell}_back"
    if projection:
        kernel = ScanStep("state_back", *common, wide, size, source, neighbor, lengths is not None)
        parts: list[Step] = [(kernel, views, _transposed(w))]
        source = Source("dhs", size)
        kernel = ScanStep("lstm_back", *common, size, units, source, neighbor, lengths is not None, with_states=False)
        parts.append((kernel, views, _transposed(projection[0])))
    else:
        kernel = ScanStep(own, *common, wide, units, source, neighbor, lengths is not None)  # type: ignore[arg-type]
        parts = [(kernel, views, _transposed(w))]
    _repeat(expansion, work, parts, lengths, descending=not reverse)


def _operands(expansion: Expansion, work: Work) -> tuple[list[View], View | None]:
    """The arrays, dense but for weights, and the lengths if any."""
    lengths = work.reads[-1] if work.reads[-1].dtype is dtypes.int32 else None
    arrays = work.reads if lengths is None else work.reads[:-1]
    weights = _weights(work)
    found = [
        view if at in weights else expansion.laid_out(view, Layout.row_major(view.ndim))
        for at, view in enumerate(arrays)
    ]
    return found, lengths


def _weights(work: Work) -> Sequence[int]:
    """Which operands are packed, wherever their elements lie."""
    is_back, cell = work.spec.operation.name == "rnn_scan_gradient", work.spec.attributes[0]
    if not is_back:
        return (1, 4)
    return {"lstm": (5, 7), "gru": (4,)}.get(cell, (3,))


def _transposed(view: View) -> View:
    return replace(view, shape=view.shape[::-1], strides=view.strides[::-1])


def _repeat(expansion: Expansion, work: Work, parts: Sequence[Step], lengths: View | None, *, descending: bool) -> None:
    """The parts as a repeat over all time steps."""
    native = expansion.machine.bfloat16
    parts = [(replace(step, native=native and step.pairs), views, weights) for step, views, weights in parts]
    kernel = parts[0][0]
    if kernel.batch == 0 or kernel.steps == 0:
        return
    time = View(None, dtypes.int64, (), (), kernel.steps - 1 if descending else 0)
    works, steps = [], []
    for step, views, weights in parts:
        known = {**views, "panels": _packed(expansion, step, weights)}
        if lengths is not None:
            rows = RaggedRows(step.batch, step.steps, lengths.strides[0])
            known["rows"] = expansion.prepared(lengths, rows, "ragged rows")
        if "zeros" in step.operands:
            known["zeros"] = _zeros(expansion, step.source.width, step.dtype)
        words = [known[name] for name in step.operands]
        writes = tuple(dict.fromkeys(view for view in words if view in work.writes))
        reads = (time, *dict.fromkeys(view for view in words if view not in work.writes or step.source.step == 0))
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
    """Weights [gates·units, depth] in panels of vectors, rounded to the precision where there is one."""
    if step.precision is not None:
        dtype = step.precision if step.pairs else step.dtype
        target = View(Buffer(weights.size, dtype, "rounded weights"), dtype, weights.shape, _dense(weights))
        body = [Instruction("load", (), step.dtype, (0,)), Instruction("cast", (0,), step.precision)]
        body += [] if step.pairs else [Instruction("cast", (1,), step.dtype)]
        expansion.add(loops.loop(weights.shape, body, [weights], [target], [len(body) - 1], "round weights"))
        weights = target
    across, along = weights.strides
    block = pack.Block(0, ((step.terms, 2 * along if step.pairs else along),))
    gates = ((step.gates, step.units * across),)
    spec = pack.PackSpec(step.dtype, gates, step.units, across, (block,), along if step.pairs else 0)
    return expansion.prepared(weights, spec, "pack scan", "panels")


def _dense(view: View) -> tuple[int, int]:
    """Strides of a dense copy of a matrix, in the order in which it lies."""
    rows, columns = view.shape
    return (columns, 1) if view.strides[1] <= view.strides[0] else (1, rows)
