"""Sorts rows that fit into a thread's scratch memory: by ranks, selection or radix, depending on the lengths.

All three methods are stable. The time of ranks and radix does not depend on the order of the elements; a radix pass is
skipped if all elements share its digit. Shapes and strides are baked in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from trainer.engine.targets.cpu.kernels.lines import Line, mapped, row_of
from trainer.engine.targets.cpu.kernels.loops import IOTA, bounds, broadcast, counted_loop, word
from trainer.engine.targets.ir.expression import LANES
from trainer.engine.targets.ir.sort_keys import Keys
from trainer.engine.targets.ir.writer import Integer, Writer, vector

_TASK_ELEMENTS = 4096
_RANKED = 64
"""Maximum length of a row that is sorted by ranks: for each element, the number of elements that come before it."""

_SELECTED = 32
"""Maximum number of elements that are selected, by insertion of each new one among the best into a sorted list."""

_LONG = 4096
"""Row length above which counters of 11-bit digits take less time than the additional passes of 8-bit digits."""

_MASK = vector("i1", LANES)


def digit_bits(width: int, length: int) -> int:
    """Bits of a digit of keys of `width` bits, for rows of `length`."""
    return 11 if width > 16 and length > _LONG else 8


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Rows along an axis of x, sorted by keys into y: the elements themselves, or with `places` their indices.

    Strides are in elements, by axis.
    """

    keys: Keys
    shape: tuple[int, ...]
    axis: int
    places: bool
    input_strides: tuple[int, ...]
    output_strides: tuple[int, ...]

    @property
    def length(self) -> int:
        return self.shape[self.axis]

    @property
    def row_axes(self) -> tuple[int, ...]:
        return tuple(axis for axis in range(len(self.shape)) if axis != self.axis)

    @property
    def rows(self) -> int:
        return math.prod(self.shape[axis] for axis in self.row_axes)

    def row(self, writer: Writer, base: str, element: str, row: Integer, strides: tuple[int, ...]) -> Line:
        """Row number `row` of x or y."""
        begin = row_of(writer, base, element, row, self.shape, self.row_axes, strides)
        return Line(begin, element, strides[self.axis])


@dataclass(frozen=True)
class SortRows(KeyedRows):
    """The first `count` of each row, sorted: the elements, or with `places` their indices, int64. Addresses: (x, y)."""

    count: int

    @property
    def rows_per_task(self) -> int:
        return max(1, _TASK_ELEMENTS // max(1, self.length))

    @property
    def tasks(self) -> int:
        return -(-self.rows // self.rows_per_task)

    @property
    def method(self) -> Literal["ranks", "selection", "radix"]:
        if self.length <= _RANKED:
            return "ranks"
        return "selection" if self.count <= _SELECTED and 8 * self.count <= self.length else "radix"

    @property
    def passes(self) -> int:
        """Number of digits of a key."""
        return -(-self.keys.width // digit_bits(self.keys.width, self.length))

    @cached_property
    def _offsets(self) -> dict[str, int]:
        """The offset in the scratch of each array, and under "end" their total size."""
        keys, order = self.length * self.keys.width // 8, 4 * self.length * self.places
        sizes = {"keys": keys + 64 * self.keys.width // 8}  # the last vector of keys may be padded
        if self.method == "selection":
            sizes |= {"best": 8 * _SELECTED, "chosen": 8 * _SELECTED}
        elif self.method == "radix":
            counters = 4 * self.passes << digit_bits(self.keys.width, self.length)
            sizes |= {"other keys": keys, "order": order, "other order": order, "counters": counters, "current": 32}
        offsets, end = {}, 0
        for name, size in sizes.items():
            offsets[name] = end
            end += -(-size // 64) * 64
        return {**offsets, "end": end}

    @property
    def scratch_bytes(self) -> int:
        return self._offsets["end"]

    def render(self, name: str) -> str:
        """The module text, exporting `void name(ptr arguments, i64 task, ptr scratch)`."""
        return _Rows(self).render(name)


class _Rows:
    """Writes one kernel."""

    def __init__(self, kernel: SortRows) -> None:
        self.kernel, self.writer, self.length = kernel, Writer(), kernel.length
        self.element = kernel.keys.element
        offsets = kernel._offsets
        self.memory = {
            name: self.writer.pointer("%scratch", offset, "i8") for name, offset in offsets.items() if name != "end"
        }
        self.keys = Line(self.memory["keys"], self.element)

    def render(self, name: str) -> str:
        writer, kernel = self.writer, self.kernel
        source, target = (word(writer, place, "ptr") for place in range(2))
        result = "i64" if kernel.places else self.element
        first, last = bounds(writer, "%task", kernel.rows_per_task, kernel.rows)
        with counted_loop(writer, first, last, 1, "row") as row:
            own = kernel.row(writer, source, self.element, row.index, kernel.input_strides)
            line = kernel.row(writer, target, result, row.index, kernel.output_strides)
            mapped(writer, self.length, own, self.keys, lambda bits, lanes: kernel.keys.encode(writer, bits, lanes))
            getattr(self, f"_by_{kernel.method}")(line)
        return writer.module(name, scratch=True)

    # Ranks

    def _by_ranks(self, target: Line) -> None:
        writer, whole = self.writer, -(-self.length // LANES) * LANES
        self._fill_up(whole)
        with counted_loop(writer, 0, self.length, 1, "element") as own:
            key = self.keys.load(writer, own.index)
            keys = broadcast(writer, self.element, key)
            wide = vector(self.element, LANES)
            place = broadcast(writer, "i32", writer.value(f"trunc i64 {own.index} to i32"))
            with counted_loop(writer, 0, whole, LANES, "others", [("i64", "0")]) as loop:
                others = self.keys.load(writer, loop.index, LANES)
                start = broadcast(writer, "i32", writer.value(f"trunc i64 {loop.index} to i32"))
                theirs = writer.value(f"add {vector('i32', LANES)} {start}, {IOTA['i32']}")
                earlier = writer.value(f"icmp ult {vector('i32', LANES)} {theirs}, {place}")
                equal = writer.value(f"icmp eq {wide} {others}, {keys}")
                less = writer.value(f"icmp ult {wide} {others}, {keys}")
                tied = writer.value(f"and {_MASK} {equal}, {earlier}")
                before = self._lanes(writer.value(f"or {_MASK} {less}, {tied}"))
                count = writer.value(f"zext i16 {writer.apply('ctpop', 'i16', before)} to i64")
                loop.next = [writer.value(f"add i64 {loop.carried[0]}, {count}")]
            rank = loop.next[0]
            with writer.when(writer.value(f"icmp ult i64 {rank}, {self.kernel.count}"), "wanted"):
                target.store(writer, self._result(key, own.index), rank)

    def _result(self, key: str, place: Integer) -> str:
        return str(place) if self.kernel.places else self.kernel.keys.decode(self.writer, key)

    def _fill_up(self, end: int) -> None:
        """Pads the keys behind the row's end with the maximum key, which sorts last."""
        for place in range(self.length, end):
            self.keys.store(self.writer, "-1", place)

    def _lanes(self, mask: str) -> str:
        return self.writer.value(f"bitcast {_MASK} {mask} to i16")

    # Selection

    def _by_selection(self, target: Line) -> None:
        writer, count = self.writer, self.kernel.count
        best, chosen = Line(self.memory["best"], self.element), Line(self.memory["chosen"], "i64")
        after = count + -(-(self.length - count) // LANES) * LANES
        self._fill_up(after)
        with counted_loop(writer, 0, count, 1, "first") as loop:
            self._insert(best, chosen, loop.index, self.keys.load(writer, loop.index), loop.index)
        with counted_loop(writer, count, after, LANES, "rest") as loop:
            worst = broadcast(writer, self.element, best.load(writer, count - 1))
            keys = self.keys.load(writer, loop.index, LANES)
            better = self._lanes(writer.value(f"icmp ult {vector(self.element, LANES)} {keys}, {worst}"))
            any_better = writer.value(f"icmp ne i16 {better}, 0")
            with writer.when(any_better, "better"), counted_loop(writer, 0, LANES, 1, "lane") as lane:
                place = writer.value(f"add i64 {loop.index}, {lane.index}")
                key, limit = self.keys.load(writer, place), best.load(writer, count - 1)
                with writer.when(writer.value(f"icmp ult {self.element} {key}, {limit}"), "one"):
                    self._insert(best, chosen, count - 1, key, place)
        if self.kernel.places:
            mapped(writer, count, chosen, target)
        else:
            mapped(writer, count, best, target, lambda key, lanes: self.kernel.keys.decode(writer, key, lanes))

    def _insert(self, best: Line, chosen: Line, filled: Integer, key: str, place: Integer) -> None:
        """Inserts a key and its place into the `filled` best ones, behind equal keys."""

        def build(inner: Writer) -> None:
            best, chosen = Line("%best", self.element), Line("%chosen", "i64")
            inner.branch("head")
            inner.label("head")
            inner.emit("%at = phi i64 [ %filled, %entry ], [ %before, %move ]")
            inner.emit("%before = add i64 %at, -1")
            inner.branch_if(inner.value("icmp eq i64 %at, 0"), "done", "compare")
            inner.label("compare")
            other = best.load(inner, "%before")
            inner.branch_if(inner.value(f"icmp ugt {self.element} {other}, %key"), "move", "done")
            inner.label("move")
            best.store(inner, other, "%at")
            chosen.store(inner, chosen.load(inner, "%before"), "%at")
            inner.branch("head")
            inner.label("done")
            best.store(inner, "%key", "%at")
            chosen.store(inner, "%place", "%at")

        parameters = [("ptr", "%best"), ("ptr", "%chosen"), ("i64", "%filled"), (self.element, "%key")]
        name = self.writer.helper("insert", "void", [*parameters, ("i64", "%place")], build)
        arguments = ("ptr", best.base), ("ptr", chosen.base), ("i64", str(filled)), (self.element, key)
        self.writer.call("void", name, *arguments, ("i64", str(place)))

    # Radix

    def _by_radix(self, target: Line) -> None:
        writer, kernel, memory = self.writer, self.kernel, self.memory
        digits = Digits(self.element, digit_bits(kernel.keys.width, self.length))
        counters = [Line(writer.pointer(memory["counters"], number * digits.count, "i32"), "i32")
                    for number in range(kernel.passes)]  # fmt: skip
        digits.clear(writer, counters[0], kernel.passes * digits.count)
        order = Line(memory["order"], "i32") if kernel.places else None
        with counted_loop(writer, 0, self.length, 1, "histogram") as loop:
            key = self.keys.load(writer, loop.index)
            for number, counter in enumerate(counters):
                digits.increment(writer, counter, digits.of(writer, key, number))
            if order:
                order.store(writer, writer.value(f"trunc i64 {loop.index} to i32"), loop.index)
        names = ("keys", "other keys", "order", "other order")[: 4 if kernel.places else 2]
        for place, name in enumerate(names):
            writer.emit(f"store ptr {memory[name]}, ptr {writer.pointer(memory['current'], 8 * place, 'i8')}")
        for number, counter in enumerate(counters):
            self._pass(digits, number, counter, len(names))
        if kernel.places:
            last = Line(self._current(2), "i32")
            mapped(writer, kernel.count, last, target, lambda place, lanes: widened(writer, place, lanes))
        else:
            last = Line(self._current(0), self.element)
            mapped(writer, kernel.count, last, target, lambda key, lanes: kernel.keys.decode(writer, key, lanes))

    def _current(self, place: int) -> str:
        return self.writer.value(f"load ptr, ptr {self.writer.pointer(self.memory['current'], 8 * place, 'i8')}")

    def _pass(self, digits: Digits, number: int, counter: Line, arrays: int) -> None:
        """Moves the row's elements into the order of one digit and swaps the arrays; does nothing if all share it."""
        writer = self.writer
        current = [self._current(place) for place in range(arrays)]
        source = Line(current[0], self.element)
        first = digits.of(writer, source.load(writer, 0), number)
        differs = writer.value(f"icmp ne i32 {counter.load(writer, first)}, {self.length}")
        with writer.when(differs, "differs"):
            digits.accumulate(writer, counter)
            lines = [(source, Line(current[1], self.element))]
            if arrays == 4:
                lines.append((Line(current[2], "i32"), Line(current[3], "i32")))
            with counted_loop(writer, 0, self.length, 1, "move") as loop:
                values = [line.load(writer, loop.index) for line, _ in lines]
                place = digits.increment(writer, counter, digits.of(writer, values[0], number))
                for value, (_, line) in zip(values, lines, strict=True):
                    line.store(writer, value, place)
            for slot in range(arrays):
                home = writer.pointer(self.memory["current"], 8 * slot, "i8")
                writer.emit(f"store ptr {current[slot ^ 1]}, ptr {home}")


@dataclass(frozen=True, slots=True)
class Digits:
    """Digits of `bits` bits in keys of an LLVM integer type, and their i32 counters."""

    element: str
    bits: int

    @property
    def count(self) -> int:
        return 1 << self.bits

    def of(self, writer: Writer, key: str, number: int) -> str:
        """Digit `number`, counted from the lowest, as i64."""
        wide = key if self.element == "i64" else writer.value(f"zext {self.element} {key} to i64")
        if number:
            wide = writer.value(f"lshr i64 {wide}, {number * self.bits}")
        return writer.value(f"and i64 {wide}, {self.count - 1}")

    def clear(self, writer: Writer, counters: Line, count: int) -> None:
        """Clears `count` counters, a multiple of the vector length."""
        with counted_loop(writer, 0, count, LANES, "clear") as loop:
            counters.store(writer, "zeroinitializer", loop.index, LANES)

    def increment(self, writer: Writer, counters: Line, digit: str) -> str:
        """Increments the counter of `digit`; returns its previous value as i64."""
        before = counters.load(writer, digit)
        counters.store(writer, writer.value(f"add i32 {before}, 1"), digit)
        return writer.value(f"zext i32 {before} to i64")

    def accumulate(self, writer: Writer, counters: Line) -> None:
        """Replaces each counter with the sum of the previous ones."""
        with counted_loop(writer, 0, self.count, 1, "sum", [("i32", "0")]) as loop:
            own = counters.load(writer, loop.index)
            counters.store(writer, loop.carried[0], loop.index)
            loop.next = [writer.value(f"add i32 {loop.carried[0]}, {own}")]


def widened(writer: Writer, place: str, lanes: int = 1) -> str:
    """Widens i32 indices to i64."""
    narrow, wide = ("i32", "i64") if lanes == 1 else (vector("i32", lanes), vector("i64", lanes))
    return writer.value(f"zext {narrow} {place} to {wide}")
