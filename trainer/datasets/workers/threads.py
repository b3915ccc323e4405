"""Batches created in this process: when needed, or in advance in threads."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError
from queue import Empty, SimpleQueue

from trainer.datasets.making import BatchMaker, Made
from trainer.datasets.planning import Planner, Position


class Later:
    """A batch that is created when its result is needed."""

    def __init__(self, maker: BatchMaker, planner: Planner, position: Position) -> None:
        self._maker, self._planner, self._position = maker, planner, position

    def result(self) -> Made:
        return self._maker.make(self._planner(self._position))

    def cancel(self) -> None:
        """Does nothing: there is nothing to cancel."""


class NoWorkers:
    """Creates each batch when it is needed."""

    kind, workers, ahead, killed = "none", 0, 0, 0

    def register(self, maker: BatchMaker, planner: Planner) -> Callable[[Position], Later]:
        """Returns the function that creates a batch of `maker`."""
        return lambda position: Later(maker, planner, position)

    def close(self) -> None:
        """Does nothing: there is nothing to end."""


class Job:
    """A batch that a thread creates.

    Requesting and receiving it costs the training loop 20 µs; a `concurrent.futures.Future` with its executor took 90
    µs, 2 % of a step of the smallest recipe.
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
        """Creates the batch in the current thread."""
        try:
            if self.is_cancelled:
                raise CancelledError
            self._made = self._maker.make(self._planner(self._position))
        except BaseException as error:
            self._error = error
        finally:
            self._ready.release()

    def result(self) -> Made:
        """Waits for the batch and returns it. Raises the exception of its creation."""
        with self._ready:
            if self._error is not None:
                raise self._error
            assert self._made is not None
            return self._made

    def cancel(self) -> None:
        """Cancels the request, unless the batch has been started."""
        self.is_cancelled = True


class Threads:
    """`workers` threads, for data that is prepared quickly or outside of Python's GIL."""

    kind = "thread"
    killed = 0

    def __init__(self, workers: int, ahead: int = 2) -> None:
        self.workers, self.ahead = workers, ahead * workers
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        weakref.finalize(self, _end, self._jobs, self._threads)

    def register(self, maker: BatchMaker, planner: Planner) -> Callable[[Position], Job]:
        """Returns the function that requests a batch of `maker`."""

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
        """Ends the threads after their current batch; later requests start new ones."""
        _end(self._jobs, self._threads)


def _work(jobs: SimpleQueue[Job | None]) -> None:
    """The main function of a thread. It has no reference to its workers, so that they can be garbage-collected."""
    while (job := jobs.get()) is not None:
        job.run()
        del job  # not kept until the next one arrives


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
