"""The element types: those of the Python array API standard, bfloat16 and float16.

bfloat16 and float16 are storage formats: operations on them compute in float32 and round to nearest even (`half.py`).
NumPy has no bfloat16, so its arrays hold ``uint16`` bit patterns (`DType.storage`). Complex numbers are pairs of
floats; primitives only move, join and split them (`primitives/complex.py`).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np

Kind = Literal["bool", "uint", "int", "float", "complex"]


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type; there is one object for each. `storage` is the NumPy dtype of its memory."""

    name: str
    kind: Kind
    itemsize: int
    storage: np.dtype

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return "bool_" if self.name == "bool" else self.name  # copies and unpickled dtypes are the module's object

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_complex(self) -> bool:
        return self.kind == "complex"

    @property
    def is_inexact(self) -> bool:
        """Whether gradients pass through its values: a real or complex floating-point dtype."""
        return self.kind in ("float", "complex")

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_half(self) -> bool:
        """Whether it is a 16-bit float, which operations widen to float32."""
        return self.kind == "float" and self.itemsize == 2

    @property
    def part(self) -> DType:
        """The dtype of the real and imaginary parts; a real dtype is its own part."""
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    @property
    def with_imaginary(self) -> DType:
        """The complex dtype whose parts hold its values: complex128 for float64, complex64 for narrower floats."""
        return self if self.is_complex else complex128 if self.itemsize == 8 else complex64


bool_ = DType("bool", "bool", 1, np.dtype(np.bool_))
uint8 = DType("uint8", "uint", 1, np.dtype(np.uint8))
uint16 = DType("uint16", "uint", 2, np.dtype(np.uint16))
uint32 = DType("uint32", "uint", 4, np.dtype(np.uint32))
uint64 = DType("uint64", "uint", 8, np.dtype(np.uint64))
int8 = DType("int8", "int", 1, np.dtype(np.int8))
int16 = DType("int16", "int", 2, np.dtype(np.int16))
int32 = DType("int32", "int", 4, np.dtype(np.int32))
int64 = DType("int64", "int", 8, np.dtype(np.int64))
bfloat16 = DType("bfloat16", "float", 2, np.dtype(np.uint16))
float16 = DType("float16", "float", 2, np.dtype(np.float16))
float32 = DType("float32", "float", 4, np.dtype(np.float32))
float64 = DType("float64", "float", 8, np.dtype(np.float64))
complex64 = DType("complex64", "complex", 8, np.dtype(np.complex64))
complex128 = DType("complex128", "complex", 16, np.dtype(np.complex128))

UNSIGNED: tuple[DType, ...] = (uint8, uint16, uint32, uint64)
SIGNED: tuple[DType, ...] = (int8, int16, int32, int64)
FLOATS: tuple[DType, ...] = (bfloat16, float16, float32, float64)
COMPLEX: tuple[DType, ...] = (complex64, complex128)
ALL: tuple[DType, ...] = (bool_, *UNSIGNED, *SIGNED, *FLOATS, *COMPLEX)
BY_NAME: dict[str, DType] = {dtype.name: dtype for dtype in ALL}


@functools.lru_cache(maxsize=256)  # the name of a NumPy dtype takes over a microsecond
def from_numpy(dtype: np.dtype) -> DType | None:
    """The element type for a NumPy `dtype`, or None if unsupported."""
    return BY_NAME.get(np.dtype(dtype).name)
