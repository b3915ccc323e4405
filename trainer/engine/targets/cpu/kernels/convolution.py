"""Convolutions and their input gradients (so also transposed convolutions): a direct batch-reduce product.

Numerics class "exact": each output element is one chain of fused multiply-adds from zero. Forward: (r, s, c)
ascending. Input gradient: pixels of dy ascending by row, then by column (so r and s descend), then k ascending. Taps
in the padding contribute zeros. Operands of bfloat16 are summed in float32, by pairs of c or of k (`products.py`), in
the class "tiles" by blocks of such pairs of one tap (`tile_registers.py`).

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: [input, packed weights, output, epilogue
operands…, prologue operands…], addresses; input and output are channels-last. The weights are packed by the kernel of
`pack_spec(spec)`.

A task copies the input rows that it needs into scratch, padding written as zeros (only where there is padding, or
where rows in place would crowd a few sets of the cache, or where a prologue works on it meanwhile: once for each
element and task, not for each tile), and computes its outputs tile by tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.cpu.kernels import copies, pack, tile_registers
from trainer.engine.targets.cpu.kernels.epilogue import OperandPointers
from trainer.engine.targets.cpu.kernels.expression import MEMORY
from trainer.engine.targets.cpu.kernels.geometry import RSCK, Axis, AxisPhase, ConvolutionSpec, Correlation, correlation
from trainer.engine.targets.cpu.kernels.products import products_of
from trainer.engine.targets.cpu.kernels.tile import Level, Run, Tile, cut_columns, lanes_of, run_tile
from trainer.engine.targets.cpu.kernels.writer import Integer, Writer


@dataclass(frozen=True, slots=True)
class ConvolutionParameters:
    """How it is computed; any values give the same bits.

    A tile is tile_rows x tile_columns pixels by tile_vectors vectors of channels. A task covers task_images images of
    task_rows x task_columns pixels and task_vectors vectors (multiples of the tile's, but for the columns), all vectors
    of block_columns pixels before the next ones (0: one after the other of all its pixels). `copy` brings the input
    into scratch even where nothing is padded, its pixels `pixel_padding` elements further apart. `native` multiplies
    pairs by AVX-512-BF16's instruction, `tiles` quads, and pairs that are `tiled`, by AMX.
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


@dataclass(frozen=True, slots=True)
class _Grid:
    """How many tasks there are along each dimension."""

    vectors: int
    groups: int
    images: int
    rows: int
    columns: int
    phases: int

    @classmethod
    def of(cls, form: Correlation, dtype: DType, parameters: ConvolutionParameters) -> _Grid:
        def parts(total: int, share: int) -> int:
            return -(-total // share)

        return cls(
            parts(-(-form.group_outputs // lanes_of(dtype)), parameters.task_vectors),
            form.groups,
            parts(form.images, parameters.task_images),
            parts(max(phase.count for phase in form.rows.phases), parameters.task_rows),
            parts(max(phase.count for phase in form.columns.phases), parameters.task_columns),
            len(form.phases),
        )


def tasks(spec: ConvolutionSpec, parameters: ConvolutionParameters) -> int:
    """How many tasks the kernel has."""
    grid = _Grid.of(correlation(spec), spec.dtype, parameters)
    return math.prod((grid.vectors, grid.groups, grid.images, grid.rows, grid.columns, grid.phases))


@dataclass(frozen=True, slots=True)
class _Input:
    """Where the micro-kernel finds the input: elements between pixels, rows and images, and the channels read of a
    pixel.
    """

    pixel: int
    row: int
    image: int
    copied: bool

    @classmethod
    def of(cls, spec: ConvolutionSpec, parameters: ConvolutionParameters) -> _Input:
        form = correlation(spec)
        if not (form.leaves_input or parameters.copy or spec.prologue.body):
            row = form.columns.extent * form.inputs
            return cls(form.inputs, row, form.rows.extent * row, False)
        pixel = form.group_inputs + parameters.pixel_padding
        row = pixel * _reach(form.columns, parameters.task_columns)
        return cls(pixel, row, row * _reach(form.rows, parameters.task_rows), True)


def _reach(axis: Axis, share: int) -> int:
    return max(axis.reach(min(share, phase.count), phase.taps) for phase in axis.phases)


def scratch_bytes(spec: ConvolutionSpec, parameters: ConvolutionParameters) -> int:
    """Scratch memory that a thread needs."""
    form = correlation(spec)
    source = _Input.of(spec, parameters)
    return source.image * min(parameters.task_images, form.images) * spec.dtype.itemsize if source.copied else 0


def words(spec: ConvolutionSpec) -> tuple[int, ...]:
    """The words after the addresses: the number of images, so that batches of any size may have the same code."""
    return (spec.images,) if correlation(spec).images > 1 else ()


@dataclass(frozen=True, slots=True)
class Bounds:
    """A task's part of one axis: outputs [start, stop) of a phase of `count`, and the phase's numbers."""

    start: Integer
    stop: Integer
    count: Integer
    taps: Integer
    input_start: Integer
    output_start: Integer


def render(spec: ConvolutionSpec, parameters: ConvolutionParameters, name: str) -> str:
    """The module of the kernel."""
    if not (spec.packed or (spec.direction == "forward" and spec.weight_order == RSCK and not spec.pairs)):
        raise ValueError(f"only the forward pass of float32 weights in the order {RSCK} can do without packing")
    form = correlation(spec)
    grid, source = _Grid.of(form, spec.dtype, parameters), _Input.of(spec, parameters)
    products = products_of(spec.pairs, parameters.native, spec.quads, tile_registers.checked(spec, parameters.tiles))
    w = Writer()
    configured = [tile_registers.begin(w)] if parameters.tiles else []
    element, lanes = MEMORY[spec.dtype.name], lanes_of(spec.dtype)
    x, weights, output = (w.argument(word) for word in range(3))
    operands = OperandPointers.load(w, spec.epilogue, 3)
    applied = OperandPointers.load(w, spec.prologue, 3 + len(spec.epilogue.operands))
    stored = MEMORY[spec.epilogue.output(spec.dtype).name]
    images: Integer = form.images
    if words(spec):
        images = w.argument(3 + len(spec.epilogue.operands) + len(spec.prologue.operands), "i64")
    shares, _ = w.divide(w.add(images, parameters.task_images - 1), parameters.task_images)

    extents = grid.groups, shares, grid.rows, grid.columns, grid.phases
    vector_task, group, image_task, row_task, column_task, phase = w.unravel("%task", *extents)
    rows, columns, depth_start = phase_bounds(
        w, form, (parameters.task_rows, parameters.task_columns), phase, row_task, column_task
    )
    first_image, last_image = w.share(image_task, parameters.task_images, images)
    vectors = form.packing.panels
    first_vector, last_vector = w.share(vector_task, parameters.task_vectors, vectors)

    first_input = w.multiply(group, form.group_inputs)
    x = w.pointer(x, first_input, element)
    if source.copied:
        applied = OperandPointers(spec.prologue, tuple(applied.at(w, first_input, first_input)))
        _copy_input(w, spec.dtype, form, source, x, (first_image, last_image), rows, columns, applied)
        x = "%scratch"
    else:
        top = w.add(rows.input_start, w.multiply(rows.start, form.rows.input_step))
        left = w.add(columns.input_start, w.multiply(columns.start, form.columns.input_step))
        place = w.add(w.multiply(first_image, source.image), w.multiply(top, source.row))
        x = w.pointer(x, w.add(place, w.multiply(left, source.pixel)), element)

    if spec.packed:
        depth_step, panel_size, group_size = lanes, form.packing.depth * lanes, form.packing.matrix_size
    else:
        depth_step, panel_size, group_size = spec.filters, lanes, form.group_outputs
    weights = w.pointer(weights, w.multiply(group, group_size), element)
    weights = w.pointer(weights, w.multiply(depth_start, depth_step), element)
    group_channel = w.multiply(group, form.group_outputs)
    levels, variables = _levels(w, form, source, rows.taps, columns.taps, depth_step, by_tap=parameters.tiles)
    trimmed = parameters.trim and _can_trim(form, source) and not (spec.quads or parameters.tiles)

    def tile(height: int, width: int, thick: int, active: int, left: int) -> Tile:
        places = [(i, j) for i in range(height) for j in range(width)]
        row_step = form.rows.output_step * form.columns.output_extent * form.outputs
        return Tile(
            spec.dtype,
            tuple(
                i * form.rows.input_step * source.row + j * form.columns.input_step * source.pixel for i, j in places
            ),
            tuple(i * row_step + j * form.columns.output_step * form.outputs for i, j in places),
            thick,
            panel_size,
            active,
            levels,
            parameters.unroll,
            b_masked=not spec.packed,
            epilogue=spec.epilogue,
            runs=_trimmed_runs(form, source, places, left, depth_step) if trimmed else (),
            products=products,
        )

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
        b_here = w.pointer(weights, w.multiply(panel.index, panel_size), element)
        place = w.multiply(w.subtract(image.index, first_image), source.image)
        down = w.multiply(w.subtract(row.index, rows.start), form.rows.input_step * source.row)
        right = w.multiply(w.subtract(column.index, columns.start), form.columns.input_step * source.pixel)
        a_here = w.pointer(x, w.add(w.add(place, down), right), element)
        pixel = output_pixel(w, form, (rows, columns), image.index, row.index, column.index)
        channel = w.add(group_channel, w.multiply(panel.index, lanes))
        offset = w.add(w.multiply(pixel, form.outputs), channel)
        pointers = (a_here, b_here, w.pointer(output, offset, stored), *operands.at(w, offset, channel))
        for thick, active in cut_columns(w, panel.index, form.group_outputs, lanes, parameters.tile_vectors):
            for height, _ in w.cut(row.index, rows.count, parameters.tile_rows, row_counts):
                a_tile, b_tile, *others = pointers
                values = dict(variables)
                if form.rows.leaves_input:
                    top = w.add(rows.input_start, w.multiply(row.index, form.rows.input_step))
                    first, values["%row_taps"] = taps_inside(w, form.rows, rows.taps, top, height)
                    a_tile = w.pointer(a_tile, w.multiply(first, form.rows.tap_step * source.row), element)
                    b_tile = w.pointer(b_tile, w.multiply(first, values["%line_step"]), element)
                for width, left in _widths(w, form, parameters, columns, column.index, trimmed):
                    shape = tile(height, width, thick, active, left)
                    at = f"_at_{left}" if trimmed else ""
                    function = f"tile_{height}x{width}x{thick}_{shape.lanes}{at}"
                    run_tile(w, function, shape, (a_tile, b_tile, *others, *configured), values)
    if configured:
        tile_registers.end(w)
    return w.module(name, scratch=True)


def _widths(
    w: Writer,
    form: Correlation,
    parameters: ConvolutionParameters,
    columns: Bounds,
    column: Integer,
    trimmed: bool,
) -> Iterator[tuple[int, int]]:
    """Each width that the tile at `column` may have, inside the branch where it has it, and its column where that
    counts.
    """
    counts = [phase.count for phase in form.columns.phases]
    share = parameters.task_columns
    if share % parameters.tile_columns and share < counts[0]:
        shares = sorted({share, counts[0] % share or share})
        for width, _ in w.cut(column, columns.stop, parameters.tile_columns, shares):
            yield width, 0
    elif trimmed:
        for left in w.places(column, range(0, counts[0], parameters.tile_columns)):
            yield min(parameters.tile_columns, counts[0] - left), left
    else:
        for width, _ in w.cut(column, columns.count, parameters.tile_columns, counts):
            yield width, 0


def phase_bounds(
    w: Writer,
    form: Correlation,
    shares: tuple[int, int],
    phase: Integer,
    row_task: Integer,
    column_task: Integer,
) -> tuple[Bounds, Bounds, Integer]:
    """The rows and columns of a task that covers `shares` of them, and where its phase's weights begin; from a constant
    table where there are phases.
    """

    def fields(number: int) -> list[int]:
        item = form.phases[number]
        axes = [(a.count, a.taps, a.input_start, a.output_start) for a in (item.rows, item.columns)]
        return [*axes[0], *axes[1], item.depth_start]

    values: list[Integer] = [*fields(0)]
    if len(form.phases) > 1:
        width = len(values)
        table = w.table("phases", [word for number in range(len(form.phases)) for word in fields(number)])
        line = w.pointer(table, w.multiply(phase, width), "i64")
        values = [w.value(f"load i64, ptr {w.pointer(line, field, 'i64')}") for field in range(width)]

    def bounds(part: Integer, share: int, numbers: list[Integer]) -> Bounds:
        count, taps, input_start, output_start = numbers
        start = w.multiply(part, share)
        return Bounds(start, w.minimum(w.add(start, share), count), count, taps, input_start, output_start)

    rows = bounds(row_task, shares[0], values[:4])
    columns = bounds(column_task, shares[1], values[4:8])
    return rows, columns, values[8]


def _levels(
    w: Writer,
    form: Correlation,
    source: _Input,
    row_taps: Integer,
    column_taps: Integer,
    depth_step: int,
    *,
    by_tap: bool,
) -> tuple[tuple[Level, ...], dict[str, Integer]]:
    """The reduction's levels, and the values of their variables: rows of taps, then taps and channels, in one where
    dense unless `by_tap`. How many rows of taps there are varies where some are in the padding.
    """
    inputs = form.group_inputs
    line = w.multiply(column_taps, inputs)
    names = {
        "%row_taps": row_taps,
        "%column_taps": column_taps,
        "%line": line,
        "%line_step": w.multiply(line, depth_step),
    }

    def known(name: str) -> Integer:
        value = names[name]
        return value if isinstance(value, int) else name

    rows = "%row_taps" if form.rows.leaves_input else known("%row_taps")
    levels = [Level(rows, form.rows.tap_step * source.row, known("%line_step"))]
    if not by_tap and (_dense(form, source) or column_taps == 1):
        levels.append(Level(known("%line"), 1, depth_step))
    else:
        levels.append(Level(known("%column_taps"), form.columns.tap_step * source.pixel, inputs * depth_step))
        levels.append(Level(inputs, 1, depth_step))
    return tuple(levels), names


def _dense(form: Correlation, source: _Input) -> bool:
    """Whether the inputs of neighbouring taps follow one another."""
    return form.columns.tap_step * source.pixel == form.group_inputs


def _can_trim(form: Correlation, source: _Input) -> bool:
    return len(form.phases) == 1 and form.columns.leaves_input and _dense(form, source)


def taps_inside(w: Writer, axis: Axis, taps: Integer, start: Integer, outputs: int = 1) -> tuple[Integer, Integer]:
    """The first of `taps` that meets the image for some of neighbouring outputs, of which the first one's tap 0 reads
    `start`, and how many do.
    """
    above = w.maximum(w.subtract(0, w.add(start, (outputs - 1) * axis.input_step)), 0)
    first, _ = w.divide(w.add(above, axis.tap_step - 1), axis.tap_step)
    last, _ = w.divide(w.maximum(w.add(w.subtract(axis.extent - 1, start), axis.tap_step), 0), axis.tap_step)
    return first, w.subtract(w.minimum(last, taps), first)


def output_pixel(
    w: Writer, form: Correlation, part: tuple[Bounds, Bounds] | tuple[AxisPhase, AxisPhase], image: Integer,
    row: Integer, column: Integer,
) -> Integer:  # fmt: skip
    """The number, among those of all images, of the pixel (row, column) of a phase."""
    y = w.add(part[0].output_start, w.multiply(row, form.rows.output_step))
    y = w.add(w.multiply(image, form.rows.output_extent), y)
    z = w.add(part[1].output_start, w.multiply(column, form.columns.output_step))
    return w.add(w.multiply(y, form.columns.output_extent), z)


def _trimmed_runs(
    form: Correlation, source: _Input, places: list[tuple[int, int]], left: int, depth_step: int
) -> tuple[Run, ...]:
    """For each tap the pixels of a tile at column `left` that it meets inside the image; neighbouring alike taps in
    one.
    """
    axis, phase, inputs = form.columns, form.columns.phases[0], form.group_inputs
    runs: list[Run] = []
    for tap in range(phase.taps):
        first = phase.input_start + left * axis.input_step + tap * axis.tap_step
        rows = tuple(n for n, (_, j) in enumerate(places) if 0 <= first + j * axis.input_step < axis.extent)
        if runs and runs[-1].rows == rows:
            runs[-1] = replace(runs[-1], extent=runs[-1].extent + inputs)  # type: ignore[operator]
        else:
            runs.append(Run(inputs, tap * axis.tap_step * source.pixel, tap * inputs * depth_step, rows))
    return tuple(run for run in runs if run.rows)


def _copy_input(
    w: Writer,
    dtype: DType,
    form: Correlation,
    source: _Input,
    x: str,
    images: tuple[Integer, Integer],
    rows: Bounds,
    columns: Bounds,
    applied: OperandPointers,
) -> None:
    """Bring the input pixels of a task into scratch, zeros where it reads beyond the image."""

    def reach(axis: Axis, part: Bounds) -> tuple[Integer, Integer]:
        """The first input, and how many."""
        steps = w.multiply(w.subtract(w.subtract(part.stop, part.start), 1), axis.input_step)
        taps = w.multiply(w.subtract(part.taps, 1), axis.tap_step)
        first = w.add(part.input_start, w.multiply(part.start, axis.input_step))
        return first, w.add(w.add(steps, taps), 1)

    spatial = form.rows.extent, form.columns.extent
    window = copies.Window(dtype, spatial, form.inputs, form.group_inputs, source.pixel, source.row, source.image)
    copies.copy_window(w, window, x, images, reach(form.rows, rows), reach(form.columns, columns), applied)
