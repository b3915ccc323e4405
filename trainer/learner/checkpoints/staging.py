"""A copy of the states in memory of its own, which the writer takes its time over while training goes on.

The loop waits for this copy alone: states are copied as they lie, without being transposed, into memory whose pages
are there already (a first touch costs four times the copy).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from trainer.engine import DType, State
from trainer.learner.checkpoints.format import Array

ALIGNMENT = 64

StateGroups = Mapping[str, Mapping[str, State]]
"""By file stem, states by name."""


class Staging:
    """One copy at a time: the arrays of `take` hold until the next."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def prepare(self, nbytes: int) -> None:
        """Have so many bytes at hand, their pages touched."""
        if self._memory.size < nbytes:
            self._memory = np.empty(0, np.uint8)  # the old goes before the new comes
            self._memory = np.empty(nbytes, np.uint8)
            self._memory[::4096] = 0

    def take(self, groups: StateGroups) -> Callable[[], dict[str, dict[str, Array]]]:
        """Copy the values of all states. Gives a function that returns them as arrays: on this memory, or of an
        asynchronous device, which copies them in its own memory first, once they have come.
        """
        self.prepare(bytes_of(groups))
        start = 0
        copies: dict[str, dict[str, tuple[Callable[[], np.ndarray], DType]]] = {}
        for stem, group in groups.items():
            copies[stem] = {}
            for name, state in group.items():
                size = state.storage.nbytes
                memory = self._memory[start : start + size].view(state.dtype.storage)
                copies[stem][name] = state.storage.copied_to(memory), state.dtype
                start += _aligned(size)
        return lambda: {
            stem: {name: Array(copy(), dtype) for name, (copy, dtype) in group.items()}
            for stem, group in copies.items()
        }


def bytes_of(groups: StateGroups) -> int:
    """What `Staging.take` needs for these states."""
    return sum(_aligned(state.storage.nbytes) for group in groups.values() for state in group.values()) + ALIGNMENT


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
