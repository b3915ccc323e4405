"""Data-loading workers: this process, its threads, or processes with shared memory."""

from __future__ import annotations

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
    """A requested batch."""

    def result(self) -> Made:
        """Waits for the batch and returns it."""

    def cancel(self) -> object:
        """Cancels the request."""


class Workers(Protocol):
    """Data-loading workers, for any number of loaders."""

    kind: str
    workers: int
    ahead: int
    """Number of batches that a loader requests before it needs the first."""
    killed: int
    """Number of processes that ended by SIGKILL, as the system ends them when memory runs out; they were replaced."""

    def register(self, maker: BatchMaker, planner: Planner) -> Callable[[Position], Pending]:
        """Returns a function that requests a batch of `maker` with the items that `planner` selects."""

    def close(self) -> None:
        """Ends the workers; later requests start new ones."""


def workers_for(maker: BatchMaker, count: int, kind: Kind, ahead: int, tell: Callable[[str], None] | None) -> Workers:
    """`count` workers. With kind "auto": threads for data in memory, otherwise processes."""
    if count == 0:
        return NoWorkers()
    if kind == "thread" or (kind == "auto" and maker.is_in_memory):
        return Threads(count, ahead)
    return WorkerPool(count, ahead, tell=tell)
