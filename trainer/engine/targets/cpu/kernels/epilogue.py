"""Epilogues: element-wise work done on a contraction's accumulators before they are stored; and prologues, done on a
convolution's input while it is copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainer.engine.graph.dtypes import DType
from trainer.engine.program.spec import Instruction
from trainer.engine.targets.cpu.kernels.expression import MEMORY
from trainer.engine.targets.cpu.kernels.writer import Integer, Typed, Writer

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


@dataclass(frozen=True, slots=True)
class OperandPointers:
    """The addresses of an epilogue's operands inside a kernel."""

    epilogue: Epilogue
    bases: tuple[str, ...]

    @classmethod
    def load(cls, writer: Writer, epilogue: Epilogue, word: int) -> OperandPointers:
        """Read them from the argument block, from `word` on."""
        return cls(epilogue, tuple(writer.argument(word + i) for i in range(len(epilogue.operands))))

    @classmethod
    def parameters(cls, epilogue: Epilogue) -> OperandPointers:
        """The parameters of a function inside the kernel that is handed them."""
        return cls(epilogue, tuple(f"%operand{number}" for number in range(len(epilogue.operands))))

    @property
    def typed(self) -> list[Typed]:
        """The addresses as parameters or arguments of a function."""
        return [("ptr", base) for base in self.bases]

    def at(self, writer: Writer, element: Integer, channel: Integer) -> list[str]:
        """Where each operand's part begins for a tile whose output begins at `element` and whose first column is
        `channel`.
        """
        offsets = {"same": element, "channel": channel, "scalar": 0}
        return [
            writer.pointer(base, offsets[operand.addressing], MEMORY[operand.dtype.name])
            for base, operand in zip(self.bases, self.epilogue.operands, strict=True)
        ]
