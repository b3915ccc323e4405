"""Philox 4x32-10 for data order and augmentation: random numbers as a pure function of (key, counter).

An item's numbers depend on the seed, the epoch and the item's index alone, so they are the same for any
number of workers, any batch size and after resuming.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; constants and test vectors of Random123.
"""

from __future__ import annotations

import numpy as np

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox(counter: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """The random bits at each of `counter` (uint32 [n, 4]) under `key` (two 32-bit words): uint32 [n, 4]."""
    first, second, third, fourth = (counter[:, word].astype(np.uint64) for word in range(4))
    key_low, key_high = key
    for _ in range(_ROUNDS):
        product, other = first * _MULTIPLIERS[0], third * _MULTIPLIERS[1]
        first, second, third, fourth = (
            (other >> _HALF) ^ second ^ np.uint64(key_low),
            other & _LOW,
            (product >> _HALF) ^ fourth ^ np.uint64(key_high),
            product & _LOW,
        )
        key_low, key_high = (key_low + _WEYL[0]) & 0xFFFFFFFF, (key_high + _WEYL[1]) & 0xFFFFFFFF
    return np.stack([first, second, third, fourth], axis=1).astype(np.uint32)


def item_bits(seed: int, epoch: int, indices: np.ndarray, words: int, *, stream: int) -> np.ndarray:
    """uint32 [len(indices), words]: random bits of each item in this epoch; `stream` keeps uses of them apart."""
    indices = np.asarray(indices, np.uint64)
    blocks = -(-words // 4)
    bits = np.empty((len(indices), blocks, 4), np.uint32)
    counter = np.empty((len(indices), 4), np.uint32)
    counter[:, 0] = indices & _LOW
    counter[:, 1] = indices >> _HALF
    counter[:, 2] = epoch
    for block in range(blocks):
        counter[:, 3] = (stream << 16) | block
        bits[:, block] = philox(counter, (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF))
    return bits.reshape(len(indices), blocks * 4)[:, :words]
