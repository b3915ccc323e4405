"""Loops in static single assignment and integer arithmetic that is folded while rendering, on top of `Writer`.

An integer operand is a Python `int` (known while rendering) or a `str` (an i64 register); arithmetic on two known
integers happens here, so that a template may pass either and the IR holds only what depends on the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from trainer.engine.targets.cpu.kernels.writer import Typed, Writer

Integer = int | str


@dataclass
class Loop:
    """An open loop: its index, the values it carries, and `next`: their successors, set by the body; after it the
    last values.
    """

    index: Integer
    carried: list[str]
    next: list[str]


class LoopWriter(Writer):
    """A `Writer` that knows its current basic block, and so can write loops with carried values."""

    def __init__(self, parent: Writer | None = None) -> None:
        super().__init__(parent)
        self.block = "entry"

    def label(self, name: str) -> None:
        super().label(name)
        self.block = name

    def function(self, name: str, parameters: Sequence[Typed], build: Callable[[LoopWriter], None]) -> str:
        """Define the internal void function `name` once per module; `build` writes its body, without the return."""
        if name not in self._definitions:
            self._definitions[name] = ""
            inner = LoopWriter(self)
            inner.label("entry")
            build(inner)
            inner.emit("ret void")
            signature = ", ".join(f"{kind} {value}" for kind, value in parameters)
            body = "\n".join(inner.lines)
            self._definitions[name] = f"define internal void @{name}({signature}) noinline nounwind {{\n{body}\n}}"
        return name

    # Integer arithmetic, folded where both sides are known.

    def add(self, left: Integer, right: Integer) -> Integer:
        if isinstance(left, int) and isinstance(right, int):
            return left + right
        if left == 0:
            return right
        if right == 0:
            return left
        return self.value(f"add nsw i64 {left}, {right}", "i")

    def subtract(self, left: Integer, right: Integer) -> Integer:
        if isinstance(left, int) and isinstance(right, int):
            return left - right
        return left if right == 0 else self.value(f"sub nsw i64 {left}, {right}", "i")

    def multiply(self, left: Integer, right: Integer) -> Integer:
        if isinstance(left, int) and isinstance(right, int):
            return left * right
        if left == 0 or right == 0:
            return 0
        if left == 1:
            return right
        if right == 1:
            return left
        return self.value(f"mul nsw i64 {left}, {right}", "i")

    def divide(self, left: Integer, right: int) -> tuple[Integer, Integer]:
        """Quotient and remainder of a non-negative `left` by a known positive `right`."""
        if isinstance(left, int):
            return left // right, left % right
        if right == 1:
            return left, 0
        return self.value(f"udiv i64 {left}, {right}", "i"), self.value(f"urem i64 {left}, {right}", "i")

    def minimum(self, left: Integer, right: Integer) -> Integer:
        if isinstance(left, int) and isinstance(right, int):
            return min(left, right)
        smaller = self.value(f"icmp slt i64 {left}, {right}", "c")
        return self.value(f"select i1 {smaller}, i64 {left}, i64 {right}", "i")

    def maximum(self, left: Integer, right: Integer) -> Integer:
        if isinstance(left, int) and isinstance(right, int):
            return max(left, right)
        greater = self.value(f"icmp sgt i64 {left}, {right}", "c")
        return self.value(f"select i1 {greater}, i64 {left}, i64 {right}", "i")

    def pointer(self, base: str, offset: Integer, element: str) -> str:
        """The address `offset` elements of type `element` past `base`."""
        return base if offset == 0 else self.value(f"getelementptr {element}, ptr {base}, i64 {offset}", "p")

    def argument(self, word: int, kind: str = "ptr") -> str:
        """Word `word` of the kernel's argument block."""
        return self.value(f"load {kind}, ptr {self.pointer('%arguments', word, 'i64')}", "a")

    @contextmanager
    def loop(
        self,
        start: Integer,
        stop: Integer,
        step: int = 1,
        carried: Sequence[tuple[str, str]] = (),
    ) -> Iterator[Loop]:
        """A counted loop over [start, stop); `carried` lists (type, first value). After it `next` holds the last
        values.

        A loop whose bounds are known and that runs once leaves no trace; one with unknown bounds is guarded.
        """
        known = isinstance(start, int) and isinstance(stop, int)
        if known and not int(start) < int(stop):
            raise ValueError("a loop with known bounds must run at least once")
        if known and int(start) + step >= int(stop):
            yield Loop(start, [first for _, first in carried], [])
            return
        before, head, after = self.block, self.fresh("loop"), self.fresh("done")
        if known:
            self.branch(head)
        else:
            self.branch_if(self.value(f"icmp slt i64 {start}, {stop}", "c"), head, after)
        self.label(head)
        index, following = (f"%{self.fresh('n')}" for _ in range(2))
        values = [f"%{self.fresh('x')}" for _ in carried]
        place = len(self.lines)
        body = Loop(index, values, [])
        yield body
        self.emit(f"{following} = add nsw i64 {index}, {step}")
        more, latch = self.value(f"icmp slt i64 {following}, {stop}", "c"), self.block
        self.branch_if(more, head, after)
        heads = [f"  {index} = phi i64 [ {start}, %{before} ], [ {following}, %{latch} ]"]
        for (kind, first), value, successor in zip(carried, values, body.next, strict=True):
            heads.append(f"  {value} = phi {kind} [ {first}, %{before} ], [ {successor}, %{latch} ]")
        self.lines[place:place] = heads
        self.label(after)
        if not known:
            body.next = [
                self.value(f"phi {kind} [ {first}, %{before} ], [ {successor}, %{latch} ]", "x")
                for (kind, first), successor in zip(carried, body.next, strict=True)
            ]

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """A block that runs where `condition` (an i1) holds."""
        inside, after = self.fresh("then"), self.fresh("end")
        self.emit(f"br i1 {condition}, label %{inside}, label %{after}")
        self.label(inside)
        yield
        self.branch(after)
        self.label(after)

    def cut(
        self, index: Integer, total: Integer, tile: int, totals: Sequence[int] = (), last_differs: bool = False
    ) -> Iterator[tuple[int, bool]]:
        """Yield each size that the tile starting at `index` may have, inside the branch where it has it, and whether
        it is the last.

        A `total` that is a register takes one of the values `totals`. `last_differs`: a last tile of full size is
        told apart.
        """
        if isinstance(total, int):
            last = (total - 1) // tile * tile
            if total - last == tile and not (last_differs and last):
                yield tile, last_differs
                return
            if isinstance(index, int):
                yield (tile, False) if index < last else (total - last, True)
                return
            before = self.value(f"icmp slt i64 {index}, {last}", "c") if last else ""
            if last:
                with self.when(before):
                    yield tile, False
                with self.when(self.value(f"icmp sge i64 {index}, {last}", "c")):
                    yield total - last, True
            else:
                yield total, True
            return
        sizes = sorted({total % tile for total in totals if total % tile} | {tile for total in totals if total >= tile})
        rest = self.minimum(self.subtract(total, index), tile)
        for size in sizes:
            with self.when(self.value(f"icmp eq i64 {rest}, {size}", "c")):
                yield size, size < tile

    def places(self, index: Integer, possible: Sequence[int]) -> Iterator[int]:
        """Yield each value that `index` may have, inside the branch where it has it."""
        for place in possible:
            if len(possible) == 1 or index == place:
                yield place
            elif not isinstance(index, int):
                with self.when(self.value(f"icmp eq i64 {index}, {place}", "c")):
                    yield place
