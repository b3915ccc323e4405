"""Which dtype operands meet in, by the Python array API standard.

Dtypes of one kind promote to the wider one, bfloat16 and float16 to float32. Kinds never mix by themselves: where an
integer meets a float, or a bool a number, the user says what is meant with `astype`. A Python number takes the dtype of
the array beside it, if it is of its kind or of a wider one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import refusal

_RANK = {dtype.name: rank for rank, dtype in enumerate(dtypes.ALL)}  # within a kind, later is wider
_FAMILY = {"bool": "bool", "uint": "integer", "int": "integer", "float": "float"}

DEFAULT = {bool: dtypes.bool_, int: dtypes.int64, float: dtypes.float32}
"""The dtype of a Python number that stands alone."""


def promoted(operation: str, found: Sequence[DType]) -> DType:
    """The dtype in which arrays of dtypes `found` meet.

    Raises:
        TrainerError: they are of different kinds.
    """
    widest = found[0]
    for dtype in found[1:]:
        if dtype is widest:
            continue
        if _FAMILY[dtype.kind] != _FAMILY[widest.kind]:
            raise refusal(
                operation,
                "dtypes of different kinds don't mix",
                found=" and ".join(map(repr, found)),
                expected="dtypes of one kind: bool, integer or floating-point",
                hint="Convert one of them with `.astype(...)`.",
            )
        if dtype.is_half and widest.is_half:
            widest = dtypes.float32  # neither holds the other's values
        else:
            widest = max(dtype, widest, key=lambda candidate: _RANK[candidate.name])
    return widest


def check_scalar(operation: str, value: bool | int | float, dtype: DType) -> None:
    """Raise unless the Python number `value` may stand beside an array of `dtype`."""
    fits = dtype.kind == "float" or isinstance(value, bool) or (isinstance(value, int) and dtype.kind != "bool")
    if not fits:
        raise refusal(
            operation,
            f"a Python {type(value).__name__} doesn't fit beside {dtype}",
            found=repr(value),
            expected="a number of the array's kind",
            hint="Convert the array with `.astype(...)`.",
        )


def result_type(*operands: Any) -> DType:
    """The dtype in which arrays, dtypes and Python numbers meet."""
    strong = [operand if isinstance(operand, DType) else operand.dtype for operand in operands if _is_strong(operand)]
    weak = [operand for operand in operands if not _is_strong(operand)]
    if not strong:
        strong = [max((DEFAULT[type(value)] for value in weak), key=lambda dtype: _RANK[dtype.name])]
    dtype = promoted("result_type", strong)
    for value in weak:
        check_scalar("result_type", value, dtype)
    return dtype


def _is_strong(operand: Any) -> bool:
    return not isinstance(operand, bool | int | float)


def can_cast(source: DType, target: DType) -> bool:
    """Whether promotion may take values of dtype `source` to `target`."""
    if _FAMILY[source.kind] != _FAMILY[target.kind]:
        return False
    return promoted("can_cast", [source, target]) == target
