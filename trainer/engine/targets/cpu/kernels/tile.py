"""The micro-kernel of every contraction: rows x vectors of accumulators held in registers over nested reduction levels.

    out[i, v, lane] = epilogue(sum over levels of a[row i + steps] * b[vector v + steps, lane])

Rows lie at displacements known while rendering; each step of the innermost level is one broadcast load for each row,
one vector load for each vector, and their products fused into the accumulators. Every output element is one chain of
fused multiply-adds in the order of the levels: tile shape, unrolling and the host's vector width leave the bits alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.cpu.kernels import quads, tile_registers
from trainer.engine.targets.cpu.kernels.access import load_vector, store_vector
from trainer.engine.targets.cpu.kernels.epilogue import Epilogue, OperandPointers
from trainer.engine.targets.cpu.kernels.expression import MEMORY, narrow, render_body, widen
from trainer.engine.targets.cpu.kernels.products import Products, add_pairs
from trainer.engine.targets.cpu.kernels.writer import Integer, Typed, Writer, mangled, vector

UNROLLED_INSTRUCTIONS = 400
LONG_OPERATIONS = frozenset(
    ("exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "logistic", "power", "remainder", "floor_divide")
)
"""Element-wise primitives that become dozens of instructions."""


def lanes_of(dtype: DType) -> int:
    """Elements of one accumulator vector: 64 bytes, on every host."""
    return 64 // dtype.itemsize


@dataclass(frozen=True, slots=True)
class Level:
    """A loop of the reduction: its extent, and the elements that `a` and `b` move by at each step.

    An `extent` or step that is a register name becomes a parameter of the tile.
    """

    extent: Integer
    a_step: Integer
    b_step: Integer


@dataclass(frozen=True, slots=True)
class Run:
    """A part of the innermost level that concerns only some rows: its extent, and where it begins in `a` and `b`."""

    extent: Integer
    a_shift: int
    b_shift: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tile:
    """One shape of the micro-kernel.

    rows: displacement of each row in `a`, in elements; outputs: of each row in the output.
    vectors, b_vector_step: how many vectors, and the elements between them in `b`.
    lanes: how many lanes of the last vector are stored; b_masked: whether they are also all that may be read.
    runs: parts of the innermost level, instead of all of it for all rows.
    accumulate: add what the output holds already to the finished sum (then the output has the accumulator's dtype).
    products: what one element of `a` and of `b` is, and how two are multiplied (`products.py`).
    """

    dtype: DType
    rows: tuple[int, ...]
    outputs: tuple[int, ...]
    vectors: int
    b_vector_step: int
    lanes: int
    levels: tuple[Level, ...]
    unroll: int = 1
    b_masked: bool = False
    accumulate: bool = False
    epilogue: Epilogue = field(default_factory=Epilogue)
    runs: tuple[Run, ...] = ()
    products: Products = "single"

    @property
    def by_tile_registers(self) -> bool:
        """Whether AMX multiplies."""
        return self.products.startswith("tile_")

    @property
    def variables(self) -> tuple[str, ...]:
        """Registers that the levels use, each once, in order."""
        names = [value for level in self.levels for value in (level.extent, level.a_step, level.b_step)]
        return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))


def define_tile(writer: Writer, name: str, tile: Tile) -> str:
    """Define the tile as an internal function of the module: (a, b, output, epilogue operands…, level variables…).

    Where tiles are multiplied by AMX, what `tile_registers.begin` gave is the last of the pointers.
    """
    parameters: list[Typed] = [("ptr noalias", "%a"), ("ptr noalias", "%b"), ("ptr", "%output")]
    parameters += [("ptr", f"%operand{i}") for i in range(len(tile.epilogue.operands))]
    if tile.by_tile_registers:
        parameters.append(("ptr", "%configured"))
    parameters += [("i64", variable) for variable in tile.variables]
    return writer.function(name, parameters, lambda inner: _write_tile(inner, name, tile))


def call_tile(writer: Writer, name: str, pointers: Sequence[str], variables: Sequence[Integer] = ()) -> None:
    """Call a defined tile with the pointers that `define_tile` names, and the values of its variables."""
    arguments = [("ptr", pointer) for pointer in pointers]
    writer.call("void", name, *arguments, *(("i64", str(value)) for value in variables))


class _Arithmetic:
    """Loads and multiply-adds of one dtype; elements that are pairs are loaded as if they were floats."""

    def __init__(self, writer: Writer, dtype: DType, products: Products) -> None:
        self.writer, self.dtype, self.products = writer, dtype, products
        self.element, self.lanes = MEMORY[dtype.name], lanes_of(dtype)
        self.type = vector(self.element, self.lanes)

    def broadcast(self, pointer: str) -> str:
        w = self.writer
        scalar = w.value(f"load {self.element}, ptr {pointer}, align {self.dtype.itemsize}", "s")
        first = w.value(f"insertelement {self.type} poison, {self.element} {scalar}, i32 0", "s")
        spread = w.value(
            f"shufflevector {self.type} {first}, {self.type} poison, <{self.lanes} x i32> zeroinitializer", "s"
        )
        return quads.with_offset(w, spread) if self.offset_left else spread

    @property
    def offset_left(self) -> bool:
        """Whether 128 is added to the left operand, so that 128 times the right one's sum is to be taken off."""
        return self.products == "native_signed_quads"

    def multiply_add(self, a: str, b: str, total: str) -> str:
        if self.products.startswith("native_") and self.products.endswith("quads"):
            return quads.add_unsigned_quads(self.writer, a, b, total)
        if self.products.endswith("quads"):
            return quads.add_widened_quads(self.writer, a, b, total, signed=self.products == "widened_signed_quads")
        if self.products != "single":
            return add_pairs(self.writer, a, b, total, native=self.products == "native_pairs")
        if self.dtype.is_float:
            kinds = [(self.type, value) for value in (a, b, total)]
            return self.writer.intrinsic(f"fma.{mangled(self.type)}", self.type, *kinds)
        return self.add(self.writer.value(f"mul {self.type} {a}, {b}"), total)

    def add(self, a: str, b: str) -> str:
        return self.writer.value(f"{'fadd' if self.dtype.is_float else 'add'} {self.type} {a}, {b}")


def splat_register(writer: Writer, element: str, lanes: int, scalar: str) -> str:
    """A vector of `lanes` times the same scalar."""
    kind = vector(element, lanes)
    first = writer.value(f"insertelement {kind} poison, {element} {scalar}, i32 0", "s")
    return writer.value(f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer", "s")


def _write_tile(writer: Writer, name: str, tile: Tile) -> None:
    arithmetic = _Arithmetic(writer, tile.dtype, tile.products)
    places = [(row, column) for row in range(len(tile.rows)) for column in range(tile.vectors)]
    looped = tile.by_tile_registers or _is_long(tile)
    buffer = writer.value(f"alloca [{len(places)} x {arithmetic.type}], align 64") if looped else ""
    if tile.by_tile_registers:
        tile_registers.sum_into(writer, tile, "%a", "%b", buffer, "%configured")
        return _store_buffer(writer, name, arithmetic, tile, buffer)
    offsets = tile.vectors if arithmetic.offset_left else 0
    sums = _reduce(writer, arithmetic, tile, 0, "%a", "%b", ["zeroinitializer"] * (len(places) + offsets))
    if offsets:
        taken = sums[len(places) :]
        sums = [
            writer.value(f"sub {arithmetic.type} {total}, {taken[column]}")
            for (_, column), total in zip(places, sums, strict=False)
        ]
    if not looped:
        for (row, column), total in zip(places, sums, strict=True):
            _store_sum(writer, arithmetic, tile, total, tile.outputs[row], column)
        return
    for number, total in enumerate(sums):
        writer.emit(f"store {arithmetic.type} {total}, ptr {writer.pointer(buffer, number, arithmetic.type)}, align 64")
    _store_buffer(writer, name, arithmetic, tile, buffer)


def _store_buffer(writer: Writer, name: str, arithmetic: _Arithmetic, tile: Tile, buffer: str) -> None:
    """Finish and store the accumulators that lie in `buffer`, [rows][vectors], row by row."""
    displacements = ", ".join(f"i64 {offset}" for offset in tile.outputs)
    table = writer.constant(f"{name}_outputs", f"[{len(tile.outputs)} x i64] [{displacements}]")
    with writer.loop(0, len(tile.rows)) as row_loop:
        offset = writer.value(f"load i64, ptr {writer.pointer(table, row_loop.index, 'i64')}")
        for column in range(tile.vectors):
            place = writer.add(writer.multiply(row_loop.index, tile.vectors), column)
            pointer = writer.pointer(buffer, place, arithmetic.type)
            total = writer.value(f"load {arithmetic.type}, ptr {pointer}, align 64")
            _store_sum(writer, arithmetic, tile, total, offset, column)


def _is_long(tile: Tile) -> bool:
    """Whether the epilogue is written once for a row and looped over: unrolled, it would cost more to compile than to
    run.
    """
    body = tile.epilogue.body
    instructions = len(body) * len(tile.rows) * tile.vectors
    return instructions > UNROLLED_INSTRUCTIONS or any(step.operation in LONG_OPERATIONS for step in body)


def _store_sum(
    writer: Writer, arithmetic: _Arithmetic, tile: Tile, total: str, row_offset: Integer, column: int
) -> None:
    """Finish one accumulator and store it."""
    lanes, stored = arithmetic.lanes, tile.epilogue.output(tile.dtype)
    operands = OperandPointers(tile.epilogue, tuple(f"%operand{i}" for i in range(len(tile.epilogue.operands))))
    active = tile.lanes if column == tile.vectors - 1 else lanes
    offset = writer.add(row_offset, column * lanes)
    pointer = writer.pointer("%output", offset, MEMORY[stored.name])
    if tile.accumulate:
        total = arithmetic.add(load_vector(writer, tile.dtype, pointer, lanes, active), total)
    value = finish(writer, tile.epilogue, tile.dtype, total, operands.at(writer, offset, column * lanes), active)
    store_vector(writer, stored, value, pointer, lanes, active)


def _reduce(
    writer: Writer, arithmetic: _Arithmetic, tile: Tile, depth: int, a: str, b: str, sums: list[str]
) -> list[str]:
    """Add the levels from `depth` inwards to `sums`, which it returns in their order."""
    level, element = tile.levels[depth], arithmetic.element
    if level.extent == 0:
        return sums
    if depth + 1 < len(tile.levels):
        with writer.loop(0, level.extent, 1, [(arithmetic.type, value) for value in sums]) as loop:
            inner_a = writer.pointer(a, writer.multiply(loop.index, level.a_step), element)
            inner_b = writer.pointer(b, writer.multiply(loop.index, level.b_step), element)
            loop.next = _reduce(writer, arithmetic, tile, depth + 1, inner_a, inner_b, loop.carried)
        return loop.next
    for run in tile.runs or (Run(level.extent, 0, 0, tuple(range(len(tile.rows)))),):
        chosen = [row * tile.vectors + column for row in run.rows for column in range(tile.vectors)]
        if arithmetic.offset_left:
            if len(run.rows) < len(tile.rows):
                raise ValueError("what is taken off for the offset of signed quads is one sum for all rows")
            chosen += range(len(tile.rows) * tile.vectors, len(sums))
        run_a, run_b = writer.pointer(a, run.a_shift, element), writer.pointer(b, run.b_shift, element)
        results = _reduce_run(writer, arithmetic, tile, run, run_a, run_b, [sums[place] for place in chosen])
        sums = list(sums)
        for place, value in zip(chosen, results, strict=True):
            sums[place] = value
    return sums


def _reduce_run(
    writer: Writer, arithmetic: _Arithmetic, tile: Tile, run: Run, a: str, b: str, sums: list[str]
) -> list[str]:
    """The innermost loop over a run, unrolled, and what the unrolled steps leave."""
    unroll = tile.unroll if isinstance(run.extent, int) else 1
    whole: Integer = run.extent - run.extent % unroll if isinstance(run.extent, int) else run.extent
    if whole != 0:
        with writer.loop(0, whole, unroll, [(arithmetic.type, value) for value in sums]) as loop:
            values = loop.carried
            for step in range(unroll):
                values = _step(writer, arithmetic, tile, run.rows, a, b, loop.index, step, values)
            loop.next = values
        sums = loop.next
    if isinstance(run.extent, int) and isinstance(whole, int):
        for step in range(whole, run.extent):
            sums = _step(writer, arithmetic, tile, run.rows, a, b, 0, step, sums)
    return sums


def _step(
    writer: Writer,
    arithmetic: _Arithmetic,
    tile: Tile,
    rows: tuple[int, ...],
    a: str,
    b: str,
    index: Integer,
    step: int,
    sums: list[str],
) -> list[str]:
    """One step of the innermost level: the outer product of a column of `a` and a row of `b`."""
    element, lanes, level = arithmetic.element, arithmetic.lanes, tile.levels[-1]
    a_here = writer.pointer(a, writer.multiply(index, level.a_step), element)
    b_here = writer.pointer(b, writer.multiply(index, level.b_step), element)
    a_shift, b_shift = writer.multiply(step, level.a_step), writer.multiply(step, level.b_step)
    columns = []
    for column in range(tile.vectors):
        pointer = writer.pointer(b_here, writer.add(b_shift, column * tile.b_vector_step), element)
        active = tile.lanes if tile.b_masked and column == tile.vectors - 1 else lanes
        columns.append(load_vector(writer, tile.dtype, pointer, lanes, active))
    updated = []
    for number, row in enumerate(rows):
        broadcast = arithmetic.broadcast(writer.pointer(a_here, writer.add(a_shift, tile.rows[row]), element))
        for column, value in enumerate(columns):
            updated.append(arithmetic.multiply_add(broadcast, value, sums[number * tile.vectors + column]))
    if arithmetic.offset_left:
        for value, total in zip(columns, sums[len(updated) :], strict=True):
            updated.append(arithmetic.multiply_add(quads.OFFSET, value, total))
    return updated


def finish(writer: Writer, epilogue: Epilogue, dtype: DType, total: str, operands: Sequence[str], active: int) -> str:
    """The value to store for accumulator `total`, in the output's memory type; `operands` point at its first lane."""
    if not epilogue.body:
        return total
    lanes, values = lanes_of(dtype), [total]
    for operand, pointer in zip(epilogue.operands, operands, strict=True):
        element = MEMORY[operand.dtype.name]
        if operand.addressing == "scalar":
            scalar = writer.value(f"load {element}, ptr {pointer}, align {operand.dtype.itemsize}")
            loaded = splat_register(writer, element, lanes, scalar)
        else:
            loaded = load_vector(writer, operand.dtype, pointer, lanes, active)
        values.append(widen(writer, loaded, operand.dtype, lanes))
    result = render_body(writer, epilogue.body, values, lanes)[-1]
    return narrow(writer, result, epilogue.body[-1].dtype, lanes)
