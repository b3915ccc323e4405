"""Kernels with one thread for each point of a space, shapes and strides baked in."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.ir.writer import Integer
from trainer.engine.targets.ptx.kernels.kernel_writer import GLOBAL, KernelWriter

Strides = tuple[int, ...]


class PointKernel:
    """A kernel whose subclass says what a thread does at its point of `extents`.

    Parameters: addresses, `addresses` of them. Neighboring threads run along the last axis of `order`.
    """

    __slots__ = ()
    threads = 128
    flush: bool
    addresses = 2

    @property
    def extents(self) -> tuple[int, ...]:
        """The space of the points."""
        raise NotImplementedError

    @property
    def order(self) -> Sequence[int]:
        """The axes of the space in the order in which threads are numbered, the outermost first."""
        return range(len(self.extents))

    def point(self, w: KernelWriter, place: Sequence[Integer], addresses: Sequence[str]) -> None:
        """Write what the thread at `place` does."""
        raise NotImplementedError

    @property
    def blocks(self) -> int:
        """Blocks of threads; 0 where there is no point."""
        return -(-math.prod(self.extents) // self.threads)

    def render(self, name: str) -> str:
        """The module that exports the kernel."""
        w, total = KernelWriter(), math.prod(self.extents)
        addresses = [w.pointer_parameter() for _ in range(self.addresses)]
        number = w.thread_number(self.threads)
        with w.guarded(number, str(total)):
            self.point(w, w.unraveled(number, self.extents, self.order), addresses)
        return w.kernel(name, self.threads, flush=self.flush)


def by_stride(strides: Sequence[int]) -> list[int]:
    """Axes from the one with the longest stride to the one with the shortest."""
    return sorted(range(len(strides)), key=lambda axis: (-abs(strides[axis]), axis))


def element(
    w: KernelWriter, dtype: DType, address: str, place: Sequence[Integer], strides: Sequence[int], space: str = GLOBAL
) -> str:
    """The address of the element at a place."""
    offset: Integer = 0
    for index, stride in zip(place, strides, strict=True):
        offset = w.add(offset, w.multiply(index, stride))
    return w.place(dtype, address, str(offset), space)


def loaded(w: KernelWriter, dtype: DType, address: str, *, constant: bool = False) -> str:
    """An element of the compute type, a vector of one lane."""
    return w.widened(dtype, w.load(dtype, address, constant=constant))


def index_at(w: KernelWriter, dtype: DType, address: str) -> str:
    """An index, of an integer dtype, as i64."""
    bits = 8 * dtype.itemsize
    raw = w.scalar(f"i{bits}", w.load(dtype, address, constant=True))
    return raw if bits == 64 else w.value(f"sext i{bits} {raw} to i64")


def clamped(w: KernelWriter, index: str, extent: int) -> str:
    """An index, held within an axis."""
    return w.apply("smin", "i64", w.apply("smax", "i64", index, "0"), str(extent - 1))
