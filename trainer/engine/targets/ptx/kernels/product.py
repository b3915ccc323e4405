"""Products through shared memory: matrix products and convolutions as sums over places that are affine in indices.

Every kernel computes out[batch, row, column] = the sum over the depth of left[batch, row, depth] · right[batch, depth,
column]. Rows, columns and depth are spaces of several indices each, and an operand's element lies where an affine
function of all indices says, or is zero outside of its bounds: so padding, strides, dilation, groups, transposed and
broadcast operands need no copies.

A block of threads computes a tile. Step by step its threads bring a part of both operands to shared memory, through the
prologue if there is one, then multiply. Numerics: "exact": each element is one chain of fused multiply-adds in the
order of the depth, from zero, as on the CPU. "tensor": `mma.sync` multiplies bfloat16, float16 or TF32 (float32 rounded
to 10 bits of fraction) and adds in float32, in an order that NVIDIA does not document. With `block` the depth is cut
into blocks of that size, each with an output of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trainer.engine.graph.dtypes import DType, float32
from trainer.engine.program.spec import Instruction
from trainer.engine.targets.ir.expression import MEMORY
from trainer.engine.targets.ir.writer import Integer, vector
from trainer.engine.targets.ptx.kernels.kernel_writer import SHARED, WARP, KernelWriter, compute

ACCESS_BYTES = 16
FRAGMENT = (16, 8)
"""Rows and columns of what `mma.sync` computes."""


@dataclass(frozen=True, slots=True)
class Affine:
    """offset + the sum of factor · index, one factor for each index of the product."""

    offset: int
    factors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """Where an operand's elements lie, in elements. Outside of `bounds`, (place, extent) each, they are zero."""

    dtype: DType
    place: Affine
    bounds: tuple[tuple[Affine, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Tile:
    """How a block of threads computes: rows and columns of its tile, terms of a step, and the share of a thread, or
    with tensor cores of a warp.
    """

    rows: int
    columns: int
    depth: int
    share_rows: int
    share_columns: int
    tensor: bool = False

    @property
    def shares(self) -> tuple[int, int]:
        """Shares along rows and columns."""
        return self.rows // self.share_rows, self.columns // self.share_columns

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return math.prod(self.shares) * (WARP if self.tensor else 1)


@dataclass(frozen=True, slots=True)
class Fused:
    """Element-wise work: `body` over an element (operand 0) and elements of `operands`, if there is any."""

    operands: tuple[Access, ...] = ()
    body: tuple[Instruction, ...] = ()


@dataclass(frozen=True, slots=True)
class Load:
    """How a tile of an operand is read: neighboring threads run along "kept" (rows or columns) or "depth", each reading
    `lanes` neighbors.
    """

    along: str
    lanes: int


@dataclass(frozen=True, slots=True)
class ProductKernel:
    """One product; the module's documentation has the fields' meaning.

    spaces: extents of batch, rows, columns and depth, whose indices are numbered in this order. dtype: of sums. loads:
    of left and right. block: terms of a block of the depth, whose outputs lie `block_stride` elements apart.

    Parameters: addresses of left, right, out, then of the operands of prologue and epilogue.
    """

    dtype: DType
    spaces: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    left: Access
    right: Access
    out: Access
    tile: Tile
    loads: tuple[Load, Load]
    prologue: Fused = Fused()
    epilogue: Fused = Fused()
    block: int = 0
    block_stride: int = 0
    flush: bool = False

    @property
    def depth(self) -> int:
        return math.prod(self.spaces[3])

    @property
    def parts(self) -> int:
        """Blocks of the depth."""
        return -(-self.depth // self.block) if self.block else 1

    @property
    def grid(self) -> tuple[int, ...]:
        """Blocks of threads along batch indices, blocks of the depth, and tiles of rows and columns."""
        batch, rows, columns, _ = self.spaces
        return (*batch, self.parts, -(-math.prod(rows) // self.tile.rows), -(-math.prod(columns) // self.tile.columns))

    def render(self, name: str) -> str:
        """The module that exports the kernel."""
        return (_TensorProduct if self.tile.tensor else _ExactProduct)(self).render(name)


Element = tuple[Integer, Integer, str]
"""A row and a column of the tile, and the sum there."""


class _Product:
    """One kernel while it is written."""

    element: str
    """The type of sums."""

    def __init__(self, kernel: ProductKernel) -> None:
        self.kernel, self.w, self.tile = kernel, KernelWriter(), kernel.tile

    def render(self, name: str) -> str:
        kernel, w, tile = self.kernel, self.w, self.tile
        self.addresses = [w.pointer_parameter() for _ in range(3)]
        self.further = [[w.pointer_parameter() for _ in fused.operands] for fused in (kernel.prologue, kernel.epilogue)]
        self.thread = w.special("tid.x")
        *batch, part, row_tile, column_tile = w.unraveled(w.special("ctaid.x"), kernel.grid)
        self.batch = batch
        self.first = w.multiply(row_tile, tile.rows), w.multiply(column_tile, tile.columns)
        start, stop = w.share(part, kernel.block, kernel.depth) if kernel.block else (0, kernel.depth)
        sums = self.initial
        self.begin()
        if kernel.depth:
            with w.rolled(str(start), str(stop), tile.depth, [(self.element, each) for each in sums]) as step:
                for side in range(2):
                    self._fill(side, str(step.index), stop)
                w.barrier()
                step.next = self.multiplied(step.carried, w.subtract(stop, step.index))
                w.barrier()
            sums = step.next
        self._store(part, list(self.elements(sums)))
        return w.kernel(name, tile.threads, flush=kernel.flush)

    # What the kinds of products differ in

    @property
    def initial(self) -> list[str]:
        """The thread's sums before the first term."""
        raise NotImplementedError

    def begin(self) -> None:
        """Declare shared memory, and find the thread's place in the tile."""
        raise NotImplementedError

    def put(self, side: int, kept: Integer, summed: Integer, values: Sequence[str], along: str) -> None:
        """Store neighbors, along "kept" or "depth", of the memory type of the tile."""
        raise NotImplementedError

    def tiled(self, side: int) -> DType:
        """The dtype in shared memory."""
        raise NotImplementedError

    def multiplied(self, sums: Sequence[str], rest: Integer) -> list[str]:
        """The sums with the terms of a step, of which `rest` are left."""
        raise NotImplementedError

    def elements(self, sums: Sequence[str]) -> Iterator[Element]:
        """Yield the thread's elements."""
        raise NotImplementedError

    # Places

    def _indices(self, **spaces: Integer) -> dict[int, Integer]:
        """The indices of numbers of rows, columns or depth."""
        found: dict[int, Integer] = {}
        first = len(self.kernel.spaces[0])
        for name, extents in zip(("row", "column", "term"), self.kernel.spaces[1:], strict=True):
            if name in spaces:
                places = self.w.unraveled(str(spaces[name]), extents)
                found |= dict(enumerate(places, first))
            first += len(extents)
        return found

    def _value(self, affine: Affine, indices: dict[int, Integer], *, whole: bool = True) -> Integer:
        """The part of an affine function that some indices make; with `whole` also its offset."""
        total: Integer = affine.offset if whole else 0
        for number, index in indices.items():
            total = self.w.add(total, self.w.multiply(index, affine.factors[number]))
        return total

    # From memory to the tile

    def _fill(self, side: int, start: str, stop: Integer) -> None:
        w, tile, load = self.w, self.tile, self.kernel.loads[side]
        extent = (tile.rows, tile.columns)[side]
        pieces = extent * tile.depth // load.lanes
        for number in range(-(-pieces // tile.threads)):
            place = w.add(self.thread, number * tile.threads)
            if (number + 1) * tile.threads <= pieces:
                self._fill_piece(side, place, start, stop)
                continue
            with w.when(w.value(f"icmp ult i64 {place}, {pieces}"), "fill"):
                self._fill_piece(side, place, start, stop)

    def _fill_piece(self, side: int, place: Integer, start: str, stop: Integer) -> None:
        """Neighbors of one operand; behind its last row that row stands again, behind its last term zeros do."""
        kernel, w, tile, load = self.kernel, self.w, self.tile, self.kernel.loads[side]
        access, extent = (kernel.left, kernel.right)[side], (tile.rows, tile.columns)[side]
        kept: Integer
        summed: Integer
        if load.along == "depth":
            kept, summed = w.divide(place, tile.depth // load.lanes)
            summed = w.multiply(summed, load.lanes)
        else:
            summed, kept = w.divide(place, extent // load.lanes)
            kept = w.multiply(kept, load.lanes)
        total = math.prod(kernel.spaces[1 + side])
        step = load.lanes if load.along == "kept" else 1
        line = w.minimum(w.add(self.first[side], kept), total - step)
        term = w.add(start, summed)
        indices = dict(enumerate(self.batch)) | self._indices(**{("row", "column")[side]: line, "term": term})
        inside = w.value(f"icmp slt i64 {term}, {stop}")
        for bound, limit in access.bounds:
            held = w.value(f"icmp ult i64 {self._value(bound, indices)}, {limit}")
            inside = w.value(f"and i1 {inside}, {held}")
        lanes = self._loaded(side, access, indices, inside, load)
        self.put(side, kept, summed, lanes, load.along)

    def _loaded(
        self, side: int, access: Access, indices: dict[int, Integer], inside: str, load: Load
    ) -> list[str]:  # fmt: skip
        """The elements in the tile's memory type, zeros where they are not inside."""
        kernel, w = self.kernel, self.w

        def at(which: Access, address: str, lanes: int) -> str:
            offset = w.value(f"select i1 {inside}, i64 {self._value(which.place, indices)}, i64 0")
            return w.load(which.dtype, w.place(which.dtype, address, offset), constant=True, lanes=lanes)

        raw = at(access, self.addresses[side], load.lanes)
        further = []
        if side == 0:
            for which, address in zip(kernel.prologue.operands, self.further[0], strict=True):
                further.append((which, at(which, address, load.lanes if self._moves(which, load) else 1)))
        memory, found = MEMORY[self.tiled(side).name], []
        for lane in range(load.lanes):
            value = w.widened(access.dtype, w.lane(MEMORY[access.dtype.name], raw, load.lanes, lane))
            if side == 0 and kernel.prologue.body:
                operands = [
                    w.widened(which.dtype, w.lane(MEMORY[which.dtype.name], each, load.lanes, lane)
                              if self._moves(which, load) else each)
                    for which, each in further
                ]  # fmt: skip
                value = w.body(kernel.prologue.body, [value, *operands])[-1]
            value = self.converted(side, value)
            found.append(w.value(f"select i1 {inside}, <1 x {memory}> {value}, <1 x {memory}> zeroinitializer"))
        return found

    def _moves(self, access: Access, load: Load) -> bool:
        """Whether an operand of the prologue differs from lane to lane."""
        batch, rows, _, depth = self.kernel.spaces
        extents = [*batch, *rows, *self.kernel.spaces[2], *depth]
        space = range(len(batch), len(batch) + len(rows))
        if load.along == "depth":
            space = range(len(extents) - len(depth), len(extents))
        innermost = innermost_of(extents, space)
        return load.lanes > 1 and innermost is not None and access.place.factors[innermost] != 0

    def converted(self, side: int, value: str) -> str:
        """An element of the compute type of its operand as one of the tile's memory type."""
        return self.w.narrowed(self.tiled(side), value)

    # From the sums to memory

    def _store(self, part: Integer, elements: Sequence[Element]) -> None:
        kernel, w = self.kernel, self.w
        batch = dict(enumerate(self.batch))
        limits = math.prod(kernel.spaces[1]), math.prod(kernel.spaces[2])
        known: dict[tuple[str, Integer], tuple[dict[int, Integer], str]] = {}

        def line(name: str, side: int, place: Integer) -> tuple[dict[int, Integer], str]:
            """The indices of a row or column, and whether it is inside ("" where all are)."""
            if (name, place) not in known:
                number = w.add(self.first[side], place)
                size = (self.tile.rows, self.tile.columns)[side]
                inside = w.value(f"icmp slt i64 {number}, {limits[side]}") if limits[side] % size else ""
                known[name, place] = self._indices(**{name: number}), inside
            return known[name, place]

        for row, column, _ in elements:  # before the first branch, so that all branches may use them
            line("row", 0, row), line("column", 1, column)
        shift = w.multiply(part, kernel.block_stride)
        for row, column, value in elements:
            (row_indices, row_inside), (column_indices, column_inside) = line("row", 0, row), line("column", 1, column)
            indices = batch | row_indices | column_indices
            checks = [each for each in (row_inside, column_inside) if each]
            if not checks:
                self._store_one(indices, shift, value)
                continue
            inside = checks[0] if len(checks) == 1 else w.value(f"and i1 {checks[0]}, {checks[1]}")
            with w.when(inside):
                self._store_one(indices, shift, value)

    def _store_one(self, indices: dict[int, Integer], shift: Integer, value: str) -> None:
        kernel, w = self.kernel, self.w
        value = w.single(compute(kernel.dtype), value)
        if kernel.epilogue.body:
            operands = [value]
            for access, address in zip(kernel.epilogue.operands, self.further[1], strict=True):
                place = w.place(access.dtype, address, str(self._value(access.place, indices)))
                operands.append(w.widened(access.dtype, w.load(access.dtype, place)))
            value = w.body(kernel.epilogue.body, operands)[-1]
        dtype = kernel.out.dtype
        offset = w.add(self._value(kernel.out.place, indices), shift)
        w.store(dtype, w.narrowed(dtype, value), w.place(dtype, self.addresses[2], str(offset)))

    def shared(self, side: int, kind: str, count: int) -> str:
        """The memory of a tile."""
        return self.w.shared(f"{('left', 'right')[side]}_{kind}_{count}", kind, count)


class _ExactProduct(_Product):
    """Tiles lie [depth, kept], in the dtype of sums."""

    def __init__(self, kernel: ProductKernel) -> None:
        super().__init__(kernel)
        self.element = compute(kernel.dtype)

    @property
    def initial(self) -> list[str]:
        return ["0.0" if self.kernel.dtype.is_float else "0"] * (self.tile.share_rows * self.tile.share_columns)

    def tiled(self, side: int) -> DType:
        return self.kernel.dtype

    def begin(self) -> None:
        w, tile, memory = self.w, self.tile, MEMORY[self.kernel.dtype.name]
        self.memory = [
            self.shared(side, memory, size * tile.depth) for side, size in enumerate((tile.rows, tile.columns))
        ]
        shares = w.divide(self.thread, tile.shares[1])
        self.starts = w.multiply(shares[0], tile.share_rows), w.multiply(shares[1], tile.share_columns)

    def _at(self, side: int, kept: Integer, summed: Integer) -> str:
        row = self.w.multiply(summed, (self.tile.rows, self.tile.columns)[side])
        return self.w.place(self.kernel.dtype, self.memory[side], str(self.w.add(row, kept)), SHARED)

    def put(self, side: int, kept: Integer, summed: Integer, values: Sequence[str], along: str) -> None:
        w, dtype = self.w, self.kernel.dtype
        if along == "kept":
            joined = w.joined(MEMORY[dtype.name], values)
            return w.store(dtype, joined, self._at(side, kept, summed), space=SHARED, lanes=len(values))
        for lane, value in enumerate(values):
            w.store(dtype, value, self._at(side, kept, w.add(summed, lane)), space=SHARED)
        return None

    def multiplied(self, sums: Sequence[str], rest: Integer) -> list[str]:
        """Ends where the depth does: a term of zeros would change the sign of a sum of -0."""
        w, kernel, tile = self.w, self.kernel, self.tile
        is_whole = not (kernel.block or kernel.depth) % tile.depth and not kernel.depth % tile.depth
        stop: Integer = tile.depth if is_whole else w.minimum(rest, tile.depth)
        carried = [(self.element, each) for each in sums]
        with w.loop(0 if is_whole else "0", stop, 1, carried) as inner:
            inner.next = self._with_term(str(inner.index), inner.carried)
        return inner.next

    def _with_term(self, term: str, sums: Sequence[str]) -> list[str]:
        w, tile, operands = self.w, self.tile, []
        for side, share in enumerate((tile.share_rows, tile.share_columns)):
            lanes = math.gcd(share, ACCESS_BYTES // self.kernel.dtype.itemsize)
            kind, own = vector(self.element, lanes), []
            for first in range(0, share, lanes):
                address = self._at(side, w.add(self.starts[side], first), term)
                loaded = w.load(self.kernel.dtype, address, space=SHARED, lanes=lanes)
                own += [w.value(f"extractelement {kind} {loaded}, i64 {lane}") for lane in range(lanes)]
            operands.append(own)
        return [
            self._added(left, right, sums[row * tile.share_columns + column])
            for row, left in enumerate(operands[0])
            for column, right in enumerate(operands[1])
        ]

    def _added(self, left: str, right: str, total: str) -> str:
        if self.kernel.dtype.is_float:
            return self.w.apply("fma", self.element, left, right, total)
        return self.w.value(f"add {self.element} {total}, {self.w.value(f'mul {self.element} {left}, {right}')}")

    def elements(self, sums: Sequence[str]) -> Iterator[Element]:
        for number, value in enumerate(sums):
            row, column = divmod(number, self.tile.share_columns)
            yield self.w.add(self.starts[0], row), self.w.add(self.starts[1], column), value


class _TensorProduct(_Product):
    """Tiles lie [kept, depth], with 16 bytes between rows, so that the threads of a warp read different banks."""

    element = "float"

    @property
    def initial(self) -> list[str]:
        return ["0.0"] * (self.tile.share_rows * self.tile.share_columns // WARP)

    def tiled(self, side: int) -> DType:
        return (self.kernel.left, self.kernel.right)[side].dtype

    def begin(self) -> None:
        w, tile = self.w, self.tile
        itemsize = self.tiled(0).itemsize
        self.pitch = tile.depth + ACCESS_BYTES // itemsize
        self.per_word = 4 // itemsize
        memory = MEMORY[self.tiled(0).name]
        self.memory = [
            self.shared(side, memory, size * self.pitch) for side, size in enumerate((tile.rows, tile.columns))
        ]
        warp, lane = w.divide(self.thread, WARP)
        self.group, self.place = w.divide(lane, 4)
        shares = w.divide(warp, tile.shares[1])
        self.starts = w.multiply(shares[0], tile.share_rows), w.multiply(shares[1], tile.share_columns)

    def _at(self, side: int, kept: Integer, summed: Integer) -> str:
        offset = self.w.add(self.w.multiply(kept, self.pitch), summed)
        return self.w.place(self.tiled(side), self.memory[side], str(offset), SHARED)

    def converted(self, side: int, value: str) -> str:
        """TF32 is rounded here, once for each element."""
        w = self.w
        if self.tiled(side) is not float32:
            return super().converted(side, value)
        bits = w.intrinsic("nvvm.f2tf32.rna", "i32", ("float", w.scalar("float", value)))
        return w.single("float", w.value(f"bitcast i32 {bits} to float"))

    def put(self, side: int, kept: Integer, summed: Integer, values: Sequence[str], along: str) -> None:
        w, dtype = self.w, self.tiled(side)
        if along == "depth":
            joined = w.joined(MEMORY[dtype.name], values)
            return w.store(dtype, joined, self._at(side, kept, summed), space=SHARED, lanes=len(values))
        for lane, value in enumerate(values):
            w.store(dtype, value, self._at(side, w.add(kept, lane), summed), space=SHARED)
        return None

    def multiplied(self, sums: Sequence[str], rest: Integer) -> list[str]:
        tile, sums = self.tile, list(sums)
        step = 8 * self.per_word
        columns = tile.share_columns // FRAGMENT[1]
        for term in range(0, tile.depth, step):
            right = [self._words(1, FRAGMENT[1] * number, term, 1) for number in range(columns)]
            for row in range(tile.share_rows // FRAGMENT[0]):
                left = self._words(0, FRAGMENT[0] * row, term, 2)
                for column in range(columns):
                    first = 4 * (row * columns + column)
                    sums[first : first + 4] = self._multiplied(left, right[column], sums[first : first + 4])
        return sums

    def _words(self, side: int, kept: int, term: int, groups: int) -> list[str]:
        """The thread's words of a fragment: of rows 8 apart, then of the second half of the terms."""
        w, found = self.w, []
        for half in range(2):
            for number in range(groups):
                row = w.add(w.add(self.starts[side], kept + 8 * number), self.group)
                column = w.add(w.multiply(self.place, self.per_word), term + 4 * self.per_word * half)
                found.append(w.value(f"load i32, {SHARED} {self._at(side, row, column)}, align 4"))
        return found

    def _multiplied(self, left: list[str], right: list[str], sums: Sequence[str]) -> list[str]:
        w, name = self.w, self.tiled(0).name
        intrinsic = {
            "bfloat16": "nvvm.mma.m16n8k16.row.col.bf16", "float16": "nvvm.mma.m16n8k16.row.col.f32.f32",
            "float32": "nvvm.mma.m16n8k8.row.col.tf32",
        }[name]  # fmt: skip
        words = [*left, *right]
        kind = "i32"
        if name == "float16":
            kind, words = "<2 x half>", [w.value(f"bitcast i32 {word} to <2 x half>") for word in words]
        operands = [*((kind, word) for word in words), *(("float", each) for each in sums)]
        total = w.intrinsic(intrinsic, "{ float, float, float, float }", *operands)
        return [w.value(f"extractvalue {{ float, float, float, float }} {total}, {number}") for number in range(4)]

    def elements(self, sums: Sequence[str]) -> Iterator[Element]:
        w, columns = self.w, self.tile.share_columns // FRAGMENT[1]
        rows = [w.add(w.add(self.starts[0], self.group), 8 * number) for number in range(self.tile.share_rows // 8)]
        places = [
            w.add(w.add(self.starts[1], w.multiply(self.place, 2)), 8 * (number // 2) + number % 2)
            for number in range(2 * columns)
        ]
        for number, value in enumerate(sums):
            fragment, which = divmod(number, 4)
            row, column = divmod(fragment, columns)
            yield rows[2 * row + which // 2], places[2 * column + which % 2], value


def innermost_of(extents: Sequence[int], space: range) -> int | None:
    """The last index of a space that is longer than 1."""
    return next((number for number in reversed(space) if extents[number] > 1), None)
