"""Run an iterator ahead of its consumer in a thread."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Value = TypeVar("Value")

_END = object()


class Prefetch(Generic[Value]):
    """Iterates over `values` while a thread prepares the next `depth` of them.

    Ends exactly where `values` ends; an exception of theirs is raised here, after the values before it.
    `close()` (or leaving the `with` block) ends the thread early. `waited` is the time in seconds that the consumer
    spent waiting for a value.
    """

    def __init__(
        self, values: Iterator[Value], depth: int = 2, *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.waited = 0.0
        self._clock = clock
        self._queue: queue.Queue[tuple[object, BaseException | None]] = queue.Queue(depth)
        self._closed = threading.Event()
        self._finished = False
        # The thread holds the queue and not `self`, so that a consumer who lets go of this object ends the thread.
        self._thread = threading.Thread(
            target=_produce, args=(values, self._queue, self._closed), name="prefetch", daemon=True
        )
        self._thread.start()

    def __iter__(self) -> Prefetch[Value]:
        return self

    def __next__(self) -> Value:
        if self._finished:
            raise StopIteration
        started = self._clock()
        value, error = self._queue.get()
        self.waited += self._clock() - started
        if error is not None or value is _END:
            self.close()
            if error is not None:
                raise error
            raise StopIteration
        return value  # type: ignore[return-value]

    def close(self) -> None:
        """End the thread and drop what it prepared."""
        self._finished = True
        self._closed.set()
        while self._thread.is_alive():
            try:
                self._queue.get_nowait()
            except queue.Empty:
                self._thread.join(0.01)

    def __enter__(self) -> Prefetch[Value]:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._closed.set()


def _produce(values: Iterator[object], prepared: queue.Queue, closed: threading.Event) -> None:
    def offer(value: object, error: BaseException | None) -> bool:
        while not closed.is_set():
            try:
                prepared.put((value, error), timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    try:
        for value in values:
            if not offer(value, None):
                return
    except BaseException as error:  # whatever it is belongs to the consumer: it is raised there
        offer(None, error)
    else:
        offer(_END, None)
