"""Launches: the records of a program for a GPU before memory is planned. A launch is one kernel on given buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trainer.engine.program.work import Buffer, Exchanges, KernelSource, View, Work


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

    # What planning of memory and reports ask for

    scratch: ClassVar[int] = 0
    in_place: ClassVar[Exchanges] = ()
    """No output takes an input's memory: kernels read inputs through the cache for constant data."""

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Each buffer that is touched, once."""
        return tuple(dict.fromkeys([*(word.buffer for word in self.words if isinstance(word, Address)), *self.targets]))

    @property
    def sources(self) -> tuple[Buffer, ...]:
        """Each buffer that is read and not written."""
        return tuple([buffer for buffer in self.buffers if buffer not in self.targets])

    @property
    def reads(self) -> tuple[Buffer, ...]:
        return self.sources

    @property
    def writes(self) -> tuple[Buffer, ...]:
        return self.targets
