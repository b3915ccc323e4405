"""Lowers matrix products and convolutions to products with affine offsets, with fused prologues and epilogues."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Literal

from trainer.engine.graph.dtypes import DType, bfloat16, float16, float32
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Layout
from trainer.engine.program.loops import fill
from trainer.engine.program.spec import Epilogue, Instruction
from trainer.engine.program.work import Buffer, Call, KernelSource, Reduce, View, Work
from trainer.engine.targets.ptx.kernels.product import (
    ACCESS_BYTES,
    Access,
    Affine,
    Fused,
    Load,
    ProductKernel,
    Tile,
    innermost_of,
)
from trainer.engine.targets.ptx.kernels.product_kinds import dynamic_memory, rendered
from trainer.engine.targets.ptx.launch import Address, Launch, Word
from trainer.engine.targets.ptx.lowering.loops import lower_loop
from trainer.engine.targets.ptx.lowering.reductions import lower_reduction

OPERANDS = 2
Precision = Literal["bfloat16", "float16", "tf32"]
Spaces = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]

EXACT_TILES = (
    Tile(64, 64, 16, 4, 4), Tile(128, 128, 8, 8, 8), Tile(128, 64, 16, 8, 4), Tile(64, 32, 16, 4, 4),
    Tile(32, 64, 16, 4, 4), Tile(32, 32, 16, 4, 4), Tile(128, 16, 16, 4, 4), Tile(16, 128, 16, 4, 4),
    Tile(256, 4, 8, 4, 4), Tile(256, 1, 8, 1, 1), Tile(16, 16, 16, 2, 2),
)  # fmt: skip
"""Tiles without tensor cores."""

TENSOR_TILES = (
    Tile(64, 64, 32, 32, 32, True), Tile(128, 128, 32, 64, 32, True), Tile(128, 64, 32, 64, 32, True),
    Tile(64, 128, 32, 32, 64, True), Tile(64, 32, 32, 32, 32, True), Tile(32, 32, 32, 32, 32, True),
    Tile(128, 16, 32, 64, 16, True), Tile(32, 128, 32, 32, 64, True),
)  # fmt: skip
"""Tiles for tensor cores; TF32 uses half the depth."""

TENSOR_COSTS = {
    (128, 128): (1.0, 1.37), (64, 128): (1.05, 1.0), (128, 64): (1.09, 1.15), (64, 64): (1.33, 1.17),
    (32, 128): (1.5, 1.3), (64, 32): (2.0, 1.55), (32, 32): (2.6, 2.0), (128, 16): (3.2, 2.6),
}  # fmt: skip
"""Relative time per result element, by rows and columns of a tile, measured on an H200 with the products of ResNet-50
and LSGAN. The second value applies if both operands are read along the kept space, as in gradients of weights.
"""

_RESIDENT_THREADS = 512
"""Threads of tensor-core blocks for which a multiprocessor has registers."""

_ALONE = 0.5
"""Time of a multiprocessor with a single block, as a fraction of its time with all blocks that it can hold."""

_MANY_ROUNDS = 4
"""Number of rounds of blocks from which on a partial last round counts only in proportion."""

_MOST_PIECES = 16
_ROLLED = 2.8
"""Maximum tile pieces that a thread loads with unrolled code, and the factor on a product's time with a loop."""

DEPTH_BYTES = 64
"""Bytes per row of a tile for tensor cores."""

PROCESSORS = 132
"""Streaming multiprocessors that run the blocks, as on an H100. The number may change the choice of a tile, which
changes no bit."""

BLOCK_TERMS = 256
"""Minimum terms per block of a weight gradient's depth, which is cut so that small gradients keep a GPU busy."""

MOST_BLOCKS = 512
_BLOCK_TILE = 64
_ENOUGH_TILES = 512


@dataclass(frozen=True, slots=True)
class Axis:
    """The index along an axis of an operand: offset + the sum of index · factor. Elements outside `extent` (unless it
    is 0) are zero.
    """

    factors: dict[int, int]
    offset: int = 0
    extent: int = 0


@dataclass(frozen=True, slots=True)
class Product:
    """A sum of products: the axes of left, right and the result, by indices that are numbered across the spaces."""

    spaces: Spaces
    left: tuple[Axis, ...]
    right: tuple[Axis, ...]
    out: tuple[Axis, ...]

    @property
    def depth(self) -> int:
        return math.prod(self.spaces[3])

    def access(self, dtype: DType, strides: Sequence[int], axes: Sequence[Axis]) -> Access:
        """The access to an operand with these strides."""
        count = sum(map(len, self.spaces))
        bounds = [(_affine([axis], [1], count), axis.extent) for axis in axes if axis.extent]
        return Access(dtype, _affine(axes, strides, count), tuple(bounds))


def _affine(axes: Sequence[Axis], strides: Sequence[int], count: int) -> Affine:
    factors = [0] * count
    for axis, stride in zip(axes, strides, strict=True):
        for number, factor in axis.factors.items():
            factors[number] += factor * stride
    return Affine(sum(axis.offset * stride for axis, stride in zip(axes, strides, strict=True)), tuple(factors))


def lower_product(work: Work, *, flush: bool, tensor_cores: Sequence[Precision] = ()) -> list[Launch]:
    """Returns the launches of a matrix product, a convolution or one of its gradients.

    `tensor_cores`: operands that tensor cores may multiply; other products are exact.
    """
    call: Call = work.spec
    target = work.writes[0]
    if target.size == 0:
        return []
    if any(view.size == 0 for view in work.reads[:OPERANDS]):
        assert target.buffer is not None
        return [lower_loop(fill(target.buffer, 0), flush=flush)]
    name = call.operation.name
    is_tensor = _is_tensor(call, work.reads[:OPERANDS], tensor_cores)
    if name == "matmul":
        return [_launch(work, _matmul(work), work.reads, target, flush, is_tensor)]
    if name == "convolution":
        return [_launch(work, _convolution(work), work.reads, target, flush, is_tensor)]
    if name == "convolution_input_gradient":
        return [_launch(work, each, work.reads, target, flush, is_tensor) for each in _input_gradients(work)]
    return _weight_gradient(work, flush, is_tensor)


def _is_tensor(call: Call, operands: Sequence[View], tensor_cores: Sequence[Precision]) -> bool:
    if call.dtype is not float32:
        return False
    dtypes = {view.dtype for view in operands}
    kinds: dict[DType, Precision] = {bfloat16: "bfloat16", float16: "float16", float32: "tf32"}
    return len(dtypes) == 1 and kinds.get(dtypes.pop()) in tensor_cores


# The products


def _matmul(work: Work) -> Product:
    left, right = work.reads[:OPERANDS]
    *batch, rows, columns = work.writes[0].shape
    first = len(batch)
    shared = tuple(Axis({number: 1}) for number in range(first))
    row, column, term = (Axis({first + number: 1}) for number in range(3))
    spaces = (tuple(batch), (rows,), (columns,), (left.shape[-1],))
    assert left.shape[-1] == right.shape[-2]
    return Product(spaces, (*shared, row, term), (*shared, term, column), (*shared, row, column))


def _convolution(work: Work) -> Product:
    """Indices: group; image, row, column; filter; tap's row and column, channel."""
    x, weights = work.reads[:OPERANDS]
    images, filters, *pixels = work.writes[0].shape
    _, channels, *window = weights.shape
    groups = work.spec.attribute("groups")
    own = filters // groups
    inside = _image_axes(work, x.shape, 2, 5)
    spaces = ((groups,), (images, *pixels), (own,), (*window, channels))
    return Product(
        spaces, (Axis({1: 1}), Axis({0: channels, 7: 1}), *inside),
        (Axis({0: own, 4: 1}), Axis({7: 1}), Axis({5: 1}), Axis({6: 1})),
        (Axis({1: 1}), Axis({0: own, 4: 1}), Axis({2: 1}), Axis({3: 1})),
    )  # fmt: skip


_GEOMETRY = ("strides", "padding", "dilation", "groups")


def _image_axes(work: Work, shape: Sequence[int], pixel: int, tap: int) -> list[Axis]:
    """The row and column axes of an input; the indices of output pixels start at `pixel`, those of taps at `tap`."""
    strides, padding, dilation, _ = (work.spec.attribute(name) for name in _GEOMETRY)
    return [
        Axis(
            {pixel + axis: strides[axis], tap + axis: dilation[axis]},
            -padding[axis][0],
            shape[2 + axis] if any(padding[axis]) else 0,
        )
        for axis in range(2)
    ]


def _input_gradients(work: Work) -> Iterator[Product]:
    """Yields one product per residue of pixels modulo the strides, since each residue has different taps. Indices:
    group; image, row, column; channel; tap's row and column, filter.
    """
    _, weights = work.reads[:OPERANDS]
    images, _, *spatial = work.writes[0].shape
    filters, channels, *window = weights.shape
    strides, padding, dilation, groups = (work.spec.attribute(name) for name in _GEOMETRY)
    own = filters // groups
    extents = work.reads[0].shape[2:]
    for residues in product(*(range(min(step, extent)) for step, extent in zip(strides, spatial, strict=True))):
        taps, pixels, places, inside, kernels = [], [], [], [], []
        for axis, residue in enumerate(residues):
            step, low, spacing = strides[axis], padding[axis][0], dilation[axis]
            met = [tap for tap in range(window[axis]) if (residue + low - tap * spacing) % step == 0]
            last, spread = (met[-1], met[-1] - met[-2] if len(met) > 1 else 0) if met else (0, 0)
            taps.append(len(met))
            pixels.append(-(-(spatial[axis] - residue) // step))
            places.append(Axis({2 + axis: step}, residue))
            first = (residue + low - last * spacing) // step
            inside.append(Axis({2 + axis: 1, 5 + axis: spread * spacing // step}, first, extents[axis]))
            kernels.append(Axis({5 + axis: -spread}, last))
        spaces = ((groups,), (images, *pixels), (channels,), (*taps, own))
        yield Product(
            spaces, (Axis({1: 1}), Axis({0: own, 7: 1}), *inside),
            (Axis({0: own, 7: 1}), Axis({4: 1}), *kernels), (Axis({1: 1}), Axis({0: channels, 4: 1}), *places),
        )  # fmt: skip


def _weight_gradient(work: Work, flush: bool, is_tensor: bool) -> list[Launch]:
    """Indices: group; tap's row and column, channel; filter; image, row, column. The pixels are cut into blocks that
    depend only on the shape; a reduction adds the blocks' sums.
    """
    x, dy = work.reads[:OPERANDS]
    target = work.writes[0]
    filters, channels, *window = target.shape
    groups = work.spec.attribute("groups")
    own, pixels = filters // groups, (dy.shape[0], *dy.shape[2:])
    inside = _image_axes(work, x.shape, 6, 1)
    what = Product(
        ((groups,), (*window, channels), (own,), pixels),
        (Axis({5: 1}), Axis({0: channels, 3: 1}), *inside),
        (Axis({5: 1}), Axis({0: own, 4: 1}), Axis({6: 1}), Axis({7: 1})),
        (Axis({0: own, 4: 1}), Axis({3: 1}), Axis({1: 1}), Axis({2: 1})),
    )  # fmt: skip
    tiles = groups * -(-math.prod(window) * channels // _BLOCK_TILE) * -(-own // _BLOCK_TILE)
    blocks = max(1, min(what.depth // BLOCK_TERMS, -(-_ENOUGH_TILES // tiles), MOST_BLOCKS))
    block = -(-what.depth // blocks) + 31 & ~31
    blocks = -(-what.depth // block)
    if blocks == 1:
        return [_launch(work, what, work.reads, target, flush, is_tensor)]
    call: Call = work.spec
    shape = (blocks, *target.shape)
    partials = View(Buffer(math.prod(shape), call.dtype, "partial sums"), call.dtype, shape,
                    Layout.row_major(len(shape)).strides(shape))  # fmt: skip
    first = replace(partials, shape=target.shape, strides=partials.strides[1:])
    launch = _launch(work, what, work.reads, first, flush, is_tensor, block, partials.strides[0])
    load = Instruction("load", (), call.dtype, (0,))
    total = Work("reduction", Reduce(("sum",), (0,)), (partials,), (target,), "add blocks", shape, (load,), (0,))
    return [launch, *lower_reduction(total, flush=flush)]


# The kernel


def _launch(
    work: Work, what: Product, reads: Sequence[View], target: View, flush: bool, is_tensor: bool, block: int = 0,
    block_stride: int = 0, tile: Tile | None = None,
) -> Launch:  # fmt: skip
    call: Call = work.spec
    left, right = reads[:OPERANDS]
    if is_tensor and not block:
        what = _interleaved(what, DEPTH_BYTES // left.dtype.itemsize)
    after, before = work.epilogue, work.prologue
    first = OPERANDS + len(after.operands)
    operands = [what.access(view.dtype, view.strides, axes) for view, axes in ((left, what.left), (right, what.right))]
    prologue = _fused(before, reads[first:], what, what.left)
    epilogue = _fused(after, reads[OPERANDS:first], what, what.out)
    out = what.access(target.dtype, target.strides, what.out)
    parts = -(-what.depth // block) if block else 1
    read = (
        [(operands[0], left), *zip(prologue.operands, reads[first:], strict=True)],
        [(operands[1], right)],
    )

    def loads_of(tile: Tile) -> tuple[Load, Load]:
        first, second = (_load(what.spaces, side, each, tile, call.dtype) for side, each in enumerate(read))
        return first, second

    tile = tile or candidates(what.spaces, operands[0].dtype, is_tensor, parts, loads_of)[0]
    loads = loads_of(tile)
    after_it = list(zip(epilogue.operands, reads[OPERANDS:first], strict=True))
    kernel = ProductKernel(
        call.dtype, what.spaces, operands[0], operands[1], out, tile, loads, prologue, epilogue,
        block, block_stride, _stored(what.spaces, (out, target), after_it, tile, block_stride), flush,
    )  # fmt: skip
    views = (left, right, target, *reads[first:], *reads[OPERANDS:first])
    words: list[Word] = [Address.of(view) for view in views]
    source, buffers = KernelSource(kernel, partial(rendered, kernel)), (target.buffer,) if target.buffer else ()
    return Launch(work, source, buffers, words, math.prod(kernel.grid), tile.threads, dynamic_memory(kernel))


def _interleaved(what: Product, size: int) -> Product:
    """Reorders the depth: all taps of a window use `size` terms of the last index before the next `size` terms. The
    multiprocessor's cache then holds what other taps have read.
    """
    *taps, last = what.spaces[3]
    if math.prod(taps) == 1 or last % size or last == size:
        return what
    first = sum(map(len, what.spaces[:3]))
    end = first + len(taps)

    def moved(axis: Axis) -> Axis:
        factor = axis.factors.get(end, 0)
        others = {n + (first <= n < end): each for n, each in axis.factors.items() if n != end}
        return replace(axis, factors=others | ({first: size * factor, end + 1: factor} if factor else {}))

    left, right, out = (tuple(map(moved, axes)) for axes in (what.left, what.right, what.out))
    return Product((*what.spaces[:3], (last // size, *taps, size)), left, right, out)


def _fused(epilogue: Epilogue, views: Sequence[View], what: Product, axes: Sequence[Axis]) -> Fused:
    plain = [replace(axis, extent=0) for axis in axes]
    return Fused(tuple(what.access(view.dtype, view.strides, plain) for view in views), epilogue.body)


def _load(
    spaces: Spaces, side: int, operands: Sequence[tuple[Access, View]], tile: Tile, dtype: DType
) -> Load:  # fmt: skip
    """How the first of several operands, which are all read at the same indices, is loaded into a tile."""
    batch, rows, columns, depth = spaces
    extents = [*batch, *rows, *columns, *depth]
    starts = [len(batch), len(batch) + len(rows)]
    kept = range(starts[side], starts[side] + (len(rows), len(columns))[side])
    summed = range(len(extents) - len(depth), len(extents))
    main = operands[0][0]
    for along, space, size in (("depth", summed, tile.depth), ("kept", kept, (tile.rows, tile.columns)[side])):
        innermost = innermost_of(extents, space)
        if innermost is None or main.place.factors[innermost] != 1:
            continue
        widest = max(main.dtype.itemsize, main.dtype.itemsize if tile.tensor else dtype.itemsize)
        return Load(along, _neighbors(ACCESS_BYTES // widest, size, extents, innermost, operands))
    return Load("kept", 1)


def _neighbors(
    most: int, size: int, extents: Sequence[int], innermost: int, operands: Sequence[tuple[Access, View]]
) -> int:  # fmt: skip
    """Number of aligned neighbors along an index that are read or stored at once: up to `most`, a divisor of `size`."""
    lanes = most
    while lanes > 1 and (
        size % lanes or extents[innermost] % lanes
        or not all(_is_aligned(access, view, extents, innermost, lanes) for access, view in operands)
    ):  # fmt: skip
        lanes //= 2
    return lanes


def _is_aligned(access: Access, view: View, extents: Sequence[int], innermost: int, lanes: int) -> bool:
    """Whether `lanes` neighbors along an index are contiguous and aligned, or a single element; and whether all of them
    are inside the bounds if one is.
    """
    is_placed = view.buffer is None or view.buffer.is_aligned
    if not is_placed or any(bound.factors[innermost] for bound, _ in access.bounds):
        return False
    if access.place.factors[innermost] == 0:
        return True
    others = [f for number, f in enumerate(access.place.factors) if number != innermost and extents[number] > 1]
    is_aligned = not any(factor % lanes for factor in (*others, access.place.offset, view.offset))
    return access.place.factors[innermost] == 1 and is_aligned


def _stored(
    spaces: Spaces, target: tuple[Access, View], others: Sequence[tuple[Access, View]], tile: Tile, block_stride: int
) -> int:  # fmt: skip
    """Number of aligned neighbors along columns that are stored at once: up to 16 bytes of the widest operand."""
    extents = [extent for space in spaces for extent in space]
    first = len(spaces[0]) + len(spaces[1])
    innermost = innermost_of(extents, range(first, first + len(spaces[2])))
    if innermost is None or target[0].place.factors[innermost] != 1:
        return 1
    moving = [target, *(each for each in others if each[0].place.factors[innermost])]
    most = ACCESS_BYTES // max(access.dtype.itemsize for access, _ in moving)
    share = tile.share_columns // 2 if tile.tensor else tile.share_columns
    return _neighbors(most, math.gcd(share, block_stride), extents, innermost, moving)


def candidates(
    spaces: Spaces, operand: DType, is_tensor: bool, parts: int, loads: Callable[[Tile], tuple[Load, Load]]
) -> list[Tile]:  # fmt: skip
    """Tiles worth trying, best first by `cost`; all give the same bits."""
    tiles: tuple[Tile, ...] = TENSOR_TILES if is_tensor else EXACT_TILES
    if is_tensor and operand is float32:
        tiles = tuple(replace(tile, depth=tile.depth // 2) for tile in tiles)
    return sorted(tiles, key=lambda tile: cost(spaces, tile, parts, loads(tile)))


def cost(spaces: Spaces, tile: Tile, parts: int, loads: tuple[Load, Load]) -> float:
    """Relative time of a product whose depth is cut into `parts`: rounds of blocks over the processors, times the cost
    of the products and loads of a tile's step.
    """
    batch, rows, columns, _ = (math.prod(space) for space in spaces)
    blocks = batch * parts * -(-rows // tile.rows) * -(-columns // tile.columns)
    if not tile.tensor:
        rounds = max(blocks / PROCESSORS, -(-blocks // PROCESSORS) / 2)
        shares = tile.rows * tile.columns * (0.5 / tile.share_rows + 0.5 / tile.share_columns)
        return rounds * (tile.rows * tile.columns + shares + 8 * (tile.rows + tile.columns))
    resident = _RESIDENT_THREADS // tile.threads
    full, rest = divmod(-(-blocks // PROCESSORS), resident)
    rounds = full * resident + (max(_ALONE * resident, rest) if rest else 0)
    if full >= _MANY_ROUNDS:
        rounds = blocks / PROCESSORS
    usual, turned = TENSOR_COSTS[tile.rows, tile.columns]
    element = turned if all(load.along == "kept" for load in loads) else usual
    pieces = max(
        extent * tile.depth // load.lanes // tile.threads
        for extent, load in zip((tile.rows, tile.columns), loads, strict=True)
    )
    return rounds * tile.rows * tile.columns * element * (_ROLLED if pieces > _MOST_PIECES else 1)


def takes_prologue(node: Node) -> bool:
    """Whether a convolution or weight gradient computes its input in a prologue. This requires a one-pixel window: each
    element is then computed once per tile of filters, not once per tap as well.
    """
    window = node.inputs[1].shape[2:] if node.name == "convolution" else node.shape[2:]
    return math.prod(window) == 1
