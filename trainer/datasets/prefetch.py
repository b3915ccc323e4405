"""Prepare values ahead of their consumer in threads."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Prefetch(Generic[Key, Value]):
    """Iterates over make(key) for each of `keys`, in their order, while `workers` threads prepare the ones that follow.

    Without workers each value is made when it is asked for. What `make` raises is raised here, after the values before
    it, and ends the iteration. `close()` (or leaving the `with` block) ends the threads early. `waited` is the time in
    seconds that the consumer spent waiting for values.
    """

    def __init__(
        self,
        make: Callable[[Key], Value],
        keys: Iterable[Key],
        *,
        workers: int = 1,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.waited = 0.0
        self._make, self._keys, self._clock = make, iter(keys), clock
        self._threads = ThreadPoolExecutor(workers, "prefetch") if workers else None
        self._under_way: deque[Future[Value]] = deque()
        for _ in range(workers + 1 if workers else 0):
            self._start_one()

    def __iter__(self) -> Iterator[Value]:
        return self

    def __next__(self) -> Value:
        started = self._clock()
        try:
            value = self._next()
        except BaseException:
            self.close()
            raise
        finally:
            self.waited += self._clock() - started
        return value

    def _next(self) -> Value:
        if self._threads is None:
            return self._make(next(self._keys))
        if not self._under_way:
            raise StopIteration
        value = self._under_way.popleft().result()
        self._start_one()
        return value

    def _start_one(self) -> None:
        assert self._threads is not None
        for key in self._keys:
            self._under_way.append(self._threads.submit(self._make, key))
            return

    def close(self) -> None:
        """End the threads once they are through with what they are on, and drop what was prepared."""
        self._keys = iter(())
        self._under_way.clear()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)

    def __enter__(self) -> Prefetch[Key, Value]:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
