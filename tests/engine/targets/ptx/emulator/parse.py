"""Reads a module of PTX: its variables, and kernels as instructions with their operands."""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tests.engine.targets.ptx.emulator.fault import Unsupported
from tests.engine.targets.ptx.emulator.kinds import KINDS


@dataclass(frozen=True)
class Register:
    """A register: its number in the kernel, and its width in bytes (0: a predicate)."""

    name: str
    slot: int
    width: int


@dataclass(frozen=True)
class Number:
    """An immediate operand: the bits of a floating-point number (`is_float`: 4 or 8 bytes), or an integer."""

    value: int
    is_float: int = 0


@dataclass(frozen=True)
class Special:
    """A special register, as %tid.x."""

    name: str


@dataclass(frozen=True)
class Name:
    """A variable, a parameter or a label."""

    name: str


@dataclass(frozen=True)
class Address:
    """[base + offset]"""

    base: Register | Name | Number
    offset: int


@dataclass(frozen=True)
class Group:
    """{a, b, ...}; None stands for the sink `_`."""

    items: tuple[Operand | None, ...]


Operand = Register | Number | Special | Name | Address | Group


@dataclass(frozen=True)
class Instruction:
    """One instruction; `second` is what follows `|` behind its first operand."""

    line: int
    text: str
    predicate: Register | None
    is_negated: bool
    opcode: tuple[str, ...]
    operands: tuple[Operand, ...]
    second: Register | None = None


@dataclass(frozen=True)
class Variable:
    """Memory of a module or kernel; `content` is None where nothing initializes it."""

    name: str
    space: str
    alignment: int
    size: int
    content: bytes | None


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: `size` bytes."""

    name: str
    size: int


@dataclass
class Kernel:
    """An entry of a module; `labels` are numbers of instructions."""

    name: str
    parameters: list[Parameter]
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    registers: int = 0


@dataclass
class Module:
    """A module of PTX."""

    target: str
    variables: list[Variable]
    kernels: dict[str, Kernel]


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENTRY = re.compile(r"(?:\.visible\s+|\.weak\s+)*\.entry\s+([\w$]+)\s*(?:\((.*?)\))?[^{};]*\{", re.DOTALL)
_VARIABLE = re.compile(
    r"(?:\.(?:extern|visible|weak|common)\s+)*\.(const|global|shared|local)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+"
    r"([\w$%.]+)\s*(?:\[\s*(\d*)\s*\])?\s*(?:=\s*(.*))?$",
    re.DOTALL,
)
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(?:\.align\s+\d+\s+|\.\w+\s+)*([\w$]+)(?:\[(\d+)\])?"
)
_STATEMENT = re.compile(r"(?:@(!?)([\w%$]+)\s+)?([a-z][\w.:]*)\s*(.*)$", re.DOTALL)
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+")
_LABEL = re.compile(r"[\w$%]+$")
_SPECIAL = re.compile(r"%(?:n?tid|n?ctaid)\.[xyz]$|%(?:laneid|warpid|nwarpid|lanemask_\w\w)$")


@functools.lru_cache(maxsize=64)
def parse(text: str) -> Module:
    """The module of a text. Raises `Unsupported` for what the emulator does not know."""
    text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)
    target = re.search(r"\.target\s+(\w+)", text)
    if target is None:
        raise Unsupported("the module has no .target")
    module, place = Module(target[1], [], {}), 0
    while match := _ENTRY.search(text, place):
        module.variables += _variables(text[place : match.start()])
        end = _closing(text, match.end())
        parameters = [
            Parameter(name, KINDS[kind].itemsize * int(count or 1))
            for kind, name, count in _PARAMETER.findall(match[2] or "")
        ]
        kernel = Kernel(match[1], parameters)
        _read_body(kernel, text[match.end() : end], text.count("\n", 0, match.end()) + 1)
        module.kernels[kernel.name] = kernel
        place = end + 1
    module.variables += _variables(text[place:])
    return module


def _closing(text: str, place: int) -> int:
    """Where the brace that is open at `place` closes."""
    depth = 1
    while depth:
        brace = re.compile(r"[{}]").search(text, place)
        if brace is None:
            raise Unsupported("a body without an end")
        depth += 1 if brace[0] == "{" else -1
        place = brace.end()
    return place - 1


def _variables(text: str) -> list[Variable]:
    if re.search(r"\.func\b", text):
        raise Unsupported("a function that is no kernel: inline it")
    declarations = re.sub(r"^\s*\.(?:version|target|address_size|file)[^\n]*$", "", text, flags=re.MULTILINE)
    found = [_variable(statement.strip()) for statement in declarations.split(";")]
    return [variable for variable in found if variable is not None]


def _variable(text: str) -> Variable | None:
    match = _VARIABLE.match(text)
    if match is None:
        return None
    space, alignment, kind, name, count, content = match.groups()
    size = KINDS[kind].itemsize
    data = None if content is None else _content(content, kind)
    total = (
        size * int(count)
        if count
        else len(data)
        if data is not None and count is not None
        else 0
        if count == ""
        else size
    )
    if data is not None:
        data = data.ljust(total, b"\0")
    return Variable(name, space, int(alignment or size), total, data)


def _content(text: str, kind: str) -> bytes:
    values = [_number(item) for item in re.findall(r"[^\s,{}]+", text)]
    size = KINDS[kind].itemsize
    return b"".join((value.value % (1 << 8 * size)).to_bytes(size, "little") for value in values)


def _number(text: str) -> Number:
    if text[:2] in ("0f", "0F"):
        return Number(int(text[2:], 16), 4)
    if text[:2] in ("0d", "0D"):
        return Number(int(text[2:], 16), 8)
    if "." in text:
        return Number(struct.unpack("<Q", struct.pack("<d", float(text)))[0], 8)
    return Number(int(text.rstrip("U"), 0))


class _Scopes:
    """Names of registers, in nested scopes."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.names: list[dict[str, Register]] = [{}]

    def declare(self, kind: str, names: str) -> None:
        width = 0 if kind == "pred" else KINDS[kind].itemsize
        for name in re.split(r"\s*,\s*", names.strip()):
            many = re.fullmatch(r"([\w%$]+)<(\d+)>", name)
            for each in [f"{many[1]}{number}" for number in range(int(many[2]))] if many else [name]:
                self.names[-1][each] = Register(each, self.kernel.registers, width)
                self.kernel.registers += 1

    def find(self, name: str) -> Register | None:
        return next((scope[name] for scope in reversed(self.names) if name in scope), None)


def _read_body(kernel: Kernel, text: str, line: int) -> None:
    scopes = _Scopes(kernel)
    for kind, statement, number in _statements(text, line):
        if kind == "open":
            scopes.names.append({})
        elif kind == "close":
            scopes.names.pop()
        elif kind == "label":
            kernel.labels[statement] = len(kernel.instructions)
        elif register := re.match(r"\.reg\s+\.(\w+)\s+(.*)$", statement, re.DOTALL):
            scopes.declare(register[1], register[2])
        elif variable := _variable(statement):
            kernel.variables.append(variable)
        elif not statement.startswith("."):
            kernel.instructions.append(_instruction(statement, number, scopes))


def _statements(text: str, line: int) -> Iterator[tuple[str, str, int]]:
    """("open" | "close" | "label" | "statement", text, line) in order."""
    buffer, begin, depth = "", line, 0
    for place, letter in enumerate(text):
        line += letter == "\n"
        if not buffer and (letter.isspace() or letter == ";"):
            continue
        if not buffer and letter in "{}":
            yield ("open" if letter == "{" else "close"), "", line
            continue
        if not buffer:
            begin = line
        if letter == ":" and _LABEL.match(buffer) and text[place + 1 : place + 2] != ":":
            yield "label", buffer, begin
            buffer = ""
        elif letter == ";" and not depth:
            yield "statement", " ".join(buffer.split()), begin
            buffer = ""
        else:
            depth += (letter == "{") - (letter == "}")
            buffer += letter
    if buffer.strip():
        raise Unsupported(f"line {begin}: a statement without an end: {buffer.strip()}")


def _instruction(text: str, line: int, scopes: _Scopes) -> Instruction:
    match = _STATEMENT.match(text)
    if match is None:
        raise Unsupported(f"line {line}: not an instruction: {text}")
    negated, guard, opcode, rest = match.groups()
    predicate = scopes.find(guard) if guard else None
    if guard and predicate is None:
        raise Unsupported(f"line {line}: no predicate {guard}")
    parts, second = _OPERAND.findall(rest), None
    if parts and "|" in parts[0]:
        parts[0], other = parts[0].split("|")
        second = scopes.find(other)
    operands = tuple(_operand(part, scopes) for part in parts)
    return Instruction(line, text, predicate, bool(negated), tuple(opcode.split(".")), operands, second)


def _operand(text: str, scopes: _Scopes) -> Operand:
    if text.startswith("{"):
        items = re.findall(r"[^\s,{}]+", text)
        return Group(tuple(None if item == "_" else _operand(item, scopes) for item in items))
    if text.startswith("["):
        inner = re.fullmatch(r"\[\s*([\w%$.]+)\s*(?:([+-])\s*([+-]?\d+))?\s*\]", text)
        if inner is None:
            raise Unsupported(f"the address {text}")
        base = _operand(inner[1], scopes)
        assert isinstance(base, Register | Name | Number)
        return Address(base, int(inner[3] or 0) * (-1 if inner[2] == "-" else 1))
    register = scopes.find(text)
    if register is not None:
        return register
    if re.match(r"-?\d", text):
        return _number(text)
    if _SPECIAL.match(text):
        return Special(text)
    if text.startswith("%"):
        raise Unsupported(f"the special register {text}")
    return Name(text)


def bits_of(number: Number, kind: np.dtype) -> np.ndarray:
    """An immediate operand as one element of a type."""
    value = number.value
    if number.is_float and number.is_float != kind.itemsize:
        packed = value.to_bytes(number.is_float, "little")
        (value_float,) = struct.unpack("<f" if number.is_float == 4 else "<d", packed)
        return np.array([value_float], kind)
    return np.frombuffer((value % (1 << 8 * kind.itemsize)).to_bytes(kind.itemsize, "little"), kind)
