"""Sort keys: unsigned integers in the order of the elements, computed from the bits of the elements.

No float arithmetic is involved, so subnormal numbers are distinguished even where arithmetic flushes them.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.ir.vectors import splat
from trainer.engine.targets.ir.writer import Writer, vector

_FLOAT_FORMATS = {"float64": (64, 52), "float32": (32, 23), "bfloat16": (16, 7), "float16": (16, 10)}
"""The total number of bits, and the number of fraction bits."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of elements of `dtype`. NaN is greater than any number; zeros of both signs are equal, except with
    `signed_zeros`: then -0 is less than 0, and a key represents one element (all NaN are one).
    """

    dtype: DType
    descending: bool
    signed_zeros: bool

    @property
    def width(self) -> int:
        """Bits of a key."""
        return 8 * self.dtype.itemsize

    @property
    def element(self) -> str:
        """The LLVM type of a key, and of an element's bits."""
        return f"i{self.width}"

    def encode(self, writer: Writer, bits: str, lanes: int = 1) -> str:
        """Returns the key for the bits of an element, or the keys for a vector of them."""
        step = _Step(writer, self.element, lanes)
        if self.dtype.is_float:
            width, fraction = _FLOAT_FORMATS[self.dtype.name]
            greatest = (1 << width - 1) - 1
            size = step("and", bits, greatest)
            bits = step.select("ugt", size, greatest >> fraction << fraction, greatest, bits)
            if not self.signed_zeros:
                bits = step.select("eq", size, 0, 0, bits)
            is_negative = step("ashr", bits, self.width - 1)  # all ones or all zeros
            bits = step("xor", bits, step("or", is_negative, self._top))
        elif self.dtype.kind == "int":
            bits = step("xor", bits, self._top)
        return step("xor", bits, -1) if self.descending else bits

    def decode(self, writer: Writer, key: str, lanes: int = 1) -> str:
        """Returns the bits of the element that a key represents."""
        step = _Step(writer, self.element, lanes)
        if self.descending:
            key = step("xor", key, -1)
        if self.dtype.is_float:
            was_negative = step("xor", step("ashr", key, self.width - 1), -1)
            return step("xor", key, step("or", was_negative, self._top))
        return step("xor", key, self._top) if self.dtype.kind == "int" else key

    @property
    def _top(self) -> int:
        return -(1 << self.width - 1)


@dataclass(frozen=True, slots=True)
class _Step:
    """Writes instructions on an integer, or on vectors of `lanes`; Python integers are constants."""

    writer: Writer
    element: str
    lanes: int

    def __call__(self, operation: str, a: str, b: str | int) -> str:
        return self.writer.value(f"{operation} {self._kind} {a}, {self._constant(b)}")

    def select(self, relation: str, a: str, b: int, then: int, otherwise: str) -> str:
        holds = self(f"icmp {relation}", a, b)
        mask = "i1" if self.lanes == 1 else vector("i1", self.lanes)
        kind = self._kind
        return self.writer.value(f"select {mask} {holds}, {kind} {self._constant(then)}, {kind} {otherwise}")

    @property
    def _kind(self) -> str:
        return self.element if self.lanes == 1 else vector(self.element, self.lanes)

    def _constant(self, value: str | int) -> str:
        return str(value) if self.lanes == 1 or isinstance(value, str) else splat(self.element, str(value))
