"""Loads and stores of vectors: of consecutive elements in memory, and of an operand along the innermost dimension."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.cpu.kernels.loops import IOTA, Part, broadcast, stepped
from trainer.engine.targets.ir.expression import COMPUTE, LANES, MEMORY, lanes_of, memory_type, narrow, widen
from trainer.engine.targets.ir.operand import Operand
from trainer.engine.targets.ir.writer import Integer, Typed, Writer, mangled, vector

PREFETCHED_BYTES = 4096
"""Prefetch distance for large inputs of long bodies: hardware prefetching ends at each page, which costs tanh and gelu
a tenth (half the distance gains three hundredths less). Short bodies of one or two inputs are faster without software
prefetching.
"""

_ALL, _MASK, _WIDE = "splat (i1 true)", vector("i1", LANES), vector("i64", LANES)


def mask_of(active: int, lanes: int) -> str:
    """A constant i1 vector in which the first `active` lanes are true."""
    return "<" + ", ".join(f"i1 {'true' if lane < active else 'false'}" for lane in range(lanes)) + ">"


def _mask(active: int | str, lanes: int) -> Typed:
    return vector("i1", lanes), mask_of(active, lanes) if isinstance(active, int) else active


def load_vector(
    writer: Writer, dtype: DType, pointer: str, lanes: int, active: int | str | None = None, *, alignment: int = 0
) -> str:
    """Loads `lanes` elements of the memory type. Only the first `active`, or those of a mask, are read (None: all); the
    others are zero. Whole vectors are aligned to `alignment` bytes (0: to the element size).
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
    """Stores the first `active` of `lanes` elements, or those of a mask (None: all).

    Whole vectors are aligned to `alignment` bytes (0: to the element size). `streamed`: whole vectors, aligned to 64
    bytes or to their size, bypass the caches.
    """
    kind = memory_type(dtype, lanes)
    if active is None or active == lanes:
        alignment = min(64, lanes * dtype.itemsize) if streamed else alignment or dtype.itemsize
        past = ", !nontemporal !1" if streamed else ""
        writer.emit(f"store {kind} {value}, ptr {pointer}, align {alignment}{past}")
        return
    if active == 1:  # LLVM 22 turns a masked store of one truncated lane into a store of the untruncated lane
        element = MEMORY[dtype.name]
        lane = writer.value(f"extractelement {kind} {value}, i64 0")
        writer.emit(f"store {element} {lane}, ptr {pointer}, align {dtype.itemsize}")
        return
    mask, place = _mask(active, lanes), (f"ptr align {dtype.itemsize}", pointer)
    writer.intrinsic(f"masked.store.{mangled(kind)}.p0", "void", (kind, value), place, mask)


class Elements:
    """Writes loads and stores of 64-byte vectors of elements of one type, through one writer."""

    def __init__(self, writer: Writer, dtype: DType) -> None:
        self.writer, self.dtype = writer, dtype
        self.element, self.lanes = MEMORY[dtype.name], lanes_of(dtype)
        self.kind = vector(self.element, self.lanes)

    def at(self, base: str, offset: Integer = 0) -> str:
        """The address `offset` elements past `base`."""
        return self.writer.pointer(base, offset, self.element)

    def load(self, base: str, offset: Integer = 0, active: int | str | None = None) -> str:
        """Loads a vector, as `load_vector` does."""
        return load_vector(self.writer, self.dtype, self.at(base, offset), self.lanes, active)

    def store(self, value: str, base: str, offset: Integer = 0, active: int | str | None = None) -> None:
        """Stores a vector, as `store_vector` does."""
        store_vector(self.writer, self.dtype, value, self.at(base, offset), self.lanes, active)


def row_value(writer: Writer, operand: Operand, place: str, lanes: int = LANES) -> str:
    """The value of a broadcast operand for a whole row: its one element on every lane."""
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

    `prefetched`: the cache lines of some vectors later are prefetched. Only whole vectors of a contiguous operand may
    have a lane count other than LANES.
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
    """The values of the inputs that are constant along the innermost dimension, by input number."""
    return {
        number: row_value(writer, operand, places[number], lanes)
        for number, operand in enumerate(inputs)
        if operand.inner == "broadcast"
    }


def load_inputs(
    writer: Writer, inputs: Sequence[Operand], known: Mapping[int, str], places: Sequence[str], part: Part,
    strides: Sequence[Sequence[Integer]], *, prefetched: bool = False,
) -> list[str]:  # fmt: skip
    """The elements of a part of each input; `known` values are reused."""
    return [
        known[number]
        if number in known
        else load_operand(writer, operand, places[number], part, strides[number][-1], prefetched=prefetched)
        for number, operand in enumerate(inputs)
    ]


def store_operand(
    writer: Writer, operand: Operand, place: str, part: Part, value: str, stride: Integer = 1, *, streamed: bool = False
) -> None:
    """Stores the elements of a part, given in the compute type."""
    raw = narrow(writer, value, operand.dtype, part.lanes)
    if operand.inner != "contiguous":
        _store_strided(writer, operand.dtype, place, stride, part, raw)
        return
    start = writer.value(f"getelementptr {MEMORY[operand.dtype.name]}, ptr {place}, i64 {part.position}")
    store_vector(writer, operand.dtype, raw, start, part.lanes, part.mask, streamed=streamed)


def prefetch(writer: Writer, pointer: str, level: int = 3, *, written: bool = False) -> None:
    """Prefetches the cache line at `pointer` into the nearest cache (3) or the next one (2); `written`: for a store."""
    purpose = str(int(written))
    writer.intrinsic("prefetch.p0", "void", ("ptr", pointer), ("i32", purpose), ("i32", str(level)), ("i32", "1"))


def gather(writer: Writer, dtype: DType, pointers: str) -> str:
    """The elements at LANES pointers, in the compute type. Every lane is read, so every pointer must be valid."""
    kind = memory_type(dtype)
    places, mask = (vector("ptr", LANES), pointers), (_MASK, _ALL)
    raw = writer.intrinsic(f"masked.gather.{mangled(kind)}.v{LANES}p0", kind, places, mask, (kind, "poison"))
    return widen(writer, raw, dtype)


def scatter(writer: Writer, dtype: DType, value: str, pointers: str, mask: str | None) -> None:
    """Stores the lanes of `mask`, given in the memory type, at LANES pointers."""
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
    """Loads LANES elements `stride` apart one by one, which is as fast as gather instructions on every machine.

    With a mask, the lanes past the end read the last element again.
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
    """Loads LANES elements, each `step(lane)` elements after the previous one."""
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
