"""The gradient of a convolution with respect to its weights: a product that sums over pixels.

Numerics class "exact": the pixels of y are cut into blocks by the shape alone (`pixel_blocks`). Within a block each
weight is one chain of fused multiply-adds from zero over (image, row, column) ascending; the blocks of a group are
added to its total in ascending order, starting from zero, and the groups' totals in ascending order. Operands of
bfloat16 are summed in float32, by pairs of images (`products.py`): x and dy come interleaved (`interleave.py`), and
"image" means a pair of them.

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: [x, dy, totals, prologue operands…], addresses;
totals is [groups of blocks][R][S][C/groups][K], and the result itself where `totals_of(spec)` is not needed; else its
kernel follows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

from trainer.engine.targets.cpu.kernels import copies
from trainer.engine.targets.cpu.kernels.access import prefetch
from trainer.engine.targets.cpu.kernels.epilogue import OperandPointers
from trainer.engine.targets.cpu.kernels.expression import MEMORY
from trainer.engine.targets.cpu.kernels.geometry import RSCK, ConvolutionSpec
from trainer.engine.targets.cpu.kernels.products import products_of
from trainer.engine.targets.cpu.kernels.tile import Level, Tile, cut_columns, lanes_of, run_tile
from trainer.engine.targets.cpu.kernels.totals import TotalsSpec
from trainer.engine.targets.cpu.kernels.writer import Integer, Writer

BLOCK_PIXELS = 256
MOST_GROUPS = 16
WINDOW_ELEMENTS = 3 << 17
"""At most so many elements of x that a block reads, where one pixel allows it: they are copied into scratch."""

TOTALS_ELEMENTS = 1 << 20
"""At most so many elements of totals beside the result: more groups cost memory traffic."""


@dataclass(frozen=True, slots=True)
class WeightGradientParameters:
    """How it is computed; any values give the same bits.

    A tile is tile_rows weights of neighbouring input channels (or taps) by tile_vectors vectors of filters. A task
    covers one group of blocks, task_lines lines of weights (a line shares its row of taps) and task_vectors vectors
    (a multiple of the tile's). `copy` brings x into scratch even where nothing is padded, its pixels `pixel_padding`
    elements further apart. `native` multiplies pairs by AVX-512-BF16's instruction.
    """

    tile_rows: int
    tile_vectors: int
    task_lines: int
    task_vectors: int
    copy: bool = False
    pixel_padding: int = 0
    native: bool = False


@dataclass(frozen=True, slots=True)
class PixelBlocks:
    """How the pixels of y are cut: extents of the whole and of a block along images, rows and columns; groups of
    blocks.
    """

    whole: tuple[int, int, int]
    block: tuple[int, int, int]
    groups: int

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(-(-whole // block) for whole, block in zip(self.whole, self.block, strict=True))

    @property
    def blocks_per_group(self) -> int:
        return -(-math.prod(self.counts) // self.groups)

    @property
    def outermost(self) -> int:
        """The first axis that is longer than 1, or else the last."""
        return next((axis for axis, whole in enumerate(self.whole) if whole > 1), 2)


@functools.lru_cache(maxsize=1024)
def pixel_blocks(spec: ConvolutionSpec) -> PixelBlocks:
    """The blocks that decide the bits; a function of the shape alone."""
    rows, columns = spec.output_spatial
    if _is_product(spec):
        whole = (1, 1, _images(spec) * rows * columns)
        block = (1, 1, min(BLOCK_PIXELS, whole[2]))
    else:
        whole = (_images(spec), rows, columns)
        block_rows, block_columns = min(rows, max(1, BLOCK_PIXELS // columns)), columns
        block_images = min(whole[0], max(1, BLOCK_PIXELS // (rows * columns)))
        while math.prod(_reach(spec, block_rows, block_columns)) * block_images * spec.channels > WINDOW_ELEMENTS:
            if block_images > 1:
                block_images = -(-block_images // 2)
            elif block_rows > 1:
                block_rows = -(-block_rows // 2)
            elif block_columns > 1:
                block_columns = -(-block_columns // 2)
            else:
                break
        block = (block_images, block_rows, block_columns)
    blocks = math.prod(-(-extent // part) for extent, part in zip(whole, block, strict=True))
    groups = max(1, min(MOST_GROUPS, blocks, TOTALS_ELEMENTS // _weights(spec)))
    per_group = -(-blocks // groups)
    return PixelBlocks(whole, block, -(-blocks // per_group))


def _images(spec: ConvolutionSpec) -> int:
    """Images, or pairs of them, the last filled up with zeros."""
    return -(-spec.images // spec.unit)


def _reach(spec: ConvolutionSpec, rows: int, columns: int) -> tuple[int, int]:
    """Rows and columns of x that so many rows and columns of y read."""
    down, right = (
        (extent - 1) * spec.strides[axis] + (spec.window[axis] - 1) * spec.dilation[axis] + 1
        for axis, extent in enumerate((rows, columns))
    )
    return down, right


def _rows_inside(spec: ConvolutionSpec, tap: int) -> tuple[int, int]:
    """The rows of y, [first, last), for which the row of taps `tap` meets the image."""
    stride, shift = spec.strides[0], spec.padding[0][0] - tap * spec.dilation[0]
    first = max(0, -(-shift // stride))
    return first, max(first, min(spec.output_spatial[0], (spec.spatial[0] - 1 + shift) // stride + 1))


def _is_product(spec: ConvolutionSpec) -> bool:
    """Whether all pixels lie in one row: a matrix product."""
    return spec.window == (1, 1) and spec.strides == (1, 1) and not any(map(any, spec.padding))


def _weights(spec: ConvolutionSpec) -> int:
    return math.prod(spec.window) * (spec.channels // spec.groups) * spec.filters


def totals_of(spec: ConvolutionSpec) -> TotalsSpec:
    """What the groups of blocks leave."""
    return TotalsSpec(spec, pixel_blocks(spec).groups)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What rendering needs to know of the problem: where x is read, and how weights are cut into lines and tiles.

    `lines` are (offset into x, offset into the weights, first row of y, last row + 1) of runs of `run` weights; the
    other rows of y meet only padding there. `places` are a tile's rows in x. A run's inputs are neighbours, unless one
    tile holds all weights: then its rows lie wherever their taps do.
    """

    blocks: PixelBlocks
    copied: bool
    pixel: int
    row: int
    image: int
    block_rows: int
    block_columns: int
    lines: tuple[tuple[int, int, int, int], ...]
    run: int
    places: tuple[int, ...]
    vectors: int

    @classmethod
    def of(cls, spec: ConvolutionSpec, parameters: WeightGradientParameters) -> _Shape:
        if spec.weight_order != RSCK:
            raise ValueError(f"the weight gradient is written in the order {RSCK}, not {spec.weight_order}")
        blocks, channels = pixel_blocks(spec), spec.channels // spec.groups
        padded = any(map(any, spec.padding))
        copied = padded or parameters.copy or bool(spec.prologue.body)
        reach = _reach(spec, *blocks.block[1:])
        height, width = spec.spatial
        pixel = channels + parameters.pixel_padding if copied else spec.channels
        row = pixel * (reach[1] if copied else width)
        image = row * (reach[0] if copied else height)
        down, right = spec.dilation[0] * row, spec.dilation[1] * pixel
        taps_rows, taps_columns = spec.window
        lines: tuple[tuple[int, int, int, int], ...]
        if taps_rows * taps_columns * channels <= parameters.tile_rows:
            every = [(r, s, c) for r in range(taps_rows) for s in range(taps_columns) for c in range(channels)]
            lines, run = ((0, 0, 0, spec.output_spatial[0]),), len(every)
            places = tuple(r * down + s * right + c for r, s, c in every)
        elif right == channels:
            run = taps_columns * channels
            lines = tuple((r * down, r * run * spec.filters, *_rows_inside(spec, r)) for r in range(taps_rows))
            places = tuple(range(min(run, parameters.tile_rows)))
        else:
            run = channels
            lines = tuple(
                (r * down + s * right, (r * taps_columns + s) * run * spec.filters, *_rows_inside(spec, r))
                for r in range(taps_rows)
                for s in range(taps_columns)
            )
            places = tuple(range(min(run, parameters.tile_rows)))
        vectors = -(-(spec.filters // spec.groups) // lanes_of(spec.dtype))
        return cls(blocks, copied, pixel, row, image, reach[0], reach[1], lines, run, places, vectors)


def _grid(spec: ConvolutionSpec, shape: _Shape, parameters: WeightGradientParameters) -> tuple[int, int, int, int]:
    """Tasks along vectors, lines, convolution groups and groups of blocks."""
    lines = -(-len(shape.lines) // parameters.task_lines)
    return -(-shape.vectors // parameters.task_vectors), lines, spec.groups, shape.blocks.groups


def tasks(spec: ConvolutionSpec, parameters: WeightGradientParameters) -> int:
    """How many tasks the kernel has."""
    return math.prod(_grid(spec, _Shape.of(spec, parameters), parameters))


def scratch_bytes(spec: ConvolutionSpec, parameters: WeightGradientParameters) -> int:
    """Scratch memory that a thread needs."""
    shape = _Shape.of(spec, parameters)
    return shape.image * shape.blocks.block[0] * spec.dtype.itemsize if shape.copied else 0


def words(spec: ConvolutionSpec) -> tuple[int, ...]:
    """The words after the addresses: what differs between batches of any size, which may have the same code."""
    blocks = pixel_blocks(spec)
    return blocks.whole[blocks.outermost], blocks.blocks_per_group, math.prod(blocks.counts)


def render(spec: ConvolutionSpec, parameters: WeightGradientParameters, name: str) -> str:
    """The module of the kernel."""
    shape = _Shape.of(spec, parameters)
    w = Writer()
    element, lanes = MEMORY[spec.dtype.name], lanes_of(spec.dtype)
    x, dy, totals = (w.argument(word) for word in range(3))
    applied = OperandPointers.load(w, spec.prologue, 3)
    further = 3 + len(spec.prologue.operands)
    whole, per_group, all_blocks = (w.argument(further + word, "i64") for word in range(len(words(spec))))
    vector_tasks, line_tasks, _, _ = _grid(spec, shape, parameters)
    block_group, group, line_task, vector_task = w.unravel("%task", spec.groups, line_tasks, vector_tasks)
    filters, channels = spec.filters // spec.groups, spec.channels // spec.groups
    x = w.pointer(x, w.multiply(group, channels), element)
    applied = OperandPointers(
        spec.prologue, tuple(applied.at(w, w.multiply(group, channels), w.multiply(group, channels)))
    )
    dy = w.pointer(dy, w.multiply(group, filters), element)
    totals = w.pointer(totals, w.add(w.multiply(block_group, _weights(spec)), w.multiply(group, filters)), element)
    first_vector, last_vector = w.share(vector_task, parameters.task_vectors, shape.vectors)
    first_line, last_line = w.share(line_task, parameters.task_lines, len(shape.lines))
    table = w.table("lines", [word for line in shape.lines for word in line])

    def line_fields(line: Integer) -> list[Integer]:
        if isinstance(line, int):
            return [*shape.lines[line]]
        start = w.pointer(table, w.multiply(line, 4), "i64")
        return [w.value(f"load i64, ptr {w.pointer(start, field, 'i64')}") for field in range(4)]

    _clear_totals(w, spec, shape, totals, (first_line, last_line), (first_vector, last_vector), line_fields)
    first_block = w.multiply(block_group, per_group)
    last_block = w.minimum(w.add(first_block, per_group), all_blocks)
    levels, variables = _levels(spec, shape)
    with w.loop(first_block, last_block) as block:
        starts, extents = block_bounds(w, shape.blocks, block.index, whole)
        y_rows, y_columns = spec.output_spatial if not _is_product(spec) else (1, whole)
        pixel = w.add(w.multiply(w.add(w.multiply(starts[0], y_rows), starts[1]), y_columns), starts[2])
        dy_block = w.pointer(dy, w.multiply(pixel, spec.filters), element)
        if shape.copied:
            _copy_input(w, spec, shape, x, starts, extents, applied)
            x_block = "%scratch"
        else:
            down = w.multiply(starts[1], spec.strides[0] * shape.row)
            place = w.add(w.multiply(starts[0], shape.image), down)
            x_block = w.pointer(x, w.add(place, w.multiply(starts[2], spec.strides[1] * shape.pixel)), element)
        with (
            w.loop(first_vector, last_vector, parameters.tile_vectors) as panel,
            w.loop(first_line, last_line) as line,
            w.loop(0, shape.run, parameters.tile_rows) as run,
        ):
            line_x, line_weight, top, bottom = line_fields(line.index)
            first_row = w.maximum(starts[1], top) if variables[1] else starts[1]
            last_row = w.minimum(w.add(starts[1], extents[1]), bottom)
            row_count = w.maximum(w.subtract(last_row, first_row), 0) if variables[1] else extents[1]
            skipped = w.subtract(first_row, starts[1]) if variables[1] else 0
            counts = extents[0], row_count, extents[2]
            values = dict(zip(variables, counts, strict=True))
            dy_row, x_row = (w.multiply(skipped, step) for step in (levels[1].b_step, levels[1].a_step))
            b_here = w.pointer(dy_block, w.add(dy_row, w.multiply(panel.index, lanes)), element)
            a_here = w.pointer(x_block, w.add(x_row, w.add(line_x, run.index)), element)
            weight = w.add(line_weight, w.multiply(run.index, spec.filters))
            result = w.pointer(totals, w.add(weight, w.multiply(panel.index, lanes)), element)
            if _is_product(spec) and not shape.copied:
                panels = -(-parameters.task_vectors // parameters.tile_vectors)
                strips = -(-shape.run // parameters.tile_rows)
                done, _ = w.divide(w.subtract(panel.index, first_vector), parameters.tile_vectors)
                strip, _ = w.divide(run.index, parameters.tile_rows)
                call = w.add(w.multiply(done, strips), strip)
                _prefetch_next(w, spec, x_block, shape.blocks.block[2] * spec.channels, call, panels * strips)
            for thick, active in cut_columns(w, panel.index, filters, lanes, parameters.tile_vectors):
                for height, _ in w.cut(run.index, shape.run, parameters.tile_rows):
                    tile = Tile(
                        spec.dtype,
                        shape.places[:height],
                        tuple(i * spec.filters for i in range(height)),
                        thick,
                        lanes,
                        active,
                        levels,
                        b_masked=True,
                        accumulate=True,
                        products=products_of(spec.pairs, parameters.native),
                    )
                    run_tile(w, f"tile_{height}x{thick}_{tile.lanes}", tile, (a_here, b_here, result), values)
    return w.module(name, scratch=True)


def _prefetch_next(w: Writer, spec: ConvolutionSpec, block: str, size: int, call: Integer, calls: int) -> None:
    """Ask for one tile's share of the next block, which follows this one of `size` elements.

    The tiles read x in strides too long for the processor to foresee: 12 % of 1x1 from 256 to 64 channels, two threads.
    """
    lanes, element = lanes_of(spec.dtype), MEMORY[spec.dtype.name]
    share = -(-size // (lanes * calls))
    start = w.pointer(block, w.add(w.multiply(call, share * lanes), size), element)
    with w.loop(0, share) as loop:
        pointer = w.pointer(start, w.multiply(loop.index, lanes), element)
        prefetch(w, pointer, 2)


def _levels(spec: ConvolutionSpec, shape: _Shape) -> tuple[tuple[Level, ...], tuple[str, ...]]:
    """Loops over the pixels of a block, and for each the register of its extent where blocks differ ("" where not)."""
    whole, block = shape.blocks.whole, shape.blocks.block
    cut_rows = any(line[2] > 0 or line[3] < spec.output_spatial[0] for line in shape.lines)
    differs = (whole[0] % block[0], whole[1] % block[1] or cut_rows, whole[2] % block[2])
    names = ("%images", "%rows", "%columns")
    variables = tuple(name if varies else "" for name, varies in zip(names, differs, strict=True))
    steps = (
        (shape.image, whole[1] * whole[2] * spec.filters),
        (spec.strides[0] * shape.row, whole[2] * spec.filters),
        (spec.strides[1] * shape.pixel, spec.filters),
    )
    levels = tuple(Level(variable or part, *step) for variable, part, step in zip(variables, block, steps, strict=True))
    return levels, variables


def block_bounds(
    w: Writer, blocks: PixelBlocks, block: Integer, outermost: Integer | None = None
) -> tuple[list[Integer], list[Integer]]:
    """Where a block begins, and its extents, along images, rows and columns; `outermost`: the extent of the first of
    these axes that is longer than 1, where that is no constant.
    """
    starts: list[Integer] = []
    extents: list[Integer] = []
    for axis in reversed(range(3)):
        part, whole, index = blocks.block[axis], blocks.whole[axis], block
        is_outermost = axis == blocks.outermost and outermost is not None
        if axis > blocks.outermost:
            block, index = w.divide(block, blocks.counts[axis])
        else:
            block = 0
        start = w.multiply(index, part)
        starts.insert(0, start)
        end: Integer = whole if outermost is None or not is_outermost else outermost
        extents.insert(0, w.minimum(w.subtract(end, start), part) if is_outermost or whole % part else part)
    return starts, extents


def _clear_totals(
    w: Writer,
    spec: ConvolutionSpec,
    shape: _Shape,
    totals: str,
    lines: tuple[Integer, Integer],
    vectors: tuple[Integer, Integer],
    line_fields: Callable[[Integer], list[Integer]],
) -> None:
    element, lanes = MEMORY[spec.dtype.name], lanes_of(spec.dtype)
    clear = copies.define_clear(w, spec.dtype)
    first = w.multiply(vectors[0], lanes)
    count = w.subtract(w.minimum(w.multiply(vectors[1], lanes), spec.filters // spec.groups), first)
    with w.loop(*lines) as line, w.loop(0, shape.run) as run:
        place = w.add(w.add(line_fields(line.index)[1], w.multiply(run.index, spec.filters)), first)
        w.run(clear, (w.pointer(totals, place, element),), (count,))


def _copy_input(
    w: Writer,
    spec: ConvolutionSpec,
    shape: _Shape,
    x: str,
    starts: list[Integer],
    extents: list[Integer],
    applied: OperandPointers,
) -> None:
    """Bring the input of a block into scratch, zeros where it reaches beyond the image."""
    spatial = spec.spatial if not _is_product(spec) else (1, shape.blocks.whole[2])
    window = copies.Window(
        dtype=spec.dtype,
        spatial=spatial,
        channels=spec.channels,
        taken=spec.channels // spec.groups,
        pixel=shape.pixel,
        row=shape.row,
        image=shape.image,
    )
    first, count = [], []
    for axis in range(2):
        step = spec.strides[axis]
        first.append(w.subtract(w.multiply(starts[1 + axis], step), spec.padding[axis][0]))
        steps = w.multiply(w.subtract(extents[1 + axis], 1), step)
        count.append(w.add(steps, (spec.window[axis] - 1) * spec.dilation[axis] + 1))
    images = starts[0], w.add(starts[0], extents[0])
    copies.copy_window(w, window, x, images, (first[0], count[0]), (first[1], count[1]), applied)
