"""Tiles and tasks of convolutions and of their data gradients."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace

from trainer.engine.targets.cpu.costs import tile_shapes
from trainer.engine.targets.cpu.costs.cycles import (
    COPY_BYTES_PER_CYCLE,
    PADDING,
    SCRATCH_LIMIT,
    STREAM_BYTES_PER_CYCLE,
    TASK_OVERHEAD,
    balance,
    cut_cycles,
    fits_registers,
    pieces,
    steps,
)
from trainer.engine.targets.cpu.costs.instructions import instructions, uses_tile_registers
from trainer.engine.targets.cpu.costs.ranking import best, cheapest_sizes, cheapest_tiles
from trainer.engine.targets.cpu.kernels import convolution
from trainer.engine.targets.cpu.kernels.convolution import ConvolutionParameters
from trainer.engine.targets.cpu.kernels.geometry import Axis, ConvolutionSpec, correlation
from trainer.engine.targets.cpu.machine import Machine

TRIMMED_CHANNELS = 16
"""Taps left and right of narrow images are left out from so many channels on; fewer make the loops too short."""

PAGE_BYTES, WAYS, CROWDED = 4096, 12, 1.06
"""Pixels so many bytes apart, or a multiple, share a set of the first-level cache: of as many as the set has ways some
are read again from the second level (8x1024x14x14 to 512 filters: tiles of 14 pixels 4.2 to 5.6 ms, of 11 3.9 to 4.4).
"""


@functools.lru_cache(maxsize=4096)  # those with statistics begin with the tiles of those without
def convolution_parameters(spec: ConvolutionSpec, machine: Machine) -> tuple[ConvolutionParameters, ...]:
    """Tiles of pixels and channels by their cycles, tasks by what they copy and read again."""
    native, crowded = instructions(spec, machine)
    form = correlation(spec)
    vectors, itemsize = form.packing.panels, spec.dtype.itemsize
    heights, widths = ([phase.count for phase in axis.phases] for axis in (form.rows, form.columns))
    height, width = max(heights), max(widths)
    depth = form.packing.depth / len(form.phases)
    pixels = form.images * form.groups * len(form.phases)
    in_place, apart = not (form.leaves_input or spec.prologue.body), form.columns.input_step * form.inputs * itemsize
    by_tiles = uses_tile_registers(spec, machine)
    tiles = []
    for v in range(1, min(vectors, 4) + 1):
        for tile_columns in tile_shapes.heights(width) if by_tiles else range(1, min(width, machine.vectors) + 1):
            for tile_rows in range(1, (min(height, 4) if by_tiles or tile_columns < width else height) + 1):
                if not (by_tiles or fits_registers(tile_rows * tile_columns, v, machine, widened=crowded)):
                    continue
                cuts = [pieces(height, tile_rows), pieces(width, tile_columns)]
                met = _rows_inside(form.rows, tile_rows)
                if by_tiles:
                    runs = met * depth / form.group_inputs
                    cycles = tile_shapes.cycles(cuts, pieces(vectors, v), form.group_inputs, runs)
                else:
                    cycles = cut_cycles(cuts, pieces(vectors, v), depth * met)
                    if in_place and apart % PAGE_BYTES == 0 and tile_rows * tile_columns >= WAYS:
                        cycles *= CROWDED
                tiles.append((pixels * cycles, (tile_rows, tile_columns, v)))
    options: list[tuple[float, ConvolutionParameters]] = []
    for cycles, (tile_rows, tile_columns, v) in cheapest_tiles(tiles):
        sizes = []
        for task_vectors in steps(v, vectors):
            for task_rows, task_columns, task_images in _areas(height, width, form.images, tile_rows, tile_columns):
                narrow = len(form.phases) == 1 and spec.window[1] > 1 and width <= 2 * tile_columns
                trim = narrow and form.group_inputs >= TRIMMED_CHANNELS and not by_tiles
                parameters = ConvolutionParameters(
                    tile_rows,
                    tile_columns,
                    v,
                    task_images,
                    task_rows,
                    task_columns,
                    task_vectors,
                    trim=trim,
                    native=native,
                    tiles=by_tiles,
                )
                scratch = convolution.scratch_bytes(spec, parameters)
                if scratch > SCRATCH_LIMIT:
                    continue
                tasks = convolution.tasks(spec, parameters)
                weights = task_vectors * depth * 64
                outputs = min(task_rows, height) * min(task_columns, width) * task_images
                window = scratch or outputs * form.group_inputs * itemsize
                again = weights * task_images if weights + window > machine.level2_bytes else 0
                total = cycles + tasks * (TASK_OVERHEAD + scratch / COPY_BYTES_PER_CYCLE)
                total += tasks * (window + again) / STREAM_BYTES_PER_CYCLE
                total *= balance(tasks)
                sizes.append((total, tasks, parameters))
        options += cheapest_sizes(sizes)
    return best(options, functools.partial(_convolution_variants, spec))


def _convolution_variants(spec: ConvolutionSpec, choice: ConvolutionParameters) -> Iterator[ConvolutionParameters]:
    if correlation(spec).group_inputs > 1 and not choice.tiles:
        yield replace(choice, unroll=2)
    padded = replace(choice, copy=True, pixel_padding=PADDING)
    if convolution.scratch_bytes(spec, padded) <= SCRATCH_LIMIT:
        yield padded
    if choice.trim:
        yield replace(choice, trim=False)


def _rows_inside(axis: Axis, tile_rows: int) -> float:
    """The share of rows of taps that tiles of so many rows compute: those wholly in the padding are left out."""
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
    all_rows, all_columns = steps(rows, height), steps(columns, width)
    parts = [(part, all_columns[-1], 1) for part in all_rows]
    parts += [(part, other, 1) for part in (all_rows if height == 1 else all_rows[:2]) for other in all_columns[:-1]]
    return parts + [(all_rows[-1], all_columns[-1], count) for count in steps(1, images)[1:]]
