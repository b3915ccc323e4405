"""Products by AMX: eight registers of 16 rows by 64 bytes, and an instruction that multiplies two into a third.

The left operand's register holds up to 16 rows of 16 steps, the right operand's 16 steps of 16 columns, a sum's 16 rows
of 16 columns; a step is a pair of bfloat16 or a quad of bytes, 4 bytes each. All other products use the same memory
layout of the operands: rows of the left operand at equal distances, panels of the right operand.

Numerics class of bfloat16, "tiles": each run of the innermost level is cut into blocks of 16 pairs from its start; the
last block may be shorter. The even elements of a block are one chain of fused multiply-adds from zero and the odd ones
another, both in ascending k; their sum is added to the element's total. Subnormal operands and results are treated as
zero (Intel SDM, volume 2, TDPBF16PS). Quads are exact modulo 2**32, as everywhere.

The shapes of the registers are configured before the first instruction (LDTILECFG takes about as long as ten products,
so a kernel remembers the loaded configuration). They are released after the last one, or every context switch would
save 8 KiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from trainer.engine.targets.cpu.kernels.tile_shape import Tile
from trainer.engine.targets.ir.writer import Integer, Writer

REGISTERS, ROWS, ROW_BYTES = 8, 16, 64
STEPS, STEP_BYTES = 16, 4
"""Steps of the innermost level that one instruction sums, and the size of each."""

_INSTRUCTIONS = {"tile_pairs": "tdpbf16ps", "tile_signed_quads": "tdpbssd", "tile_unsigned_quads": "tdpbusd"}

LEAST_STEPS = 8
"""Minimum pairs along the innermost level for the "tiles" class to use these registers: fewer leave them half empty."""


_NONE: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of the left operand at equal distances: the number of the first, their count, the elements between two."""

    first: int
    count: int
    step: int


def evenly_spaced(displacements: Sequence[int]) -> list[Rows]:
    """Cuts rows into as few parts as registers can hold; the parts of a run are as equal as possible."""
    runs: list[Rows] = []
    for number, place in enumerate(displacements):
        last = runs[-1] if runs else None
        step = place - displacements[number - 1] if number else 0
        if last is not None and (last.count == 1 or last.step == step):
            runs[-1] = Rows(last.first, last.count + 1, step)
        else:
            runs.append(Rows(number, 1, 0))
    parts: list[Rows] = []
    for run in runs:
        pieces = -(-run.count // ROWS)
        edges = [run.count * piece // pieces for piece in range(pieces + 1)]
        parts += [Rows(run.first + start, stop - start, run.step) for start, stop in pairwise(edges)]
    return parts


@dataclass(frozen=True, slots=True)
class Assignment:
    """The contents of each register while some parts of the rows are summed.

    sums: the register of part i and vector v at [i][v]. left, right: registers for whole blocks of steps, for each part
    and for each vector; left_tail, right_tail: for the rest of a run. Several parts or vectors may share one. shapes:
    (rows, bytes per row) of each register.
    """

    sums: tuple[tuple[int, ...], ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    left_tail: tuple[int, ...]
    right_tail: tuple[int, ...]
    shapes: tuple[tuple[int, int], ...]

    @property
    def configuration(self) -> bytes:
        """The operand of LDTILECFG: palette 1, then bytes per row (16 bits) and rows (8 bits) of each register."""
        padding = REGISTERS - len(self.shapes)
        widths = b"".join(width.to_bytes(2, "little") for _, width in self.shapes) + bytes(2 * padding)
        rows = bytes(rows for rows, _ in self.shapes) + bytes(padding)
        return bytes([1, *[0] * 15]) + widths + bytes(16) + rows + bytes(8)


def assign(parts: Sequence[Rows], vectors: int, steps: int) -> Assignment | None:
    """Assigns registers to all `parts` at once, with runs of `steps` steps; None if there are too few registers."""
    whole, tail = steps >= STEPS, steps % STEPS
    heights = sorted({part.count for part in parts})
    kinds = int(whole) + bool(tail)
    spare = REGISTERS - len(parts) * vectors - kinds * (len(heights) + 1)
    if spare < 0:
        return None
    shapes: list[tuple[int, int]] = []

    def take(rows: int, width: int) -> int:
        shapes.append((rows, width))
        return len(shapes) - 1

    def taken(width: int) -> tuple[int, ...]:
        """One register for all parts of a height."""
        shared = {height: take(height, width) for height in heights}
        return tuple(shared[part.count] for part in parts)

    sums = tuple(tuple(take(part.count, ROW_BYTES) for _ in range(vectors)) for part in parts)
    left = right = left_tail = right_tail = _NONE
    if tail:
        left_tail, right_tail = taken(tail * STEP_BYTES), (take(tail, ROW_BYTES),) * vectors
    if whole:
        further = len(parts) - len(heights)
        if spare >= further:
            spare -= further
            left = tuple(take(part.count, STEPS * STEP_BYTES) for part in parts)
        else:
            left = taken(STEPS * STEP_BYTES)
        own = [take(STEPS, ROW_BYTES) for _ in range(min(vectors, 1 + spare))]
        right = tuple(own[vector % len(own)] for vector in range(vectors))
    return Assignment(sums, left, right, left_tail, right_tail, tuple(shapes))


def passes(rows: Sequence[int], vectors: int, steps: int) -> list[tuple[list[Rows], Assignment]]:
    """The parts of the rows that are summed at once, and their registers, for each pass.

    Raises:
        ValueError: not even one part fits.
    """
    found: list[tuple[list[Rows], Assignment]] = []
    for part in evenly_spaced(rows):
        together = assign([*found[-1][0], part], vectors, steps) if found else None
        if together is not None:
            found[-1] = ([*found[-1][0], part], together)
            continue
        alone = assign([part], vectors, steps)
        if alone is None:
            raise ValueError(f"{vectors} vectors of sums are more than {REGISTERS} registers hold")
        found.append(([part], alone))
    return found


def suits(steps: int) -> bool:
    """Whether the "tiles" class sums runs of `steps` pairs with tiles; it sums shorter runs by pairs."""
    return steps >= LEAST_STEPS


def begin(writer: Writer) -> str:
    """Allocates the slot in which a kernel remembers the loaded configuration: none yet."""
    place = writer.value("alloca ptr")
    writer.emit(f"store ptr null, ptr {place}")
    return place


def end(writer: Writer) -> None:
    """Releases the registers."""
    writer.intrinsic("x86.tilerelease", "void")


def sum_into(writer: Writer, tile: Tile, a: str, b: str, buffer: str, configured: str) -> None:
    """Stores the sums of a tile in `buffer`, [rows][vectors] of 64 bytes; `configured` is the result of `begin`."""
    steps = tile.levels[-1].extent
    if not isinstance(steps, int) or tile.levels[-1].a_step != 1 or tile.runs or tile.b_masked:
        raise ValueError("tiles are multiplied along whole runs of known length, the right operand in panels")
    for parts, registers in passes(tile.rows, tile.vectors, steps):
        _configure(writer, registers, configured)
        for row in registers.sums:
            for register in row:
                writer.intrinsic("x86.tilezero", "void", ("i8", str(register)))
        _Pass(writer, tile, parts, registers).levels(0, a, b)
        for part, row in zip(parts, registers.sums, strict=True):
            for vector, register in enumerate(row):
                place = writer.pointer(buffer, (part.first * tile.vectors + vector) * ROW_BYTES, "i8")
                _move(writer, "tilestored64", register, place, tile.vectors * ROW_BYTES)


def _configure(writer: Writer, registers: Assignment, configured: str) -> None:
    """Loads a configuration, unless it is already loaded."""
    content = registers.configuration
    table = writer.table(f"tiles_{content[16:].hex()}", content, "i8")
    loaded = writer.value(f"load ptr, ptr {configured}")
    with writer.when(writer.value(f"icmp ne ptr {loaded}, {table}", "c")):
        writer.intrinsic("x86.ldtilecfg", "void", ("ptr", table))
        writer.emit(f"store ptr {table}, ptr {configured}")


def _move(writer: Writer, instruction: str, register: int, place: str, stride: int) -> None:
    writer.intrinsic(f"x86.{instruction}", "void", ("i8", str(register)), ("ptr", place), ("i64", str(stride)))


@dataclass(frozen=True, slots=True)
class _Pass:
    """The reduction over a tile's levels for some parts of its rows."""

    writer: Writer
    tile: Tile
    parts: Sequence[Rows]
    registers: Assignment

    def levels(self, depth: int, a: str, b: str) -> None:
        """Writes the reduction from level `depth` inwards."""
        w, level = self.writer, self.tile.levels[depth]
        if level.extent == 0:
            return
        if depth + 1 < len(self.tile.levels):
            with w.loop(0, level.extent) as loop:
                inner_a = self._at(a, w.multiply(loop.index, level.a_step))
                self.levels(depth + 1, inner_a, self._at(b, w.multiply(loop.index, level.b_step)))
            return
        assert isinstance(level.extent, int)
        whole = level.extent - level.extent % STEPS
        if whole:
            with w.loop(0, whole, STEPS) as loop:
                here = self._at(b, w.multiply(loop.index, level.b_step))
                self._block(self._at(a, loop.index), here, self.registers.left, self.registers.right)
        if whole < level.extent:
            here = self._at(b, w.multiply(whole, level.b_step))
            self._block(self._at(a, whole), here, self.registers.left_tail, self.registers.right_tail)

    def _at(self, base: str, elements: Integer) -> str:
        return self.writer.pointer(base, self.writer.multiply(elements, STEP_BYTES), "i8")

    def _block(self, a: str, b: str, left: Sequence[int], right: Sequence[int]) -> None:
        """Writes one block of steps: operands are loaded unless held, going back and forth along the vectors."""
        w, tile = self.writer, self.tile
        b_step = tile.levels[-1].b_step
        assert isinstance(b_step, int)
        held: dict[int, tuple[str, int]] = {}

        def loaded(register: int, what: tuple[str, int], place: str, stride: int) -> None:
            if held.get(register) != what:
                held[register] = what
                _move(w, "tileloadd64", register, place, stride)

        for number, part in enumerate(self.parts):
            vectors = range(tile.vectors)
            for vector in reversed(vectors) if number % 2 else vectors:
                row = self._at(a, tile.rows[part.first])
                loaded(left[number], ("left", number), row, part.step * STEP_BYTES)
                panel = self._at(b, vector * tile.b_vector_step)
                loaded(right[vector], ("right", vector), panel, b_step * STEP_BYTES)
                operands = (self.registers.sums[number][vector], left[number], right[vector])
                w.intrinsic(
                    f"x86.{_INSTRUCTIONS[tile.products]}", "void", *(("i8", str(register)) for register in operands)
                )
