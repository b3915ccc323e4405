"""Batches made in this process: when they are asked for, or in threads ahead of that."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError
from queue import Empty, SimpleQueue

from trainer.datasets.making import BatchMaker, Made
from trainer.datasets.planning import Planner, Position


class Later:
    """A batch that is made when its result is wanted."""

    def __init__(self, maker: BatchMaker, planner: Planner, position: Position) -> None:
        self._maker, self._planner, self._position = maker, planner, position

    def result(self) -> Made:
        return self._maker.make(self._planner(self._position))

    def cancel(self) -> None:
        """There is nothing to cancel."""


class NoWorkers:
    """Each batch is made when it is asked for."""

    kind, workers, ahead = "none", 0, 0

    def register(self, maker: BatchMaker, planner: Planner) -> Callable[[Position], Later]:
        """What makes a batch of `maker`."""
        return lambda position: Later(maker, planner, position)

    def close(self) -> None:
        """There is nothing to end."""


class Job:
    """A batch that a thread is to make.

    Asking for it and taking it costs the training loop 20 µs; a `concurrent.futures.Future` and its executor took 90,
    which is 2 % of a step of the smallest recipe.
    """

    __slots__ = ("_error", "_made", "_maker", "_planner", "_position", "_ready", "is_cancelled")

    def __init__(self, maker: BatchMaker, planner: Planner, position: Position) -> None:
        self._maker, self._planner, self._position = maker, planner, position
        self._made: Made | None = None
        self._error: BaseException | None = None
        self._ready = threading.Lock()
        self._ready.acquire()
        self.is_cancelled = False

    def run(self) -> None:
        """Make it, in whatever thread this is."""
        try:
            if self.is_cancelled:
                raise CancelledError
            self._made = self._maker.make(self._planner(self._position))
        except BaseException as error:
            self._error = error
        finally:
            self._ready.release()

    def result(self) -> Made:
        """The batch; waits for it. Raises what making it raised."""
        with self._ready:
            if self._error is not None:
                raise self._error
            assert self._made is not None
            return self._made

    def cancel(self) -> None:
        """It is no longer wanted, and not made unless that has begun."""
        self.is_cancelled = True


class Threads:
    """`workers` threads, for data that is prepared outside of Python's lock or quickly."""

    kind = "thread"

    def __init__(self, workers: int, ahead: int = 2) -> None:
        self.workers, self.ahead = workers, ahead * workers
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        weakref.finalize(self, _end, self._jobs, self._threads)

    def register(self, maker: BatchMaker, planner: Planner) -> Callable[[Position], Job]:
        """What has a batch of `maker` made."""

        def ask(position: Position) -> Job:
            if not self._threads:
                self._start()
            job = Job(maker, planner, position)
            self._jobs.put(job)
            return job

        return ask

    def _start(self) -> None:
        for number in range(self.workers):
            thread = threading.Thread(target=_work, args=(self._jobs,), name=f"data-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """End the threads once they are through with what they are on; what is asked for later starts new ones."""
        _end(self._jobs, self._threads)


def _work(jobs: SimpleQueue[Job | None]) -> None:
    """A thread's life. It knows nothing of the workers that it is one of, so that they can be dropped."""
    while (job := jobs.get()) is not None:
        job.run()
        del job  # not kept until the next one comes


def _end(jobs: SimpleQueue[Job | None], threads: list[threading.Thread]) -> None:
    try:
        while (job := jobs.get_nowait()) is not None:
            job.cancel()
            job.run()
    except Empty:
        pass
    for _ in threads:
        jobs.put(None)
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join()
    threads.clear()
