"""Turns instructions into functions of a machine and lanes, once for each module; a table has one entry for each name.

Modules of the folder add entries with `@instruction(...)`: functions that take a `Decoder` and give what executes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.engine.targets.ptx.emulator.fault import Unsupported
from tests.engine.targets.ptx.emulator.kinds import KINDS, UNSIGNED, resized
from tests.engine.targets.ptx.emulator.machine import Lanes, Machine
from tests.engine.targets.ptx.emulator.parse import (
    Address,
    Group,
    Instruction,
    Name,
    Number,
    Operand,
    Register,
    Special,
    bits_of,
)

Read = Callable[[Machine, Lanes], np.ndarray]
Write = Callable[[Machine, Lanes, np.ndarray], None]
Execute = Callable[[Machine, Lanes], None]

TABLE: dict[str, Callable[[Decoder], Execute]] = {}


def instruction(*names: str) -> Callable[[Callable[[Decoder], Execute]], Callable[[Decoder], Execute]]:
    """Enter a function into the table under the first words of instructions."""

    def enter(function: Callable[[Decoder], Execute]) -> Callable[[Decoder], Execute]:
        TABLE.update(dict.fromkeys(names, function))
        return function

    return enter


class Decoder:
    """One instruction while it is decoded."""

    def __init__(self, code: Instruction) -> None:
        self.code = code
        self.words = code.opcode

    @property
    def operands(self) -> Sequence[Operand]:
        return self.code.operands

    @property
    def name(self) -> str:
        return self.words[0]

    def has(self, *words: str) -> bool:
        """Whether the instruction has one of these suffixes."""
        return any(word in self.words[1:] for word in words)

    @property
    def kinds(self) -> list[str]:
        """The types among the suffixes, in order."""
        return [word for word in self.words if word in KINDS or word == "pred"]

    def refuse(self, what: str = "") -> Unsupported:
        return Unsupported(f"line {self.code.line}: `{self.code.text}`{': ' + what if what else ''}")

    def only(self, *words: str) -> None:
        """Refuse suffixes other than these and types."""
        other = [word for word in self.words[1:] if word not in words and word not in KINDS and word != "pred"]
        if other:
            raise self.refuse(f"the suffix .{other[0]} is not known")

    # Operands

    def source(self, operand: int | Operand | None, kind: str | np.dtype) -> Read:
        """An operand as numbers of a type: one for each lane, or a single one for all."""
        operand = self.operands[operand] if isinstance(operand, int) else operand
        dtype = KINDS[kind] if isinstance(kind, str) else kind
        match operand:
            case Register(slot=slot, width=width):
                if width == 0:
                    raise self.refuse("a predicate as a number")
                if width == dtype.itemsize:
                    return lambda machine, lanes: machine.read(slot, lanes).view(dtype)
                if width < dtype.itemsize:
                    raise self.refuse("a register narrower than its type")
                narrow = UNSIGNED[dtype.itemsize]
                return lambda machine, lanes: machine.read(slot, lanes).astype(narrow).view(dtype)
            case Number():
                constant = bits_of(operand, dtype)
                return lambda machine, lanes: constant
            case Special(name=name):
                wide = UNSIGNED[dtype.itemsize]
                if dtype.itemsize == 4:
                    return lambda machine, lanes: _part(machine.special[name], lanes).view(dtype)
                return lambda machine, lanes: _part(machine.special[name], lanes).astype(wide).view(dtype)
            case Name(name=name):
                return lambda machine, lanes: np.array([machine.names[name]], np.uint64).astype(dtype)
        raise self.refuse(f"the operand {operand}")

    def condition(self, operand: int | Operand) -> Read:
        """A predicate operand."""
        operand = self.operands[operand] if isinstance(operand, int) else operand
        if isinstance(operand, Number):
            constant = np.array([operand.value != 0])
            return lambda machine, lanes: constant
        if not isinstance(operand, Register) or operand.width:
            raise self.refuse("a predicate is expected")
        slot = operand.slot
        return lambda machine, lanes: machine.read(slot, lanes)

    def target(self, operand: int | Operand | None) -> Write:
        """Where a result goes: numbers of any width, extended by their type; predicates as bool."""
        operand = self.operands[operand] if isinstance(operand, int) else operand
        if operand is None:
            return lambda machine, lanes, values: None
        if isinstance(operand, Name) and operand.name == "_":
            return lambda machine, lanes, values: None
        if not isinstance(operand, Register):
            raise self.refuse("a register is expected")
        slot, width = operand.slot, operand.width
        if width == 0:
            return lambda machine, lanes, values: machine.write(slot, lanes, values)
        return lambda machine, lanes, values: machine.write(slot, lanes, resized(values, width))

    def address(self, operand: int) -> Read:
        """The addresses of an operand in brackets, as int64."""
        found = self.operands[operand]
        if not isinstance(found, Address):
            raise self.refuse("an address is expected")
        if isinstance(found.base, Register) and found.base.width == 4:
            narrow = self.source(found.base, "u32")
            return lambda machine, lanes: narrow(machine, lanes).astype(np.int64) + found.offset
        base = self.source(found.base, "s64")
        if not found.offset:
            return base
        return lambda machine, lanes: base(machine, lanes) + found.offset

    def group(self, operand: int) -> tuple[Operand | None, ...]:
        """The items of a vector operand; a plain one is its only item."""
        found = self.operands[operand]
        return found.items if isinstance(found, Group) else (found,)

    @property
    def space(self) -> str:
        """The state space among the suffixes; "" for generic addresses."""
        for word in self.words[1:]:
            base = word.split("::")[0]
            if base in ("global", "shared", "local", "const", "param"):
                return base
        return ""


def _part(values: np.ndarray, lanes: Lanes) -> np.ndarray:
    return values if lanes.index is None or values.size == 1 else values[lanes.index]


def decode(code: Instruction) -> Execute:
    """What executes an instruction; control flow excepted. A guard leaves out the lanes where it does not hold."""
    decoder = Decoder(code)
    enter = TABLE.get(decoder.name)
    if enter is None:
        raise decoder.refuse("the instruction is not known")
    execute = enter(decoder)
    if code.predicate is None:
        return execute
    slot, negated = code.predicate.slot, code.is_negated

    def guarded(machine: Machine, lanes: Lanes) -> None:
        some = lanes.where(machine.read(slot, lanes) != negated)
        if some.count:
            execute(machine, some)

    return guarded
