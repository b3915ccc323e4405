"""Runs one job at a time in a thread; its result is returned in the thread that submitted it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Background(Generic[Result]):
    """Runs jobs in a background thread.

    Order of calls: start → [finished, …] → wait → start → … ; `start` waits for the previous job.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._results: deque[Result] = deque()
        self._error: BaseException | None = None

    def start(self, job: Callable[[], Result]) -> None:
        """Starts a job after the previous one has ended; raises the exception of the previous job."""
        self.wait()
        self._thread = threading.Thread(target=self._run, args=(job,), name=self._name)
        self._thread.start()

    def wait(self) -> None:
        """Waits until no job runs; raises the exception of a job."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._raise()

    def finished(self) -> list[Result]:
        """Results of the jobs since the last call; raises the exception of a job."""
        if self._thread is not None and not self._thread.is_alive():
            self.wait()
        self._raise()
        return [self._results.popleft() for _ in range(len(self._results))]

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self, job: Callable[[], Result]) -> None:
        try:
            result = job()
            self._results.append(result)
        except BaseException as error:
            self._error = error


def processor_seconds() -> float:
    """Processor time of the calling thread so far."""
    return time.thread_time()
