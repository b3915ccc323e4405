"""What a program says of arithmetic, to any processor: plain, hashable data that says what is computed, never how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from trainer.engine.graph.dtypes import DType


@dataclass(frozen=True, slots=True)
class Instruction:
    """One step of a body in static single assignment: its value is named by its position in the list.

    `operation` is an element-wise primitive's name, or "load" (`attributes` = (operand number,)), "constant"
    (`attributes` = (Python value,)). `arguments` are positions of earlier instructions. Each rounds to `dtype`.
    """

    operation: str
    arguments: tuple[int, ...]
    dtype: DType
    attributes: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Reduction:
    """How results are combined over the reduced dimension, which is a single collapsed one of length T.

    `operations` has one entry for each output: "sum", "max", "min", "prod", "argmax", "argmin", "mean", "deviations".
    "row": the reduced dimension is the innermost loop dimension, vectorised over t.
    "column": the reduced dimension is the last but one, the innermost is kept, vectorised over kept elements.
    The bits are the same for both. Order of a sum (class "exact"): block b holds t in [b*block, (b+1)*block); within it
    16 lanes, lane l adds the terms with t % 16 == l in ascending t, starting from 0; lanes combine as
    (l, l+8), (l, l+4), (l, l+2), (l, l+1). Each block writes one partial at output[b]; a second record combines them.
    "mean" and "deviations" (the sum of squared distances from the mean) of a block of n elements, with p the mean of
    its middle 16, from (n - 16) // 2 on, or of all fewer (all sums in this order), s1 and s2 the sums of x - p and
    (x - p)²: p + s1/n, max(0, s2 - s1·(s1/n)).
    """

    operations: tuple[str, ...]
    orientation: Literal["row", "column"]
