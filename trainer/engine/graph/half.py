"""16-bit floats: their form in memory (bfloat16 as uint16 bit patterns), and in computations (float32)."""

from __future__ import annotations

import numpy as np

from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType


def to_bits(array: np.ndarray) -> np.ndarray:
    """The uint16 bit patterns of a float `array` rounded to bfloat16: the upper half of a float32, ties to even."""
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(array, np.float32)
    bits = single.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    quiet = (bits >> 16) | 0x40
    return np.where(np.isnan(single), quiet, rounded).astype(np.uint16).reshape(np.shape(array))


def from_bits(bits: np.ndarray) -> np.ndarray:
    """The exact float32 values of bfloat16 bit patterns (uint16), for arrays of any rank, 0 included."""
    return np.asarray(bits.astype(np.uint32) << 16).view(np.float32)


def stored(values: np.ndarray, dtype: DType) -> np.ndarray:
    """`values` in the memory format of a 16-bit `dtype`; unchanged for other dtypes."""
    if dtype is dtypes.bfloat16:
        return to_bits(values)
    if dtype is dtypes.float16:
        with np.errstate(over="ignore"):
            return values.astype(np.float32, copy=False).astype(np.float16)
    return values


def widened(memory: np.ndarray, dtype: DType) -> np.ndarray:
    """The exact float32 values in memory of a 16-bit `dtype`; memory of other dtypes is returned unchanged."""
    if dtype is dtypes.bfloat16:
        return from_bits(memory)
    return memory.astype(np.float32) if dtype is dtypes.float16 else memory


def rounded(values: np.ndarray, dtype: DType) -> np.ndarray:
    """`values` rounded to `dtype`; as float32 values for a 16-bit dtype."""
    return widened(stored(values, dtype), dtype) if dtype.is_half else values.astype(dtype.storage, copy=False)
