"""The interface of a target for the shared passes: its sizes, and the items that it fuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trainer.engine.graph.node import Node
from trainer.engine.program.work import Work


@dataclass(frozen=True, slots=True)
class Features:
    """Sizes of a processor, in bytes if the name says so; the defaults were measured on CPUs.

    fewest_tasks: number of tasks that keeps all threads busy. task_bytes: memory of a task that stays in its cache
    until the next use. scratch_bytes: private memory of each thread. chained_bytes: minimum size of an array that is
    worth keeping in the cache between two loops. moved_bytes: maximum size that an item touches if it may run before or
    after a chain of loops that still grows. held_bytes: maximum memory that items keep alive while they wait for equal
    items. cached_bytes: programs whose buffers take less keep their order, since their memory stays in the caches.
    freed_bytes: minimum memory that an item must free, net, to run earlier. small_bytes: maximum size that an item of
    one task writes if it may run earlier because an item that frees memory waits for it. wide_groups: numbers of
    channels per group for which convolutions compute products of 16-bit floats in float32.
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
    """A processor that programs are compiled for."""

    @property
    def features(self) -> Features: ...

    def legal(self, outputs: Sequence[Node]) -> list[Node]:
        """The graph in the form that the target's kernels take; also called for the steps within a graph."""

    def takes_prologue(self, node: Node) -> bool:
        """Whether the kernel of a convolution or weight gradient computes its first operand, and is faster with it."""

    def statistics(self, convolution: Work, reduction: Work) -> Any | None:
        """The spec of a convolution and a reduction of its result as one item, or None if they stay two items."""
