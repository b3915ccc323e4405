"""Loads and stores of vectors: of consecutive elements in memory, and of an operand along the innermost dimension."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.cpu.kernels.loops import IOTA, Part, broadcast, stepped
from trainer.engine.targets.ir.expression import COMPUTE, LANES, MEMORY, lanes_of, memory_type, narrow, widen
from trainer.engine.targets.ir.operand import Operand
from trainer.engine.targets.ir.writer import Integer, Typed, Writer, mangled, vector

PREFETCHED_BYTES = 4096
"""How far ahead large inputs are asked for where the body is long: the processor's own prefetching ends at each page,
which costs tanh and gelu a tenth (half as far gives three hundredths less). Short bodies of one or two inputs
are faster without.
"""

_ALL, _MASK, _WIDE = "splat (i1 true)", vector("i1", LANES), vector("i64", LANES)


def mask_of(active: int, lanes: int) -> str:
    """A constant vector of i1: the first `active` lanes."""
    return "<" + ", ".join(f"i1 {'true' if lane < active else 'false'}" for lane in range(lanes)) + ">"


def _mask(active: int | str, lanes: int) -> Typed:
    return vector("i1", lanes), mask_of(active, lanes) if isinstance(active, int) else active


def load_vector(
    writer: Writer, dtype: DType, pointer: str, lanes: int, active: int | str | None = None, *, alignment: int = 0
) -> str:
    """Load `lanes` elements, of the memory type, of which the first `active` may be read, or those of a mask (None:
    all); the others are zero. Whole vectors lie at multiples of `alignment` bytes (0: of an element's).
    """
    kind = memory_type(dtype, lanes)
    if active is None or active == lanes:
        return writer.value(f"load {kind}, ptr {pointer}, align {alignment or dtype.itemsize}")
    mask, place = _mask(active, lanes), (f"ptr align {dtype.itemsize}", pointer)
    return writer.intrinsic(f"masked.load.{mangled(kind)}.p0", kind, place, mask, (kind, "zeroinitializer"))


def store_vector(
    writer: Writer, dtype: DType, value: str, pointer: str, lanes: int, active: int | str | None = None, *,
    alignment: int = 0, streamed: bool = False,
) -> None:  # fmt: skip
    """Store the first `active` of `lanes` elements, or those of a mask (None: all).

    Whole vectors lie at multiples of `alignment` bytes (0: of an element's). `streamed`: whole vectors, which begin at
    a multiple of 64 bytes or of their size, go past the caches.
    """
    kind = memory_type(dtype, lanes)
    if active is None or active == lanes:
        alignment = min(64, lanes * dtype.itemsize) if streamed else alignment or dtype.itemsize
        past = ", !nontemporal !1" if streamed else ""
        writer.emit(f"store {kind} {value}, ptr {pointer}, align {alignment}{past}")
        return
    if active == 1:  # LLVM 22 makes of a masked store of one truncated lane a store of the lane before truncation
        element = MEMORY[dtype.name]
        lane = writer.value(f"extractelement {kind} {value}, i64 0")
        writer.emit(f"store {element} {lane}, ptr {pointer}, align {dtype.itemsize}")
        return
    mask, place = _mask(active, lanes), (f"ptr align {dtype.itemsize}", pointer)
    writer.intrinsic(f"masked.store.{mangled(kind)}.p0", "void", (kind, value), place, mask)


class Elements:
    """Elements of one type in memory, and vectors of 64 bytes of them, through one writer."""

    def __init__(self, writer: Writer, dtype: DType) -> None:
        self.writer, self.dtype = writer, dtype
        self.element, self.lanes = MEMORY[dtype.name], lanes_of(dtype)
        self.kind = vector(self.element, self.lanes)

    def at(self, base: str, offset: Integer = 0) -> str:
        """The address `offset` elements past `base`."""
        return self.writer.pointer(base, offset, self.element)

    def load(self, base: str, offset: Integer = 0, active: int | str | None = None) -> str:
        """As `load_vector`."""
        return load_vector(self.writer, self.dtype, self.at(base, offset), self.lanes, active)

    def store(self, value: str, base: str, offset: Integer = 0, active: int | str | None = None) -> None:
        """As `store_vector`."""
        store_vector(self.writer, self.dtype, value, self.at(base, offset), self.lanes, active)


def row_value(writer: Writer, operand: Operand, place: str, lanes: int = LANES) -> str:
    """What a broadcast operand has along a whole row: its one element on every lane."""
    if operand.index and operand.dtype.is_float:
        bits = f"i{8 * operand.dtype.itemsize}"
        number = place if bits == "i64" else writer.value(f"trunc i64 {place} to {bits}")
        element = COMPUTE[operand.dtype.name]
        return broadcast(writer, element, writer.value(f"bitcast {bits} {number} to {element}"), lanes)
    if operand.index:
        return broadcast(writer, "i64", place, lanes)
    element = MEMORY[operand.dtype.name]
    scalar = writer.value(f"load {element}, ptr {place}, align {operand.dtype.itemsize}")
    return widen(writer, broadcast(writer, element, scalar, lanes), operand.dtype, lanes)


def load_operand(
    writer: Writer, operand: Operand, place: str, part: Part, stride: Integer = 1, *, prefetched: bool = False
) -> str:
    """The elements of a part, in the compute type; lanes outside its mask hold 0 or some other element of the row.

    `prefetched`: the cache lines that are wanted some vectors later are asked for. Other than LANES are only whole
    vectors of a contiguous operand.
    """
    if operand.inner == "broadcast":
        return row_value(writer, operand, place)
    if operand.index:
        return _index_values(writer, operand, place, stride, part)
    if operand.inner == "strided":
        return widen(writer, _load_strided(writer, operand.dtype, place, stride, part), operand.dtype)
    start = writer.value(f"getelementptr {MEMORY[operand.dtype.name]}, ptr {place}, i64 {part.position}")
    if prefetched and part.mask is None:
        for line in range(0, part.lanes * operand.dtype.itemsize, 64):
            ahead = writer.value(f"getelementptr i8, ptr {start}, i64 {PREFETCHED_BYTES + line}")
            prefetch(writer, ahead)
    raw = load_vector(writer, operand.dtype, start, part.lanes, part.mask)
    return widen(writer, raw, operand.dtype, part.lanes)


def row_values(writer: Writer, inputs: Sequence[Operand], places: Sequence[str], lanes: int = LANES) -> dict[int, str]:
    """By number the values of the inputs that don't move along the innermost dimension."""
    return {
        number: row_value(writer, operand, places[number], lanes)
        for number, operand in enumerate(inputs)
        if operand.inner == "broadcast"
    }


def load_inputs(
    writer: Writer, inputs: Sequence[Operand], known: Mapping[int, str], places: Sequence[str], part: Part,
    strides: Sequence[Sequence[Integer]], *, prefetched: bool = False,
) -> list[str]:  # fmt: skip
    """The elements of a part of each input, but those that are `known`."""
    return [
        known[number]
        if number in known
        else load_operand(writer, operand, places[number], part, strides[number][-1], prefetched=prefetched)
        for number, operand in enumerate(inputs)
    ]


def store_operand(
    writer: Writer, operand: Operand, place: str, part: Part, value: str, stride: Integer = 1, *, streamed: bool = False
) -> None:
    """Store the elements of a part, which are of the compute type."""
    raw = narrow(writer, value, operand.dtype, part.lanes)
    if operand.inner != "contiguous":
        _store_strided(writer, operand.dtype, place, stride, part, raw)
        return
    start = writer.value(f"getelementptr {MEMORY[operand.dtype.name]}, ptr {place}, i64 {part.position}")
    store_vector(writer, operand.dtype, raw, start, part.lanes, part.mask, streamed=streamed)


def prefetch(writer: Writer, pointer: str, level: int = 3, *, written: bool = False) -> None:
    """Ask for the cache line at `pointer`: 3 for the nearest cache, 2 for the one behind it; `written`: to store it."""
    purpose = str(int(written))
    writer.intrinsic("prefetch.p0", "void", ("ptr", pointer), ("i32", purpose), ("i32", str(level)), ("i32", "1"))


def gather(writer: Writer, dtype: DType, pointers: str) -> str:
    """The elements at LANES pointers, in the compute type. Every lane is read, so every pointer must be good."""
    kind = memory_type(dtype)
    places, mask = (vector("ptr", LANES), pointers), (_MASK, _ALL)
    raw = writer.intrinsic(f"masked.gather.{mangled(kind)}.v{LANES}p0", kind, places, mask, (kind, "poison"))
    return widen(writer, raw, dtype)


def scatter(writer: Writer, dtype: DType, value: str, pointers: str, mask: str | None) -> None:
    """Store the lanes of `mask`, which are of the memory type, at LANES pointers."""
    kind = memory_type(dtype)
    places = (vector("ptr", LANES), pointers)
    writer.intrinsic(f"masked.scatter.{mangled(kind)}.v{LANES}p0", "void", (kind, value), places, (_MASK, mask or _ALL))


def _index_values(writer: Writer, operand: Operand, place: str, stride: Integer, part: Part) -> str:
    """base + (position + lane) * stride."""
    if operand.inner == "contiguous":
        start = writer.value(f"add i64 {place}, {part.position}")
        return writer.value(f"add {_WIDE} {broadcast(writer, 'i64', start)}, {IOTA['i64']}")
    start = writer.value(f"add i64 {place}, {writer.value(f'mul i64 {part.position}, {stride}')}")
    steps = writer.value(f"mul {_WIDE} {broadcast(writer, 'i64', stride)}, {IOTA['i64']}")
    return writer.value(f"add {_WIDE} {broadcast(writer, 'i64', start)}, {steps}")


def _load_strided(writer: Writer, dtype: DType, place: str, stride: Integer, part: Part) -> str:
    """LANES elements `stride` apart, loaded one by one: as fast as the machine's gathers, on every machine.

    Behind a mask the lanes past the end read the last element again.
    """
    element, kind = MEMORY[dtype.name], memory_type(dtype)
    start = stepped(writer, element, place, part.position, stride)
    if part.mask is None:
        return _load_lanes(writer, dtype, start, lambda lane: stride)

    def build(inner: Writer) -> None:
        def step(lane: int) -> str:
            inside = inner.value(f"extractelement {_MASK} %mask, i64 {lane}")
            return inner.value(f"select i1 {inside}, i64 %stride, i64 0")

        inner.emit(f"ret {kind} {_load_lanes(inner, dtype, '%start', step)}")

    parameters = [("ptr", "%start"), ("i64", "%stride"), (_MASK, "%mask")]
    name = writer.helper(f"gather_tail_{element}", kind, parameters, build)
    return writer.call(kind, name, ("ptr", start), ("i64", str(stride)), (_MASK, part.mask))


def _load_lanes(writer: Writer, dtype: DType, address: str, step: Callable[[int], Integer]) -> str:
    """LANES elements, `step(lane)` elements after the one before."""
    element, total = MEMORY[dtype.name], "poison"
    for lane in range(LANES):
        if lane:
            address = writer.value(f"getelementptr {element}, ptr {address}, i64 {step(lane)}")
        scalar = writer.value(f"load {element}, ptr {address}, align {dtype.itemsize}")
        total = writer.value(f"insertelement {memory_type(dtype)} {total}, {element} {scalar}, i64 {lane}")
    return total


def _store_strided(writer: Writer, dtype: DType, place: str, stride: Integer, part: Part, value: str) -> None:
    element = MEMORY[dtype.name]
    base = stepped(writer, element, place, part.position, stride)
    offsets = writer.value(f"mul {_WIDE} {broadcast(writer, 'i64', stride)}, {IOTA['i64']}")
    scatter(writer, dtype, value, writer.value(f"getelementptr {element}, ptr {base}, {_WIDE} {offsets}"), part.mask)
