"""Floats of 16 bits: in memory (bfloat16 as uint16 bit patterns), and computed with in float32."""

from __future__ import annotations

import numpy as np

from trainer.engine.graph import bfloat16, dtypes
from trainer.engine.graph.dtypes import DType


def stored(values: np.ndarray, dtype: DType) -> np.ndarray:
    """`values` as memory of a 16-bit `dtype` holds them; those of other dtypes as they are."""
    if dtype is dtypes.bfloat16:
        return bfloat16.to_bits(values)
    if dtype is dtypes.float16:
        with np.errstate(over="ignore"):
            return values.astype(np.float32, copy=False).astype(np.float16)
    return values


def widened(memory: np.ndarray, dtype: DType) -> np.ndarray:
    """What memory of a 16-bit `dtype` holds, as float32; memory of other dtypes as it is. Exact."""
    if dtype is dtypes.bfloat16:
        return bfloat16.from_bits(memory)
    return memory.astype(np.float32) if dtype is dtypes.float16 else memory


def rounded(values: np.ndarray, dtype: DType) -> np.ndarray:
    """`values` rounded to `dtype`; those of a 16-bit one as float32."""
    return widened(stored(values, dtype), dtype) if dtype.is_half else values.astype(dtype.storage, copy=False)
