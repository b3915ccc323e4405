"""The arithmetic of a step of a product: fused multiply-adds in the order of the depth, or tensor cores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from trainer.engine.graph.dtypes import float32
from trainer.engine.targets.ir.writer import Integer, vector
from trainer.engine.targets.ptx.kernels.kernel_writer import SHARED, WARP, compute
from trainer.engine.targets.ptx.kernels.product import ACCESS_BYTES, FRAGMENT, ProductKernel
from trainer.engine.targets.ptx.kernels.product_fill import Fill, TileLayout
from trainer.engine.targets.ptx.kernels.product_writer import ProductWriter, Run

_REGISTERS = 1 << 16
"""Registers of a multiprocessor."""

_STAGING_SPACE = 8
"""Padding in float32 elements between lines of staged sums, so that stored pairs are in different banks."""

_TURNED_SPACE = 8
"""Padding in elements between lines along the kept space, so that the words of a fragment are in different banks."""


def rendered(kernel: ProductKernel, name: str) -> str:
    """The module that exports a product's kernel."""
    return _writer(kernel).render(name)


def dynamic_memory(kernel: ProductKernel) -> int:
    """Bytes of dynamic shared memory that a launch allocates for the kernel."""
    return _writer(kernel).dynamic


def _writer(kernel: ProductKernel) -> ProductWriter:
    return (TensorProduct if kernel.tile.tensor else ExactProduct)(kernel)


class ExactProduct(ProductWriter):
    """An exact product. Tiles have the layout [depth, kept] and the dtype of the sums. The last step ends with the
    depth: a zero term would change the sign of a sum of -0.
    """

    ends_with_rest = True

    def __init__(self, kernel: ProductKernel) -> None:
        super().__init__(kernel)
        self.element = compute(kernel.dtype)

    @property
    def initial(self) -> list[str]:
        return ["0.0" if self.kernel.dtype.is_float else "0"] * (self.tile.share_rows * self.tile.share_columns)

    def layout(self, side: int) -> TileLayout:
        extent = (self.tile.rows, self.tile.columns)[side]
        return TileLayout(1, extent, extent * self.tile.depth)

    def fill(self, side: int, layout: TileLayout) -> Fill:
        return Fill(self.w, self.kernel, side, self.kernel.dtype, layout)

    def begin(self) -> None:
        w, tile = self.w, self.tile
        shares = w.divide(self.thread, tile.shares[1])
        self.starts = w.multiply(shares[0], tile.share_rows), w.multiply(shares[1], tile.share_columns)
        self.places = [
            w.place(self.kernel.dtype, self.memory, str(w.add(start, offset)), SHARED)
            for start, offset in zip(self.starts, self.offsets, strict=True)
        ]

    def multiplied(self, sums: Sequence[str], stage: Integer) -> list[str]:
        places, found = [self.w.moved(place, stage) for place in self.places], list(sums)
        for term in range(self.tile.depth):
            found = self._with_term(places, str(term), found)
        return found

    def multiplied_rest(self, sums: Sequence[str], stage: Integer, rest: Integer) -> list[str]:
        places = [self.w.moved(place, stage) for place in self.places]
        with self.w.rolled("0", str(rest), 1, [(self.element, each) for each in sums]) as inner:
            inner.next = self._with_term(places, str(inner.index), inner.carried)
        return inner.next

    def _with_term(self, places: Sequence[str], term: str, sums: Sequence[str]) -> list[str]:
        w, tile, dtype, operands = self.w, self.tile, self.kernel.dtype, []
        for place, fill, share in zip(places, self.fills, (tile.share_rows, tile.share_columns), strict=True):
            lanes = math.gcd(share, ACCESS_BYTES // dtype.itemsize)
            row = w.multiply(int(term) if term.isdecimal() else term, fill.layout.summed)
            kind, own, line = vector(self.element, lanes), list[str](), w.place(dtype, place, str(row), SHARED)
            for first in range(0, share, lanes):
                loaded = w.load(dtype, w.place(dtype, line, str(first), SHARED), space=SHARED, lanes=lanes)
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

    def pieces(self, sums: Sequence[str]) -> Iterator[list[Run]]:
        w, columns, count = self.w, self.tile.share_columns, self.kernel.stored
        yield [
            (
                w.add(self.starts[0], first // columns),
                w.add(self.starts[1], first % columns),
                sums[first : first + count],
            )
            for first in range(0, len(sums), count)
        ]


class TensorProduct(ProductWriter):
    """A product on tensor cores. Tiles have the layout [kept, depth], or [depth, kept] as in memory. Lines are padded
    so that simultaneous reads use different banks: of matrix rows by `ldmatrix`, or of elements, since `ldmatrix` can't
    transpose matrices of 4-byte elements. float32 becomes TF32 in registers, so that asynchronous copies can load it.
    """

    element = "float"

    @property
    def resident(self) -> int:
        """Blocks with enough registers per multiprocessor: while one waits for copies or stores, another multiplies."""
        registers = 128 if len(self.initial) <= 64 else 255
        return max(1, _REGISTERS // (registers * self.tile.threads))

    @property
    def initial(self) -> list[str]:
        return ["0.0"] * (self.tile.share_rows * self.tile.share_columns // WARP)

    @property
    def staging(self) -> int:
        """Bytes of one row of fragments per warp if neighbors are stored at once, else 0."""
        line = self.tile.share_columns + _STAGING_SPACE
        return FRAGMENT[0] * line * float32.itemsize * self.tile.threads // WARP if self.kernel.stored > 1 else 0

    @property
    def _itemsize(self) -> int:
        return self.kernel.left.dtype.itemsize

    def _is_turned(self, side: int) -> bool:
        return self.kernel.loads[side].along == "kept"

    def layout(self, side: int) -> TileLayout:
        extent, space = (self.tile.rows, self.tile.columns)[side], ACCESS_BYTES // self._itemsize
        if self._is_turned(side):
            space = max(space, _TURNED_SPACE)
            return TileLayout(1, extent + space, self.tile.depth * (extent + space))
        return TileLayout(self.tile.depth + space, 1, extent * (self.tile.depth + space))

    def fill(self, side: int, layout: TileLayout) -> Fill:
        return Fill(self.w, self.kernel, side, (self.kernel.left, self.kernel.right)[side].dtype, layout)

    def begin(self) -> None:
        w, tile = self.w, self.tile
        self.warp, self.lane = w.divide(self.thread, WARP)
        self.group, self.place = w.divide(self.lane, 4)
        shares = w.divide(self.warp, tile.shares[1])
        self.starts = w.multiply(shares[0], tile.share_rows), w.multiply(shares[1], tile.share_columns)
        matrix, row = w.divide(self.lane, 8)
        second, first = w.divide(matrix, 2)
        self.places = []
        for side in range(2):
            # four matrices of 8 lines by 16 bytes: the left operand's run along rows first
            kept, summed = (first, second) if side == 0 else (second, first)
            kept, summed = w.multiply(kept, 8), w.multiply(summed, ACCESS_BYTES // self._itemsize)
            if self._is_turned(side) and self._itemsize == 4:
                kept, summed = self.group, self.place
            elif self._is_turned(side):
                summed = w.add(summed, row)
            else:
                kept = w.add(kept, row)
            layout = self.fills[side].layout
            along = w.multiply(w.add(self.starts[side], kept), layout.kept)
            offset = w.add(w.add(along, w.multiply(summed, layout.summed)), self.offsets[side])
            self.places.append(w.place(self.fills[side].dtype, self.memory, str(offset), SHARED))

    def multiplied(self, sums: Sequence[str], stage: Integer) -> list[str]:
        tile, sums = self.tile, list(sums)
        places = [self.w.moved(place, stage) for place in self.places]
        columns = tile.share_columns // FRAGMENT[1]
        for term in range(0, tile.depth, 2 * ACCESS_BYTES // self._itemsize):
            right = [
                words[half : half + 2]
                for first in range(0, tile.share_columns, 2 * FRAGMENT[1])
                for words in [self._matrices(1, places[1], first, term)]
                for half in (0, 2)
            ]
            for row in range(tile.share_rows // FRAGMENT[0]):
                left = self._matrices(0, places[0], FRAGMENT[0] * row, term)
                for column in range(columns):
                    first = 4 * (row * columns + column)
                    sums[first : first + 4] = self._multiplied(left, right[column], sums[first : first + 4])
        return sums

    def _matrices(self, side: int, place: str, kept: int, term: int) -> list[str]:
        """Loads the thread's words of four matrices, which begin at (`kept`, `term`) of the warp's share."""
        w, layout, dtype = self.w, self.fills[side].layout, self.fills[side].dtype
        address = w.place(dtype, place, str(kept * layout.kept + term * layout.summed), SHARED)
        if self._is_turned(side) and self._itemsize == 4:
            first, second = (8 * layout.kept, 4 * layout.summed)[:: 1 if side == 0 else -1]
            words = [w.load(dtype, w.place(dtype, address, str(offset), SHARED), space=SHARED)
                     for offset in (0, first, second, first + second)]  # fmt: skip
            return [self._rounded(w.scalar("float", word)) for word in words]
        name = f"nvvm.ldmatrix.sync.aligned.m8n8.x4{'.trans' if self._is_turned(side) else ''}.b16.p3"
        found = w.intrinsic(name, "{ i32, i32, i32, i32 }", (SHARED, address))
        words = [w.value(f"extractvalue {{ i32, i32, i32, i32 }} {found}, {number}") for number in range(4)]
        return (
            [self._rounded(w.value(f"bitcast i32 {word} to float")) for word in words] if self._itemsize == 4 else words
        )

    def _rounded(self, value: str) -> str:
        """Rounds float32 to TF32."""
        return self.w.intrinsic("nvvm.f2tf32.rna", "i32", ("float", value))

    def _multiplied(self, left: list[str], right: list[str], sums: Sequence[str]) -> list[str]:
        w, name = self.w, self.fills[0].dtype.name
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

    def pieces(self, sums: Sequence[str]) -> Iterator[list[Run]]:
        w, columns = self.w, self.tile.share_columns // FRAGMENT[1]
        if self.kernel.stored > 1:
            yield from self._staged(sums)
            return
        rows = [w.add(w.add(self.starts[0], self.group), 8 * number) for number in range(self.tile.share_rows // 8)]
        places = [
            w.add(w.add(self.starts[1], w.multiply(self.place, 2)), 8 * (number // 2) + number % 2)
            for number in range(2 * columns)
        ]
        found: list[Run] = []
        for number, value in enumerate(sums):
            fragment, which = divmod(number, 4)
            row, column = divmod(fragment, columns)
            found.append((rows[2 * row + which // 2], places[2 * column + which % 2], [value]))
        yield found

    def _staged(self, sums: Sequence[str]) -> Iterator[list[Run]]:
        """Yields rows of fragments through shared memory, so that a thread stores neighbors and a warp whole lines."""
        w, count, columns = self.w, self.kernel.stored, self.tile.share_columns
        line, fragments = columns + _STAGING_SPACE, columns // FRAGMENT[1]
        memory = w.moved(self.memory, w.multiply(self.warp, FRAGMENT[0] * line * float32.itemsize))
        across, along = w.divide(self.lane, columns // count)
        along = w.multiply(along, count)
        own = w.place(float32, memory, str(w.add(w.multiply(self.group, line), w.multiply(self.place, 2))), SHARED)
        read = w.place(float32, memory, str(w.add(w.multiply(across, line), along)), SHARED)
        row, column = w.add(self.starts[0], across), w.add(self.starts[1], along)
        w.barrier()  # other warps may still multiply
        step, lanes = WARP * count // columns, min(count, ACCESS_BYTES // float32.itemsize)
        for piece in range(self.tile.share_rows // FRAGMENT[0]):
            if piece:
                w.warp_barrier()
            for number in range(2 * fragments):
                fragment, half = divmod(number, 2)
                first = 4 * (piece * fragments + fragment) + 2 * half
                pair = w.joined("float", [w.single("float", each) for each in sums[first : first + 2]])
                offset = 8 * half * line + FRAGMENT[1] * fragment
                w.store(float32, pair, w.place(float32, own, str(offset), SHARED), space=SHARED, lanes=2)
            w.warp_barrier()
            found: list[Run] = []
            for number in range(0, FRAGMENT[0], step):
                values = []
                for lane in range(0, count, lanes):
                    place = w.place(float32, read, str(number * line + lane), SHARED)
                    loaded = w.load(float32, place, space=SHARED, lanes=lanes)
                    values += [
                        w.value(f"extractelement {vector('float', lanes)} {loaded}, i64 {n}") for n in range(lanes)
                    ]
                found.append((w.add(row, FRAGMENT[0] * piece + number), column, values))
            yield found
