"""The operands of an epilogue inside a kernel."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.engine.program.spec import Epilogue
from trainer.engine.targets.ir.expression import MEMORY
from trainer.engine.targets.ir.writer import Integer, Typed, Writer


@dataclass(frozen=True, slots=True)
class OperandPointers:
    """The addresses of an epilogue's operands inside a kernel."""

    epilogue: Epilogue
    bases: tuple[str, ...]

    @classmethod
    def load(cls, writer: Writer, epilogue: Epilogue, word: int) -> OperandPointers:
        """Reads the addresses from the argument block, from `word` on."""
        return cls(epilogue, tuple(writer.argument(word + i) for i in range(len(epilogue.operands))))

    @classmethod
    def parameters(cls, epilogue: Epilogue) -> OperandPointers:
        """The addresses as parameters of a function inside the kernel."""
        return cls(epilogue, tuple(f"%operand{number}" for number in range(len(epilogue.operands))))

    @property
    def typed(self) -> list[Typed]:
        """The addresses as parameters or arguments of a function."""
        return [("ptr", base) for base in self.bases]

    def at(self, writer: Writer, element: Integer, channel: Integer) -> list[str]:
        """The start of each operand's part for a tile whose output begins at `element` and columns at `channel`."""
        offsets = {"same": element, "channel": channel, "scalar": 0}
        return [
            writer.pointer(base, offsets[operand.addressing], MEMORY[operand.dtype.name])
            for base, operand in zip(self.bases, self.epilogue.operands, strict=True)
        ]
