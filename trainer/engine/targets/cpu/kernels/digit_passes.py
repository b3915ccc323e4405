"""Radix sort of rows too long for a thread's scratch memory, or of a long single row: many tasks share each pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trainer.engine.targets.cpu.kernels.lines import Line, mapped
from trainer.engine.targets.cpu.kernels.loops import bounds, counted_loop, word
from trainer.engine.targets.cpu.kernels.sort import Digits, KeyedRows, digit_bits, widened
from trainer.engine.targets.ir.writer import Integer, Writer


@dataclass(frozen=True, slots=True)
class DigitPass(KeyedRows):
    """One pass over one digit: many tasks sort the same rows, with a chunk of a row each.

    The first pass reads x and the last writes y. Between passes, keys and, with `places`, indices (int32) are rows of
    dense arrays. A pass consists of three kernels: `CountDigits`, `PlaceDigits` and `MoveDigits`.
    """

    number: int

    @property
    def chunk(self) -> int:
        """Elements of a chunk, determined by the shape alone."""
        return max(16384, -(-self.length // 16))

    @property
    def chunks(self) -> int:
        return -(-self.length // self.chunk)

    @property
    def digits(self) -> Digits:
        return Digits(self.keys.element, digit_bits(self.keys.width, self.length))

    @property
    def passes(self) -> int:
        return -(-self.keys.width // self.digits.bits)

    @property
    def is_last(self) -> bool:
        return self.number == self.passes - 1

    @property
    def counters(self) -> int:
        return self.rows * self.chunks * self.digits.count

    def dense(self, writer: Writer, base: str, element: str, row: Integer) -> Line:
        """Row number `row` of a dense array between passes."""
        return Line(base, element).later(writer, writer.multiply(row, self.length))

    def source(self, writer: Writer, base: str, row: Integer) -> Callable[[Integer], str]:
        """Returns a function from a place in the row to its key."""
        if self.number:
            line = self.dense(writer, base, self.keys.element, row)
            return lambda place: line.load(writer, place)
        line = self.row(writer, base, self.keys.element, row, self.input_strides)
        return lambda place: self.keys.encode(writer, line.load(writer, place))

    def part(self, writer: Writer) -> tuple[Integer, str, str]:
        """The row of a task, and the start and end of its chunk."""
        row, chunk = writer.divide("%task", self.chunks)
        return row, *bounds(writer, chunk, self.chunk, self.length)


@dataclass(frozen=True, slots=True)
class CountDigits:
    """Counts each digit in each chunk. Addresses: (keys or x, counters [rows, chunks, digits])."""

    of: DigitPass

    @property
    def tasks(self) -> int:
        return self.of.rows * self.of.chunks

    def render(self, name: str) -> str:
        writer, digits = Writer(), self.of.digits
        source, target = (word(writer, place, "ptr") for place in range(2))
        row, first, last = self.of.part(writer)
        key = self.of.source(writer, source, row)
        counters = Line(target, "i32").later(writer, writer.multiply("%task", digits.count))
        digits.clear(writer, counters, digits.count)
        with counted_loop(writer, first, last, 1, "count") as loop:
            digits.increment(writer, counters, digits.of(writer, key(loop.index), self.of.number))
        return writer.module(name)


@dataclass(frozen=True, slots=True)
class PlaceDigits:
    """Starts of each chunk's elements of each digit. Addresses: (counters, places), both [rows, chunks, digits]."""

    rows: int
    chunks: int
    digits: int

    @property
    def tasks(self) -> int:
        return self.rows

    def render(self, name: str) -> str:
        writer = Writer()
        begin = writer.multiply("%task", self.chunks * self.digits)
        counters, places = (Line(word(writer, place, "ptr"), "i32").later(writer, begin) for place in range(2))
        with counted_loop(writer, 0, self.digits, 1, "digit", [("i32", "0")]) as digit:
            total = digit.carried[0]
            for chunk in range(self.chunks):
                place = writer.add(digit.index, chunk * self.digits)
                places.store(writer, total, place)
                total = writer.value(f"add i32 {total}, {counters.load(writer, place)}")
            digit.next = [total]
        return writer.module(name)


@dataclass(frozen=True, slots=True)
class MoveDigits:
    """Moves elements into the order of a digit.

    Addresses: inputs (keys or x, places[, indices]), then outputs (y, or keys[, indices]). The first pass reads no
    indices. A chunk's places are copied to the scratch and incremented there.
    """

    of: DigitPass

    @property
    def tasks(self) -> int:
        return self.of.rows * self.of.chunks

    @property
    def scratch_bytes(self) -> int:
        return 4 * self.of.digits.count

    def render(self, name: str) -> str:
        writer, of, digits = Writer(), self.of, self.of.digits
        reads_order = of.places and of.number > 0
        addresses = [word(writer, place, "ptr") for place in range(3 + reads_order + (of.places and not of.is_last))]
        row, first, last = of.part(writer)
        key = of.source(writer, addresses[0], row)
        places = Line("%scratch", "i32")
        mapped(
            writer,
            digits.count,
            Line(addresses[1], "i32").later(writer, writer.multiply("%task", digits.count)),
            places,
        )
        order = of.dense(writer, addresses[2], "i32", row) if reads_order else None
        targets = addresses[2 + reads_order :]
        if of.is_last:
            line = of.row(writer, targets[0], "i64" if of.places else of.keys.element, row, of.output_strides)
        else:
            lines = [of.dense(writer, base, element, row)
                     for base, element in zip(targets, (of.keys.element, "i32"), strict=False)]  # fmt: skip
        with counted_loop(writer, first, last, 1, "move") as loop:
            own = key(loop.index)
            place = digits.increment(writer, places, digits.of(writer, own, of.number))
            index = order.load(writer, loop.index) if order else writer.value(f"trunc i64 {loop.index} to i32")
            if not of.is_last:
                for value, line in zip((own, index), lines, strict=False):
                    line.store(writer, value, place)
            elif of.places:
                line.store(writer, widened(writer, index), place)
            else:
                line.store(writer, of.keys.decode(writer, own), place)
        return writer.module(name, scratch=True)
