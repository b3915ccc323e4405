"""Kernels with one thread per point of a space, with shapes and strides as constants."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.ir.writer import Integer
from trainer.engine.targets.ptx.kernels.kernel_writer import GLOBAL, KernelWriter

Strides = tuple[int, ...]


class PointKernel:
    """A kernel whose subclass writes the code of a thread at its point of `extents`.

    Parameters: as many addresses as `addresses`. Neighboring threads run along the last axis of `order`.
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
        """Writes the code of the thread at `place`."""
        raise NotImplementedError

    @property
    def blocks(self) -> int:
        """Number of thread blocks; 0 if the space has no points."""
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
    """Axes from the longest stride to the shortest."""
    return sorted(range(len(strides)), key=lambda axis: (-abs(strides[axis]), axis))


def element(
    w: KernelWriter, dtype: DType, address: str, place: Sequence[Integer], strides: Sequence[int], space: str = GLOBAL
) -> str:
    """The address of the element with the indices `place`."""
    offset: Integer = 0
    for index, stride in zip(place, strides, strict=True):
        offset = w.add(offset, w.multiply(index, stride))
    return w.place(dtype, address, str(offset), space)


def loaded(w: KernelWriter, dtype: DType, address: str, *, constant: bool = False) -> str:
    """Loads an element as a vector of one lane of the compute type."""
    return w.widened(dtype, w.load(dtype, address, constant=constant))


def index_at(w: KernelWriter, dtype: DType, address: str) -> str:
    """Loads an index of an integer dtype as i64."""
    bits = 8 * dtype.itemsize
    raw = w.scalar(f"i{bits}", w.load(dtype, address, constant=True))
    return raw if bits == 64 else w.value(f"sext i{bits} {raw} to i64")


def clamped(w: KernelWriter, index: str, extent: int) -> str:
    """Clamps an index to an axis of `extent` elements."""
    return w.apply("smin", "i64", w.apply("smax", "i64", index, "0"), str(extent - 1))
