"""The gradient of a convolution with respect to its weights: a product that sums over pixels.

Numerics class "exact": the pixels of y are cut into blocks by the shape alone (`pixel_blocks`). Within a block each
weight is one chain of fused multiply-adds from zero over (image, row, column) ascending; the blocks of a group are
added to its total in ascending order, starting from zero, and the groups' totals in ascending order. Operands of
bfloat16 are summed in float32, in pairs of images, or of the upper and the lower half of a single one (`products.py`):
x and dy are interleaved (`interleave.py`), and "image" means such a pair.

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: [x, dy, totals, prologue operands…], addresses;
totals is [groups of blocks][R][S][C/groups][K]. It is the result itself if `totals_of(spec)` is not needed; otherwise
the kernel of `totals_of(spec)` follows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from trainer.engine.targets.cpu.costs import cycles as costs
from trainer.engine.targets.cpu.costs.ranking import cheapest_tiles, sized
from trainer.engine.targets.cpu.kernels import copies
from trainer.engine.targets.cpu.kernels.epilogue import OperandPointers
from trainer.engine.targets.cpu.kernels.foresight import Foresight, tile_number
from trainer.engine.targets.cpu.kernels.geometry import RSCK, ConvolutionSpec
from trainer.engine.targets.cpu.kernels.products import products_of
from trainer.engine.targets.cpu.kernels.tile import cut_columns, odd_lines, run_tile
from trainer.engine.targets.cpu.kernels.tile_shape import Level, Tile
from trainer.engine.targets.cpu.kernels.totals import TotalsSpec
from trainer.engine.targets.cpu.machine import Machine
from trainer.engine.targets.cpu.template import (
    Argument,
    Template,
    TemplateKernel,
    activations,
    epilogue_arguments,
    prepared,
)
from trainer.engine.targets.ir.expression import lanes_of
from trainer.engine.targets.ir.writer import Integer, Writer

BLOCK_PIXELS = 256
MOST_GROUPS = 16
WINDOW_ELEMENTS = 3 << 17
"""Maximum number of elements of x that a block reads (if one pixel fits): they are copied into scratch."""

TOTALS_ELEMENTS = 1 << 20
"""Maximum number of elements of totals in addition to the result: more groups cost memory traffic."""

UNPACKED, PACKED_BYTES_PER_CYCLE = 1.4, 7
"""On machines with AVX2: the factor on the cycles of tiles that read x and dy in place, and the rate of packing both.
Lines whose distance is a power of two share few sets of a first-level cache with 8 ways. Measured on a core of Zen 3:
the layers of ResNet-50 at batch 8 run at 57 GFLOP/s in place and at 82 packed, 8x1024x14x14 to 512 filters at 48 and
80, of a peak of 100; packing takes up to a fifth of the time of layers with 64 channels, a twentieth with many.
"""


@dataclass(frozen=True, slots=True)
class WeightGradientParameters:
    """Parameters of the kernel; any values give the same bits.

    A tile is tile_rows weights of neighboring input channels (or taps) by tile_vectors vectors of filters. A task
    covers one group of blocks, task_lines lines of weights (a line shares its row of taps) and task_vectors vectors
    (a multiple of the tile's). `copy` copies x into scratch even without padding, its pixels `pixel_padding` elements
    further apart. `native` multiplies pairs with AVX-512-BF16. `packed` copies the data that a tile reads of a block to
    neighboring lines of scratch: dy in panels of tile_vectors, x in chunks of tile_rows channels (if it has more).
    """

    tile_rows: int
    tile_vectors: int
    task_lines: int
    task_vectors: int
    copy: bool = False
    pixel_padding: int = 0
    native: bool = False
    packed: bool = False


@dataclass(frozen=True, slots=True)
class PixelBlocks:
    """The blocks of pixels of y: extents of the whole and of a block by image, row and column; number of groups."""

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
    """The blocks of a shape. They determine the bits, and depend only on the shape."""
    rows, columns = spec.output_spatial
    if spec.is_product:
        whole = (1, 1, _images(spec) * rows * columns)
        block = (1, 1, min(BLOCK_PIXELS, whole[2]))
    else:
        whole = (_images(spec), rows, columns)
        block_rows, block_columns = min(rows, max(1, BLOCK_PIXELS // columns)), columns
        block_images = min(whole[0], max(1, BLOCK_PIXELS // (rows * columns)))
        while math.prod(_span(spec, block_rows, block_columns)) * block_images * spec.channels > WINDOW_ELEMENTS:
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
    return PixelBlocks(whole, block, groups_of(blocks, spec.weights))


def groups_of(blocks: int, weights: int) -> int:
    """The number of groups of `blocks` blocks, equal in size except for the last; each has totals of all `weights`."""
    groups = max(1, min(MOST_GROUPS, blocks, TOTALS_ELEMENTS // weights))
    return -(-blocks // -(-blocks // groups))


def _images(spec: ConvolutionSpec) -> int:
    """The number of images, or of pairs of them; the last pair is padded with zeros."""
    return -(-spec.images // spec.unit)


def _span(spec: ConvolutionSpec, rows: int, columns: int) -> tuple[int, int]:
    """Rows and columns of x that `rows` rows and `columns` columns of y read."""
    down, right = (
        (extent - 1) * spec.strides[axis] + (spec.window[axis] - 1) * spec.dilation[axis] + 1
        for axis, extent in enumerate((rows, columns))
    )
    return down, right


def _rows_inside(spec: ConvolutionSpec, tap: int) -> tuple[int, int]:
    """The rows of y, [first, last), for which the row of taps `tap` is inside the image."""
    stride, shift = spec.strides[0], spec.padding[0][0] - tap * spec.dilation[0]
    first = max(0, -(-shift // stride))
    return first, max(first, min(spec.output_spatial[0], (spec.spatial[0] - 1 + shift) // stride + 1))


def totals_of(spec: ConvolutionSpec) -> TotalsSpec:
    """The totals of the groups of blocks."""
    return TotalsSpec.of(spec, pixel_blocks(spec).groups)


def words(spec: ConvolutionSpec) -> tuple[int, ...]:
    """The words after the addresses: the numbers that differ between batch sizes, which may share the code."""
    blocks = pixel_blocks(spec)
    return blocks.whole[blocks.outermost], blocks.blocks_per_group, math.prod(blocks.counts)


def coded(spec: ConvolutionSpec) -> ConvolutionSpec:
    """The specification with two blocks of images, or three if the last one is not full, if their number is a word."""
    blocks = pixel_blocks(spec)
    whole, block = blocks.whole[0], blocks.block[0]
    if whole == 1:
        return spec
    few = replace(spec, images=spec.unit * (2 * block + (whole % block > 0)))
    return few if pixel_blocks(few).block == blocks.block else spec


class WeightGradientKernel(TemplateKernel[ConvolutionSpec, WeightGradientParameters]):
    """Computes tiles of weights over the pixels of one block after another.

    Neighbors in x (in scratch if it is `copied`) are `pixel`, `row` and `image` elements apart, and neighboring pixels
    of y read rows and columns of x that are `strides` apart. If x is `chunked`, scratch holds tile_rows channels of the
    whole window, then the next channels, at a distance of `chunk`. To let a tile read neighbors there too, a strided
    window is stored as `phases`, each with the pixels at one position modulo the strides; phases that no tap reads are
    omitted. A packed panel of dy begins at `panel`. Pixels of dy are `dy_pixel` elements apart.

    `lines` are (offset into x, offset into the weights, first row of y, last row + 1) of runs of `run` weights; the
    other rows of y read only padding there. `places` are the offsets of a tile's rows in x. The inputs of a run are
    neighbors, unless one tile holds all weights: then each row is at the offset of its tap.
    """

    def __init__(self, spec: ConvolutionSpec, parameters: WeightGradientParameters) -> None:
        super().__init__(spec, parameters)
        if spec.weight_order != RSCK:
            raise ValueError(f"the weight gradient is written in the order {RSCK}, not {spec.weight_order}")
        self.blocks = pixel_blocks(spec)
        self.channels, self.filters = spec.channels // spec.groups, spec.filters // spec.groups
        self.vectors = -(-self.filters // self.lanes)
        self.chunked = parameters.packed and self.channels > parameters.tile_rows
        self.copied = spec.is_padded or parameters.copy or bool(spec.prologue.body) or self.chunked
        self.steps, self.strides = (spec.strides, (1, 1)) if self.chunked else ((1, 1), spec.strides)
        taps = zip(spec.window, spec.dilation, self.steps, strict=True)
        self.last_taps = tuple((count - 1) * dilation // step for count, dilation, step in taps)
        self.phases = sorted({self.tap(r, s)[1] for r, s in product(*map(range, spec.window))})
        (height, width), self.pixel = spec.spatial, spec.channels
        if self.copied:
            axes = zip(self.blocks.block[1:], self.strides, self.last_taps, strict=True)
            height, width = ((extent - 1) * stride + last_tap + 1 for extent, stride, last_tap in axes)
            self.pixel = parameters.tile_rows if self.chunked else self.channels + parameters.pixel_padding
        self.row = self.pixel * width
        self.image = self.row * height
        self.phase = self.image * self.blocks.block[0]
        self.chunk, self.window = 0, self.phase if self.copied else 0
        if self.chunked:
            self.chunk = odd_lines(len(self.phases) * self.phase, self.lanes)
            self.window = self.chunk * -(-self.channels // self.pixel)
        self.panel = odd_lines(self.window, self.lanes)
        self.dy_pixel = parameters.tile_vectors * self.lanes if parameters.packed else spec.filters
        self.lines, self.run, self.places = self.cut_weights()

    def tap(self, row: int, column: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """The position in its phase of the window at which a tap of a block's first pixel reads, and the phase."""
        taps = zip((row, column), self.spec.dilation, self.steps, strict=True)
        (down, lower), (right, further) = (divmod(tap * dilation, step) for tap, dilation, step in taps)
        return (down, right), (lower, further)

    def place(self, row: int, column: int) -> int:
        """The offset in the window, in elements, at which a tap of a block's first pixel reads."""
        (down, right), phase = self.tap(row, column)
        return self.phases.index(phase) * self.phase + down * self.row + right * self.pixel

    def cut_weights(self) -> tuple[tuple[tuple[int, int, int, int], ...], int, tuple[int, ...]]:
        """Returns `lines`, `run` and `places`."""
        spec, channels = self.spec, self.channels
        rows, columns = map(range, spec.window)
        if math.prod(spec.window) * channels <= self.parameters.tile_rows:
            places = tuple(self.place(r, s) + c for r in rows for s in columns for c in range(channels))
            return ((0, 0, 0, spec.output_spatial[0]),), len(places), places
        are_neighbors = spec.dilation[1] * self.pixel == channels and not self.chunked
        run, taps = (len(columns) * channels, range(1)) if are_neighbors else (channels, columns)
        lines = tuple(
            (self.place(r, s), (r * len(taps) + s) * run * spec.filters, *_rows_inside(spec, r))
            for r in rows
            for s in taps
        )
        return lines, run, tuple(range(min(run, self.parameters.tile_rows)))

    @property
    def grid(self) -> tuple[int, ...]:
        """Tasks along groups of blocks, convolution groups, lines and vectors."""
        lines = -(-len(self.lines) // self.parameters.task_lines)
        return self.blocks.groups, self.spec.groups, lines, -(-self.vectors // self.parameters.task_vectors)

    @property
    def scratch_bytes(self) -> int:
        packed = self.panel + math.prod(self.blocks.block) * self.dy_pixel
        return (packed if self.parameters.packed else self.window) * self.dtype.itemsize

    def write(self) -> None:
        spec, parameters, w, at, lanes = self.spec, self.parameters, self.w, self.memory.at, self.lanes
        x, dy, totals = (w.argument(word) for word in range(3))
        applied = OperandPointers.load(w, spec.prologue, 3)
        further = 3 + len(spec.prologue.operands)
        whole, per_group, all_blocks = (w.argument(further + word, "i64") for word in range(len(words(spec))))
        block_group, group, line_task, vector_task = w.unravel("%task", *self.grid[1:])
        x = at(x, w.multiply(group, self.channels))
        first_channel = w.multiply(group, self.channels), w.multiply(group, self.channels)
        applied = OperandPointers(spec.prologue, tuple(applied.at(w, *first_channel)))
        dy = at(dy, w.multiply(group, self.filters))
        totals = at(totals, w.add(w.multiply(block_group, spec.weights), w.multiply(group, self.filters)))
        first_vector, last_vector = w.share(vector_task, parameters.task_vectors, self.vectors)
        first_line, last_line = w.share(line_task, parameters.task_lines, len(self.lines))
        self.table = w.table("lines", [word for line in self.lines for word in line])
        self.clear_totals(totals, (first_line, last_line), (first_vector, last_vector))
        first_block = w.multiply(block_group, per_group)
        last_block = w.minimum(w.add(first_block, per_group), all_blocks)
        levels, variables = self.levels()
        with w.loop(first_block, last_block) as block:
            starts, extents = block_bounds(w, self.blocks, block.index, whole)
            y_rows, y_columns = spec.output_spatial if not self.spec.is_product else (1, whole)
            pixel = w.add(w.multiply(w.add(w.multiply(starts[0], y_rows), starts[1]), y_columns), starts[2])
            dy_block = at(dy, w.multiply(pixel, spec.filters))
            ahead = self.next_block(x, dy, w.add(block.index, 1), whole) if self.foresight else None
            if self.copied:
                self.copy_input(x, starts, extents, applied)
                x_block = "%scratch"
            else:
                down = w.multiply(starts[1], self.strides[0] * self.row)
                place = w.add(w.multiply(starts[0], self.image), down)
                x_block = at(x, w.add(place, w.multiply(starts[2], self.strides[1] * self.pixel)))
            with w.loop(first_vector, last_vector, parameters.tile_vectors) as panel:
                if parameters.packed:
                    self.copy_panel(dy_block, panel.index, extents)
                loops = [(first_line, last_line, 1), (0, self.run, parameters.tile_rows)]
                if self.chunked:  # all taps read a chunk while it is in the first-level cache
                    loops.reverse()
                with w.loop(*loops[0]) as outer, w.loop(*loops[1]) as inner:
                    line, run = (inner, outer) if self.chunked else (outer, inner)
                    line_x, line_weight, top, bottom = self.line_fields(line.index)
                    first_row = w.maximum(starts[1], top) if variables[1] else starts[1]
                    last_row = w.minimum(w.add(starts[1], extents[1]), bottom)
                    row_count = w.maximum(w.subtract(last_row, first_row), 0) if variables[1] else extents[1]
                    skipped = w.subtract(first_row, starts[1]) if variables[1] else 0
                    values = dict(zip(variables, (extents[0], row_count, extents[2]), strict=True))
                    dy_row, x_row = (w.multiply(skipped, step) for step in (levels[1].b_step, levels[1].a_step))
                    if parameters.packed:
                        b_here = at("%scratch", w.add(self.panel, dy_row))
                    else:
                        b_here = at(dy_block, w.add(dy_row, w.multiply(panel.index, lanes)))
                    run_x = run.index
                    if self.chunked:
                        run_x = w.multiply(w.divide(run.index, parameters.tile_rows)[0], self.chunk)
                    a_here = at(x_block, w.add(x_row, w.add(line_x, run_x)))
                    weight = w.add(line_weight, w.multiply(run.index, spec.filters))
                    result = at(totals, w.add(weight, w.multiply(panel.index, lanes)))
                    tiles = (panel, first_vector), (line, first_line), (run, 0)
                    pointers = [a_here, b_here, result]
                    if ahead:
                        pointers.append(self.asked_by([w.subtract(loop.index, first) for loop, first in tiles], ahead))
                    for thick, active in cut_columns(w, panel.index, self.filters, lanes, parameters.tile_vectors):
                        for height, _ in w.cut(run.index, self.run, parameters.tile_rows):
                            outputs = tuple(i * spec.filters for i in range(height))
                            tile = Tile(
                                spec.dtype, self.places[:height], outputs, thick, lanes, active, levels,
                                b_masked=not parameters.packed, accumulate=True,
                                products=products_of(spec, parameters.native), prefetched=parameters.packed,
                            )  # fmt: skip
                            run_tile(w, f"tile_{height}x{thick}_{active}", tile, pointers, values)

    def copy_panel(self, dy: str, vector: Integer, extents: list[Integer]) -> None:
        """Copies the panel of a block of dy that begins with this vector into scratch."""
        w, at, pitches = self.w, self.memory.at, (self.dy_pixel, self.spec.filters)
        pixels = w.multiply(w.multiply(extents[0], extents[1]), extents[2])
        target, source = at("%scratch", self.panel), at(dy, w.multiply(vector, self.lanes))
        for thick, active in cut_columns(w, vector, self.filters, self.lanes, self.parameters.tile_vectors):
            copies.copy_columns(w, self.dtype, target, source, pixels, pitches, thick, active)

    def line_fields(self, line: Integer) -> list[Integer]:
        """The fields of a line, from the table if the line's number is not known at compile time."""
        if isinstance(line, int):
            return [*self.lines[line]]
        start = self.w.pointer(self.table, self.w.multiply(line, 4), "i64")
        return [self.w.value(f"load i64, ptr {self.w.pointer(start, field, 'i64')}") for field in range(4)]

    def clear_totals(self, totals: str, lines: tuple[Integer, Integer], vectors: tuple[Integer, Integer]) -> None:
        """Writes zeros to the totals that a task adds to."""
        w, clear = self.w, copies.define_clear(self.w, self.dtype)
        first = w.multiply(vectors[0], self.lanes)
        count = w.subtract(w.minimum(w.multiply(vectors[1], self.lanes), self.filters), first)
        with w.loop(*lines) as line, w.loop(0, self.run) as run:
            place = w.add(self.line_fields(line.index)[1], w.multiply(run.index, self.spec.filters))
            w.run(clear, (self.memory.at(totals, w.add(place, first)),), (count,))

    @property
    def tiles(self) -> tuple[tuple[int, int], ...]:
        """(extent of a tile, number of tiles of a task in a block) along vectors, lines and the weights of a run."""
        parameters = self.parameters
        axes = (
            (parameters.tile_vectors, min(parameters.task_vectors, self.vectors)),
            (1, min(parameters.task_lines, len(self.lines))),
            (parameters.tile_rows, self.run),
        )
        return tuple((tile, -(-whole // tile)) for tile, whole in axes)

    @property
    def foresight(self) -> tuple[Foresight, Foresight] | None:
        """Half of a block's tiles prefetch the next block's window of x, the others its dy."""
        spec, block, pixels = self.spec, self.blocks.block, math.prod(self.blocks.block)
        if spec.groups > 1:
            return None
        height, width = (1, block[2]) if spec.is_product else map(min, _span(spec, *block[1:]), spec.spatial)
        tiles = -(-math.prod(count for _, count in self.tiles) // 2)
        pitch = spec.channels * spec.spatial[1]
        x = Foresight.of(block[0] * height, width * spec.channels, pitch, tiles, pixels)
        dy = Foresight.of(1, pixels * spec.filters, 0, tiles, pixels)
        step = max(x.step, dy.step)
        x, dy = replace(x, step=step), replace(dy, step=step)
        if self.parameters.packed:  # the tiles of 3x3 layers of 512 channels would prefetch twelve blocks of dy
            return x.trimmed(width * spec.channels), dy.trimmed(pixels * spec.filters)
        return x, dy

    def next_block(self, x: str, dy: str, block: Integer, whole: Integer) -> tuple[str, str]:
        """The start of the next block's data in x and in dy."""
        w, spec = self.w, self.spec
        starts, _ = block_bounds(w, self.blocks, block, whole)
        y_rows, y_columns = spec.output_spatial if not spec.is_product else (1, whole)
        pixel = w.add(w.multiply(w.add(w.multiply(starts[0], y_rows), starts[1]), y_columns), starts[2])
        place = pixel
        if not spec.is_product:
            top, left = (
                w.maximum(w.subtract(w.multiply(start, spec.strides[axis]), spec.padding[axis][0]), 0)
                for axis, start in enumerate(starts[1:])
            )
            place = w.add(w.multiply(w.add(w.multiply(starts[0], spec.spatial[0]), top), spec.spatial[1]), left)
        return self.memory.at(x, w.multiply(place, spec.channels)), self.memory.at(dy, w.multiply(pixel, spec.filters))

    def asked_by(self, place: Sequence[Integer], ahead: tuple[str, str]) -> str:
        """The address that the tile at `place` of this block prefetches."""
        assert self.foresight is not None
        w, (of_x, of_dy), number = self.w, self.foresight, tile_number(self.w, place, self.tiles)
        of_both = of_x.rows * of_x.share
        x = self.memory.at(ahead[0], of_x.part(w, number))
        others = w.maximum(w.subtract(number, of_both), 0)
        if self.parameters.packed:
            others = w.minimum(others, of_dy.share - 1)
        dy = self.memory.at(ahead[1], of_dy.part(w, others))
        return w.value(f"select i1 {w.value(f'icmp slt i64 {number}, {of_both}', 'c')}, ptr {x}, ptr {dy}", "p")

    def levels(self) -> tuple[tuple[Level, ...], tuple[str, ...]]:
        """The loops over the pixels of a block, and the register of each extent, or "" if blocks do not differ."""
        spec, whole, block = self.spec, self.blocks.whole, self.blocks.block
        cut_rows = any(line[2] > 0 or line[3] < spec.output_spatial[0] for line in self.lines)
        differs = (whole[0] % block[0], whole[1] % block[1] or cut_rows, whole[2] % block[2])
        names = ("%images", "%rows", "%columns")
        variables = tuple(name if varies else "" for name, varies in zip(names, differs, strict=True))
        ahead = self.foresight[0].step if self.foresight else 0
        steps = (
            (self.image, whole[1] * whole[2] * self.dy_pixel, ahead * block[1] * block[2]),
            (self.strides[0] * self.row, whole[2] * self.dy_pixel, ahead * block[2]),
            (self.strides[1] * self.pixel, self.dy_pixel, ahead),
        )
        extents = zip(variables, block, steps, strict=True)
        return tuple(Level(variable or part, *step) for variable, part, step in extents), variables

    def copy_input(self, x: str, starts: list[Integer], extents: list[Integer], applied: OperandPointers) -> None:
        """Copies the input of a block into scratch, with zeros beyond the image."""
        spec, w = self.spec, self.w
        spatial = spec.spatial if not self.spec.is_product else (1, self.blocks.whole[2])
        pitches = self.pixel, self.row, self.image, self.chunk
        window = copies.Window(self.dtype, spatial, spec.channels, self.channels, *pitches, self.steps)
        for number, phase in enumerate(self.phases):
            reached = []
            for axis, (start, extent) in enumerate(zip(starts[1:], extents[1:], strict=True)):
                first = w.subtract(w.multiply(start, spec.strides[axis]), spec.padding[axis][0] - phase[axis])
                steps = w.multiply(w.subtract(extent, 1), self.strides[axis])
                reached.append((first, w.add(steps, self.last_taps[axis] + 1)))
            images = starts[0], w.add(starts[0], extents[0])
            target = self.memory.at("%scratch", number * self.phase)
            copies.copy_window(w, window, x, images, reached[0], reached[1], applied, target)


def block_bounds(
    w: Writer, blocks: PixelBlocks, block: Integer, outermost: Integer | None = None
) -> tuple[list[Integer], list[Integer]]:
    """The start and the extents of a block; `outermost`: the extent of the first axis longer than 1, if it varies."""
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


def candidates(spec: ConvolutionSpec, machine: Machine) -> tuple[WeightGradientParameters, ...]:
    """Ranks tiles of weights by their cycles over all pixels, and tasks by the windows that they copy or read."""
    native = spec.pairs and machine.bfloat16
    vectors = -(-(spec.filters // spec.groups) // lanes_of(spec.dtype))
    channels, (taps_rows, taps_columns) = spec.channels // spec.groups, spec.window
    blocks = pixel_blocks(spec)
    pixels, count = math.prod(blocks.block), math.prod(blocks.counts)
    weights = taps_rows * taps_columns * channels
    is_narrow = machine.is_narrow
    tiles = []
    for v in range(1, min(vectors, 4) + 1):
        for m, packed in product(range(1, min(weights, machine.vectors) + 1), (False, True)[: 1 + is_narrow]):
            if costs.fits_registers(m, v, machine, widened=spec.pairs and not native):
                joins_taps = spec.dilation[1] == 1 and not (packed and channels > m)
                run = weights if weights <= m else channels * (taps_columns if joins_taps else 1)
                lines = weights // run
                cycles = lines * costs.cut_cycles([costs.pieces(run, min(m, run))], costs.pieces(vectors, v), pixels)
                cycles *= UNPACKED if is_narrow and not packed else 1
                tiles.append((count * spec.groups * cycles, (min(m, run), v, packed)))

    def sizes(cycles: float, m: int, v: int, packed: bool) -> Iterator[tuple[WeightGradientParameters, int, float]]:
        lines = weights // max(1, min(channels, weights))
        for task_vectors, task_lines in product(costs.steps(v, vectors), costs.steps(1, lines)):
            parameters = WeightGradientParameters(m, v, task_lines, task_vectors, native=native, packed=packed)
            kernel = WeightGradientKernel(spec, parameters)
            copied, tasks = kernel.window, kernel.tasks
            rate = costs.COPY_BYTES_PER_CYCLE if copied else costs.STREAM_BYTES_PER_CYCLE
            if packed:
                copied, rate = copied + pixels * task_vectors * kernel.lanes, PACKED_BYTES_PER_CYCLE
            per_task = blocks.blocks_per_group * (copied or pixels * channels) * spec.dtype.itemsize
            if not packed or kernel.scratch_bytes <= costs.SCRATCH_LIMIT:
                yield parameters, tasks, cycles + tasks * (costs.TASK_OVERHEAD + per_task / rate)

    def variants(choice: WeightGradientParameters) -> Iterator[WeightGradientParameters]:
        if choice.packed:
            return
        is_copied = WeightGradientKernel(spec, choice).copied
        for padding in (costs.PADDING,) if is_copied else (0, costs.PADDING):
            copied = replace(choice, copy=True, pixel_padding=padding)
            if WeightGradientKernel(spec, copied).scratch_bytes <= costs.SCRATCH_LIMIT:
                yield copied

    return sized(cheapest_tiles(tiles), sizes, machine, variants)


def operands(spec: ConvolutionSpec) -> list[Argument]:
    """The arrays in the order of the argument block."""
    x, y = activations(spec)
    totals = Argument(spec.dtype, totals_of(spec).size, written=True)
    if spec.pairs:  # pairs of images, interleaved
        x, y = (elements // max(1, spec.images) * -(-spec.images // 2) for elements in (x, y))
    others = epilogue_arguments(spec.prologue, x, spec.channels)
    return [prepared(spec.dtype, x, spec.pairs), prepared(spec.dtype, y, spec.pairs), totals, *others]


TEMPLATE = Template(
    ConvolutionSpec, WeightGradientParameters, WeightGradientKernel, operands, candidates, words, ("weight_gradient",),
    coded,
)  # fmt: skip
