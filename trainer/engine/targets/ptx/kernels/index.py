"""Gathers and scatters (`ir.indexing`), and weighted sums of rows.

A scatter is deterministic: a thread owns a part of one line of the table, clears it, and visits all indices that may
point there, in row-major order. The parts of a line belong to different threads, which all read the line's indices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.ir.expression import combined
from trainer.engine.targets.ir.indexing import COMBINING, Indexing
from trainer.engine.targets.ir.vectors import splat
from trainer.engine.targets.ir.writer import Integer, vector
from trainer.engine.targets.ptx.kernels.kernel_writer import KernelWriter, compute
from trainer.engine.targets.ptx.kernels.points import (
    PointKernel,
    Strides,
    by_stride,
    clamped,
    element,
    index_at,
    loaded,
)

ENOUGH_THREADS = 1 << 15
"""A scatter cuts each line into parts until it has this number of threads, or `MOST_PARTS` parts."""

MOST_PARTS = 64


@dataclass(frozen=True)
class GatherKernel(PointKernel):
    """Gathers elements of a table. Addresses: table, indices, dense array."""

    indexing: Indexing
    flush: bool
    addresses = 3

    @property
    def extents(self) -> tuple[int, ...]:
        return self.indexing.sizes

    @property
    def order(self) -> Sequence[int]:
        return by_stride(self.indexing.dense_strides)

    def point(self, w: KernelWriter, place: Sequence[Integer], addresses: Sequence[str]) -> None:
        of, (table, indices, dense) = self.indexing, addresses
        index = index_at(w, of.index_dtype, element(w, of.index_dtype, indices, place, of.index_strides))
        held = clamped(w, index, of.axis_size)
        source = element(w, of.dtype, table, [*place, held], [*of.table_strides, of.axis_stride])
        w.store(of.dtype, w.load(of.dtype, source, constant=True), element(w, of.dtype, dense, place, of.dense_strides))


@dataclass(frozen=True)
class ScatterKernel(PointKernel):
    """Combines elements into a table, which is cleared first. Addresses: dense array, indices, table."""

    indexing: Indexing
    flush: bool
    addresses = 3

    @property
    def free(self) -> tuple[int, ...]:
        """The axes of the dense array along which elements go to different lines, the longest stride first."""
        of = self.indexing
        axes = [axis for axis in range(len(of.sizes)) if axis not in of.combining]
        return tuple(sorted(axes, key=lambda axis: -abs(of.table_strides[axis])))

    @property
    def rows(self) -> int:
        """Elements of a line that each thread owns."""
        lines = math.prod(self.indexing.sizes[axis] for axis in self.free)
        parts = min(self.indexing.axis_size, MOST_PARTS, max(1, -(-ENOUGH_THREADS // max(1, lines))))
        return -(-self.indexing.axis_size // max(1, parts))

    @property
    def extents(self) -> tuple[int, ...]:
        of = self.indexing
        parts = -(-of.axis_size // self.rows) if of.axis_size else 0
        return (parts, *(of.sizes[axis] for axis in self.free))

    def point(self, w: KernelWriter, place: Sequence[Integer], addresses: Sequence[str]) -> None:
        of, (dense, indices, table), (part, *line) = self.indexing, addresses, place
        first, stop = w.share(part, self.rows, of.axis_size)
        own = element(w, of.dtype, table, line, [of.table_strides[axis] for axis in self.free])
        neutral = w.narrowed(of.dtype, splat(compute(of.dtype), of.neutral))
        with w.loop(str(first), str(stop)) as clear:
            w.store(of.dtype, neutral, element(w, of.dtype, own, [clear.index], [of.axis_stride]))
        sizes = [of.sizes[axis] for axis in of.combining]
        with w.loop("0", str(math.prod(sizes))) as each:
            here: list[Integer] = [0] * len(of.sizes)
            for axes, found in ((self.free, line), (of.combining, w.unraveled(str(each.index), sizes))):
                for axis, index in zip(axes, found, strict=True):
                    here[axis] = index
            index = index_at(w, of.index_dtype, element(w, of.index_dtype, indices, here, of.index_strides))
            past = w.value(f"sub i64 {index}, {first}")
            with w.when(w.value(f"icmp ult i64 {past}, {w.subtract(stop, first)}"), "inside"):
                target = element(w, of.dtype, own, [index], [of.axis_stride])
                update = loaded(w, of.dtype, element(w, of.dtype, dense, here, of.dense_strides), constant=True)
                total = combined(w, COMBINING[of.operation], of.dtype, loaded(w, of.dtype, target), update, 1)
                w.store(of.dtype, w.narrowed(of.dtype, total), target)


@dataclass(frozen=True)
class GatherSumKernel(PointKernel):
    """y[n, p, c] = the sum over t of weights[n, p, t] · table[n, indices[n, p, t], c], in the order of t.

    Addresses: table, indices, weights, y; strides are by axis.
    """

    dtype: DType
    index_dtype: DType
    shape: tuple[int, ...]
    taps: int
    size: int
    table_strides: Strides
    index_strides: Strides
    weight_strides: Strides
    output_strides: Strides
    flush: bool
    addresses = 4

    @property
    def extents(self) -> tuple[int, ...]:
        return self.shape

    @property
    def order(self) -> Sequence[int]:
        return by_stride(self.output_strides)

    def point(self, w: KernelWriter, place: Sequence[Integer], addresses: Sequence[str]) -> None:
        (table, indices, weights, target), (image, row, channel) = addresses, place
        kind = vector(compute(self.dtype), 1)

        def operands(tap: Integer) -> tuple[str, str]:
            where = [image, row, tap]
            index = index_at(w, self.index_dtype, element(w, self.index_dtype, indices, where, self.index_strides))
            held = clamped(w, index, self.size)
            value = element(w, self.dtype, table, [image, held, channel], self.table_strides)
            share = element(w, self.dtype, weights, where, self.weight_strides)
            return loaded(w, self.dtype, value, constant=True), loaded(w, self.dtype, share, constant=True)

        value, share = operands(0)
        total = w.value(f"fmul {kind} {value}, {share}")
        with w.loop("1", str(self.taps), 1, [(kind, total)]) as loop:
            loop.next = [w.apply("fma", kind, *operands(loop.index), loop.carried[0])]
        w.store(self.dtype, w.narrowed(self.dtype, loop.next[0]),
                element(w, self.dtype, target, place, self.output_strides))  # fmt: skip
