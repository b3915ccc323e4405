"""Requests values before they are needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")
Result = TypeVar("Result", covariant=True)


class Pending(Protocol[Result]):
    """A requested value."""

    def result(self) -> Result:
        """Waits for the value and returns it."""

    def cancel(self) -> object:
        """Cancels the request."""


class Prefetch(Generic[Key, Value]):
    """Iterates over ask(key).result() for each of `keys`, in order; always requests the next `ahead` values.

    `ahead` may be changed at any time. Larger values are reached gradually, with two requests per returned value.

    An exception of a result is raised here after the values before it, and ends the iteration. `close()` cancels all
    requests.
    """

    def __init__(self, ask: Callable[[Key], Pending[Value]], keys: Iterable[Key], ahead: int) -> None:
        self._ask, self._keys, self.ahead = ask, iter(keys), ahead
        self._pending: deque[Pending[Value]] = deque()
        self._fill(ahead)

    def __iter__(self) -> Iterator[Value]:
        return self

    def __next__(self) -> Value:
        try:
            self._fill(min(self.ahead + 1, len(self._pending) + 2))
            if not self._pending:
                raise StopIteration
            return self._pending.popleft().result()
        except BaseException:
            self.close()
            raise

    def _fill(self, count: int) -> None:
        while len(self._pending) < count:
            for key in self._keys:
                self._pending.append(self._ask(key))
                break
            else:
                return

    def close(self) -> None:
        """Cancels all requests."""
        self._keys = iter(())
        while self._pending:
            self._pending.popleft().cancel()

    def __del__(self) -> None:
        self.close()
