"""Launches: the records of a GPU program before memory planning. A launch is one kernel on given buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trainer import TrainerError
from trainer.engine.program.work import Buffer, Exchanges, KernelSource, View, Work


@dataclass(frozen=True, slots=True)
class Address:
    """A position in a buffer, as a parameter of a kernel."""

    buffer: Buffer
    byte_offset: int = 0

    @classmethod
    def of(cls, view: View) -> Address:
        assert view.buffer is not None
        return cls(view.buffer, view.offset * view.dtype.itemsize)


MOST_BLOCKS = 2**31 - 1
"""Maximum blocks of a grid along x, its only axis here (CUDA C++ Programming Guide, technical specifications)."""

Word = int | Address
"""A parameter of a kernel: an i64, or an address in the GPU's memory."""


@dataclass(eq=False, slots=True)
class Launch:
    """A kernel on a grid of `blocks` blocks of `threads` threads: its code, its parameters, and its work item.

    This is all that a driver needs, and a stable interface:

    - `source.render(name)` is the kernel's LLVM IR, and `PtxTarget.assembled(launch, name)` its PTX, whose only entry
      is `name`; equal sources have equal code.
    - The grid is (blocks, 1, 1), the block (threads, 1, 1). A launch of 0 blocks does nothing.
    - The kernel declares shared memory of at most 48 KiB; if it needs more, the launch allocates `shared` bytes.
    - `words` are the kernel's parameters in order, 8 bytes each: an `Address` is the address of a buffer in the GPU's
      memory plus its byte offset, an integer is an i64. Buffers begin at a multiple of 16 bytes; those that are not
      `is_aligned` begin at any element.
    - `targets` are the buffers that the kernel writes; it only reads the other buffers among `words`.
    - Launches run in order: each sees the writes of those before it.
    """

    work: Work
    source: KernelSource
    targets: tuple[Buffer, ...]
    words: list[Word]
    blocks: int
    threads: int
    shared: int = 0

    def __post_init__(self) -> None:
        if self.blocks > MOST_BLOCKS:
            raise TrainerError(
                f"{self.label} is too large for one launch on a GPU", where=self.work.line,
                found=f"{self.blocks:,} blocks of {self.threads} threads", expected=f"at most {MOST_BLOCKS:,} blocks",
                hint="Compute it in parts, such as smaller batches.",
            )  # fmt: skip

    @property
    def label(self) -> str:
        return self.work.label

    # The interface of memory planning and reports

    scratch: ClassVar[int] = 0
    in_place: ClassVar[Exchanges] = ()
    """No output reuses an input's memory: kernels read inputs through the cache for constant data."""

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """All buffers that are read or written, without duplicates."""
        return tuple(dict.fromkeys([*(word.buffer for word in self.words if isinstance(word, Address)), *self.targets]))

    @property
    def sources(self) -> tuple[Buffer, ...]:
        """All buffers that are read but not written, without duplicates."""
        return tuple([buffer for buffer in self.buffers if buffer not in self.targets])

    @property
    def reads(self) -> tuple[Buffer, ...]:
        return self.sources

    @property
    def writes(self) -> tuple[Buffer, ...]:
        return self.targets
