"""Loads an operand of a product from memory into its tile in shared memory, one step of the depth at a time.

Values that do not depend on the step are computed once: for each piece that a thread loads, the address of its row, and
the row's index along each bound. A step adds the contribution of the term. Indices of the depth that can be stepped
through as one (such as the channels of a one-pixel window) are merged, so most operands need no division.

A piece that needs no arithmetic (no prologue, no conversion) is loaded by an asynchronous copy, which pads with zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.ir.expression import MEMORY
from trainer.engine.targets.ir.writer import Integer
from trainer.engine.targets.ptx.kernels.kernel_writer import SHARED, KernelWriter
from trainer.engine.targets.ptx.kernels.product import Access, Affine, ProductKernel, innermost_of, merged

MOST_REGISTERS = 64
"""Maximum number of registers for values that do not depend on the step."""

COPIED_BYTES = (4, 8, 16)
"""Possible sizes of an asynchronous copy."""


@dataclass(frozen=True, slots=True)
class TileLayout:
    """The strides of a tile along the kept space and along the depth, and its size, all in elements."""

    kept: int
    summed: int
    size: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """Neighbors that a thread loads in each step: the part of each address and bound that their row contributes; the
    first term, relative to the step's start; the target; and the condition if not all threads have a piece.
    """

    addresses: list[str]
    bounds: list[str]
    summed: Integer
    target: str
    target_offset: int
    guard: str


class Fill:
    """Loads one operand. `dtype` and `layout` are those of its tile."""

    def __init__(self, w: KernelWriter, kernel: ProductKernel, side: int, dtype: DType, layout: TileLayout) -> None:
        self.w, self.kernel, self.side, self.dtype, self.layout = w, kernel, side, dtype, layout
        self.access, self.load = (kernel.left, kernel.right)[side], kernel.loads[side]
        self.prologue = kernel.prologue if side == 0 else type(kernel.prologue)()
        self.extent = (kernel.tile.rows, kernel.tile.columns)[side]
        self.accesses = [self.access, *self.prologue.operands]
        self._groups, self._kept = self._grouped(len(kernel.spaces) - 1), self._grouped(1 + side)

    @property
    def step(self) -> int:
        """Elements between neighbors of a piece in the tile."""
        return self.layout.kept if self.load.along == "kept" else self.layout.summed

    @property
    def copied_lanes(self) -> int:
        """Elements per asynchronous copy; 0 if elements need arithmetic on the way to the tile."""
        lanes = self.load.lanes if self.step == 1 else 1
        is_plain = self.access.dtype is self.dtype and not self.prologue.body
        return lanes if is_plain and lanes * self.dtype.itemsize in COPIED_BYTES else 0

    @property
    def is_cached(self) -> bool:
        """Whether copies go through the multiprocessor's cache. On an H200 this is faster for the left operand of
        tensor cores, since the taps of a window read the same elements, and slower for the right operand.
        """
        return self.kernel.tile.tensor and self.side == 0

    # Places

    def _grouped(self, space: int) -> list[tuple[int, int]]:
        """The indices of a space, merged where all offsets and bounds step through them as one."""
        functions = [access.place for access in self.accesses] + [bound for bound, _ in self.access.bounds]
        return merged(self.kernel.extents, self.kernel.indices(space), functions)

    def _value(self, affine: Affine, indices: dict[int, Integer]) -> Integer:
        """The contribution of some indices to an affine function, without its offset."""
        w, total = self.w, 0
        for number, index in indices.items():
            total = w.add(total, w.multiply(index, affine.factors[number]))  # type: ignore[assignment]
        return total

    def _of_term(self, term: Integer) -> dict[int, Integer]:
        """The indices of a term; if there is only one index, `term` may also be a difference of terms."""
        if len(self._groups) < 2:
            return {number: term for number, _ in self._groups}
        return self.w.indices(term, self._groups)

    # Before the first step

    def begin(
        self, thread: str, first: Integer, batch: Sequence[Integer], addresses: Sequence[str], memory: str, start: int
    ) -> None:
        """Computes what all steps share: `first` is the tile's first row or column; the tile begins at element `start`
        of shared memory.
        """
        self.addresses, self.first, self.batch, self.thread = addresses, first, batch, thread
        self.memory, self.start, self.pieces = memory, start, list[_Piece]()
        self._rows: dict[Integer, tuple[list[Integer], list[Integer]]] = {}
        if self.is_rolled:
            return
        w, threads, moved = self.w, self.kernel.tile.threads, 0
        for number in range(-(-self._count // threads)):
            place = w.add(thread, number * threads)
            guard = "" if (number + 1) * threads <= self._count else w.value(f"icmp ult i64 {place}, {self._count}")
            if number == 0 or threads % self._line:
                across, along = self._split(place)
                target = self._target(across, along)
            else:
                moved = number * (threads // self._line)
            self.pieces.append(self._piece(w.add(across, moved), along, target, moved, guard))

    @property
    def _line(self) -> int:
        """Pieces per line of the tile."""
        return (self.kernel.tile.depth if self.load.along == "depth" else self.extent) // self.load.lanes

    @property
    def _count(self) -> int:
        """Number of pieces of the tile."""
        return self.extent * self.kernel.tile.depth // self.load.lanes

    @property
    def is_rolled(self) -> bool:
        """Whether a thread has too many pieces for its registers; each step then computes them one by one."""
        registers = 2 * len(self.accesses) + len(self.access.bounds)
        return -(-self._count // self.kernel.tile.threads) * registers > MOST_REGISTERS

    def _split(self, place: Integer) -> tuple[Integer, Integer]:
        """The line of a piece, and its first element along the line."""
        across, along = self.w.divide(place, self._line)
        return across, self.w.multiply(along, self.load.lanes)

    def _target(self, across: Integer, along: Integer) -> str:
        w, layout = self.w, self.layout
        kept, summed = (across, along) if self.load.along == "depth" else (along, across)
        offset = w.add(w.multiply(kept, layout.kept), w.multiply(summed, layout.summed))
        return w.place(self.dtype, self.memory, str(w.add(offset, self.start)), SHARED)

    def _piece(self, across: Integer, along: Integer, target: str, moved: int, guard: str) -> _Piece:
        """A piece that is stored `moved` lines after `target`."""
        w, load, space = self.w, self.load, self.kernel.spaces[1 + self.side]
        kept, summed = (across, along) if load.along == "depth" else (along, across)
        if kept not in self._rows:
            last = math.prod(space) - (load.lanes if load.along == "kept" else 1)
            row = w.minimum(w.add(self.first, kept), last)
            indices = dict(enumerate(self.batch)) | w.indices(row, self._kept)
            self._rows[kept] = (
                [w.add(access.place.offset, self._value(access.place, indices)) for access in self.accesses],
                [w.add(bound.offset, self._value(bound, indices)) for bound, _ in self.access.bounds],
            )
        offsets, bounds = self._rows[kept]
        if len(self._groups) < 2:
            own = self._of_term(summed)
            offsets = [w.add(o, self._value(a.place, own)) for o, a in zip(offsets, self.accesses, strict=True)]
            bounds = [w.add(b, self._value(f, own)) for b, (f, _) in zip(bounds, self.access.bounds, strict=True)]
        addresses = [
            w.place(access.dtype, address, str(offset))
            for access, address, offset in zip(self.accesses, self.addresses, offsets, strict=True)
        ]
        step = self.layout.kept if load.along == "depth" else self.layout.summed
        return _Piece(addresses, [w.narrow(each) for each in bounds], summed, target, moved * step, guard)

    # A step

    def write(self, start: str, stop: Integer, stage: Integer) -> None:
        """Loads a step, the terms from `start` on and before `stop`, into the stage at byte `stage`."""
        w = self.w
        if self.is_rolled:
            with w.rolled(self.thread, str(self._count), self.kernel.tile.threads, []) as loop:
                self._rows = {}
                across, along = self._split(loop.index)
                piece = self._piece(across, along, w.moved(self._target(across, along), stage), 0, "")
                self._write_piece(piece, piece.target, *self._parts(start, stop, piece.summed))
            return
        known: dict[Integer, tuple[list[Integer], list[str], str]] = {}
        targets: dict[str, str] = {}
        for piece in self.pieces:
            if piece.target not in targets:
                targets[piece.target] = w.moved(piece.target, stage)
            with ExitStack() as inside:
                if piece.guard:
                    inside.enter_context(w.when(piece.guard, "fill"))
                if piece.summed not in known:
                    found = self._parts(start, stop, piece.summed)
                    if not piece.guard:
                        known[piece.summed] = found
                else:
                    found = known[piece.summed]
                self._write_piece(piece, targets[piece.target], *found)

    def _parts(self, start: str, stop: Integer, summed: Integer) -> tuple[list[Integer], list[str], str]:
        """The term's contribution to each address and bound, and whether the term exists ("": always)."""
        w, term = self.w, self.w.add(start, summed)
        own = self._of_term(start if len(self._groups) < 2 else term)
        present = "" if self.kernel.is_whole else w.value(f"icmp slt i64 {term}, {stop}")
        return (
            [self._value(access.place, own) for access in self.accesses],
            [w.narrow(self._value(bound, own)) for bound, _ in self.access.bounds],
            present,
        )

    def _write_piece(
        self, piece: _Piece, target: str, offsets: Sequence[Integer], parts: Sequence[str], present: str
    ) -> None:
        w = self.w
        conditions = [present] if present else []
        for (_, limit), row, part in zip(self.access.bounds, piece.bounds, parts, strict=True):
            conditions.append(w.value(f"icmp ult i32 {w.value(f'add i32 {row}, {part}')}, {limit}"))
        inside = ""
        for each in conditions:
            inside = w.value(f"and i1 {inside}, {each}") if inside else each
        sources = [
            address if offset == 0 else w.place(access.dtype, address, str(offset))
            for access, address, offset in zip(self.accesses, piece.addresses, offsets, strict=True)
        ]
        if self.copied_lanes:
            nbytes = self.copied_lanes * self.dtype.itemsize
            length = w.value(f"select i1 {inside}, i32 {nbytes}, i32 0") if inside else ""
            for lane in range(0, self.load.lanes, self.copied_lanes):
                w.copied(
                    nbytes, self._at(target, piece.target_offset + lane * self.step),
                    sources[0] if lane == 0 else w.place(self.dtype, sources[0], str(lane)), length,
                    cached=self.is_cached,
                )  # fmt: skip
            return
        values, memory = self._loaded(sources, inside), MEMORY[self.dtype.name]
        if self.step == 1:
            joined = w.joined(memory, values)
            w.store(self.dtype, joined, self._at(target, piece.target_offset), space=SHARED, lanes=len(values))
            return
        for lane, value in enumerate(values):
            w.store(self.dtype, value, self._at(target, piece.target_offset + lane * self.step), space=SHARED)

    def _at(self, target: str, offset: int) -> str:
        return self.w.place(self.dtype, target, str(offset), SHARED) if offset else target

    def _loaded(self, sources: Sequence[str], inside: str) -> list[str]:
        """Loads the elements in the tile's memory type, or zeros unless `inside` holds."""
        w, lanes = self.w, self.load.lanes
        raw: list[tuple[Access, str, int]] = []
        for access, source, address in zip(self.accesses, sources, self.addresses, strict=True):
            if inside:
                source = w.value(f"select i1 {inside}, ptr addrspace(1) {source}, ptr addrspace(1) {address}")
            count = lanes if access is self.access or self._moves(access) else 1
            raw.append((access, w.load(access.dtype, source, constant=True, lanes=count), count))
        memory, found = MEMORY[self.dtype.name], []
        for lane in range(lanes):
            operands = [
                w.widened(access.dtype, w.lane(MEMORY[access.dtype.name], each, count, lane if count > 1 else 0))
                for access, each, count in raw
            ]
            value = w.body(self.prologue.body, operands)[-1] if self.prologue.body else operands[0]
            value = self.converted(value)
            if inside:
                value = w.value(f"select i1 {inside}, <1 x {memory}> {value}, <1 x {memory}> zeroinitializer")
            found.append(value)
        return found

    def converted(self, value: str) -> str:
        """Converts an element from its operand's compute type to the tile's memory type."""
        return self.w.narrowed(self.dtype, value)

    def _moves(self, access: Access) -> bool:
        """Whether an operand of the prologue differs from lane to lane."""
        space = self.kernel.indices(3 if self.load.along == "depth" else 1)
        innermost = innermost_of(self.kernel.extents, space)
        return self.load.lanes > 1 and innermost is not None and access.place.factors[innermost] != 0
