"""The order of accesses within a block: vector clocks of its warps, which barriers join (as FastTrack, PLDI 2009)."""

from __future__ import annotations

import numpy as np

WARP = 32


class Clocks:
    """For `blocks` blocks of `threads` threads, numbered from `blocks_in_grid`, one clock for each warp.

    `now[b, v, w]` is the last time of warp w that warp v of block b knows of; its own time is `now[b, v, v]`.
    """

    def __init__(self, numbers: np.ndarray, threads: int) -> None:
        self.numbers, self.size = numbers, threads
        self.warps = -(-threads // WARP)
        lanes = np.arange(len(numbers) * threads)
        self.block_of, self.thread_of = lanes // threads, lanes % threads
        self.warp_of = self.thread_of // WARP
        self.first = numbers[self.block_of].astype(np.int64) * threads
        """The number, across the grid, of the first thread of each lane's block."""
        self.thread_numbers = self.first + self.thread_of
        self.now = np.zeros((len(numbers), self.warps, self.warps), np.int32)
        self._own = np.arange(self.warps)
        self.now[:, self._own, self._own] = 1

    def threads(self, lanes: np.ndarray) -> np.ndarray:
        return self.thread_numbers[lanes]

    def stamps(self, lanes: np.ndarray) -> np.ndarray:
        warps = self.warp_of[lanes]
        return self.now[self.block_of[lanes], warps, warps]

    def is_before(self, threads: np.ndarray, stamps: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        blocks, warps = self.block_of[lanes], self.warp_of[lanes]
        others = threads % self.size // WARP
        known = self.now[blocks, warps, others] >= stamps + (others == warps)
        return known & (threads // self.size == self.numbers[blocks])

    def blocks(self, threads: np.ndarray) -> np.ndarray:
        return threads // self.size

    def describe(self, thread: int) -> str:
        return f"thread {thread % self.size} of block {thread // self.size}"

    def join_all(self) -> None:
        """Every warp of every block passes a barrier."""
        self.now[:] = self.now.max(axis=1)[:, None, :]
        self.now[:, self._own, self._own] += 1

    def arrive(self, block: int, warps: np.ndarray) -> np.ndarray:
        """What warps know when they arrive at a barrier; what they do later is after it."""
        known = self.now[block, warps].max(axis=0)
        self.now[block, warps, warps] += 1
        return known

    def leave(self, block: int, warps: np.ndarray, known: np.ndarray) -> None:
        """Warps that waited at a barrier know what all knew that arrived."""
        self.now[block, warps] = np.maximum(self.now[block, warps], known)

    def tick(self, blocks: np.ndarray, warps: np.ndarray) -> None:
        """Lanes of these warps have waited for each other."""
        self.now[blocks, warps, warps] += 1
