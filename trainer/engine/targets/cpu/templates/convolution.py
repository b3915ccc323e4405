"""Convolutions and their input gradients (so also transposed convolutions), as direct batch-reduce products.

Numerics class "exact": each output element is one chain of fused multiply-adds from zero. Forward: (r, s, c)
ascending. Input gradient: pixels of dy ascending by row, then by column (so r and s descend), then k ascending. Taps
in the padding contribute zeros. Operands of bfloat16 are summed in float32, in pairs along c or k (`products.py`); in
the class "tiles", in blocks of such pairs of one tap (`tile_registers.py`).

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: [input, packed weights, output, epilogue
operands…, prologue operands…], addresses; input and output are channels-last. The weights are packed by the kernel of
`pack_spec(spec)`.

A task computes its outputs tile by tile. It first copies the input rows that it needs into scratch, with zeros as
padding, if the input is padded, if rows in place would share few sets of the cache, or if there is a prologue, which is
then applied once for each element and task, not for each tile.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import product

from trainer.engine.graph.dtypes import bfloat16
from trainer.engine.targets.cpu.costs import cycles as costs
from trainer.engine.targets.cpu.costs import tile_shapes
from trainer.engine.targets.cpu.costs.ranking import cheapest_tiles, sized
from trainer.engine.targets.cpu.kernels import copies, pack, tile_registers
from trainer.engine.targets.cpu.kernels.epilogue import OperandPointers
from trainer.engine.targets.cpu.kernels.foresight import Foresight, tile_number
from trainer.engine.targets.cpu.kernels.geometry import RSCK, Axis, ConvolutionSpec, Correlation, correlation
from trainer.engine.targets.cpu.kernels.products import products_of
from trainer.engine.targets.cpu.kernels.task_bounds import (
    Bounds,
    inputs_of,
    output_pixel,
    phase_bounds,
    span,
    taps_inside,
)
from trainer.engine.targets.cpu.kernels.tile import cut_columns, run_tile
from trainer.engine.targets.cpu.kernels.tile_shape import Level, LevelPart, Tile
from trainer.engine.targets.cpu.machine import Machine
from trainer.engine.targets.cpu.template import (
    Argument,
    Template,
    TemplateKernel,
    activations,
    epilogue_arguments,
    prepared,
)
from trainer.engine.targets.ir.expression import MEMORY
from trainer.engine.targets.ir.writer import Integer


@dataclass(frozen=True, slots=True)
class ConvolutionParameters:
    """Parameters of the kernel; any values give the same bits.

    A tile is tile_rows x tile_columns pixels by tile_vectors vectors of channels. A task covers task_images images of
    task_rows x task_columns pixels and task_vectors vectors (multiples of the tile's, except for the columns). It
    computes all vectors of block_columns pixels before the next pixels (0: a tile's vectors of all pixels before the
    next vectors). `copy` copies the input into scratch even without padding, its pixels `pixel_padding` elements
    further apart. `native` multiplies pairs with AVX-512-BF16; `tiles`: quads, and pairs that are `tiled`, with AMX.
    """

    tile_rows: int
    tile_columns: int
    tile_vectors: int
    task_images: int
    task_rows: int
    task_columns: int
    task_vectors: int
    unroll: int = 1
    copy: bool = False
    pixel_padding: int = 0
    trim: bool = False
    native: bool = False
    tiles: bool = False
    block_columns: int = 0


def pack_spec(spec: ConvolutionSpec) -> pack.PackSpec:
    """The kernel that packs the weights for this direction."""
    return correlation(spec).packing


def words(spec: ConvolutionSpec) -> tuple[int, ...]:
    """The words after the addresses: the number of images, so that batches of different sizes share the code."""
    return (spec.images,) if correlation(spec).images > 1 else ()


def coded(spec: ConvolutionSpec) -> ConvolutionSpec:
    """The specification with two images if their number is a word, otherwise unchanged."""
    return replace(spec, images=2) if words(spec) else spec


class ConvolutionKernel(TemplateKernel[ConvolutionSpec, ConvolutionParameters]):
    """Tiles of pixels by vectors of channels; `pixel`, `row` and `image` are the strides of the input, in elements."""

    def __init__(
        self, spec: ConvolutionSpec, parameters: ConvolutionParameters, form: Correlation | None = None
    ) -> None:
        super().__init__(spec, parameters)
        self.form = form = form or correlation(spec)
        self.copied = form.leaves_input or parameters.copy or bool(spec.prologue.body)
        if self.copied:
            self.pixel = form.group_inputs + parameters.pixel_padding
            self.row = self.pixel * span(form.columns, parameters.task_columns)
            self.image = self.row * span(form.rows, parameters.task_rows)
        else:
            self.pixel, self.row = form.inputs, form.columns.extent * form.inputs
            self.image = form.rows.extent * self.row
        if spec.packed:
            self.depth_step, self.panel_size = self.lanes, form.packing.depth * self.lanes
        else:
            self.depth_step, self.panel_size = spec.filters, self.lanes

    @property
    def grid(self) -> tuple[int, ...]:
        """Tasks along vectors, groups, images, rows, columns and phases."""
        form, parameters = self.form, self.parameters
        return (
            -(-form.packing.panels // parameters.task_vectors),
            form.groups,
            -(-form.images // parameters.task_images),
            -(-form.rows.most_outputs // parameters.task_rows),
            -(-form.columns.most_outputs // parameters.task_columns),
            len(form.phases),
        )

    @property
    def scratch_bytes(self) -> int:
        images = min(self.parameters.task_images, self.form.images)
        return self.image * images * self.dtype.itemsize if self.copied else 0

    def write(self) -> None:
        spec, parameters, form, w, lanes = self.spec, self.parameters, self.form, self.w, self.lanes
        if not (spec.packed or (spec.direction == "forward" and spec.weight_order == RSCK and not spec.pairs)):
            raise ValueError(f"only the forward pass of float32 weights in the order {RSCK} can do without packing")
        products = products_of(spec, parameters.native, parameters.tiles)
        configured = [tile_registers.begin(w)] if parameters.tiles else []
        at = self.memory.at
        x, weights, output = (w.argument(word) for word in range(3))
        operands = OperandPointers.load(w, spec.epilogue, 3)
        applied = OperandPointers.load(w, spec.prologue, 3 + len(spec.epilogue.operands))
        stored = MEMORY[spec.epilogue.output(spec.dtype).name]
        images: Integer = form.images
        if words(spec):
            images = w.argument(3 + len(spec.epilogue.operands) + len(spec.prologue.operands), "i64")
        shares, _ = w.divide(w.add(images, parameters.task_images - 1), parameters.task_images)
        _, groups, _, *others = self.grid
        vector_task, group, image_task, row_task, column_task, phase = w.unravel("%task", groups, shares, *others)
        sizes = parameters.task_rows, parameters.task_columns
        rows, columns, depth_start = phase_bounds(w, form, sizes, phase, row_task, column_task)
        first_image, last_image = w.share(image_task, parameters.task_images, images)
        first_vector, last_vector = w.share(vector_task, parameters.task_vectors, form.packing.panels)

        first_input = w.multiply(group, form.group_inputs)
        x = at(x, first_input)
        window = self.next_window(x, shares) if self.foresight else ""
        if self.copied:
            applied = OperandPointers(spec.prologue, tuple(applied.at(w, first_input, first_input)))
            reached = inputs_of(w, form.rows, rows), inputs_of(w, form.columns, columns)
            copies.copy_window(w, self.window, x, (first_image, last_image), *reached, applied)
            x = "%scratch"
        else:
            top = w.add(rows.input_start, w.multiply(rows.start, form.rows.input_step))
            left = w.add(columns.input_start, w.multiply(columns.start, form.columns.input_step))
            place = w.add(w.multiply(first_image, self.image), w.multiply(top, self.row))
            x = at(x, w.add(place, w.multiply(left, self.pixel)))

        weights = at(weights, w.multiply(group, form.packing.matrix_size if spec.packed else form.group_outputs))
        weights = at(weights, w.multiply(depth_start, self.depth_step))
        group_channel = w.multiply(group, form.group_outputs)
        levels, variables = self.levels(rows.taps, columns.taps)
        can_trim = len(form.phases) == 1 and form.columns.leaves_input and self.is_dense
        trimmed = parameters.trim and can_trim and not (spec.quads or parameters.tiles)

        def tile(height: int, width: int, thick: int, active: int, left: int) -> Tile:
            places = [(i, j) for i in range(height) for j in range(width)]
            down, right = form.rows.input_step * self.row, form.columns.input_step * self.pixel
            line = form.rows.output_step * form.columns.output_extent * form.outputs
            return Tile(
                spec.dtype, tuple(i * down + j * right for i, j in places),
                tuple(i * line + j * form.columns.output_step * form.outputs for i, j in places),
                thick, self.panel_size, active, levels, parameters.unroll, b_masked=not spec.packed,
                epilogue=spec.epilogue, runs=self.trimmed_runs(places, left) if trimmed else (), products=products,
                prefetched=True,
            )  # fmt: skip

        row_counts = [phase.count for phase in form.rows.phases]
        part = parameters.block_columns
        with (
            w.loop(columns.start, columns.stop, part) if part else nullcontext() as block,
            w.loop(first_vector, last_vector, parameters.tile_vectors) as panel,
            w.loop(first_image, last_image) as image,
            w.loop(rows.start, rows.stop, parameters.tile_rows) as row,
            w.loop(
                block.index if block else columns.start,
                w.minimum(w.add(block.index, part), columns.stop) if block else columns.stop,
                parameters.tile_columns,
            ) as column,
        ):
            b_here = at(weights, w.multiply(panel.index, self.panel_size))
            place = w.multiply(w.subtract(image.index, first_image), self.image)
            down = w.multiply(w.subtract(row.index, rows.start), form.rows.input_step * self.row)
            right = w.multiply(w.subtract(column.index, columns.start), form.columns.input_step * self.pixel)
            a_here = at(x, w.add(w.add(place, down), right))
            pixel = output_pixel(w, form, (rows, columns), image.index, row.index, column.index)
            channel = w.add(group_channel, w.multiply(panel.index, lanes))
            offset = w.add(w.multiply(pixel, form.outputs), channel)
            result = (w.pointer(output, offset, stored), *operands.at(w, offset, channel), *configured)
            if self.foresight:
                tiles = (panel, first_vector), (image, first_image), (row, rows.start), (column, columns.start)
                number = tile_number(w, [w.subtract(loop.index, first) for loop, first in tiles], self.tiles)
                ahead = at(window, self.foresight.part(w, number))
            for thick, active in cut_columns(w, panel.index, form.group_outputs, lanes, parameters.tile_vectors):
                for height, _ in w.cut(row.index, rows.count, parameters.tile_rows, row_counts):
                    a_tile, b_tile, values = a_here, b_here, dict(variables)
                    if form.rows.leaves_input:
                        top = w.add(rows.input_start, w.multiply(row.index, form.rows.input_step))
                        first, values["%row_taps"] = taps_inside(w, form.rows, rows.taps, top, height)
                        a_tile = at(a_tile, w.multiply(first, form.rows.tap_step * self.row))
                        b_tile = at(b_tile, w.multiply(first, values["%line_step"]))
                    for width, left in self.widths(columns, column.index, trimmed):
                        shape = tile(height, width, thick, active, left)
                        function = f"tile_{height}x{width}x{thick}_{active}{f'_at_{left}' if trimmed else ''}"
                        asks = [ahead if self.foresight else at(a_tile, width * self.pixel)] if shape.asks else []
                        run_tile(w, function, shape, (a_tile, b_tile, *result, *asks), values)
        if configured:
            tile_registers.end(w)

    @property
    def window(self) -> copies.Window:
        """The window of the input that a task copies."""
        form = self.form
        spatial = form.rows.extent, form.columns.extent
        return copies.Window(self.dtype, spatial, form.inputs, form.group_inputs, self.pixel, self.row, self.image)

    @property
    def tiles(self) -> tuple[tuple[int, int], ...]:
        """(extent of a tile, number of tiles in a task) along vectors, images, rows and columns."""
        form, parameters = self.form, self.parameters
        axes = (
            (parameters.tile_vectors, parameters.task_vectors, form.packing.panels),
            (1, parameters.task_images, form.images),
            (parameters.tile_rows, parameters.task_rows, form.rows.most_outputs),
            (parameters.tile_columns, parameters.task_columns, form.columns.most_outputs),
        )
        return tuple((tile, -(-min(task, whole) // tile)) for tile, task, whole in axes)

    @property
    def foresight(self) -> Foresight | None:
        """How tiles prefetch the window that the next task copies: threads claim several tasks in a row."""
        form, parameters = self.form, self.parameters
        if not self.copied or form.groups > 1 or parameters.tiles:
            return None
        images, *_ = counts = [count for _, count in self.tiles][1:]
        rows = images * min(span(form.rows, parameters.task_rows), form.rows.extent)
        width = min(span(form.columns, parameters.task_columns), form.columns.extent) * form.inputs
        steps = max(phase.rows.taps * phase.columns.taps for phase in form.phases) * form.inputs
        tiles = self.tiles[0][1] * math.prod(counts)
        return Foresight.of(rows, width, form.columns.extent * form.inputs, tiles, steps)

    @property
    def ahead_step(self) -> int:
        """Elements that a step of a sum prefetches: the next tile's if tiles of one row read pixels in place.

        1x1 kernels that read from memory: 64 to 256 channels are a tenth to two fifths faster on Zen 4.
        """
        if self.foresight:
            return self.foresight.step
        follows = self.parameters.tile_rows == self.form.columns.input_step == self.form.groups == 1
        if self.copied or self.parameters.tiles or not follows:
            return 0
        return -(-self.parameters.tile_columns // self.lanes) * self.lanes

    def next_window(self, x: str, images: Integer) -> str:
        """The start of the window that the next task copies."""
        form, parameters, w = self.form, self.parameters, self.w
        _, groups, _, *others = self.grid
        _, _, image_task, row_task, column_task, phase = w.unravel(w.add("%task", 1), groups, images, *others)
        sizes = parameters.task_rows, parameters.task_columns
        rows, columns, _ = phase_bounds(w, form, sizes, phase, row_task, column_task)
        axes = (form.rows, rows), (form.columns, columns)
        top, left = (w.maximum(inputs_of(w, axis, part)[0], 0) for axis, part in axes)
        row = w.add(w.multiply(image_task, parameters.task_images * form.rows.extent), top)
        return self.memory.at(x, w.multiply(w.add(w.multiply(row, form.columns.extent), left), form.inputs))

    @property
    def is_dense(self) -> bool:
        """Whether the inputs of neighboring taps are contiguous."""
        return self.form.columns.tap_step * self.pixel == self.form.group_inputs

    def widths(self, columns: Bounds, column: Integer, trimmed: bool) -> Iterator[tuple[int, int]]:
        """Yields each possible width of the tile at `column` inside its branch, and the tile's column if `trimmed`."""
        counts = [phase.count for phase in self.form.columns.phases]
        share, tile = self.parameters.task_columns, self.parameters.tile_columns
        if share % tile and share < counts[0]:
            for width, _ in self.w.cut(column, columns.stop, tile, sorted({share, counts[0] % share or share})):
                yield width, 0
        elif trimmed:
            for left in self.w.places(column, range(0, counts[0], tile)):
                yield min(tile, counts[0] - left), left
        else:
            for width, _ in self.w.cut(column, columns.count, tile, counts):
                yield width, 0

    def levels(self, row_taps: Integer, column_taps: Integer) -> tuple[tuple[Level, ...], dict[str, Integer]]:
        """The levels of the reduction and their variables: rows of taps, then taps and channels, one level if dense."""
        form, inputs = self.form, self.form.group_inputs
        line = self.w.multiply(column_taps, inputs)
        line_step = self.w.multiply(line, self.depth_step)
        names = {"%row_taps": row_taps, "%column_taps": column_taps, "%line": line, "%line_step": line_step}
        known = {name: value if isinstance(value, int) else name for name, value in names.items()}
        rows = "%row_taps" if form.rows.leaves_input else known["%row_taps"]
        ahead = self.ahead_step
        taps = max(phase.columns.taps for phase in form.phases)
        around = (taps * inputs * ahead, inputs * ahead) if self.copied else (0, 0)
        levels = [Level(rows, form.rows.tap_step * self.row, known["%line_step"], around[0])]
        if not self.parameters.tiles and (self.is_dense or column_taps == 1):
            levels.append(Level(known["%line"], 1, self.depth_step, ahead))
        else:
            step = form.columns.tap_step * self.pixel
            levels.append(Level(known["%column_taps"], step, inputs * self.depth_step, around[1]))
            levels.append(Level(inputs, 1, self.depth_step, ahead))
        return tuple(levels), names

    def trimmed_runs(self, places: list[tuple[int, int]], left: int) -> tuple[LevelPart, ...]:
        """For each tap, the pixels of a tile at column `left` that read inside the image; equal neighbors as one."""
        axis, phase, inputs = self.form.columns, self.form.columns.phases[0], self.form.group_inputs
        runs: list[LevelPart] = []
        for tap in range(phase.taps):
            first = phase.input_start + left * axis.input_step + tap * axis.tap_step
            rows = tuple(n for n, (_, j) in enumerate(places) if 0 <= first + j * axis.input_step < axis.extent)
            if runs and runs[-1].rows == rows:
                runs[-1] = replace(runs[-1], extent=runs[-1].extent + inputs)  # type: ignore[operator]
            else:
                a_shift, b_shift = tap * axis.tap_step * self.pixel, tap * inputs * self.depth_step
                runs.append(LevelPart(inputs, a_shift, b_shift, rows))
        return tuple(run for run in runs if run.rows)


TRIMMED_CHANNELS = 16
"""Minimum channels for skipping taps left and right of narrow images; with fewer, the loops are too short."""

TRIMMED_COLUMNS = 16
"""Maximum number of columns of a narrow image, on narrow machines. Zen 3: 7x7 of 512 channels 79 and 88 % of the peak,
14x14 of 256 90 and 96.
"""


@functools.lru_cache(maxsize=4096)  # convolutions with statistics use the tiles of those without
def candidates(spec: ConvolutionSpec, machine: Machine) -> tuple[ConvolutionParameters, ...]:
    """Ranks tiles of pixels and channels by their cycles, and tasks by the data that they copy and read again."""
    native, crowded = costs.instructions(spec, machine)
    form = correlation(spec)
    vectors, itemsize = form.packing.panels, spec.dtype.itemsize
    height, width = form.rows.most_outputs, form.columns.most_outputs
    depth = form.packing.depth / len(form.phases)
    pixels = form.images * form.groups * len(form.phases)
    joined = len(form.phases) if machine.is_narrow else 1  # as if one phase had all of the depth: it has most of it
    in_place, distance = not (form.leaves_input or spec.prologue.body), form.columns.input_step * form.inputs * itemsize
    by_tiles = costs.uses_tile_registers(spec, machine)
    rows_inside = functools.cache(functools.partial(_rows_inside, form.rows))
    tiles = []
    for v in range(1, min(vectors, 4) + 1):
        for tile_columns in tile_shapes.heights(width) if by_tiles else range(1, min(width, machine.vectors) + 1):
            for tile_rows in range(1, (min(height, 4) if by_tiles or tile_columns < width else height) + 1):
                if not (by_tiles or costs.fits_registers(tile_rows * tile_columns, v, machine, widened=crowded)):
                    continue
                cuts = [costs.pieces(height, tile_rows), costs.pieces(width, tile_columns)]
                met = rows_inside(tile_rows)
                if by_tiles:
                    runs = met * depth / form.group_inputs
                    cycles = tile_shapes.cycles(cuts, costs.pieces(vectors, v), form.group_inputs, runs)
                else:
                    cycles = costs.cut_cycles(cuts, costs.pieces(vectors, v), joined * depth * met, machine) / joined
                    if in_place:
                        cycles *= costs.crowding(tile_rows * tile_columns, distance, machine)
                tiles.append((pixels * cycles, (tile_rows, tile_columns, v)))
    with_taps = sum(phase.rows.taps * phase.columns.taps > 0 for phase in form.phases)
    reading = with_taps / len(form.phases) if machine.is_narrow else 1
    is_far = machine.is_narrow and in_place and form.inputs * itemsize % costs.WAY_BYTES == 0
    is_copied = is_far and form.columns.input_step == len(form.phases) == form.groups == 1
    narrow = len(form.phases) == 1 and spec.window[1] > 1 and form.group_inputs >= TRIMMED_CHANNELS and not by_tiles

    def sizes(
        cycles: float, tile_rows: int, tile_columns: int, v: int
    ) -> Iterator[tuple[ConvolutionParameters, int, float]]:
        areas = _areas(height, width, form.images, tile_rows, tile_columns)
        trim = narrow and width <= (TRIMMED_COLUMNS if machine.is_narrow else 2 * tile_columns)
        for task_vectors, (task_rows, task_columns, task_images) in product(costs.steps(v, vectors), areas):
            parameters = ConvolutionParameters(
                tile_rows, tile_columns, v, task_images, task_rows, task_columns, task_vectors,
                costs.unrolled(machine), is_copied, costs.PADDING if is_copied else 0, trim, native, by_tiles,
            )  # fmt: skip
            kernel = ConvolutionKernel(spec, parameters, form)
            scratch, tasks = kernel.scratch_bytes, kernel.tasks
            if scratch > costs.SCRATCH_LIMIT:
                continue
            weights = task_vectors * depth * 64
            outputs = min(task_rows, height) * min(task_columns, width) * task_images
            window = scratch or outputs * form.group_inputs * itemsize
            again = weights * task_images if weights + window > machine.level2_bytes else 0
            total = cycles + tasks * (costs.TASK_OVERHEAD + scratch / costs.COPY_BYTES_PER_CYCLE)
            yield parameters, tasks, total + tasks * (reading * window + again) / costs.STREAM_BYTES_PER_CYCLE

    def variants(choice: ConvolutionParameters) -> Iterator[ConvolutionParameters]:
        if form.group_inputs > 1 and not choice.tiles:
            yield replace(choice, unroll=2)
        padded = replace(choice, copy=True, pixel_padding=costs.PADDING)
        if ConvolutionKernel(spec, padded).scratch_bytes <= costs.SCRATCH_LIMIT:
            yield padded
        if choice.trim:
            yield replace(choice, trim=False)

    return sized(cheapest_tiles(tiles), sizes, machine, variants)


def _rows_inside(axis: Axis, tile_rows: int) -> float:
    """The fraction of rows of taps that tiles of `tile_rows` rows compute: rows entirely in the padding are skipped."""
    if len(axis.phases) > 1 or not axis.leaves_input:
        return 1.0
    phase, met = axis.phases[0], 0
    starts = range(0, phase.count, tile_rows)
    for row in starts:
        last = min(row + tile_rows, phase.count) - 1
        top, bottom = (phase.input_start + edge * axis.input_step for edge in (row, last))
        met += sum(bottom + t * axis.tap_step >= 0 and top + t * axis.tap_step < axis.extent for t in range(phase.taps))
    return met / (phase.taps * len(starts))


def _areas(height: int, width: int, images: int, rows: int, columns: int) -> list[tuple[int, int, int]]:
    """(rows, columns, images) that a task may cover: parts of an image, or several whole ones.

    Parts narrower than the image read more of it twice: they are for single rows and for images too wide for scratch.
    """
    all_rows, all_columns = costs.steps(rows, height), costs.steps(columns, width)
    parts = [(part, all_columns[-1], 1) for part in all_rows]
    parts += [(part, other, 1) for part in (all_rows if height == 1 else all_rows[:2]) for other in all_columns[:-1]]
    return parts + [(all_rows[-1], all_columns[-1], count) for count in costs.steps(1, images)[1:]]


def operands(spec: ConvolutionSpec) -> list[Argument]:
    """The arrays in the order of the argument block."""
    x, y = activations(spec)
    source, target = (x, y) if spec.direction == "forward" else (y, x)
    return [
        Argument(bfloat16 if spec.pairs else spec.dtype, source),
        prepared(spec.dtype, pack_spec(spec).size if spec.packed else spec.weights, spec.pairs),
        Argument(spec.epilogue.output(spec.dtype), target, written=True),
        *epilogue_arguments(spec.epilogue, target, spec.filters if spec.direction == "forward" else spec.channels),
        *epilogue_arguments(spec.prologue, source, spec.channels if spec.direction == "forward" else spec.filters),
    ]


TEMPLATE = Template(
    ConvolutionSpec, ConvolutionParameters, ConvolutionKernel, operands, candidates, words,
    ("forward", "input_gradient"), coded,
)  # fmt: skip
