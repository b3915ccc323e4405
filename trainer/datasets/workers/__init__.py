"""Who makes batches: this process, threads of it, or worker processes over shared memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal, Protocol

from trainer.datasets.making import BatchMaker, Made
from trainer.datasets.planning import Planner, Position
from trainer.datasets.workers.memory import free_memory
from trainer.datasets.workers.pool import WorkerFailure, WorkerPool
from trainer.datasets.workers.threads import Later, NoWorkers, Threads

__all__ = [
    "Kind", "Later", "NoWorkers", "Pending", "Threads", "WorkerFailure", "WorkerPool", "Workers", "free_memory",
    "workers_for",
]  # fmt: skip

Kind = Literal["auto", "thread", "process"]


class Pending(Protocol):
    """A batch that was asked for."""

    def result(self) -> Made:
        """The batch; waits for it."""

    def cancel(self) -> object:
        """It is no longer wanted."""


class Workers(Protocol):
    """Those who make batches, for any number of loaders."""

    kind: str
    workers: int
    ahead: int
    """How many batches a loader asks for before it needs the first."""

    def register(self, maker: BatchMaker, planner: Planner) -> Callable[[Position], Pending]:
        """A function that asks for a batch of `maker` with the items that `planner` says."""

    def close(self) -> None:
        """End them; what is asked for later starts new ones."""


def workers_for(maker: BatchMaker, count: int, kind: Kind, ahead: int, tell: Callable[[str], None] | None) -> Workers:
    """`count` workers. By kind "auto": threads where whole batches are taken from memory, else processes."""
    if count == 0:
        return NoWorkers()
    if kind == "thread" or (kind == "auto" and maker.takes_batches):
        return Threads(count, ahead)
    return WorkerPool(count, ahead, tell=tell)


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
