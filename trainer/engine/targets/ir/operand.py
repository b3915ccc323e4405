"""The access pattern of a loop operand along the innermost axis, which decides how a kernel reads or writes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainer.engine.graph.dtypes import DType

Inner = Literal["contiguous", "broadcast", "strided"]


def inner_of(stride: int) -> Inner:
    """Returns the access pattern of an operand with this stride along the innermost dimension."""
    return "contiguous" if stride == 1 else "broadcast" if stride == 0 else "strided"


@dataclass(frozen=True, slots=True)
class Operand:
    """An array that a kernel reads or writes: its dtype and its access pattern along the innermost dimension.

    `inner` is exact: "contiguous" = stride 1, "broadcast" = stride 0, "strided" = the stride argument.
    An `index` operand has no memory: its value is int64 `base + sum(i_d * stride_d)`; its pointer word holds the base,
    or the bits of a floating-point number, for which all strides are 0.
    """

    dtype: DType
    inner: Inner
    index: bool = False
