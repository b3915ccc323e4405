"""Straight runs of arithmetic as native code: a function on vectors of 16 lanes for each run that is executed often.

What is compiled is what NumPy computes elsewhere in this folder, bit by bit (test_emulator_operations.py). Other
instructions, and runs of few or odd numbers of lanes, stay with NumPy. So does `copysign`: for a run that rounds its
sign's operand and selects its result, LLVM 22 writes code for AVX-512 that mixes the bits of both operands.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.engine.targets.ptx.emulator.decode import Execute
from tests.engine.targets.ptx.emulator.kinds import FLOATS, KINDS, UNSIGNED
from tests.engine.targets.ptx.emulator.machine import Lanes, Machine
from tests.engine.targets.ptx.emulator.parse import (
    Group,
    Instruction,
    Name,
    Number,
    Operand,
    Register,
    Special,
    bits_of,
)
from trainer.engine.targets.cpu import native
from trainer.engine.targets.ir.writer import Writer

LANES = 16
often = 1 << 19
"""A run is compiled once it has executed this many simple instructions of single lanes."""

_START = 1 << 11
"""Lanes that take as long as NumPy does to start."""

SHORTEST = 2
"""Instructions of a run."""

Key = int | str
"""A register by its slot, a special register or the address of a variable by its name."""


class Unknown(Exception):
    """What stays with NumPy."""


def _vector(element: str) -> str:
    return f"<{LANES} x {element}>"


def _integer(size: int) -> str:
    return _vector(f"i{8 * size}")


_PREDICATE = _vector("i1")


class _Code:
    """A run while it is written: lines for all lanes alike before the loop, the others within it."""

    def __init__(self, uniform: frozenset[Key] | None = None) -> None:
        self.w, self.uniform = Writer(), uniform
        self.before, self.inside = self.w.lines, list[str]()
        self.values: dict[Key, str] = {}
        self.inputs: dict[Key, int] = {}
        """Widths of what is read before it is written (0: a predicate)."""
        self.alike: set[str] = set()
        self.written: dict[int, int] = {}

    # Operands

    def register(self, key: Key, width: int) -> str:
        if key not in self.values:
            kind, place, number = f"i{8 * width or 8}", f"%in{len(self.inputs)}", len(self.inputs)
            self.inputs[key] = width
            lines = self.w.lines
            self.w.lines = self.before
            slot = self.w.value(f"getelementptr i64, ptr %arguments, i64 {number}")
            place = self.w.value(f"load ptr, ptr {slot}")
            is_alike = self.uniform is not None and key in self.uniform
            if is_alike:
                one = self.w.value(
                    f"insertelement {_vector(kind)} poison, {kind} {self.w.value(f'load {kind}, ptr {place}')}, i64 0"
                )
                found = self.w.value(
                    f"shufflevector {_vector(kind)} {one}, {_vector(kind)} poison, <{LANES} x i32> zeroinitializer"
                )
            else:
                self.w.lines = self.inside
                where = self.w.value(f"getelementptr {kind}, ptr {place}, i64 %lane")
                found = self.w.value(f"load {_vector(kind)}, ptr {where}, align {width or 1}")
            if not width:
                found = self.w.value(f"icmp ne {_vector(kind)} {found}, zeroinitializer")
            if is_alike:
                self.alike.add(found)
            self.w.lines, self.values[key] = lines, found
        return self.values[key]

    def bits(self, operand: Operand | None, kind: str) -> str:
        """An operand as integers of the width of a type."""
        size = KINDS[kind].itemsize
        match operand:
            case Register(slot=slot, width=width) if width >= size:
                return self._cut(self.register(slot, width), width, size)
            case Number():
                value = int.from_bytes(bits_of(operand, KINDS[kind]).tobytes(), "little", signed=True)
                return f"splat (i{8 * size} {value})"
            case Special(name=name):
                found = self.register(name, 4)
                return (
                    self.w.value(f"zext {_integer(4)} {found} to {_integer(8)}")
                    if size == 8
                    else self._cut(found, 4, size)
                )
            case Name(name=name):
                return self._cut(self.register(f"&{name}", 8), 8, size)
        raise Unknown

    def _cut(self, value: str, width: int, size: int) -> str:
        return value if width == size else self.w.value(f"trunc {_integer(width)} {value} to {_integer(size)}")

    def number(self, operand: Operand | None, kind: str) -> str:
        """An operand as numbers of a type: of floats as LLVM's."""
        value = self.bits(operand, kind)
        return (
            self.w.value(f"bitcast {_integer(KINDS[kind].itemsize)} {value} to {self.kind(kind)}")
            if kind in _FLOAT
            else value
        )

    def kind(self, kind: str) -> str:
        return _vector(_FLOAT[kind]) if kind in _FLOAT else _integer(KINDS[kind].itemsize)

    def predicate(self, operand: Operand | None) -> str:
        if isinstance(operand, Number):
            return f"splat (i1 {int(operand.value != 0)})"
        if not isinstance(operand, Register) or operand.width:
            raise Unknown
        return self.register(operand.slot, 0)

    def write(self, operand: Operand | None, kind: str, value: str) -> None:
        """Store numbers of a type ("pred": predicates) into a register, extended by their type."""
        if operand is None or (isinstance(operand, Name) and operand.name == "_"):
            return
        if not isinstance(operand, Register) or (operand.width == 0) != (kind == "pred"):
            raise Unknown
        if kind != "pred":
            size = KINDS[kind].itemsize
            if kind in _FLOAT:
                value = self.w.value(f"bitcast {self.kind(kind)} {value} to {_integer(size)}")
            if operand.width < size:
                value = self._cut(value, size, operand.width)
            elif operand.width > size:
                extended = "sext" if kind.startswith("s") else "zext"
                value = self.w.value(f"{extended} {_integer(size)} {value} to {_integer(operand.width)}")
        self.values[operand.slot], self.written[operand.slot] = value, operand.width

    # Instructions

    def add(self, code: Instruction) -> None:
        """Write an instruction, before the loop where all lanes compute the same."""
        keys = _sources(code)
        for key, width in keys.items():
            self.register(key, width)
        is_alike = self.uniform is not None and all(self.values[key] in self.alike for key in keys)
        self.w.lines = self.before if is_alike else self.inside
        _EMIT[code.opcode[0]](self, code)
        if is_alike:
            self.alike |= {self.values[each.slot] for each in _operands(code)[0] if isinstance(each, Register)}

    def text(self, outputs: Sequence[int]) -> str:
        """The module: addresses of inputs, then of outputs, and how many groups of lanes there are."""
        for number, slot in enumerate(outputs, len(self.inputs)):
            value, width = self.values[slot], self.written[slot]
            kind = _vector(f"i{8 * width or 8}")
            alike = self.is_alike(slot)
            self.w.lines = self.before
            place = self.w.value(f"load ptr, ptr {self.w.value(f'getelementptr i64, ptr %arguments, i64 {number}')}")
            self.w.lines = self.before if alike else self.inside
            if not width:
                value = self.w.value(f"zext {_PREDICATE} {value} to {kind}")
            if alike:
                self.w.emit(
                    f"store i{8 * width or 8} {self.w.value(f'extractelement {kind} {value}, i64 0')}, ptr {place}"
                )
            else:
                where = self.w.value(f"getelementptr i{8 * width or 8}, ptr {place}, i64 %lane")
                self.w.emit(f"store {kind} {value}, ptr {where}, align {width or 1}")
        loop = [
            "  br label %loop", "loop:", "  %group = phi i64 [ 0, %entry ], [ %next, %loop ]",
            f"  %lane = mul i64 %group, {LANES}", *self.inside, "  %next = add i64 %group, 1",
            "  %more = icmp ult i64 %next, %task", "  br i1 %more, label %loop, label %done", "done:",
        ]  # fmt: skip
        self.w.lines = [*self.before, *loop]
        return self.w.module("run")

    def is_alike(self, slot: int) -> bool:
        value = self.values[slot]
        return self.uniform is not None and (value in self.alike or value.startswith("splat"))

    # What several instructions share

    def value(self, text: str) -> str:
        return self.w.value(text)

    def select(self, kind: str, condition: str, a: str, b: str) -> str:
        return self.value(f"select {_PREDICATE} {condition}, {kind} {a}, {kind} {b}")

    def flushed(self, code: Instruction, kind: str, value: str) -> str:
        """Zeros of their sign for subnormal float32 numbers, where the instruction says .ftz."""
        if "ftz" not in code.opcode or kind != "f32":
            return value
        floats, bits = self.kind("f32"), _integer(4)
        size = self.w.apply("fabs", floats, value)
        small = self.value(f"fcmp olt {floats} {size}, splat (float 0x3810000000000000)")
        raw = self.value(f"bitcast {floats} {value} to {bits}")
        sign = self.value(f"and {bits} {raw}, splat (i32 -2147483648)")
        return self.value(f"bitcast {bits} {self.select(bits, small, sign, raw)} to {floats}")

    def floats(self, code: Instruction, kind: str, count: int) -> list[str]:
        return [self.flushed(code, kind, self.number(code.operands[place], kind)) for place in range(1, count + 1)]


_FLOAT = {"f32": "float", "f64": "double"}
Emit = Callable[[_Code, Instruction], None]
_EMIT: dict[str, Emit] = {}
_ROUNDINGS = frozenset(("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"))


def _emits(*names: str) -> Callable[[Emit], Emit]:
    def enter(function: Emit) -> Emit:
        _EMIT.update(dict.fromkeys(names, function))
        return function

    return enter


def _kinds(code: Instruction) -> list[str]:
    return [word for word in code.opcode if word in KINDS or word == "pred"]


def _one_kind(code: Instruction, *words: str) -> str:
    """The type of an instruction with no suffixes but these."""
    kinds = _kinds(code)
    if len(kinds) != 1 or any(word not in words and word != kinds[0] for word in code.opcode[1:]):
        raise Unknown
    if kinds[0] in FLOATS and kinds[0] not in _FLOAT:
        raise Unknown
    return kinds[0]


@_emits("add", "sub", "mul")
def _arithmetic(c: _Code, code: Instruction) -> None:
    name = code.opcode[0]
    kind = _one_kind(code, *(("ftz", "rn") if _kinds(code)[-1] in FLOATS else ("lo", "hi", "wide")))
    if kind in _FLOAT:
        if "rn" not in code.opcode:
            raise Unknown
        a, b = c.floats(code, kind, 2)
        return c.write(code.operands[0], kind, c.flushed(code, kind, c.value(f"f{name} {c.kind(kind)} {a}, {b}")))
    a, b = (c.bits(code.operands[place], kind) for place in (1, 2))
    if name == "mul":
        return c.write(code.operands[0], *_product(c, code, kind, a, b))
    return c.write(code.operands[0], kind, c.value(f"{name} {c.kind(kind)} {a}, {b}"))


def _product(c: _Code, code: Instruction, kind: str, a: str, b: str) -> tuple[str, str]:
    """The type of a product and the product: lower half, upper half, or both."""
    if "lo" in code.opcode:
        return kind, c.value(f"mul {c.kind(kind)} {a}, {b}")
    size = KINDS[kind].itemsize
    if size == 8 or not ("wide" in code.opcode or "hi" in code.opcode):
        raise Unknown
    extended, wide = "sext" if kind[0] == "s" else "zext", _integer(2 * size)
    a, b = (c.value(f"{extended} {c.kind(kind)} {each} to {wide}") for each in (a, b))
    product = c.value(f"mul {wide} {a}, {b}")
    if "wide" in code.opcode:
        return f"{kind[0]}{16 * size}", product
    upper = c.value(f"lshr {wide} {product}, splat (i{16 * size} {8 * size})")
    return kind, c.value(f"trunc {wide} {upper} to {c.kind(kind)}")


@_emits("mad")
def _mad(c: _Code, code: Instruction) -> None:
    kind = _one_kind(code, "lo", "hi", "wide")
    if kind in _FLOAT:
        raise Unknown
    a, b = (c.bits(code.operands[place], kind) for place in (1, 2))
    result, product = _product(c, code, kind, a, b)
    c.write(code.operands[0], result, c.value(f"add {c.kind(result)} {product}, {c.bits(code.operands[3], result)}"))


@_emits("fma", "div", "sqrt", "rcp")
def _float(c: _Code, code: Instruction) -> None:
    kind, name = _one_kind(code, "ftz", "rn"), code.opcode[0]
    if kind not in _FLOAT or "rn" not in code.opcode:
        raise Unknown
    values = c.floats(code, kind, {"fma": 3, "div": 2}.get(name, 1))
    if name == "div":
        found = c.value(f"fdiv {c.kind(kind)} {values[0]}, {values[1]}")
    elif name == "rcp":
        found = c.value(f"fdiv {c.kind(kind)} splat ({_FLOAT[kind]} 1.0), {values[0]}")
    else:
        found = c.w.apply(name, c.kind(kind), *values)
    c.write(code.operands[0], kind, c.flushed(code, kind, found))


@_emits("abs", "neg")
def _sign(c: _Code, code: Instruction) -> None:
    kind = _one_kind(code, "ftz")
    if kind in _FLOAT:
        (value,) = c.floats(code, kind, 1)
        found = (
            c.w.apply("fabs", c.kind(kind), value)
            if code.opcode[0] == "abs"
            else c.value(f"fneg {c.kind(kind)} {value}")
        )
        return c.write(code.operands[0], kind, c.flushed(code, kind, found))
    value = c.bits(code.operands[1], kind)
    negated = c.value(f"sub {c.kind(kind)} zeroinitializer, {value}")
    if code.opcode[0] == "abs":
        negated = c.select(c.kind(kind), c.value(f"icmp slt {c.kind(kind)} {value}, zeroinitializer"), negated, value)
    return c.write(code.operands[0], kind, negated)


@_emits("min", "max")
def _extremum(c: _Code, code: Instruction) -> None:
    kind, is_min = _one_kind(code, "ftz", "NaN"), code.opcode[0] == "min"
    if kind not in _FLOAT:
        a, b = (c.bits(code.operands[place], kind) for place in (1, 2))
        relation = f"{'s' if kind[0] == 's' else 'u'}{'lt' if is_min else 'gt'}"
        return c.write(
            code.operands[0], kind, c.select(c.kind(kind), c.value(f"icmp {relation} {c.kind(kind)} {a}, {b}"), a, b)
        )
    a, b = c.floats(code, kind, 2)
    floats, bits = c.kind(kind), _integer(KINDS[kind].itemsize)
    signs = [
        c.value(f"icmp slt {bits} {c.value(f'bitcast {floats} {each} to {bits}')}, zeroinitializer") for each in (a, b)
    ]
    differ = c.value(f"xor {_PREDICATE} {signs[0]}, {signs[1]}")
    below = c.select(_PREDICATE, differ, signs[0], c.value(f"fcmp olt {floats} {a}, {b}"))
    found = c.select(floats, below, *((a, b) if is_min else (b, a)))
    nans = [c.value(f"fcmp uno {floats} {each}, zeroinitializer") for each in (a, b)]
    if "NaN" in code.opcode:
        nan = f"splat ({_FLOAT[kind]} 0x7FF8000000000000)"
        found = c.select(floats, c.value(f"or {_PREDICATE} {nans[0]}, {nans[1]}"), nan, found)
    else:
        found = c.select(floats, nans[0], b, c.select(floats, nans[1], a, found))
    return c.write(code.operands[0], kind, c.flushed(code, kind, found))


@_emits("and", "or", "xor", "not")
def _logic(c: _Code, code: Instruction) -> None:
    kind, name = _one_kind(code), code.opcode[0]
    vector = _PREDICATE if kind == "pred" else c.kind(kind)
    values = [c.predicate(each) if kind == "pred" else c.bits(each, kind) for each in code.operands[1:]]
    if name == "not":
        name, values = "xor", [*values, "splat (i1 1)" if kind == "pred" else f"splat (i{8 * KINDS[kind].itemsize} -1)"]
    c.write(code.operands[0], kind, c.value(f"{name} {vector} {values[0]}, {values[1]}"))


@_emits("shl", "shr")
def _shift(c: _Code, code: Instruction) -> None:
    kind, width = _one_kind(code), 8 * KINDS[_kinds(code)[0]].itemsize
    vector, value, count = c.kind(kind), c.bits(code.operands[1], kind), c.bits(code.operands[2], "u32")
    outside = c.value(f"icmp uge {_integer(4)} {count}, splat (i32 {width})")
    kept = c.select(_integer(4), outside, f"splat (i32 {width - 1})", count)
    if width != 32:
        kept = c.value(f"{'zext' if width > 32 else 'trunc'} {_integer(4)} {kept} to {vector}")
    operation = "shl" if code.opcode[0] == "shl" else "ashr" if kind[0] == "s" else "lshr"
    found = c.value(f"{operation} {vector} {value}, {kept}")
    c.write(
        code.operands[0], kind, found if operation == "ashr" else c.select(vector, outside, "zeroinitializer", found)
    )


@_emits("shf")
def _funnel(c: _Code, code: Instruction) -> None:
    if "wrap" not in code.opcode:
        raise Unknown
    low, high, count = (c.bits(code.operands[place], "u32") for place in (1, 2, 3))
    found = c.w.apply("fshl" if "l" in code.opcode else "fshr", _integer(4), high, low, count)
    c.write(code.operands[0], "b32", found)


_INTEGER_RELATIONS = {"eq": "eq", "ne": "ne", "lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}
_FLOAT_RELATIONS = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "equ": "ueq", "neu": "une",
    "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge", "num": "ord", "nan": "uno",
}  # fmt: skip


@_emits("setp")
def _setp(c: _Code, code: Instruction) -> None:
    (kind,), word = _kinds(code), code.opcode[1]
    join = next((each for each in code.opcode[2:] if each in ("and", "or", "xor")), None)
    if kind in FLOATS:
        if kind not in _FLOAT or word not in _FLOAT_RELATIONS:
            raise Unknown
        a, b = (c.flushed(code, kind, c.number(code.operands[place], kind)) for place in (1, 2))
        found = c.value(f"fcmp {_FLOAT_RELATIONS[word]} {c.kind(kind)} {a}, {b}")
    else:
        relation = _INTEGER_RELATIONS.get(word) or f"{'s' if kind[0] == 's' else 'u'}{word}"
        a, b = (c.bits(code.operands[place], kind) for place in (1, 2))
        found = c.value(f"icmp {relation} {c.kind(kind)} {a}, {b}")
    results = [found, c.value(f"xor {_PREDICATE} {found}, splat (i1 1)")] if code.second else [found]
    if join:
        other = c.predicate(code.operands[3])
        results = [c.value(f"{join} {_PREDICATE} {each}, {other}") for each in results]
    c.write(code.operands[0], "pred", results[0])
    if code.second:
        c.write(code.second, "pred", results[1])


@_emits("selp")
def _selp(c: _Code, code: Instruction) -> None:
    (kind,) = _kinds(code)
    bits = f"b{8 * KINDS[kind].itemsize}"
    a, b = (c.bits(_as(each, kind), bits) for each in code.operands[1:3])
    c.write(code.operands[0], bits, c.select(c.kind(bits), c.predicate(code.operands[3]), a, b))


def _as(operand: Operand, kind: str) -> Operand:
    """An immediate operand by its bits."""
    if not isinstance(operand, Number):
        return operand
    return Number(int.from_bytes(bits_of(operand, KINDS[kind]).tobytes(), "little"))


@_emits("mov")
def _mov(c: _Code, code: Instruction) -> None:
    (kind,) = _kinds(code)
    if len(code.opcode) != 2:
        raise Unknown
    target, source = code.operands
    if kind == "pred":
        return c.write(target, kind, c.predicate(source))
    size = KINDS[kind].itemsize
    if isinstance(source, Group):
        part = size // len(source.items)
        total = ""
        for place, item in enumerate(source.items):
            wide = c.value(f"zext {_integer(part)} {c.bits(item, f'b{8 * part}')} to {_integer(size)}")
            moved = c.value(f"shl {_integer(size)} {wide}, splat (i{8 * size} {8 * part * place})") if place else wide
            total = c.value(f"or {_integer(size)} {total}, {moved}") if total else moved
        return c.write(target, f"b{8 * size}", total)
    if isinstance(target, Group):
        part, value = size // len(target.items), c.bits(source, f"b{8 * size}")
        for place, item in enumerate(target.items):
            moved = (
                c.value(f"lshr {_integer(size)} {value}, splat (i{8 * size} {8 * part * place})") if place else value
            )
            c.write(item, f"b{8 * part}", c.value(f"trunc {_integer(size)} {moved} to {_integer(part)}"))
        return None
    return c.write(target, f"b{8 * size}", c.bits(_as(source, kind), f"b{8 * size}"))


@_emits("prmt")
def _permute(c: _Code, code: Instruction) -> None:
    selector = code.operands[3]
    if not isinstance(selector, Number) or selector.value & 0x8888 or len(code.opcode) != 2:
        raise Unknown
    wide, total = _integer(8), ""
    a, b = (c.value(f"zext {_integer(4)} {c.bits(code.operands[place], 'b32')} to {wide}") for place in (1, 2))
    both = c.value(f"or {wide} {c.value(f'shl {wide} {b}, splat (i64 32)')}, {a}")
    for place in range(4):
        choice = selector.value >> 4 * place & 7
        byte = c.value(f"and {wide} {c.value(f'lshr {wide} {both}, splat (i64 {8 * choice})')}, splat (i64 255)")
        moved = c.value(f"shl {wide} {byte}, splat (i64 {8 * place})")
        total = c.value(f"or {wide} {total}, {moved}") if total else moved
    c.write(code.operands[0], "b32", c.value(f"trunc {wide} {total} to {_integer(4)}"))


_WHOLE = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


@_emits("cvt")
def _convert(c: _Code, code: Instruction) -> None:
    target, source = _kinds(code)
    words = set(code.opcode[1:]) - {target, source}
    if words - _ROUNDINGS - {"ftz"}:
        raise Unknown
    whole = next((_WHOLE[word] for word in words if word in _WHOLE), "")
    if source == "bf16" and target == "f32" and not words:
        wide = c.value(f"zext {_integer(2)} {c.bits(code.operands[1], 'b16')} to {_integer(4)}")
        return c.write(code.operands[0], "b32", c.value(f"shl {_integer(4)} {wide}, splat (i32 16)"))
    if target in ("bf16", "bf16x2") and source == "f32" and words == {"rn"}:
        halves = [_bfloat16(c, operand) for operand in code.operands[1:]]
        if len(halves) == 2:
            upper = c.value(f"shl {_integer(4)} {halves[0]}, splat (i32 16)")
            return c.write(code.operands[0], "b32", c.value(f"or {_integer(4)} {upper}, {halves[1]}"))
        return c.write(code.operands[0], "b16", c.value(f"trunc {_integer(4)} {halves[0]} to {_integer(2)}"))
    if source not in FLOATS and target not in FLOATS:
        size, own = KINDS[target].itemsize, KINDS[source].itemsize
        value = c.bits(code.operands[1], source)
        if size > own:
            value = c.value(f"{'sext' if source[0] == 's' else 'zext'} {c.kind(source)} {value} to {_integer(size)}")
        elif size < own:
            value = c.value(f"trunc {c.kind(source)} {value} to {_integer(size)}")
        return c.write(code.operands[0], target, value)
    if source not in FLOATS and target in _FLOAT and words == {"rn"}:
        value, operation = c.bits(code.operands[1], source), "sitofp" if source[0] == "s" else "uitofp"
        return c.write(code.operands[0], target, c.value(f"{operation} {c.kind(source)} {value} to {c.kind(target)}"))
    if source not in _FLOAT:
        raise Unknown
    value = c.flushed(code, source, c.number(code.operands[1], source))
    if whole:
        value = c.w.apply(whole, c.kind(source), value)
    if target in _FLOAT:
        if words - {"ftz", "rn", *_WHOLE}:
            raise Unknown
        if target != source:
            operation = "fpext" if target == "f64" else "fptrunc"
            value = c.value(f"{operation} {c.kind(source)} {value} to {c.kind(target)}")
        return c.write(code.operands[0], target, c.flushed(code, target, value))
    if not whole or target in FLOATS or target == "tf32" or KINDS[target].itemsize < 4:
        raise Unknown
    signed, bits = "s" if target[0] == "s" else "u", c.kind(target)
    name = f"fpto{signed}i.sat.v{LANES}i{8 * KINDS[target].itemsize}.v{LANES}{source}"
    found = c.w.intrinsic(name, bits, (c.kind(source), value))
    if source == "f64" or KINDS[target].itemsize == 8:
        width = 8 * KINDS[target].itemsize
        nan = c.value(f"fcmp uno {c.kind(source)} {value}, zeroinitializer")
        found = c.select(bits, nan, f"splat (i{width} {-1 << width - 1})", found)
    return c.write(code.operands[0], target, found)


def _bfloat16(c: _Code, operand: Operand) -> str:
    """The nearest bfloat16 to a float32 number, ties to even, in the lower half of a word."""
    bits, floats = c.bits(operand, "b32"), c.number(operand, "f32")
    word = _integer(4)
    last = c.value(f"and {word} {c.value(f'lshr {word} {bits}, splat (i32 16)')}, splat (i32 1)")
    raised = c.value(f"add {word} {c.value(f'add {word} {bits}, splat (i32 32767)')}, {last}")
    nan = c.value(f"fcmp uno {c.kind('f32')} {floats}, zeroinitializer")
    return c.select(word, nan, "splat (i32 32767)", c.value(f"lshr {word} {raised}, splat (i32 16)"))


# Runs


def _operands(code: Instruction) -> tuple[list[Operand | None], list[Operand | None]]:
    """What an instruction writes, and what it reads."""
    first, *rest = code.operands
    targets = list(first.items) if isinstance(first, Group) else [first]
    sources: list[Operand | None] = []
    for each in rest:
        sources += each.items if isinstance(each, Group) else [each]
    return [*targets, code.second], sources


def _sources(code: Instruction) -> dict[Key, int]:
    found: dict[Key, int] = {}
    for each in _operands(code)[1]:
        if isinstance(each, Register):
            found[each.slot] = each.width
        elif isinstance(each, Special):
            found[each.name] = 4
        elif isinstance(each, Name):
            found[f"&{each.name}"] = 8
    return found


_known: dict[tuple[Any, ...], bool] = {}


def is_known(code: Instruction) -> bool:
    """Whether an instruction can be part of a run: those with the same words and kinds of operands all can, or none."""
    if code.opcode[0] not in _EMIT or code.predicate is not None:
        return False
    parts: list[Any] = [code.opcode]
    for operand in (*code.operands, code.second):
        items = operand.items if isinstance(operand, Group) else (operand,)
        parts += [len(items), *((type(item), getattr(item, "width", 0)) for item in items)]
    if code.opcode[0] == "prmt":
        parts.append(code.operands[3])
    key = tuple(parts)
    if key not in _known:
        try:
            _Code().add(code)
            _known[key] = True
        except Unknown:
            _known[key] = False
    return _known[key]


@dataclass
class Compiled:
    """A function for one choice of inputs that all lanes share."""

    function: Any
    outputs: list[tuple[int, int, bool]]
    """Slot, width, and whether all lanes have the same."""
    library: native.Library


@dataclass
class Run:
    """Instructions one after the other; of what they write, `outputs` is read elsewhere."""

    steps: list[tuple[Instruction, Execute]]
    outputs: list[int]
    done: int = 0
    functions: dict[frozenset[Key], Compiled] = field(default_factory=dict)
    inputs: dict[Key, int] = field(init=False)
    weight: int = field(init=False)

    def __post_init__(self) -> None:
        self.weight = sum(8 if code.opcode[0] == "fma" else 1 for code, _ in self.steps)
        self.inputs, written = {}, set[Key]()
        for code, _ in self.steps:
            self.inputs |= {key: width for key, width in _sources(code).items() if key not in written}
            written |= {each.slot for each in _operands(code)[0] if isinstance(each, Register)}

    def __call__(self, machine: Machine, lanes: Lanes) -> None:
        self.done += (lanes.count + _START) * self.weight
        if self.done <= often or (lanes.index is None and lanes.count % LANES):
            for _, execute in self.steps:
                execute(machine, lanes)
            return
        count, given = lanes.count, lanes
        if lanes.index is not None and count % LANES:
            padding = np.full(-count % LANES, lanes.index[-1])
            given = Lanes(count + len(padding), np.concatenate([lanes.index, padding]))
        values = [_value(machine, key, given) for key in self.inputs]
        alike = frozenset(key for key, value in zip(self.inputs, values, strict=True) if value.size == 1)
        compiled = self.functions.get(alike)
        if compiled is None:
            compiled = self.functions[alike] = self._compiled(alike)
        results, places = _rows(compiled.outputs, given.count)
        words = np.array([*(_begin(each) for each in values), *places], np.int64)
        compiled.function(_begin(words), given.count // LANES)
        for (slot, _, same), result in zip(compiled.outputs, results, strict=True):
            machine.write(slot, lanes, result if same or result.size == count else result[:count])

    def _compiled(self, alike: frozenset[Key]) -> Compiled:
        code = _Code(alike)
        for key, width in self.inputs.items():
            code.register(key, width)
        for each, _ in self.steps:
            code.add(each)
        outputs = [(slot, code.written[slot], code.is_alike(slot)) for slot in self.outputs]
        text = code.text(self.outputs)
        library = native.link({"run": native.compile_object(text)}, "emulated")
        function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(library["run"])
        return Compiled(function, outputs, library)


def _begin(array: np.ndarray) -> int:
    """The address of an array."""
    return int(array.__array_interface__["data"][0])


def _rows(outputs: Sequence[tuple[int, int, bool]], count: int) -> tuple[list[np.ndarray], list[int]]:
    """Arrays for outputs, and their addresses."""
    results: list[np.ndarray] = []
    places: list[int] = []
    blocks: dict[int, tuple[np.ndarray, int, int]] = {}
    for _, width, same in outputs:
        if same:
            results.append(np.empty(1, UNSIGNED[width] if width else bool))
            places.append(_begin(results[-1]))
            continue
        if width not in blocks:
            rows = sum(other == width and not each for _, other, each in outputs)
            block = np.empty((rows, count), UNSIGNED[width] if width else bool)
            blocks[width] = block, _begin(block), 0
        block, begin, row = blocks[width]
        results.append(block[row])
        places.append(begin + row * count * block.itemsize)
        blocks[width] = block, begin, row + 1
    return results, places


def _value(machine: Machine, key: Key, lanes: Lanes) -> np.ndarray:
    if isinstance(key, int):
        return np.ascontiguousarray(machine.read(key, lanes))
    if key.startswith("&"):
        return np.array([machine.names[key[1:]]], np.uint64)
    values = machine.special[key]
    return values if lanes.index is None or values.size == 1 else values[lanes.index]


def joined(steps: Sequence[tuple[Instruction, Execute]], readers: dict[int, int]) -> list[tuple[Instruction, Execute]]:
    """Steps with runs in place of their instructions; `readers` counts the instructions of the kernel that read each
    register.
    """
    found: list[tuple[Instruction, Execute]] = []
    run: list[tuple[Instruction, Execute]] = []

    def close() -> None:
        if len(run) >= SHORTEST:
            found.append((run[0][0], Run(list(run), _outputs([code for code, _ in run], readers))))
        else:
            found.extend(run)
        run.clear()

    for step in steps:
        if is_known(step[0]):
            run.append(step)
            continue
        close()
        found.append(step)
    close()
    return found


def _outputs(codes: Sequence[Instruction], readers: dict[int, int]) -> list[int]:
    """The registers that a run writes and that something else reads, or the run itself before it writes them."""
    written: set[int] = set()
    inside: dict[int, int] = {}
    for code in codes:
        for key in _sources(code):
            if isinstance(key, int) and key in written:
                inside[key] = inside.get(key, 0) + 1
        written |= {each.slot for each in _operands(code)[0] if isinstance(each, Register)}
    return sorted(slot for slot in written if readers.get(slot, 0) > inside.get(slot, 0))


def readers_of(codes: Sequence[Instruction]) -> dict[int, int]:
    """How many instructions read each register."""
    found: dict[int, int] = {}
    for code in codes:
        slots = {code.predicate.slot} if code.predicate is not None else set()
        for operand in code.operands:
            for item in operand.items if isinstance(operand, Group) else (operand,):
                base = getattr(item, "base", item)
                if isinstance(base, Register):
                    slots.add(base.slot)
        if code.opcode[0] in _EMIT and code.predicate is None:  # its first operands are only written
            slots &= {key for key in _sources(code) if isinstance(key, int)}
        for slot in slots:
            found[slot] = found.get(slot, 0) + 1
    return found
