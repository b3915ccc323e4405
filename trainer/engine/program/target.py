"""The interface of a target for the shared passes: its sizes, and the work that it computes together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trainer.engine.graph.node import Node
from trainer.engine.program.work import Work


@dataclass(frozen=True, slots=True)
class Features:
    """Sizes of a processor, in bytes where a name says so; the defaults were measured on CPUs.

    fewest_tasks: tasks that keep all threads busy. task_bytes: what a task may touch again and find in its cache.
    scratch_bytes: memory that each thread has for itself. chained_bytes: arrays from this size on are worth keeping in
    the cache between two loops. moved_bytes: items that touch at most this much may run before or after a chain of
    loops that still grows. held_bytes: memory that items may keep alive by waiting for equal ones. cached_bytes:
    programs whose buffers take less keep their order, since their memory stays in the caches. freed_bytes: what an item
    must free, net, to run earlier. small_bytes: what an item of one task may write and still run earlier because one
    that frees memory waits for it. wide_groups: numbers of channels of a convolution's groups whose products of 16-bit
    floats are computed in float32.
    """

    fewest_tasks: int = 16
    task_bytes: int = 128 << 10
    scratch_bytes: int = 4 << 20
    chained_bytes: int = 512 << 10
    moved_bytes: int = 256 << 10
    held_bytes: int = 4 << 20
    cached_bytes: int = 16 << 20
    freed_bytes: int = 256 << 10
    small_bytes: int = 64 << 10
    wide_groups: tuple[int, ...] = ()


class Target(Protocol):
    """A processor that programs are made for."""

    @property
    def features(self) -> Features: ...

    def legal(self, outputs: Sequence[Node]) -> list[Node]:
        """The graph as the target's kernels take it; of the steps within a graph, too."""

    def takes_prologue(self, node: Node) -> bool:
        """Whether the kernel of a convolution or weight gradient computes its first operand, and gains by it."""

    def statistics(self, convolution: Work, reduction: Work) -> Any | None:
        """The spec of a convolution and a reduction of its result as one item, or None where they stay two."""
