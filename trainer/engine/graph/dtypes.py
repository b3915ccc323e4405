"""The element types and their promotion, after the Python array API standard.

bfloat16 and float16 are for storing: operations on them compute in float32 and round to nearest even (`half.py`).
NumPy has no bfloat16, so its arrays are carried as ``uint16`` bit patterns (`DType.storage`).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np

Kind = Literal["bool", "uint", "int", "float"]


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type, of which there is one object each. `storage` is the NumPy type of its memory."""

    name: str
    kind: Kind
    itemsize: int
    storage: np.dtype

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return "bool_" if self.name == "bool" else self.name  # copies and pickles are the module's object

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_half(self) -> bool:
        """Whether it is a float of 16 bits, which operations widen to float32."""
        return self.kind == "float" and self.itemsize == 2


bool_ = DType("bool", "bool", 1, np.dtype(np.bool_))
uint8 = DType("uint8", "uint", 1, np.dtype(np.uint8))
int8 = DType("int8", "int", 1, np.dtype(np.int8))
"""Of kernels alone, for now: no tensor has it."""

int32 = DType("int32", "int", 4, np.dtype(np.int32))
int64 = DType("int64", "int", 8, np.dtype(np.int64))
bfloat16 = DType("bfloat16", "float", 2, np.dtype(np.uint16))
float16 = DType("float16", "float", 2, np.dtype(np.float16))
float32 = DType("float32", "float", 4, np.dtype(np.float32))
float64 = DType("float64", "float", 8, np.dtype(np.float64))

ALL: tuple[DType, ...] = (bool_, uint8, int32, int64, bfloat16, float16, float32, float64)
BY_NAME: dict[str, DType] = {dtype.name: dtype for dtype in ALL}


@functools.lru_cache(maxsize=256)  # the name of a NumPy dtype takes over a microsecond
def from_numpy(dtype: np.dtype) -> DType | None:
    """The element type that stores a NumPy `dtype`, or None where there is none."""
    return BY_NAME.get(np.dtype(dtype).name)
