"""Type promotion by the Python array API standard.

Integers are promoted to the narrowest integer dtype that holds both, floats to the wider one (bfloat16 and float16 to
float32), a float and a complex number to a complex one. Other kinds are not mixed implicitly: convert with `astype` to
combine an integer with a float, or a bool with a number. A Python number takes the dtype of the array operand, if that
is of its kind or of a wider one; a Python complex and a floating-point array give a complex result.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import DTypeError, refusal

Number = bool | int | float | complex
_KINDS: dict[type, tuple[str, ...]] = {
    bool: ("bool", "uint", "int", "float", "complex"),
    int: ("uint", "int", "float", "complex"),
    float: ("float", "complex"),
    complex: ("complex",),
}

DEFAULT: dict[type, DType] = {
    bool: dtypes.bool_,
    int: dtypes.int64,
    float: dtypes.float32,
    complex: dtypes.complex64,
}
"""The dtype of a Python number without an array operand."""


def default_of(value: Number) -> DType:
    """The dtype of a Python number without an array operand, including subclasses."""
    return DEFAULT.get(type(value)) or next(dtype for kind, dtype in DEFAULT.items() if isinstance(value, kind))


@functools.cache
def _meeting(a: DType, b: DType) -> DType | None:
    """The promoted dtype of two dtypes, or None."""
    kinds = {a.kind, b.kind}
    if len(kinds) == 1:
        return dtypes.float32 if a.is_half and b.is_half and a is not b else max(a, b, key=lambda each: each.itemsize)
    if kinds == {"int", "uint"}:
        signed, unsigned = (a, b) if a.kind == "int" else (b, a)
        return signed if signed.itemsize > unsigned.itemsize else dtypes.BY_NAME.get(f"int{16 * unsigned.itemsize}")
    if kinds == {"float", "complex"}:
        return max(a.with_imaginary, b.with_imaginary, key=lambda each: each.itemsize)
    return None


def promoted(operation: str, found: Sequence[DType]) -> DType:
    """The promoted dtype of arrays of dtypes `found`.

    Raises:
        TrainerError: they are of different kinds, or include both uint64 and a signed integer.
    """
    widest = found[0]
    for dtype in found[1:]:
        if dtype is widest:
            continue
        meeting = _meeting(widest, dtype)
        if meeting is None:
            raise refusal(
                operation,
                "no integer dtype holds both"
                if widest.is_integer and dtype.is_integer
                else "dtypes of different kinds don't mix",
                found=" and ".join(map(repr, found)),
                expected="dtypes of one kind: bool, integer or floating-point",
                hint="Convert one of them with `.astype(...)`.",
                kind=DTypeError,
            )
        widest = meeting
    return widest


def check_scalar(operation: str, value: Number, dtype: DType) -> None:
    """Raises unless the Python number `value` can be combined with an array of `dtype`."""
    kinds = _KINDS.get(type(value)) or next(found for kind, found in _KINDS.items() if isinstance(value, kind))
    if dtype.kind not in kinds:
        raise refusal(
            operation,
            f"a Python {type(value).__name__} can't be combined with {dtype}",
            found=repr(value),
            expected="a number of the array's kind",
            hint="Convert the array with `.astype(...)`.",
            kind=DTypeError,
        )


def beside(operation: str, value: Number, dtype: DType) -> DType:
    """The promoted dtype of the Python number `value` and an array of `dtype`; raises like `check_scalar`."""
    if isinstance(value, complex) and dtype.is_float:
        return dtype.with_imaginary
    check_scalar(operation, value, dtype)
    return dtype


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The promoted dtype of arrays, dtypes and Python numbers."""
    given = arrays_and_dtypes
    strong = [operand if isinstance(operand, DType) else operand.dtype for operand in given if _is_strong(operand)]
    weak = [operand for operand in given if not _is_strong(operand)]
    if not strong:
        strong = [max(map(default_of, weak), key=dtypes.ALL.index)]
    dtype = promoted("result_type", strong)
    for value in weak:
        dtype = beside("result_type", value, dtype)
    return dtype


def _is_strong(operand: Any) -> bool:
    return not isinstance(operand, bool | int | float | complex)


def can_cast(from_: DType | Any, to: DType, /) -> bool:
    """Whether promotion can convert dtype `from_` (or that of an array) to `to`."""
    return _meeting(from_ if isinstance(from_, DType) else from_.dtype, to) is to
