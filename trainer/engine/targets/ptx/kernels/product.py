"""Products through shared memory: matrix products and convolutions as sums over places that are affine in indices.

Every kernel computes out[batch, row, column] = the sum over the depth of left[batch, row, depth] · right[batch, depth,
column]. Rows, columns and depth are spaces of several indices each, and an operand's element lies where an affine
function of all indices says, or is zero outside of its bounds: so padding, strides, dilation, groups, transposed and
broadcast operands need no copies.

Here is what a product is. How its operands are read is in `product_fill`, the steps of the depth and the stores are in
`product_writer`, the arithmetic is in `product_kinds`. Numerics: "exact": each element is one chain of fused
multiply-adds in the order of the depth, from zero, as on the CPU. "tensor": `mma.sync` multiplies bfloat16, float16 or
TF32 (float32 rounded to 10 bits of fraction) and adds in float32, in an order that NVIDIA does not document. With
`block` the depth is cut into blocks of that size, each with an output of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.engine.graph.dtypes import DType
from trainer.engine.program.spec import Instruction
from trainer.engine.targets.ptx.kernels.kernel_writer import WARP

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
    of left and right. block: terms of a block of the depth, whose outputs lie `block_stride` elements apart. stored:
    neighbors along columns that are stored at once, and read for the epilogue.

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
    stored: int = 1
    flush: bool = False

    @property
    def depth(self) -> int:
        return math.prod(self.spaces[3])

    @property
    def extents(self) -> list[int]:
        """Those of all indices."""
        return [extent for space in self.spaces for extent in space]

    def indices(self, space: int) -> range:
        """The numbers of the indices of a space."""
        first = sum(map(len, self.spaces[:space]))
        return range(first, first + len(self.spaces[space]))

    @property
    def parts(self) -> int:
        """Blocks of the depth."""
        return -(-self.depth // self.block) if self.block else 1

    @property
    def grid(self) -> tuple[int, ...]:
        """Blocks of threads along batch indices, blocks of the depth, and tiles of rows and columns."""
        batch, rows, columns, _ = self.spaces
        return (*batch, self.parts, -(-math.prod(rows) // self.tile.rows), -(-math.prod(columns) // self.tile.columns))

    @property
    def is_whole(self) -> bool:
        """Whether each step of each block has all terms of the tile's depth."""
        return not (self.block or self.depth) % self.tile.depth and not self.depth % self.tile.depth

    @property
    def steps(self) -> int:
        """The most steps of a block of threads."""
        return -(-(self.block or self.depth) // self.tile.depth)


def merged(extents: Sequence[int], space: range, functions: Sequence[Affine]) -> list[tuple[int, int]]:
    """The indices of a space that are longer than 1, with those as one that lie like one for all functions: the number
    of the innermost, and the extent.
    """
    groups: list[tuple[int, int]] = []
    for number in space:
        extent = extents[number]
        if extent == 1:
            continue
        if groups and all(each.factors[groups[-1][0]] == each.factors[number] * extent for each in functions):
            groups[-1] = number, groups[-1][1] * extent
        else:
            groups.append((number, extent))
    return groups


def innermost_of(extents: Sequence[int], space: range) -> int | None:
    """The last index of a space that is longer than 1."""
    return next((number for number in reversed(space) if extents[number] > 1), None)
