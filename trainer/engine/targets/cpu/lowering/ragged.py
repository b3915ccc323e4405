"""Recurrent layers over ragged rows: packs their steps, multiplies only these, and scans between the products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.program.spec import Epilogue, EpilogueOperand, Instruction
from trainer.engine.program.work import NOTHING, Buffer, KernelSource, View, Work
from trainer.engine.targets.cpu import defaults, templates
from trainer.engine.targets.cpu.kernels.ragged import RaggedCopy, RaggedRows, RaggedSums
from trainer.engine.targets.cpu.lowering.expansion import Expansion
from trainer.engine.targets.cpu.lowering.launch import Routine, Templated
from trainer.engine.targets.cpu.lowering.recurrent import backward, dense, forward, is_read, rounded, transposed
from trainer.engine.targets.cpu.templates.contraction import MatmulSpec, pack_spec
from trainer.engine.targets.cpu.templates.ragged import RaggedProduct


def expand_rnn_scan_ragged(expansion: Expansion, work: Work) -> None:
    """Adds the products of the steps that rows have, then their scan."""
    *arrays, lengths = work.reads
    x, w_ih, bias, *scan = dense(expansion, arrays, (1, 3, 6))
    if x.shape[1] == 0:
        return
    steps = _Steps(expansion, lengths, x.shape[:2], work.spec.attributes[2])
    products = _buffer((*x.shape[:2], w_ih.shape[0]), x.dtype, "products")
    steps.multiply(steps.packed(x), transposed(w_ih), _rows(products), bias)
    forward(expansion, work, [products, *scan], work.writes, steps.rows)


def expand_rnn_scan_ragged_gradient(expansion: Expansion, work: Work) -> None:
    """Adds the backward scan, then the products that follow it; gradients of x and h only if something reads them."""
    cell, reverse, precision = work.spec.attributes
    is_lstm, is_gru = cell == "lstm", cell == "gru"
    *arrays, lengths = work.reads
    weights = {"lstm": (7, 8, 11), "gru": (5, 6)}.get(cell, (4, 5))
    arrays = dense(expansion, arrays, weights)
    given, (y, *rest) = arrays[: 2 + is_lstm], arrays[2 + is_lstm :]
    saved, (x, w_ih, w, h, *others) = rest[: 2 * is_lstm + is_gru], rest[2 * is_lstm + is_gru :]
    dx, dw_ih, dbias, dw, dh, *more = work.writes
    if x.shape[1] == 0:
        for write in work.writes:
            assert write.buffer is not None
            expansion.fill(write.buffer, 0)
        return
    steps, wide = _Steps(expansion, lengths, x.shape[:2], precision), (*x.shape[:2], w.shape[0])
    dp = _buffer(wide, x.dtype, "derivative of products")
    recurrent = _buffer(wide, x.dtype, "derivative of products") if is_gru else dp
    carried = _buffer(h.shape, x.dtype, "carried")
    writes = [dp, recurrent, carried] if is_gru else [dp, carried]
    if is_lstm:
        states, projection = [*saved, w, *others], others[1:]
        writes += [more[0], *[_buffer(y.shape, x.dtype, "derivative of states") for _ in projection]]
    else:
        states, projection = [y, *saved, w, *[h] * is_gru], []
    backward(expansion, work, [*given, *states], writes, steps.rows)
    if is_read(dx):
        products = _buffer(x.shape, x.dtype, "derivative of packed inputs")
        steps.multiply(_rows(dp), w_ih, _rows(products))
        steps.copy("unpack", products, dx)
    steps.sum_products(_rows(dp), steps.packed(x), dw_ih)
    steps.sum(_rows(dp), dbias)
    before = _buffer(y.shape, x.dtype, "states before")
    steps.copy("before", y, before, 1 if reverse else -1, h)
    steps.sum_products(_rows(recurrent), _rows(before), dw)
    if is_read(dh):
        first = _buffer((x.shape[1], w.shape[0]), x.dtype, "first step")
        steps.copy("first", recurrent, first, 1 if reverse else -1)
        steps.multiply(first, w, dh, carried=carried)
    if projection:
        units, gates = projection[0].shape[1], saved[1]
        outputs = replace(_rows(gates), shape=(wide[0] * wide[1], units), offset=gates.offset + 4 * units)
        steps.sum_products(_rows(writes[-1]), outputs, more[1])
    elif is_gru:
        units = w.shape[1]
        steps.sum(replace(_rows(recurrent), shape=(wide[0] * wide[1], units), offset=2 * units), more[0])


class _Steps:
    """The steps of ragged rows, and the operations on packed arrays of them."""

    def __init__(self, expansion: Expansion, lengths: View, shape: Sequence[int], precision: DType | None) -> None:
        self.expansion, self.precision = expansion, precision
        count, batch = shape
        self.table = RaggedRows(batch, count, lengths.strides[0])
        self.rows = expansion.prepared(lengths, self.table, "ragged rows")
        """The table of rows."""
        self.number = replace(self.rows, shape=(), strides=(), offset=self.table.starts + count)
        """The number of steps of all rows."""

    def packed(self, x: View) -> View:
        """Packs x [T, B, N] into [T·B, N], with the rows that are steps first."""
        kernel = RaggedCopy("pack", x.dtype, replace(self.table, stride=1), x.shape[2])
        return _rows(
            replace(x, buffer=self.expansion.prepared(x, kernel, "pack rows", table=self.rows).buffer, offset=0)
        )

    def copy(
        self, mode: Literal["unpack", "before", "first"], source: View, target: View, neighbor: int = -1,
        edge: View | None = None,
    ) -> None:  # fmt: skip
        """Adds a `RaggedCopy` in the given mode."""
        kernel = RaggedCopy(mode, source.dtype, replace(self.table, stride=1), source.shape[-1], neighbor)
        others = () if edge is None else (edge,)
        routine = Routine.of(kernel, source, self.rows, target, *others)
        self.expansion.add(Work("copy", routine, (source, self.rows, *others), (target,), f"{mode} rows"))

    def multiply(
        self, left: View, right: View, target: View, bias: View | None = None, carried: View | None = None
    ) -> None:
        """Computes left @ right (+ bias) over the rows that are steps, or left @ right + `carried` over all rows."""
        expansion, dtype = self.expansion, target.dtype
        pairs = self.precision is dtypes.bfloat16 and left.shape[1] % 2 == 0
        if self.precision is not None:
            left, right = (rounded(expansion, view, self.precision, narrow=pairs) for view in (left, right))
        added = bias if carried is None else carried
        epilogue = NOTHING
        if added is not None:
            body = (Instruction("load", (), dtype, (0,)), Instruction("load", (), dtype, (1,)))
            operand = EpilogueOperand(dtype, "channel" if carried is None else "same")
            epilogue = Epilogue((operand,), (*body, Instruction("add", (0, 1), dtype)))
        spec = MatmulSpec(
            dtype, left.shape[0], right.shape[1], left.shape[1], (left.strides[0], left.strides[1]),
            (right.strides[0], right.strides[1]), epilogue=epilogue, pairs=pairs,
        )  # fmt: skip
        spec = replace(spec, packed=defaults.prefers_packed(spec, expansion.machine))
        if spec.packed:
            right = expansion.prepared(right, pack_spec(spec), "pack", "panels")
        if carried is None:
            product = RaggedProduct.chosen(spec, "rows", expansion.machine)
            return self._add(product, [left, right], target, [] if bias is None else [bias])
        reads = (left, right, carried)
        label = f"matmul {spec.rows}x{spec.depth}x{spec.columns}"
        expansion.add(Work("contraction", Templated(templates.MATMUL, spec), reads, (target,), label))

    def sum_products(self, left: View, right: View, target: View) -> None:
        """Computes leftᵀ @ right, summed over the rows that are steps."""
        if self.precision is not None:
            left, right = (rounded(self.expansion, view, self.precision, narrow=False) for view in (left, right))
        assert target.buffer is not None
        self.expansion.fill(target.buffer, 0)
        spec = MatmulSpec(
            target.dtype, left.shape[1], right.shape[1], left.shape[0], (left.strides[1], left.strides[0]),
            (right.strides[0], right.strides[1]), packed=False,
        )  # fmt: skip
        product = RaggedProduct.chosen(spec, "depth", self.expansion.machine)
        self._add(product, [left, right], target)

    def _add(self, product: RaggedProduct, operands: Sequence[View], target: View, added: Sequence[View] = ()) -> None:
        others, code = (*added, self.number), KernelSource(product, product.render)
        routine = Routine(code, (*operands, target, *others), product.tasks, scratch=product.scratch)
        spec = product.spec
        label = f"ragged matmul {spec.rows}x{spec.depth}x{spec.columns}"
        self.expansion.add(Work("contraction", routine, (*operands, *others), (target,), label))

    def sum(self, array: View, target: View) -> None:
        """Sums the rows that are steps: first within blocks, then over the blocks."""
        rows, width = array.shape
        kernel = RaggedSums(array.dtype, rows, width, array.strides[0], counted=True)
        blocks = _buffer((kernel.blocks, width), array.dtype, "sums")
        routine = Routine.of(kernel, array, blocks, self.number)
        self.expansion.add(Work("reduction", routine, (array, self.number), (blocks,), "sum rows"))
        kernel = RaggedSums(array.dtype, kernel.blocks, width, width, counted=False)
        self.expansion.add(Work("reduction", Routine.of(kernel, blocks, target), (blocks,), (target,), "sum rows"))


def _buffer(shape: Sequence[int], dtype: DType, label: str) -> View:
    view = View(None, dtype, tuple(shape), ())
    strides = [1]
    for extent in shape[:0:-1]:
        strides.insert(0, strides[0] * extent)
    return replace(view, buffer=Buffer(view.size, dtype, label), strides=tuple(strides))


def _rows(view: View) -> View:
    """Views a dense array of all steps as a matrix; the stride of a batch of one row is arbitrary."""
    steps, batch, width = view.shape
    return replace(view, shape=(steps * batch, width), strides=(width, 1))
