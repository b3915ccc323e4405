"""Batches made in this process: when they are asked for, or in threads ahead of that."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from trainer.datasets.making import BatchMaker, Made, Plan


class Later:
    """A batch that is made when its result is wanted."""

    def __init__(self, maker: BatchMaker, plan: Plan) -> None:
        self._maker, self._plan = maker, plan

    def result(self) -> Made:
        return self._maker.make(self._plan)

    def cancel(self) -> None:
        """There is nothing to cancel."""


class NoWorkers:
    """Each batch is made when it is asked for."""

    kind, workers, ahead = "none", 0, 0

    def register(self, maker: BatchMaker) -> Callable[[Plan], Later]:
        """What makes a batch of `maker`."""
        return lambda plan: Later(maker, plan)

    def close(self) -> None:
        """There is nothing to end."""


class Threads:
    """`workers` threads, for data that is prepared outside of Python's lock or quickly."""

    kind = "thread"

    def __init__(self, workers: int, ahead: int = 2) -> None:
        self.workers, self.ahead = workers, ahead * workers
        self._threads: ThreadPoolExecutor | None = None

    def register(self, maker: BatchMaker) -> Callable[[Plan], Future[Made]]:
        """What has a batch of `maker` made."""
        return lambda plan: self._started().submit(maker.make, plan)

    def _started(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.workers, "data")
        return self._threads

    def close(self) -> None:
        """End the threads once they are through with what they are on; what is asked for later starts new ones."""
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
            self._threads = None
