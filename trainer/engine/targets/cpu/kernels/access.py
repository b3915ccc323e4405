"""Loads and stores of a vector of an operand at a position along the innermost dimension."""

from __future__ import annotations

from collections.abc import Callable

from trainer.engine.program.spec import Operand
from trainer.engine.targets.cpu.kernels.expression import LANES, MEMORY, memory_type, narrow, widen
from trainer.engine.targets.cpu.kernels.loops import IOTA, broadcast
from trainer.engine.targets.cpu.kernels.writer import Writer, mangled, vector


def row_value(writer: Writer, operand: Operand, place: str, lanes: int = LANES) -> str:
    """What a broadcast operand has along a whole row: its one element on every lane."""
    if operand.index:
        return broadcast(writer, "i64", place, lanes)
    element = MEMORY[operand.dtype.name]
    scalar = writer.value(f"load {element}, ptr {place}, align {operand.dtype.itemsize}")
    return widen(writer, broadcast(writer, element, scalar, lanes), operand.dtype, lanes)


PREFETCHED_BYTES = 4096
"""How far ahead large inputs are asked for where the body is long: the processor's own prefetching ends at each page,
which costs tanh and gelu a tenth (half as far gives three hundredths less). Short bodies of one or two inputs
are faster without.
"""


def load_vector(
    writer: Writer, operand: Operand, place: str, stride: str, position: str, mask: str | None,
    prefetched: bool = False, lanes: int = LANES,
) -> str:  # fmt: skip
    """`lanes` elements from `position` on; lanes outside `mask` hold 0 or some other element of the row.

    `prefetched`: the cache lines that are wanted some vectors later are asked for. Other than LANES are only whole
    vectors of a contiguous operand.
    """
    if operand.index:
        return _index_values(writer, operand, place, stride, position)
    if operand.inner == "broadcast":
        return row_value(writer, operand, place)
    element, kind, itemsize = MEMORY[operand.dtype.name], memory_type(operand.dtype, lanes), operand.dtype.itemsize
    if operand.inner == "strided":
        return widen(writer, _gather(writer, element, itemsize, place, stride, position, mask), operand.dtype)
    start = writer.value(f"getelementptr {element}, ptr {place}, i64 {position}")
    if mask is None:
        if prefetched:
            for line in range(0, lanes * itemsize, 64):
                ahead = writer.value(f"getelementptr i8, ptr {start}, i64 {PREFETCHED_BYTES + line}")
                writer.intrinsic("prefetch.p0", "void", ("ptr", ahead), ("i32", "0"), ("i32", "3"), ("i32", "1"))
        raw = writer.value(f"load {kind}, ptr {start}, align {itemsize}")
    else:
        raw = masked_load(writer, kind, itemsize, start, mask)
    return widen(writer, raw, operand.dtype, lanes)


def masked_load(writer: Writer, kind: str, itemsize: int, start: str, mask: str) -> str:
    """The lanes of `mask` from consecutive elements at `start`, 0 elsewhere."""
    lanes = vector("i1", LANES)
    return writer.intrinsic(
        f"masked.load.{mangled(kind)}.p0",
        kind,
        (f"ptr align {itemsize}", start),
        (lanes, mask),
        (kind, "zeroinitializer"),
    )


def store_vector(
    writer: Writer, operand: Operand, place: str, stride: str, position: str, mask: str | None, value: str,
    streamed: bool = False, lanes: int = LANES,
) -> None:  # fmt: skip
    """Store `lanes` elements (of the compute type) from `position` on; only those of `mask`.

    `streamed`: whole vectors, which begin at a multiple of 64 bytes or of their size, go past the caches.
    """
    element, kind, itemsize = MEMORY[operand.dtype.name], memory_type(operand.dtype, lanes), operand.dtype.itemsize
    raw = narrow(writer, value, operand.dtype, lanes)
    if operand.inner != "contiguous":
        _scatter(writer, element, kind, itemsize, place, stride, position, mask, raw)
        return
    start = writer.value(f"getelementptr {element}, ptr {place}, i64 {position}")
    if mask is None and streamed:
        writer.emit(f"store {kind} {raw}, ptr {start}, align {min(64, lanes * itemsize)}, !nontemporal !1")
    elif mask is None:
        writer.emit(f"store {kind} {raw}, ptr {start}, align {itemsize}")
    else:
        masked_store(writer, kind, itemsize, start, mask, raw)


def masked_store(writer: Writer, kind: str, itemsize: int, start: str, mask: str, value: str) -> None:
    """Store the lanes of `mask` to consecutive elements at `start`."""
    name = f"masked.store.{mangled(kind)}.p0"
    writer.intrinsic(name, "void", (kind, value), (f"ptr align {itemsize}", start), (vector("i1", LANES), mask))


def _index_values(writer: Writer, operand: Operand, place: str, stride: str, position: str) -> str:
    """base + (position + lane) * stride."""
    kind = vector("i64", LANES)
    if operand.inner == "contiguous":
        start = writer.value(f"add i64 {place}, {position}")
        return writer.value(f"add {kind} {broadcast(writer, 'i64', start)}, {IOTA['i64']}")
    start = writer.value(f"add i64 {place}, {writer.value(f'mul i64 {position}, {stride}')}")
    steps = writer.value(f"mul {kind} {broadcast(writer, 'i64', stride)}, {IOTA['i64']}")
    return writer.value(f"add {kind} {broadcast(writer, 'i64', start)}, {steps}")


def _gather(
    writer: Writer, element: str, itemsize: int, place: str, stride: str, position: str, mask: str | None
) -> str:
    """LANES elements `stride` apart, loaded one by one: as fast as the machine's gathers, on every machine.

    Behind a mask the lanes past the end read the last element again.
    """
    kind = vector(element, LANES)
    start = writer.value(f"getelementptr {element}, ptr {place}, i64 {writer.value(f'mul i64 {position}, {stride}')}")
    if mask is None:
        return _gather_lanes(writer, element, itemsize, start, lambda lane: stride)
    name = f"gather_tail_{element}"

    def build(inner: Writer) -> None:
        def step(lane: int) -> str:
            inside = inner.value(f"extractelement {vector('i1', LANES)} %mask, i64 {lane}")
            return inner.value(f"select i1 {inside}, i64 %stride, i64 0")

        inner.emit(f"ret {kind} {_gather_lanes(inner, element, itemsize, '%start', step)}")

    parameters = [("ptr", "%start"), ("i64", "%stride"), (vector("i1", LANES), "%mask")]
    writer.helper(name, kind, parameters, build)
    return writer.call(kind, name, ("ptr", start), ("i64", stride), (vector("i1", LANES), mask))


def _gather_lanes(writer: Writer, element: str, itemsize: int, address: str, step: Callable[[int], str]) -> str:
    """LANES elements, `step(lane)` elements after the one before."""
    kind = vector(element, LANES)
    total = "poison"
    for lane in range(LANES):
        if lane:
            address = writer.value(f"getelementptr {element}, ptr {address}, i64 {step(lane)}")
        scalar = writer.value(f"load {element}, ptr {address}, align {itemsize}")
        total = writer.value(f"insertelement {kind} {total}, {element} {scalar}, i64 {lane}")
    return total


def _scatter(
    writer: Writer, element: str, kind: str, itemsize: int, place: str, stride: str, position: str, mask: str | None,
    value: str,
) -> None:  # fmt: skip
    start = writer.value(f"mul i64 {position}, {stride}")
    base = writer.value(f"getelementptr {element}, ptr {place}, i64 {start}")
    indices = vector("i64", LANES)
    offsets = writer.value(f"mul {indices} {broadcast(writer, 'i64', stride)}, {IOTA['i64']}")
    pointers = writer.value(f"getelementptr {element}, ptr {base}, {indices} {offsets}")
    lanes = vector("i1", LANES)
    writer.intrinsic(
        f"masked.scatter.{mangled(kind)}.v{LANES}p0", "void", (kind, value),
        (f"{vector('ptr', LANES)}", pointers), (lanes, mask or "splat (i1 true)"),
    )  # fmt: skip
