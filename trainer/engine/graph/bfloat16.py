"""bfloat16 as bit patterns: the upper half of a float32, rounded to nearest, ties to even."""

from __future__ import annotations

import numpy as np


def to_bits(array: np.ndarray) -> np.ndarray:
    """The uint16 bit patterns of a float `array` rounded to bfloat16 (by way of float32); NaN stays NaN."""
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(array, np.float32)
    bits = single.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    quiet = (bits >> 16) | 0x40
    return np.where(np.isnan(single), quiet, rounded).astype(np.uint16).reshape(np.shape(array))


def from_bits(bits: np.ndarray) -> np.ndarray:
    """The float32 values of uint16 bit patterns, an array of no axes too; exact."""
    return np.asarray(bits.astype(np.uint32) << 16).view(np.float32)


def rounded(array: np.ndarray) -> np.ndarray:
    """A float `array` rounded to bfloat16, as float32."""
    return from_bits(to_bits(array))
