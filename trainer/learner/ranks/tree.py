"""Sums over ranks along one balanced tree, the lower operand first: (r0 + r1) + (r2 + r3).

Small arrays are exchanged whole, with one partner after the other, at distances 1, 2, 4, …. Large arrays are halved
(Rabenseifner 2004): each rank keeps one half, adds the partner's part to it, and repeats this at twice the distance;
the finished parts then go back the same way. Both methods add the same operands in the same order as the tree, whatever
the number of ranks: MPI's own sums guarantee no order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Protocol

import numpy as np

SMALL_BYTES = 1 << 16
"""Arrays up to this size are exchanged whole: fewer messages take less time than fewer bytes."""

IsDone = Callable[[], bool]
Steps = Iterator[IsDone]
"""The steps of a sum: each yields a function that says whether the messages for the next step have arrived."""


class Transport(Protocol):
    """Sends and receives between ranks."""

    rank: int
    size: int

    def exchange(self, partner: int, given: np.ndarray, taken: np.ndarray, tag: int) -> IsDone:
        """Starts to send the contiguous array `given` to `partner`, and to receive the partner's array into `taken`."""


class Sum:
    """A sum over ranks in progress. `is_done`: whether the arrays contain the result."""

    def __init__(self, steps: Steps) -> None:
        self._steps, self.is_done = steps, False
        self._is_through: IsDone = lambda: True
        self.advance()

    def advance(self) -> bool:
        """Runs all steps whose messages have arrived; returns whether the sum is complete."""
        while not self.is_done and self._is_through():
            following = next(self._steps, None)
            if following is None:
                self.is_done = True
            else:
                self._is_through = following
        return self.is_done


def steps_of(transport: Transport, arrays: Sequence[np.ndarray], tag: int) -> Steps:
    """Replaces flat arrays, with the same shapes and dtypes on all ranks, by their sums. The number of ranks is a power
    of two. Concurrent sums need different tags.
    """
    small: dict[np.dtype, list[np.ndarray]] = defaultdict(list)
    for array in arrays:
        if array.nbytes > SMALL_BYTES:
            yield from _halve(transport, array, tag)
        elif array.size:
            small[array.dtype].append(array)
    for together in small.values():
        joined = np.concatenate(together)
        yield from (_double if joined.nbytes <= SMALL_BYTES else _halve)(transport, joined, tag)
        start = 0
        for array in together:
            array[:] = joined[start : start + array.size]
            start += array.size


def gather_steps_of(transport: Transport, arrays: Sequence[np.ndarray], owners: Sequence[int], tag: int) -> Steps:
    """Replaces each flat array by that of its owner rank: at distances 1, 2, 4, … two ranks exchange what they have.

    The number of ranks is a power of two. An array is sent once to each rank.
    """
    nothing = np.empty(0, np.uint8)
    distance = 1
    while distance < transport.size:
        partner = transport.rank ^ distance
        given, taken = (
            [array for array, owner in zip(arrays, owners, strict=True) if owner // distance == rank // distance]
            for rank in (transport.rank, partner)
        )
        for one, other in zip_longest(given, taken, fillvalue=nothing):
            yield transport.exchange(partner, one, other, tag)
        distance *= 2


def _double(transport: Transport, array: np.ndarray, tag: int) -> Steps:
    other = np.empty_like(array)
    distance = 1
    while distance < transport.size:
        partner = transport.rank ^ distance
        yield transport.exchange(partner, array, other, tag)
        _add(array, other, is_first=transport.rank < partner)
        distance *= 2


def _halve(transport: Transport, array: np.ndarray, tag: int) -> Steps:
    spare = np.empty((array.size + 1) // 2, array.dtype)
    low, high = 0, array.size
    halves: list[tuple[int, int, int]] = []
    distance = 1
    while distance < transport.size:
        partner, middle = transport.rank ^ distance, (low + high) // 2
        keeps_low = transport.rank < partner
        own, given = ((low, middle), (middle, high)) if keeps_low else ((middle, high), (low, middle))
        halves.append((partner, *given))
        taken = spare[: own[1] - own[0]]
        yield transport.exchange(partner, array[given[0] : given[1]], taken, tag)
        _add(array[own[0] : own[1]], taken, is_first=keeps_low)
        low, high = own
        distance *= 2
    for partner, first, last in reversed(halves):
        yield transport.exchange(partner, array[low:high], array[first:last], tag)
        low, high = min(low, first), max(high, last)


def _add(array: np.ndarray, other: np.ndarray, *, is_first: bool) -> None:
    """Writes array + other, or other + array, to `array`."""
    np.add(array, other, out=array) if is_first else np.add(other, array, out=array)
