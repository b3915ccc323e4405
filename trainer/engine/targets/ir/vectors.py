"""Operations on integer vectors, and strict IEEE operations on float or double vectors, so that approximations read as
formulas.

No float operation has a fast-math flag: LLVM rounds exactly the operations that are written. `fma` rounds once and is
used only where it is written; LLVM contracts no other operations to it.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from trainer.engine.targets.ir.writer import Writer, vector


def float_literal(value: float, element: str) -> str:
    """A floating-point constant in LLVM's exact hexadecimal spelling, rounded to `element` ("float" or "double")."""
    if element == "float":
        value = to_float32(float(value))
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"


def to_float32(value: float) -> float:
    """Rounds a Python float to float32; a value beyond its range becomes infinite."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def splat(element: str, literal: str) -> str:
    """A constant vector of equal elements."""
    return f"splat ({element} {literal})"


@dataclass
class Vectors:
    """Emits operations on `lanes` elements of `element` through `writer`."""

    writer: Writer
    element: str
    lanes: int
    type: str = field(init=False)
    mask: str = field(init=False)

    def __post_init__(self) -> None:
        self.type, self.mask = vector(self.element, self.lanes), vector("i1", self.lanes)

    def operation(self, name: str, *operands: str) -> str:
        """An instruction on values of the type: add, fneg, icmp eq, ..."""
        return self.writer.value(f"{name} {self.type} {', '.join(operands)}")

    def select(self, condition: str, a: str, b: str) -> str:
        return self.writer.value(f"select {self.mask} {condition}, {self.type} {a}, {self.type} {b}")

    def logical(self, name: str, a: str, b: str) -> str:
        """An instruction on masks: and, or, xor."""
        return self.writer.value(f"{name} {self.mask} {a}, {b}")


@dataclass
class Integers(Vectors):
    """Operations on integers."""

    signed: bool

    def constant(self, value: int) -> str:
        return splat(self.element, str(value))


@dataclass
class Floats(Vectors):
    """Operations on "float" or "double"."""

    bits: str = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.bits = vector(self.integer, self.lanes)

    @property
    def integer(self) -> str:
        return "i32" if self.element == "float" else "i64"

    @property
    def mantissa(self) -> int:
        """Stored mantissa bits."""
        return 23 if self.element == "float" else 52

    @property
    def bias(self) -> int:
        return 127 if self.element == "float" else 1023

    def constant(self, value: float) -> str:
        return splat(self.element, float_literal(value, self.element))

    def whole(self, value: int) -> str:
        """A constant of the integer type of the same width."""
        return splat(self.integer, str(value))

    add = functools.partialmethod(Vectors.operation, "fadd")
    subtract = functools.partialmethod(Vectors.operation, "fsub")
    multiply = functools.partialmethod(Vectors.operation, "fmul")
    divide = functools.partialmethod(Vectors.operation, "fdiv")
    negate = functools.partialmethod(Vectors.operation, "fneg")

    def fma(self, a: str, b: str, c: str) -> str:
        """a * b + c with one rounding."""
        return self.writer.apply("fma", self.type, a, b, c)

    def unary(self, name: str, a: str) -> str:
        """One of LLVM's sqrt, fabs, floor, ceil, trunc, roundeven."""
        return self.writer.apply(name, self.type, a)

    def copysign(self, magnitude: str, sign: str) -> str:
        return self.writer.apply("copysign", self.type, magnitude, sign)

    def compare(self, predicate: str, a: str, b: str) -> str:
        """A vector of i1; `predicate` is LLVM's: olt, oge, uno, ..."""
        return self.operation(f"fcmp {predicate}", a, b)

    def to_bits(self, a: str) -> str:
        return self.writer.value(f"bitcast {self.type} {a} to {self.bits}")

    def from_bits(self, a: str) -> str:
        return self.writer.value(f"bitcast {self.bits} {a} to {self.type}")

    def integer_operation(self, operation: str, a: str, b: str) -> str:
        """An integer instruction (add, and, lshr, ...) on the type of the same width."""
        return self.writer.value(f"{operation} {self.bits} {a}, {b}")

    def horner(self, x: str, coefficients: tuple[float, ...]) -> str:
        """The polynomial with `coefficients`, highest power first, by fused multiply-adds."""
        total = self.constant(coefficients[0])
        for coefficient in coefficients[1:]:
            total = self.fma(total, x, self.constant(coefficient))
        return total

    def estrin(self, x: str, coefficients: tuple[float, ...]) -> str:
        """The same polynomial by Estrin's scheme, which joins neighboring terms in pairs: it takes a few more products
        and half the latency.

        Iterations of a loop overlap only within the processor's reorder window, where a long latency stalls.
        """
        terms = [self.constant(coefficient) for coefficient in reversed(coefficients)]
        while len(terms) > 1:
            pairs = [self.fma(high, x, low) for low, high in zip(terms[::2], terms[1::2], strict=False)]
            terms = pairs + terms[2 * len(pairs) :]
            x = self.multiply(x, x) if len(terms) > 1 else x
        return terms[0]

    def lookup(self, table: Sequence[float], index: str) -> str:
        """Looks up table[index & 15] in sixteen floats; the number of lanes is a power of two."""
        kind, bits = vector("float", 16), vector("i32", 16)
        entries = ", ".join(f"float {float_literal(value, 'float')}" for value in table)
        parts = []
        for start in range(0, self.lanes, 16):
            part = self.writer.shuffle(self.bits, index, "poison", [(start + lane) % self.lanes for lane in range(16)])
            parts.append(self.writer.lookup(kind, f"<{entries}>", bits, part))
        size = 16
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.writer.shuffle(vector("float", size), low, high, range(2 * size)) for low, high in pairs]
            size *= 2
        return parts[0] if self.lanes >= size else self.writer.shuffle(kind, parts[0], "poison", range(self.lanes))
