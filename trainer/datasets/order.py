"""The order of the items in an epoch, and the random numbers of an item.

Random numbers are a pure function of the seed, the epoch and the item's index, so they are the same for any number of
workers, any batch size and after resuming.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ORDER, AUGMENTATION, SPLITS, SAMPLES, BATCHES, CLASSES = range(6)
"""The streams of random bits, by use."""

_LOW = 0xFFFFFFFF


def permutation(length: int, *, seed: int, epoch: int, stream: int = ORDER) -> np.ndarray:
    """int64 [length]: a permutation keyed by (seed, epoch, stream)."""
    bits = item_bits(seed, epoch, np.arange(length), 2, stream=stream).astype(np.uint64)
    return np.argsort((bits[:, 0] << np.uint64(32)) | bits[:, 1], kind="stable")


@dataclass(frozen=True, slots=True)
class Draws:
    """The random numbers of items in one epoch, keyed by (seed, epoch, item); repeated calls return the same
    numbers.
    """

    seed: int
    epoch: int
    indices: np.ndarray

    def uniform(self, count: int, low: float = 0.0, high: float = 1.0) -> np.ndarray:
        """float32 [items, count], uniform in [low, high) in steps of 2**-24 of the interval."""
        bits = item_bits(self.seed, self.epoch, self.indices, count, stream=AUGMENTATION)
        unit = (bits >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
        return unit * np.float32(high - low) + np.float32(low)


def item_bits(seed: int, epoch: int, indices: np.ndarray, words: int, *, stream: int) -> np.ndarray:
    """uint32 [len(indices), words]: random bits of each item in this epoch; different uses have different `stream`s."""
    places = np.asarray(indices, np.uint64)[:, None]
    blocks = np.uint32(stream << 16) | np.arange(-(-words // 4), dtype=np.uint32)
    index = (places & np.uint64(_LOW)).astype(np.uint32), (places >> np.uint64(32)).astype(np.uint32)
    key = np.uint32(seed & _LOW), np.uint32(seed >> 32 & _LOW)
    from trainer.engine.random import philox4x32  # imports the engine, 60 ms that most worker processes don't need

    drawn = np.stack(philox4x32((*index, np.uint32(epoch), blocks), key), axis=-1)
    return drawn.reshape(len(places), 4 * len(blocks))[:, :words]
