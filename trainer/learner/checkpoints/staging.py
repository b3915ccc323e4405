"""A copy of the states in separate memory, which a thread writes while training continues.

The loop waits only for this copy. States are copied in their memory layout, without transposition, into touched pages
(a first touch costs four times the copy).
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
    """One copy at a time: the arrays of `take` are valid until the next call."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def prepare(self, nbytes: int) -> None:
        """Allocates this many bytes and touches their pages."""
        if self._memory.size < nbytes:
            self._memory = np.empty(0, np.uint8)  # free the old memory before allocating the new
            self._memory = np.empty(nbytes, np.uint8)
            self._memory[::4096] = 0

    def take(self, groups: StateGroups) -> Callable[[], dict[str, dict[str, Array]]]:
        """Copies the values of all states. Returns a function that returns them as arrays: in this memory, or, on an
        asynchronous device, in memory of the device, once complete.
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
    """The bytes that `Staging.take` needs for these states."""
    return sum(_aligned(state.storage.nbytes) for group in groups.values() for state in group.values()) + ALIGNMENT


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
