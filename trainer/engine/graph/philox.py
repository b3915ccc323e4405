"""Philox4x32-10, a counter-based generator.

Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Words = np.ndarray | np.uint32
"""Unsigned 32-bit words."""

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))
_ROUNDS = 10


def philox4x32(counter: Sequence[Words], key: tuple[Words, Words]) -> tuple[np.ndarray, ...]:
    """The four output words for four counter words and two key words, arrays of uint32 that broadcast."""
    c0, c1, c2, c3 = (np.asarray(word, np.uint32) for word in counter)
    k0, k1 = (np.asarray(word, np.uint32) for word in key)
    with np.errstate(over="ignore"):
        for _ in range(_ROUNDS):
            high0, low0 = _multiply(c0, _MULTIPLIERS[0])
            high1, low1 = _multiply(c2, _MULTIPLIERS[1])
            c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
            k0, k1 = k0 + _WEYL[0], k1 + _WEYL[1]
    return c0, c1, c2, c3


def _multiply(word: np.ndarray, multiplier: np.uint64) -> tuple[np.ndarray, np.ndarray]:
    product = word.astype(np.uint64) * multiplier
    return (product >> np.uint64(32)).astype(np.uint32), product.astype(np.uint32)


def random_bits(key: np.ndarray, counter: np.ndarray, shape: tuple[int, ...], word: int) -> np.ndarray:
    """int32 random bits of `shape`, as the primitive `random_bits` defines them. `key` and `counter` are int32 [2]."""
    index = np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.uint64).reshape(shape)
    low, high = (index & np.uint64(0xFFFFFFFF)).astype(np.uint32), (index >> np.uint64(32)).astype(np.uint32)
    step, key_words = np.asarray(counter, np.int32).view(np.uint32), np.asarray(key, np.int32).view(np.uint32)
    return np.asarray(philox4x32((low, high, step[0], step[1]), (key_words[0], key_words[1]))[word]).view(np.int32)
