"""Loops shared by the element-wise and reduction kernels: over vectors of a row, and over rows of a space.

Positions and sizes are unsigned here, and most of them are known only at run time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from trainer.engine.targets.cpu.kernels.loop_kernel import LoopKernel
from trainer.engine.targets.ir.expression import LANES, MEMORY
from trainer.engine.targets.ir.operand import Operand
from trainer.engine.targets.ir.writer import Integer, Loop, Typed, Writer, vector

IOTA = {element: "<" + ", ".join(f"{element} {lane}" for lane in range(LANES)) + ">" for element in ("i32", "i64")}


@dataclass
class Arguments:
    """The loaded words of an argument block; operands are inputs, then outputs."""

    operands: Sequence[Operand]
    bases: Sequence[str]
    """Addresses, or the base value of an index operand."""
    sizes: Sequence[Integer]
    strides: Sequence[Sequence[Integer]]
    chunk: str = "0"
    grain: str = "0"

    @property
    def elements(self) -> list[str]:
        """The type of each operand's elements in memory."""
        return [MEMORY[operand.dtype.name] for operand in self.operands]


@dataclass(frozen=True)
class Part:
    """A vector's part of a row: `lanes` elements from `position` on, or only those of `mask`."""

    position: Integer
    mask: str | None = None
    lanes: int = LANES


def load_arguments(writer: Writer, kernel: LoopKernel) -> Arguments:
    """Reads the whole argument block of `kernel` (unused words cost nothing: LLVM removes their loads)."""
    operands = [*kernel.inputs, *(operand for _, operand in kernel.outputs)]
    position = 0

    def next_word(kind: str) -> str:
        nonlocal position
        place = writer.value(f"getelementptr i64, ptr %arguments, i64 {position}")
        position += 1
        return writer.value(f"load {kind}, ptr {place}, !invariant.load !0")

    bases = [next_word(cursor_type(operand)) for operand in operands]
    sizes = [next_word("i64") for _ in range(kernel.rank)]
    strides = [[next_word("i64") for _ in range(kernel.rank)] for _ in operands]
    return Arguments(operands, bases, sizes, strides, next_word("i64"), next_word("i64"))


def word(writer: Writer, place: Integer, kind: str = "i64", block: str = "%arguments") -> str:
    """The word at `place` of an argument block."""
    return writer.value(f"load {kind}, ptr {writer.value(f'getelementptr i64, ptr {block}, i64 {place}')}")


def cursor_type(operand: Operand) -> str:
    """The type of a place in an operand: a pointer, or for an index operand the value itself."""
    return "i64" if operand.index else "ptr"


def minimum(writer: Writer, a: Integer, b: Integer) -> str:
    less = writer.value(f"icmp ult i64 {a}, {b}")
    return writer.value(f"select i1 {less}, i64 {a}, i64 {b}")


def product(writer: Writer, sizes: Sequence[Integer]) -> Integer:
    """The product of one or more `sizes`."""
    total = sizes[0]
    for size in sizes[1:]:
        total = writer.value(f"mul i64 {total}, {size}")
    return total


def bounds(writer: Writer, number: Integer, size: Integer, total: Integer) -> tuple[str, str]:
    """The start and end of part `number` of `total`, cut into parts of `size`."""
    first = writer.value(f"mul i64 {number}, {size}")
    return first, minimum(writer, total, writer.value(f"add i64 {first}, {size}"))


def guarded(writer: Writer, name: str, condition: str, inside: str = "head") -> tuple[str, str, str, str]:
    """Begins a block that runs if `condition`; returns the names of the blocks before, head, latch and after."""
    before, head, latch, after = (writer.fresh(f"{name}.{part}.") for part in ("before", inside, "latch", "after"))
    writer.branch(before)
    writer.label(before)
    writer.branch_if(writer.value(condition), head, after)
    writer.label(head)
    return before, head, latch, after


@contextmanager
def counted_loop(
    writer: Writer, start: Integer, stop: Integer, step: Integer, name: str, carried: Sequence[Typed] = (),
    index: str = "i",
) -> Iterator[Loop]:  # fmt: skip
    """As `Writer.loop`, with named blocks; the body may set `step`, and `next` holds the last values after it."""
    before, head, latch, after = guarded(writer, name, f"icmp ult i64 {start}, {stop}")
    following = f"%{writer.fresh('next')}"
    place = writer.value(f"phi i64 [ {start}, %{before} ], [ {following}, %{latch} ]", index)
    later = [f"%{writer.fresh('carried')}" for _ in carried]

    def merged() -> list[str]:
        return [
            writer.value(f"phi {kind} [ {first}, %{before} ], [ {new}, %{latch} ]")
            for (kind, first), new in zip(carried, later, strict=True)
        ]

    loop = Loop(place, merged(), [], step)
    yield loop
    writer.branch(latch)
    writer.label(latch)
    for (kind, _), new, result in zip(carried, later, loop.next, strict=True):
        writer.emit(f"{new} = bitcast {kind} {result} to {kind}")
    writer.emit(f"{following} = add nuw i64 {place}, {loop.step}")
    writer.branch_if(writer.value(f"icmp ult i64 {following}, {stop}"), head, after)
    writer.label(after)
    loop.next = merged()


def tail_mask(writer: Writer, count: Integer, lanes: int = LANES) -> str:
    """A mask of the first `count` (0..lanes) of `lanes` lanes."""
    small = writer.value(f"trunc i64 {count} to i8")
    order = ", ".join(f"i8 {lane}" for lane in range(lanes))
    return writer.value(f"icmp ult {vector('i8', lanes)} <{order}>, {broadcast(writer, 'i8', small, lanes)}")


def broadcast(writer: Writer, element: str, value: Integer, lanes: int = LANES) -> str:
    """A vector of `lanes` copies of a scalar."""
    kind = vector(element, lanes)
    first = writer.value(f"insertelement {kind} poison, {element} {value}, i64 0")
    return writer.value(f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer")


def whole_vectors(writer: Writer, start: Integer, stop: Integer, lanes: int = LANES) -> str:
    """The end of the whole vectors of [start, stop)."""
    length = writer.value(f"sub i64 {stop}, {start}")
    return writer.value(f"add i64 {start}, {writer.value(f'and i64 {length}, {-lanes}')}")


def vectors(writer: Writer, start: Integer, stop: Integer, name: str, *, masked: bool = False) -> Iterator[Part]:
    """Yields the parts of [start, stop), each inside its loop or branch: whole vectors, then a masked one.

    `masked`: every vector is masked, which takes half the code, for loops that seldom run.
    """
    if masked:
        with counted_loop(writer, start, stop, LANES, name) as loop:
            left = minimum(writer, writer.value(f"sub i64 {stop}, {loop.index}"), LANES)
            yield Part(loop.index, tail_mask(writer, left))
        return
    middle = whole_vectors(writer, start, stop)
    with counted_loop(writer, start, middle, LANES, f"{name}.whole") as loop:
        yield Part(loop.index)
    left = writer.value(f"sub i64 {stop}, {middle}")
    with writer.when(writer.value(f"icmp ne i64 {left}, 0"), f"{name}.tail"):
        yield Part(middle, tail_mask(writer, left))


def stepped(writer: Writer, element: str, base: str, count: Integer, step: Integer) -> str:
    """The address `count` times `step` elements past `base`."""
    return writer.value(f"getelementptr {element}, ptr {base}, i64 {writer.value(f'mul i64 {count}, {step}')}")


def advance(writer: Writer, operand: Operand, place: str, offset: Integer) -> str:
    """The place `offset` elements further."""
    if operand.index:
        return writer.value(f"add i64 {place}, {offset}")
    return writer.value(f"getelementptr {MEMORY[operand.dtype.name]}, ptr {place}, i64 {offset}")


def place_at(writer: Writer, operand: Operand, base: str, terms: Sequence[tuple[Integer, Integer]]) -> str:
    """`base` moved by the sum of position * stride over `terms`."""
    total = ""
    for position, stride in terms:
        moved = writer.value(f"mul i64 {position}, {stride}")
        total = writer.value(f"add i64 {total}, {moved}") if total else moved
    return advance(writer, operand, base, total) if total else base


def decode(writer: Writer, flat: Integer, sizes: Sequence[Integer]) -> list[Integer]:
    """The index along each dimension of a flattened (row-major) index."""
    positions: list[Integer] = []
    for size in reversed(sizes[1:]):
        positions.append(writer.value(f"urem i64 {flat}, {size}"))
        flat = writer.value(f"udiv i64 {flat}, {size}")
    return [flat, *reversed(positions)] if sizes else []


@dataclass
class Run:
    """Consecutive rows that differ only in the last outer dimension."""

    count: str
    places: Sequence[str]
    """Each operand's place at the first row."""
    steps: Sequence[Integer]
    """Elements between two rows of each operand."""


@contextmanager
def each_run(writer: Writer, arguments: Arguments, dimensions: int, first: Integer, last: Integer) -> Iterator[Run]:
    """Traverses the flattened rows [first, last) of the leading `dimensions` (at least one), run by run."""
    with counted_loop(writer, first, last, 0, "run", index="row") as loop:
        positions = decode(writer, loop.index, arguments.sizes[:dimensions])
        places = [
            place_at(writer, operand, base, list(zip(positions, strides, strict=False)))
            for operand, base, strides in zip(arguments.operands, arguments.bases, arguments.strides, strict=True)
        ]
        rest = writer.value(f"sub i64 {arguments.sizes[dimensions - 1]}, {positions[-1]}")
        loop.step = count = minimum(writer, rest, writer.value(f"sub i64 {last}, {loop.index}"))
        yield Run(count, places, [strides[dimensions - 1] for strides in arguments.strides])


@contextmanager
def each_row(writer: Writer, arguments: Arguments, run: Run) -> Iterator[list[str]]:
    """Yields the operands' places at each row of `run`."""
    before, head, latch, after = guarded(writer, "row", f"icmp ne i64 {run.count}, 0")
    following = f"%{writer.fresh('next')}"
    left = writer.value(f"phi i64 [ {run.count}, %{before} ], [ {following}, %{latch} ]", "left")
    moved = [f"%{writer.fresh('moved')}" for _ in run.places]
    here = [
        writer.value(f"phi {cursor_type(operand)} [ {place}, %{before} ], [ {later}, %{latch} ]", "place")
        for operand, place, later in zip(arguments.operands, run.places, moved, strict=True)
    ]
    yield here
    writer.branch(latch)
    writer.label(latch)
    for operand, place, step, later in zip(arguments.operands, here, run.steps, moved, strict=True):
        move = "add i64" if operand.index else f"getelementptr {MEMORY[operand.dtype.name]}, ptr"
        writer.emit(f"{later} = {move} {place}, {'' if operand.index else 'i64 '}{step}")
    writer.emit(f"{following} = sub i64 {left}, 1")
    writer.branch_if(writer.value(f"icmp ne i64 {following}, 0"), head, after)
    writer.label(after)


@contextmanager
def each_point(
    writer: Writer, arguments: Arguments, dimensions: int, first: Integer, last: Integer
) -> Iterator[list[str]]:
    """Yields the operands' places at each of the flattened rows [first, last) of the leading `dimensions`."""
    with each_run(writer, arguments, dimensions, first, last) as run, each_row(writer, arguments, run) as places:
        yield places
