"""Launches: the records of a program for a GPU before memory is planned. A launch is one kernel on given buffers."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.engine.program.work import Buffer, KernelSource, View, Work


@dataclass(frozen=True, slots=True)
class Address:
    """A place in a buffer, as a parameter of a kernel."""

    buffer: Buffer
    byte_offset: int = 0

    @classmethod
    def of(cls, view: View) -> Address:
        assert view.buffer is not None
        return cls(view.buffer, view.offset * view.dtype.itemsize)


Word = int | Address
"""A parameter of a kernel: an i64, or an address in the GPU's memory. Buffers begin at a multiple of 16 bytes."""


@dataclass(eq=False, slots=True)
class Launch:
    """A kernel on a grid of `blocks` blocks of `threads` threads: its code, its parameters, and what it computes.

    `source.render(name)` is the kernel's LLVM IR, `targets` are the buffers that it writes. Launches run in order.
    """

    work: Work
    source: KernelSource
    targets: tuple[Buffer, ...]
    words: list[Word]
    blocks: int
    threads: int

    @property
    def label(self) -> str:
        return self.work.label
