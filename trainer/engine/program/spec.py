"""A program's arithmetic, for any processor: plain, hashable data that describes the computation, not its
implementation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from trainer.engine.graph.dtypes import DType

Addressing = Literal["same", "channel", "scalar"]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One step of a body in static single assignment form: its value is named by its position in the list.

    `operation` is an element-wise primitive's name, or "load" (`attributes` = (operand number,)), "constant"
    (`attributes` = (Python value,)). `arguments` are positions of earlier instructions. Each one rounds to `dtype`.
    """

    operation: str
    arguments: tuple[int, ...]
    dtype: DType
    attributes: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Reduction:
    """How results are combined over the reduced dimensions, which are collapsed to a single one of length T.

    `operations` has one entry for each output: "sum", "max", "min", "prod", "argmax", "argmin", "mean", "deviations".
    "row": the reduced dimension is the innermost loop dimension, vectorized over t.
    "column": the reduced dimension is the last but one, the innermost is kept, vectorized over kept elements.
    The bits are the same for both. Order of a sum (class "exact"): block b holds t in [b*block, (b+1)*block); within it
    16 lanes, lane l adds the terms with t % 16 == l in ascending t, starting from 0; lanes combine as
    (l, l+8), (l, l+4), (l, l+2), (l, l+1). Each block writes one partial at output[b]; a second record combines them.
    A block of n elements has "mean" p + s1/n and "deviations" (the sum of squared distances from the mean)
    max(0, s2 - s1·(s1/n)), where p is the mean of its middle 16 elements, from (n - 16) // 2 on, or of all if there are
    fewer, and s1 and s2 are the sums of x - p and (x - p)² (all sums in this order).
    """

    operations: tuple[str, ...]
    orientation: Literal["row", "column"]


@dataclass(frozen=True, slots=True)
class EpilogueOperand:
    """An array that an epilogue reads.

    "same": dense and laid out as the output; "channel": one element for each output channel (column); "scalar": one
    element. An operand addressed as "same" may be the output itself: each element is read just before it is written.
    """

    dtype: DType
    addressing: Addressing


@dataclass(frozen=True, slots=True)
class Epilogue:
    """`body` over an accumulator: `load` with attributes (0,) is the accumulator, (i,) is `operands[i - 1]`.

    The last instruction's value is stored; an empty body stores the accumulator. As a prologue it works over elements
    of the input: (0,) is the array that the kernel receives, and "same" and "channel" refer to the input.
    """

    operands: tuple[EpilogueOperand, ...] = ()
    body: tuple[Instruction, ...] = ()

    def output(self, accumulator: DType) -> DType:
        """The dtype that is stored."""
        return self.body[-1].dtype if self.body else accumulator
