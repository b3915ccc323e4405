"""The standard's inspection functions: dtypes, their limits, devices and capabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer.engine import targets
from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import check_dtype, refusal
from trainer.engine.promotion import DEFAULT

KINDS: dict[str, tuple[DType, ...]] = {
    "bool": (dtypes.bool_,),
    "signed integer": dtypes.SIGNED,
    "unsigned integer": dtypes.UNSIGNED,
    "integral": (*dtypes.SIGNED, *dtypes.UNSIGNED),
    "real floating": dtypes.FLOATS,
    "complex floating": dtypes.COMPLEX,
    "numeric": (*dtypes.SIGNED, *dtypes.UNSIGNED, *dtypes.FLOATS, *dtypes.COMPLEX),
}
"""Dtypes by the standard's name of their kind."""


@dataclass(frozen=True, slots=True)
class FloatLimits:
    """Limits of a floating-point dtype, or of the parts of a complex one; see `finfo`."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class IntegerLimits:
    """Limits of an integer dtype; see `iinfo`."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Any, /) -> FloatLimits:
    """Bits, epsilon, largest, smallest and smallest normal number of a floating-point dtype, or of an array's.

    A complex dtype has the limits of its parts. An array may have any shape.

    Raises:
        TrainerError: the dtype is neither floating-point nor complex.
    """
    dtype = _dtype_of("finfo", type).part
    if not dtype.is_float:
        raise refusal("finfo", "not a floating-point dtype", found=repr(dtype), expected="a float or a complex dtype")
    if dtype is dtypes.bfloat16:
        largest = float(np.finfo(np.float32).max) * (2 - 2.0**-7) / (2 - 2.0**-23)
        return FloatLimits(16, 2.0**-7, largest, -largest, 2.0**-126, dtype)
    found = np.finfo(dtype.storage)
    eps, high, low, normal = (float(number) for number in (found.eps, found.max, found.min, found.smallest_normal))
    return FloatLimits(found.bits, eps, high, low, normal, dtype)


def iinfo(type: Any, /) -> IntegerLimits:
    """Bits, largest and smallest number of an integer dtype, or of an array's. An array may have any shape.

    Raises:
        TrainerError: the dtype is not an integer dtype.
    """
    dtype = _dtype_of("iinfo", type)
    if not dtype.is_integer:
        raise refusal("iinfo", "not an integer dtype", found=repr(dtype), expected="an integer dtype")
    found = np.iinfo(dtype.storage)
    return IntegerLimits(found.bits, int(found.max), int(found.min), dtype)


def isdtype(dtype: DType, kind: DType | str | tuple[DType | str, ...]) -> bool:
    """Whether `dtype` is `kind`: a dtype, one of the standard's names such as "real floating", or any of a tuple."""
    check_dtype("isdtype", dtype)
    return dtype in _of_kind("isdtype", kind)


def _dtype_of(operation: str, value: Any) -> DType:
    dtype = value if isinstance(value, DType) else getattr(value, "dtype", value)
    check_dtype(operation, dtype)
    return dtype


def _of_kind(operation: str, kind: DType | str | tuple[DType | str, ...]) -> tuple[DType, ...]:
    found: list[DType] = []
    for each in kind if isinstance(kind, tuple) else (kind,):
        if isinstance(each, str) and each not in KINDS:
            raise refusal(operation, "unknown kind of dtype", found=repr(each), expected=", ".join(map(repr, KINDS)))
        found += KINDS[each] if isinstance(each, str) else [each]
    return tuple(found)


class NamespaceInfo:
    """The namespace's capabilities; see `__array_namespace_info__`."""

    def capabilities(self) -> dict[str, Any]:
        """Boolean indexing and data-dependent shapes (only outside of traced steps); the maximum number of axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        """The default device."""
        return targets.current().name

    def devices(self) -> list[str]:
        """The available devices; `engine.device(...)` selects others, which use the same memory."""
        return [self.default_device()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The default dtypes of results."""
        integer = DEFAULT[int]
        return {
            "real floating": DEFAULT[float],
            "complex floating": DEFAULT[complex],
            "integral": integer,
            "indexing": integer,
        }

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """The standard's dtypes by name, only those of `kind` if given; 16-bit floats are not included."""
        members = dtypes.ALL if kind is None else _of_kind("dtypes", kind)
        return {dtype.name: dtype for dtype in dtypes.ALL if dtype in members and not dtype.is_half}


def __array_namespace_info__() -> NamespaceInfo:
    """Capabilities, devices and dtypes, in the standard's form."""
    return NamespaceInfo()
