"""Loops that the element-wise and reduction kernels share: over vectors of a row, and over rows of a space."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainer.engine.program.spec import LoopKernel, Operand
from trainer.engine.targets.cpu.kernels.expression import LANES
from trainer.engine.targets.cpu.kernels.writer import Typed, Writer, vector

IOTA = {
    element: "<" + ", ".join(f"{element} {lane}" for lane in range(LANES)) + ">"
    for element in ("i8", "i16", "i32", "i64")
}


@dataclass
class Arguments:
    """The words of an argument block, loaded; operands are inputs, then outputs."""

    operands: list[Operand]
    bases: list[str]
    """Addresses, or the base value of an index operand."""
    sizes: list[str]
    strides: list[list[str]]
    chunk: str
    grain: str


def load_arguments(writer: Writer, kernel: LoopKernel) -> Arguments:
    """Read the whole argument block of `kernel` (what is not used costs nothing: it is never emitted)."""
    operands = [*kernel.inputs, *(operand for _, operand in kernel.outputs)]
    position = 0

    def word(kind: str) -> str:
        nonlocal position
        place = writer.value(f"getelementptr i64, ptr %arguments, i64 {position}")
        position += 1
        return writer.value(f"load {kind}, ptr {place}, !invariant.load !0")

    bases = [word(cursor_type(operand)) for operand in operands]
    sizes = [word("i64") for _ in range(kernel.rank)]
    strides = [[word("i64") for _ in range(kernel.rank)] for _ in operands]
    return Arguments(operands, bases, sizes, strides, word("i64"), word("i64"))


def cursor_type(operand: Operand) -> str:
    """A place in an operand is a pointer, or for an index operand the value itself."""
    return "i64" if operand.index else "ptr"


def minimum(writer: Writer, a: str, b: str) -> str:
    less = writer.value(f"icmp ult i64 {a}, {b}")
    return writer.value(f"select i1 {less}, i64 {a}, i64 {b}")


def counted_loop(
    writer: Writer, start: str, stop: str, step: int, body: Callable[[str], str | None], name: str
) -> None:
    """`for i in range(start, stop, step): body(i)`, unsigned; leaves the writer in the block after the loop.

    A body that returns a value steps by that value instead.
    """
    before, head, latch, after = (writer.fresh(f"{name}.{part}.") for part in ("before", "head", "latch", "after"))
    writer.branch(before)
    writer.label(before)
    writer.branch_if(writer.value(f"icmp ult i64 {start}, {stop}"), head, after)
    writer.label(head)
    following = f"%{writer.fresh('next')}"
    index = writer.value(f"phi i64 [ {start}, %{before} ], [ {following}, %{latch} ]", "i")
    own_step = body(index)
    writer.branch(latch)
    writer.label(latch)
    writer.emit(f"{following} = add nuw i64 {index}, {own_step or step}")
    writer.branch_if(writer.value(f"icmp ult i64 {following}, {stop}"), head, after)
    writer.label(after)


def carried_loop(
    writer: Writer, start: str, stop: str, step: int, initial: Sequence[Typed],
    body: Callable[[str, list[str]], Sequence[str]], name: str,
) -> list[str]:  # fmt: skip
    """As `counted_loop`, with values in registers: `body(i, values)` returns the next values, which start as `initial`.

    Returns the values after the last turn, or `initial` where there was none.
    """
    before, head, latch, after = (writer.fresh(f"{name}.{part}.") for part in ("before", "head", "latch", "after"))
    writer.branch(before)
    writer.label(before)
    writer.branch_if(writer.value(f"icmp ult i64 {start}, {stop}"), head, after)
    writer.label(head)
    following = f"%{writer.fresh('next')}"
    index = writer.value(f"phi i64 [ {start}, %{before} ], [ {following}, %{latch} ]", "i")
    later = [f"%{writer.fresh('carried')}" for _ in initial]
    values = [
        writer.value(f"phi {kind} [ {first}, %{before} ], [ {new}, %{latch} ]")
        for (kind, first), new in zip(initial, later, strict=True)
    ]
    results = body(index, values)
    writer.branch(latch)
    writer.label(latch)
    for (kind, _), new, result in zip(initial, later, results, strict=True):
        writer.emit(f"{new} = bitcast {kind} {result} to {kind}")
    writer.emit(f"{following} = add nuw i64 {index}, {step}")
    writer.branch_if(writer.value(f"icmp ult i64 {following}, {stop}"), head, after)
    writer.label(after)
    return [
        writer.value(f"phi {kind} [ {first}, %{before} ], [ {new}, %{latch} ]")
        for (kind, first), new in zip(initial, later, strict=True)
    ]


def when(writer: Writer, condition: str, body: Callable[[], None], name: str) -> None:
    """`if condition: body()`; leaves the writer in the block after it."""
    then, after = writer.fresh(f"{name}.then."), writer.fresh(f"{name}.after.")
    writer.branch_if(condition, then, after)
    writer.label(then)
    body()
    writer.branch(after)
    writer.label(after)


def tail_mask(writer: Writer, count: str) -> str:
    """A mask of the first `count` (0..LANES) lanes."""
    small = writer.value(f"trunc i64 {count} to i8")
    kind = vector("i8", LANES)
    return writer.value(f"icmp ult {kind} {IOTA['i8']}, {broadcast(writer, 'i8', small)}")


def broadcast(writer: Writer, element: str, value: str, lanes: int = LANES) -> str:
    """A vector of `lanes` copies of a scalar."""
    kind = vector(element, lanes)
    first = writer.value(f"insertelement {kind} poison, {element} {value}, i64 0")
    return writer.value(f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer")


def whole_vectors(writer: Writer, start: str, stop: str) -> str:
    """Where the whole vectors of [start, stop) end."""
    length = writer.value(f"sub i64 {stop}, {start}")
    return writer.value(f"add i64 {start}, {writer.value(f'and i64 {length}, {-LANES}')}")


def vector_loop(writer: Writer, start: str, stop: str, body: Callable[[str, str | None], None], name: str) -> None:
    """`body(position, mask)` for every LANES elements of [start, stop): whole ones (mask None), then a masked one."""
    middle = whole_vectors(writer, start, stop)
    counted_loop(writer, start, middle, LANES, lambda position: body(position, None), f"{name}.whole")
    left = writer.value(f"sub i64 {stop}, {middle}")

    def tail() -> None:
        body(middle, tail_mask(writer, left))

    when(writer, writer.value(f"icmp ne i64 {left}, 0"), tail, f"{name}.tail")


def masked_loop(writer: Writer, start: str, stop: str, body: Callable[[str, str | None], None], name: str) -> None:
    """As `vector_loop`, with every vector masked: half the code, for loops that are seldom run."""

    def masked(position: str) -> None:
        left = minimum(writer, writer.value(f"sub i64 {stop}, {position}"), str(LANES))
        body(position, tail_mask(writer, left))

    counted_loop(writer, start, stop, LANES, masked, name)


def advance(writer: Writer, operand: Operand, element: str, place: str, offset: str) -> str:
    """The place `offset` elements further."""
    if operand.index:
        return writer.value(f"add i64 {place}, {offset}")
    return writer.value(f"getelementptr {element}, ptr {place}, i64 {offset}")


def place_at(writer: Writer, operand: Operand, element: str, base: str, terms: Sequence[tuple[str, str]]) -> str:
    """`base` moved by the sum of position * stride over `terms`."""
    total = ""
    for position, stride in terms:
        product = writer.value(f"mul i64 {position}, {stride}")
        total = writer.value(f"add i64 {total}, {product}") if total else product
    return advance(writer, operand, element, base, total) if total else base


def decode(writer: Writer, flat: str, sizes: Sequence[str]) -> list[str]:
    """The index along each dimension of a flattened (row-major) index."""
    positions: list[str] = []
    for size in reversed(sizes[1:]):
        positions.append(writer.value(f"urem i64 {flat}, {size}"))
        flat = writer.value(f"udiv i64 {flat}, {size}")
    return [flat, *reversed(positions)] if sizes else []


@dataclass
class Run:
    """Consecutive rows that differ only in the last outer dimension."""

    count: str
    places: list[str]
    """Each operand's place at the first row."""
    steps: list[str]
    """Each operand's elements between two rows."""


def for_each_run(
    writer: Writer, arguments: Arguments, elements: Sequence[str], dimensions: int, first: str, last: str,
    body: Callable[[Run], None],
) -> None:  # fmt: skip
    """Walk the flattened rows [first, last) of the leading `dimensions` (at least one), run by run."""
    before, head, latch, after = (writer.fresh(f"run.{part}.") for part in ("before", "head", "latch", "after"))
    writer.branch(before)
    writer.label(before)
    writer.branch_if(writer.value(f"icmp ult i64 {first}, {last}"), head, after)
    writer.label(head)
    following = f"%{writer.fresh('next')}"
    row = writer.value(f"phi i64 [ {first}, %{before} ], [ {following}, %{latch} ]", "row")
    positions = decode(writer, row, arguments.sizes[:dimensions])
    places = [
        place_at(writer, operand, element, base, list(zip(positions, strides, strict=False)))
        for operand, element, base, strides in zip(
            arguments.operands, elements, arguments.bases, arguments.strides, strict=True
        )
    ]
    rest = writer.value(f"sub i64 {arguments.sizes[dimensions - 1]}, {positions[-1]}")
    count = minimum(writer, rest, writer.value(f"sub i64 {last}, {row}"))
    body(Run(count, places, [strides[dimensions - 1] for strides in arguments.strides]))
    writer.branch(latch)
    writer.label(latch)
    writer.emit(f"{following} = add nuw i64 {row}, {count}")
    writer.branch_if(writer.value(f"icmp ult i64 {following}, {last}"), head, after)
    writer.label(after)


def for_each_row(
    writer: Writer, arguments: Arguments, elements: Sequence[str], run: Run, count: str, places: Sequence[str],
    body: Callable[[list[str]], None],
) -> None:  # fmt: skip
    """`body(places)` for `count` rows that start at `places` and are `run.steps` apart."""
    before, head, latch, after = (writer.fresh(f"row.{part}.") for part in ("before", "head", "latch", "after"))
    writer.branch(before)
    writer.label(before)
    writer.branch_if(writer.value(f"icmp ne i64 {count}, 0"), head, after)
    writer.label(head)
    following = f"%{writer.fresh('next')}"
    left = writer.value(f"phi i64 [ {count}, %{before} ], [ {following}, %{latch} ]", "left")
    moved = [f"%{writer.fresh('moved')}" for _ in places]
    here = [
        writer.value(f"phi {cursor_type(operand)} [ {place}, %{before} ], [ {later}, %{latch} ]", "place")
        for operand, place, later in zip(arguments.operands, places, moved, strict=True)
    ]
    body(here)
    writer.branch(latch)
    writer.label(latch)
    for operand, element, place, step, later in zip(arguments.operands, elements, here, run.steps, moved, strict=True):
        if operand.index:
            writer.emit(f"{later} = add i64 {place}, {step}")
        else:
            writer.emit(f"{later} = getelementptr {element}, ptr {place}, i64 {step}")
    writer.emit(f"{following} = sub i64 {left}, 1")
    writer.branch_if(writer.value(f"icmp ne i64 {following}, 0"), head, after)
    writer.label(after)
