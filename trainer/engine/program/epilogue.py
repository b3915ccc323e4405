"""Epilogues: work on a contraction's accumulators before they are stored; prologues: on what it copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainer.engine.graph.dtypes import DType
from trainer.engine.program.spec import Instruction

Addressing = Literal["same", "channel", "scalar"]


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
    of the input: (0,) is the array that the kernel is handed, and "same" and "channel" speak of the input.
    """

    operands: tuple[EpilogueOperand, ...] = ()
    body: tuple[Instruction, ...] = ()

    def output(self, accumulator: DType) -> DType:
        """The dtype that is stored."""
        return self.body[-1].dtype if self.body else accumulator
