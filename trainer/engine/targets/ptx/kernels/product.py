"""Matrix products and convolutions through shared memory, with element offsets that are affine in the indices.

Every kernel computes out[batch, row, column] = the sum over the depth of left[batch, row, depth] · right[batch, depth,
column]. Rows, columns and depth are spaces of several indices each. An affine function of all indices gives the offset
of an operand's element; outside its bounds the element is zero. Padding, strides, dilation, groups, transposed and
broadcast operands therefore need no copies.

This module defines a product. `product_fill` reads its operands, `product_writer` writes the steps of the depth and
the stores, and `product_kinds` the arithmetic. Numerics: "exact": each element is one chain of fused multiply-adds in
the order of the depth, from zero, as on the CPU. "tensor": `mma.sync` multiplies bfloat16, float16 or TF32 (float32
rounded to 10 bits of fraction) and adds in float32, in an order that NVIDIA does not document. With `block` the depth
is cut into blocks of that size, each with a separate output.
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
"""Rows and columns of the result of one `mma.sync`."""


@dataclass(frozen=True, slots=True)
class Affine:
    """offset + the sum of factor · index, one factor for each index of the product."""

    offset: int
    factors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """Offsets of an operand's elements, in elements. Elements outside `bounds`, pairs (index, extent), are zero."""

    dtype: DType
    place: Affine
    bounds: tuple[tuple[Affine, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Tile:
    """The tile of a thread block: its rows and columns, the terms of a step (`depth`), and the share of each thread, or
    of each warp with tensor cores.
    """

    rows: int
    columns: int
    depth: int
    share_rows: int
    share_columns: int
    tensor: bool = False

    @property
    def shares(self) -> tuple[int, int]:
        """Number of shares along rows and columns."""
        return self.rows // self.share_rows, self.columns // self.share_columns

    @property
    def threads(self) -> int:
        """Threads per block."""
        return math.prod(self.shares) * (WARP if self.tensor else 1)


@dataclass(frozen=True, slots=True)
class Fused:
    """Fused element-wise work: `body` over an element (operand 0) and elements of `operands`; none if it is empty."""

    operands: tuple[Access, ...] = ()
    body: tuple[Instruction, ...] = ()


@dataclass(frozen=True, slots=True)
class Load:
    """How threads read a tile of an operand: neighboring threads run along "kept" (rows or columns) or "depth", and
    each reads `lanes` neighbors.
    """

    along: str
    lanes: int


@dataclass(frozen=True, slots=True)
class ProductKernel:
    """One product, as described at the top of the module.

    spaces: extents of batch, rows, columns and depth; indices are numbered in this order. dtype: dtype of the sums.
    loads: reads of left and right. block: terms per block of the depth; outputs of blocks are `block_stride` elements
    apart. stored: neighbors along columns that are stored at once, and read at once for the epilogue.

    Parameters: addresses of left, right and out, then of the operands of the prologue and the epilogue.
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
        """The extents of all indices."""
        return [extent for space in self.spaces for extent in space]

    def indices(self, space: int) -> range:
        """The numbers of a space's indices."""
        first = sum(map(len, self.spaces[:space]))
        return range(first, first + len(self.spaces[space]))

    @property
    def parts(self) -> int:
        """Number of blocks of the depth."""
        return -(-self.depth // self.block) if self.block else 1

    @property
    def grid(self) -> tuple[int, ...]:
        """The extents of the grid: batch indices, blocks of the depth, tiles of rows, tiles of columns."""
        batch, rows, columns, _ = self.spaces
        return (*batch, self.parts, -(-math.prod(rows) // self.tile.rows), -(-math.prod(columns) // self.tile.columns))

    @property
    def is_whole(self) -> bool:
        """Whether every step of every block is full: it has as many terms as the tile's depth."""
        return not (self.block or self.depth) % self.tile.depth and not self.depth % self.tile.depth

    @property
    def steps(self) -> int:
        """Maximum number of steps of a thread block."""
        return -(-(self.block or self.depth) // self.tile.depth)


def merged(extents: Sequence[int], space: range, functions: Sequence[Affine]) -> list[tuple[int, int]]:
    """Returns the indices of a space with extents above 1, as pairs (number, extent). Indices that all functions step
    through like a single one are merged, under the number of the innermost.
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
    """The last index of a space whose extent is above 1, or None."""
    return next((number for number in reversed(space) if extents[number] > 1), None)
