"""Cumulative sums and products along an axis: each thread walks one line in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.ir.expression import combined, literal
from trainer.engine.targets.ir.vectors import splat
from trainer.engine.targets.ir.writer import Integer, vector
from trainer.engine.targets.ptx.kernels.kernel_writer import KernelWriter, compute
from trainer.engine.targets.ptx.kernels.points import PointKernel, Strides, by_stride, element, loaded


@dataclass(frozen=True)
class CumulativeKernel(PointKernel):
    """`operation`: "add" or "multiply". Addresses: x, y; strides are by axis."""

    operation: str
    dtype: DType
    shape: tuple[int, ...]
    axis: int
    input_strides: Strides
    output_strides: Strides
    flush: bool

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(1 if axis == self.axis else size for axis, size in enumerate(self.shape))

    @property
    def order(self) -> Sequence[int]:
        return by_stride(self.input_strides)

    def point(self, w: KernelWriter, place: Sequence[Integer], addresses: Sequence[str]) -> None:
        kind = vector(compute(self.dtype), 1)
        neutral = 1 if self.operation == "multiply" else -0.0 if self.dtype.is_float else 0  # -0 + -0 is -0
        first = splat(compute(self.dtype), literal(self.dtype, neutral))
        with w.loop("0", str(self.shape[self.axis]), 1, [(kind, first)]) as loop:
            here = [loop.index if axis == self.axis else index for axis, index in enumerate(place)]
            value = loaded(w, self.dtype, element(w, self.dtype, addresses[0], here, self.input_strides), constant=True)
            total = combined(w, self.operation, self.dtype, loop.carried[0], value, 1)
            target = element(w, self.dtype, addresses[1], here, self.output_strides)
            w.store(self.dtype, w.narrowed(self.dtype, total), target)
            loop.next = [total]
