"""Lines through memory: the start of a row of an array, and elements read from one line and stored along another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainer.engine.targets.cpu.kernels.loops import counted_loop, decode, whole_vectors
from trainer.engine.targets.ir.expression import LANES
from trainer.engine.targets.ir.writer import Integer, Writer, vector


@dataclass(frozen=True, slots=True)
class Line:
    """Elements of an LLVM integer type from `base` on, `stride` elements apart."""

    base: str
    element: str
    stride: int = 1

    def at(self, writer: Writer, place: Integer) -> str:
        """The address of the element at `place`."""
        offset = writer.multiply(place, self.stride)
        return writer.pointer(self.base, offset, self.element)

    def load(self, writer: Writer, place: Integer, lanes: int = 1) -> str:
        """The element at `place`, or a vector that begins there."""
        kind = self.element if lanes == 1 else vector(self.element, lanes)
        return writer.value(f"load {kind}, ptr {self.at(writer, place)}, align {self._alignment}")

    def store(self, writer: Writer, value: str, place: Integer, lanes: int = 1) -> None:
        """Stores an element, or a vector of them, from `place` on."""
        kind = self.element if lanes == 1 else vector(self.element, lanes)
        writer.emit(f"store {kind} {value}, ptr {self.at(writer, place)}, align {self._alignment}")

    def later(self, writer: Writer, places: Integer) -> Line:
        """The line that begins `places` elements further."""
        return Line(self.at(writer, places), self.element, self.stride)

    @property
    def _alignment(self) -> int:
        return int(self.element[1:]) // 8


def row_of(
    writer: Writer, base: str, element: str, number: Integer, shape: Sequence[int], axes: Sequence[int],
    strides: Sequence[int],
) -> str:  # fmt: skip
    """The address of point `number` of `axes`, in row-major order."""
    if not axes:
        return base
    places = decode(writer, number, [shape[axis] for axis in axes])
    offset = "0"
    for axis, place in zip(axes, places, strict=True):
        offset = writer.value(f"add i64 {offset}, {writer.value(f'mul i64 {place}, {strides[axis]}')}")
    return writer.value(f"getelementptr {element}, ptr {base}, i64 {offset}")


def mapped(
    writer: Writer, count: Integer, source: Line, target: Line, change: Callable[[str, int], str] | None = None
) -> None:
    """Stores `change(value, lanes)` of each element, in vectors if both lines are contiguous."""
    whole: Integer = 0

    def step(place: Integer, lanes: int) -> None:
        value = source.load(writer, place, lanes)
        target.store(writer, change(value, lanes) if change else value, place, lanes)

    if source.stride == target.stride == 1:
        whole = whole_vectors(writer, 0, count)
        with counted_loop(writer, 0, whole, LANES, "vectors") as loop:
            step(loop.index, LANES)
    with counted_loop(writer, whole, count, 1, "rest") as loop:
        step(loop.index, 1)
