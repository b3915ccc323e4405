"""The micro-kernel of every contraction: rows x vectors of accumulators held in registers over nested reduction levels.

    out[i, v, lane] = epilogue(sum over levels of a[row i + steps] * b[vector v + steps, lane])

Rows are at displacements known at render time. Each step of the innermost level does one broadcast load for each row
and one vector load for each vector, and adds their products to the accumulators. Every output element is one chain of
fused multiply-adds in the order of the levels: tile shape, unrolling and host vector width don't change the bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trainer.engine.graph.dtypes import DType
from trainer.engine.program.spec import Epilogue
from trainer.engine.targets.cpu.kernels import tile_registers
from trainer.engine.targets.cpu.kernels.access import load_vector, prefetch, store_vector
from trainer.engine.targets.cpu.kernels.epilogue import OperandPointers
from trainer.engine.targets.cpu.kernels.products import OFFSET, multiply_add
from trainer.engine.targets.cpu.kernels.tile_shape import Level, LevelPart, Tile
from trainer.engine.targets.ir.expression import MEMORY, lanes_of, narrow, render_body, widen
from trainer.engine.targets.ir.writer import Integer, Typed, Writer, vector

Places = tuple[str, str, str]
"""Addresses of both operands and of memory to prefetch."""

UNROLLED_INSTRUCTIONS = 400
LONG_OPERATIONS = frozenset(
    ("exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "logistic", "power", "remainder", "floor_divide")
)
"""Element-wise primitives that become dozens of instructions."""


def odd_lines(elements: int, lanes: int) -> int:
    """`elements` rounded up to an odd number of cache lines, so that neighbors spread over the cache's sets."""
    return (-(-elements // lanes) | 1) * lanes


def run_tile(
    writer: Writer, name: str, tile: Tile, pointers: Sequence[str], values: Mapping[str, Integer] | None = None
) -> None:
    """Calls a tile, defined once as the module's function `name`, with pointers to (a, b, output, epilogue operands…)
    and the `values` of its variables.

    With AMX, the result of `tile_registers.begin` follows these pointers; if the tile prefetches memory, its address
    comes last.
    """
    parameters: list[Typed] = [("ptr noalias", "%a"), ("ptr noalias", "%b"), ("ptr", "%output")]
    parameters += OperandPointers.parameters(tile.epilogue).typed
    if tile.by_tile_registers:
        parameters.append(("ptr", "%configured"))
    if tile.asks:
        parameters.append(("ptr", "%ahead"))
    parameters += [("i64", variable) for variable in tile.variables]
    writer.function(name, parameters, lambda inner: _TileWriter(inner, name, tile).write())
    writer.run(name, pointers, [(values or {})[variable] for variable in tile.variables])


def cut_columns(w: Writer, index: Integer, columns: int, lanes: int, vectors: int = 1) -> Iterator[tuple[int, int]]:
    """Yields the vectors (at most `vectors`) of a tile at `index` and the lanes of its last, in separate branches."""
    count = -(-columns // lanes)
    tail = columns - (count - 1) * lanes
    for width, last in w.cut(index, count, vectors, last_differs=tail != lanes):
        yield width, tail if last else lanes


def splat_register(writer: Writer, element: str, lanes: int, scalar: str) -> str:
    """A vector of `lanes` copies of a scalar."""
    kind = vector(element, lanes)
    first = writer.value(f"insertelement {kind} poison, {element} {scalar}, i32 0", "s")
    return writer.value(f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer", "s")


class _TileWriter:
    """Writes a tile's function; elements that are pairs or quads are loaded with the type of the accumulators."""

    def __init__(self, writer: Writer, name: str, tile: Tile) -> None:
        self.writer, self.name, self.tile = writer, name, tile
        self.element, self.lanes = MEMORY[tile.dtype.name], lanes_of(tile.dtype)
        self.type = vector(self.element, self.lanes)
        self.places = [(row, column) for row in range(len(tile.rows)) for column in range(tile.vectors)]
        self.operands = OperandPointers.parameters(tile.epilogue)

    @property
    def offset_left(self) -> bool:
        """Whether 128 is added to the left operand, so that 128 times the right operand's sum must be subtracted."""
        return self.tile.products == "native_signed_quads"

    def write(self) -> None:
        """Writes the whole function."""
        w, tile = self.writer, self.tile
        looped = tile.by_tile_registers or _is_long(tile)
        if tile.prefetched:
            self._prefetch_results()
        buffer = w.value(f"alloca [{len(self.places)} x {self.type}], align 64") if looped else ""
        if tile.by_tile_registers:
            tile_registers.sum_into(w, tile, "%a", "%b", buffer, "%configured")
            return self._store_buffer(buffer)
        offsets = tile.vectors if self.offset_left else 0
        sums = self._reduce(0, ("%a", "%b", "%ahead"), ["zeroinitializer"] * (len(self.places) + offsets))
        if offsets:
            taken = sums[len(self.places) :]
            sums = [
                w.value(f"sub {self.type} {total}, {taken[column]}")
                for (_, column), total in zip(self.places, sums, strict=False)
            ]
        for number, ((row, column), total) in enumerate(zip(self.places, sums, strict=True)):
            if looped:
                store_vector(w, tile.dtype, total, w.pointer(buffer, number, self.type), self.lanes, alignment=64)
            else:
                self._store_sum(total, tile.outputs[row], column)
        if looped:
            self._store_buffer(buffer)

    def _prefetch_results(self) -> None:
        """Prefetches the cache lines that finishing the sums reads and writes."""
        w, tile = self.writer, self.tile
        stored = MEMORY[tile.epilogue.output(tile.dtype).name]
        for row, column in self.places:
            offset = w.add(tile.outputs[row], column * self.lanes)
            prefetch(w, w.pointer("%output", offset, stored), written=True)
            pointers = self.operands.at(w, offset, column * self.lanes)
            for operand, pointer in zip(tile.epilogue.operands, pointers, strict=True):
                if operand.addressing == "same":
                    prefetch(w, pointer)

    def _store_buffer(self, buffer: str) -> None:
        """Finishes and stores the accumulators in `buffer`, [rows][vectors], row by row."""
        w, tile = self.writer, self.tile
        table = w.table(f"{self.name}_outputs", tile.outputs)
        with w.loop(0, len(tile.rows)) as row_loop:
            offset = w.value(f"load i64, ptr {w.pointer(table, row_loop.index, 'i64')}")
            for column in range(tile.vectors):
                place = w.add(w.multiply(row_loop.index, tile.vectors), column)
                pointer = w.pointer(buffer, place, self.type)
                total = load_vector(w, tile.dtype, pointer, self.lanes, alignment=64)
                self._store_sum(total, offset, column)

    def _store_sum(self, total: str, row_offset: Integer, column: int) -> None:
        """Finishes one accumulator and stores it."""
        w, tile, stored = self.writer, self.tile, self.tile.epilogue.output(self.tile.dtype)
        active = tile.lanes if column == tile.vectors - 1 else self.lanes
        offset = w.add(row_offset, column * self.lanes)
        pointer = w.pointer("%output", offset, MEMORY[stored.name])
        if tile.accumulate:
            total = self._add(load_vector(w, tile.dtype, pointer, self.lanes, active), total)
        operands = self.operands.at(w, offset, column * self.lanes)
        value = finish(w, tile.epilogue, tile.dtype, total, operands, active)
        store_vector(w, stored, value, pointer, self.lanes, active)

    def _moved(self, places: Places, index: Integer, level: Level) -> Places:
        """The addresses of the operands, and of memory to prefetch, at a step of a level."""
        steps = level.a_step, level.b_step, level.ahead_step
        a, b, ahead = (
            self.writer.pointer(place, self.writer.multiply(index, step), self.element)
            for place, step in zip(places, steps, strict=True)
        )
        return a, b, ahead

    def _reduce(self, depth: int, places: Places, sums: list[str]) -> list[str]:
        """Adds the levels from `depth` inwards to `sums`; returns the sums in the same order."""
        w, tile, level = self.writer, self.tile, self.tile.levels[depth]
        if level.extent == 0:
            return sums
        if depth + 1 < len(tile.levels):
            with w.loop(0, level.extent, 1, [(self.type, value) for value in sums]) as loop:
                loop.next = self._reduce(depth + 1, self._moved(places, loop.index, level), loop.carried)
            return loop.next
        for run in tile.runs or (LevelPart(level.extent, 0, 0, tuple(range(len(tile.rows)))),):
            chosen = [row * tile.vectors + column for row in run.rows for column in range(tile.vectors)]
            if self.offset_left:
                if len(run.rows) < len(tile.rows):
                    raise ValueError("what is taken off for the offset of signed quads is one sum for all rows")
                chosen += range(len(self.places), len(sums))
            steps = run.b_shift // level.b_step if tile.runs and isinstance(level.b_step, int) else 0
            shifts = run.a_shift, run.b_shift, steps * level.ahead_step
            a, b, ahead = (w.pointer(place, shift, self.element) for place, shift in zip(places, shifts, strict=True))
            begin = a, b, ahead
            results = self._reduce_run(run, begin, [sums[place] for place in chosen])
            sums = list(sums)
            for place, value in zip(chosen, results, strict=True):
                sums[place] = value
        return sums

    def _reduce_run(self, run: LevelPart, places: Places, sums: list[str]) -> list[str]:
        """Writes the innermost loop over a run, unrolled, and the remaining steps."""
        unroll = self.tile.unroll if isinstance(run.extent, int) else 1
        whole: Integer = run.extent - run.extent % unroll if isinstance(run.extent, int) else run.extent
        if whole != 0:
            with self.writer.loop(0, whole, unroll, [(self.type, value) for value in sums]) as loop:
                loop.next = loop.carried
                for step in range(unroll):
                    loop.next = self._step(run.rows, places, loop.index, step, loop.next)
            sums = loop.next
        if isinstance(run.extent, int) and isinstance(whole, int):
            for step in range(whole, run.extent):
                sums = self._step(run.rows, places, 0, step, sums)
        return sums

    def _step(self, rows: tuple[int, ...], places: Places, index: Integer, step: int, sums: list[str]) -> list[str]:
        """One step of the innermost level: the outer product of a column of `a` and a row of `b`."""
        w, tile, level = self.writer, self.tile, self.tile.levels[-1]
        a_here, b_here, ahead = self._moved(places, index, level)
        a_shift, b_shift = w.multiply(step, level.a_step), w.multiply(step, level.b_step)
        for element in range(0, level.ahead_step, self.lanes):
            prefetch(w, w.pointer(ahead, step * level.ahead_step + element, self.element))
        columns = []
        for column in range(tile.vectors):
            pointer = w.pointer(b_here, w.add(b_shift, column * tile.b_vector_step), self.element)
            active = tile.lanes if tile.b_masked and column == tile.vectors - 1 else self.lanes
            columns.append(load_vector(w, tile.dtype, pointer, self.lanes, active))
            if tile.right_ahead:
                later = w.multiply(tile.right_ahead, level.b_step)
                prefetch(w, w.pointer(pointer, later, self.element), 2)
        updated = []
        for number, row in enumerate(rows):
            spread = self._broadcast(w.pointer(a_here, w.add(a_shift, tile.rows[row]), self.element))
            for column, value in enumerate(columns):
                updated.append(self._multiply_add(spread, value, sums[number * tile.vectors + column]))
        if self.offset_left:
            for value, total in zip(columns, sums[len(updated) :], strict=True):
                updated.append(self._multiply_add(OFFSET, value, total))
        return updated

    def _broadcast(self, pointer: str) -> str:
        w = self.writer
        scalar = w.value(f"load {self.element}, ptr {pointer}, align {self.tile.dtype.itemsize}", "s")
        spread = splat_register(w, self.element, self.lanes, scalar)
        return w.value(f"xor {self.type} {spread}, {OFFSET}") if self.offset_left else spread

    def _multiply_add(self, a: str, b: str, total: str) -> str:
        return multiply_add(self.writer, self.tile.products, self.tile.dtype, self.type, a, b, total)

    def _add(self, a: str, b: str) -> str:
        return self.writer.value(f"{'fadd' if self.tile.dtype.is_float else 'add'} {self.type} {a}, {b}")


def _is_long(tile: Tile) -> bool:
    """Whether the epilogue is written once, in a loop: unrolled, it would cost more to compile than to run."""
    body = tile.epilogue.body
    instructions = len(body) * len(tile.rows) * tile.vectors
    return instructions > UNROLLED_INSTRUCTIONS or any(step.operation in LONG_OPERATIONS for step in body)


def store_finished(
    writer: Writer, operands: OperandPointers, dtype: DType, total: str, output: str, offset: Integer,
    channel: Integer, active: int | str | None,
) -> None:  # fmt: skip
    """Finishes and stores an accumulator whose first lane is element `offset` of the output, in column `channel`."""
    stored = operands.epilogue.output(dtype)
    value = finish(writer, operands.epilogue, dtype, total, operands.at(writer, offset, channel), active)
    store_vector(writer, stored, value, writer.pointer(output, offset, MEMORY[stored.name]), lanes_of(dtype), active)


def finish(
    writer: Writer, epilogue: Epilogue, dtype: DType, total: str, operands: Sequence[str], active: int | str | None
) -> str:
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
