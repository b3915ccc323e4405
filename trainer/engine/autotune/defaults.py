"""The cost model: template parameters for a contraction, at once and without running anything.

A tile of m rows by v vectors takes, for each step of the reduction, the longest of its multiply-adds (two a cycle),
its loads (two a cycle), the right operand's way from the second-level cache and the latency of one multiply-add; it
must fit the registers with v vectors of the right operand and one broadcast. Tiles that cut the shape without small
remainders win by that. Tasks are sized so that there are enough of them for the threads, copies into scratch stay
small, and what a task reads again stays in the second-level cache.

Any choice gives the same bits: the model can only be slow, never wrong.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from trainer.engine.autotune import tile_shapes
from trainer.engine.autotune.machine import Machine, host_machine
from trainer.engine.graph.dtypes import float32
from trainer.engine.kernels import (
    contraction,
    convolution,
    depthwise,
    depthwise_weights,
    few_outputs,
    statistics,
    weight_gradient,
    winograd,
    winograd_gradient,
)
from trainer.engine.kernels.contraction import MatmulParameters, MatmulSpec
from trainer.engine.kernels.convolution import ConvolutionParameters
from trainer.engine.kernels.depthwise import DepthwiseParameters, DepthwiseSpec
from trainer.engine.kernels.few_outputs import FewOutputsParameters, FewOutputsSpec
from trainer.engine.kernels.geometry import RSCK, Axis, ConvolutionSpec, correlation
from trainer.engine.kernels.statistics import StatisticsSpec
from trainer.engine.kernels.tile import lanes_of
from trainer.engine.kernels.weight_gradient import WeightGradientParameters
from trainer.engine.kernels.winograd import WinogradParameters
from trainer.engine.kernels.winograd_choice import WinogradSpec
from trainer.engine.kernels.winograd_gradient import WinogradGradientParameters

Spec = MatmulSpec | ConvolutionSpec | StatisticsSpec | DepthwiseSpec | FewOutputsSpec | WinogradSpec
Shape = TypeVar("Shape", bound=tuple[int, ...])
Parameters = (
    MatmulParameters
    | ConvolutionParameters
    | DepthwiseParameters
    | FewOutputsParameters
    | WeightGradientParameters
    | WinogradParameters
    | WinogradGradientParameters
)

Choice = TypeVar("Choice", bound=Parameters)

FMA_LATENCY = 4
TILE_OVERHEAD = 40
TASK_OVERHEAD = 500
COPY_BYTES_PER_CYCLE = 12
STREAM_BYTES_PER_CYCLE = 20
STALLED_SHARE = 0.1
"""How much of the loads is not hidden behind the multiply-adds (measured: 8 x 2 and 30 x 1 run a tenth below 13 x 2).
"""

VARIANT_PENALTY = 0.004
"""A further shape of tile costs compile time: worth less than this share of the kernel's time."""

TRIMMED_CHANNELS = 16
"""Taps left and right of narrow images are left out from so many channels on; fewer make the loops too short."""

PACKED_ROWS, PACKED_COLUMNS = 256, 1024
"""Each row of a wider right operand lies on a page of its own; packing it pays from so many rows of the left one on."""

FEW_PIXELS = 1
"""Weights that so few pixels read are read as they lie, and taps in the padding not at all: packing them takes longer
than the product. For more pixels it didn't pay (pix2pix's step with 256: 565 ms against 324).
"""

PAGE_BYTES, WAYS, CROWDED = 4096, 12, 1.06
"""Pixels so many bytes apart, or a multiple, share a set of the first-level cache: of as many as the set has ways some
are read again from the second level (8x1024x14x14 to 512 filters: tiles of 14 pixels 4.2 to 5.6 ms, of 11 3.9 to 4.4).
"""

FAR_BYTES = 16 << 20
"""What is larger comes from memory rather than from a third-level cache."""

SCRATCH_LIMIT = 3 << 20
THREADS = (2, 4, 8)
WAIT = 0.25
MOST_TILES, MOST_CANDIDATES = 8, 10
HOPELESS = 1.4
"""What the model holds for so many times as slow as its choice is not worth compiling."""

VARIED = 1.02
"""The model says nothing of unrolling, copies and padding: variants of its choice come right after it."""

PADDING = 16
"""Elements between pixels in scratch that set those of 2^n channels in other sets of the cache."""


def choose(spec: Spec, machine: Machine | None = None) -> Parameters:
    """The parameters to begin with."""
    return candidates(spec, machine)[0]


@functools.lru_cache(maxsize=4096)
def _ranked(spec: Spec, machine: Machine) -> tuple[Parameters, ...]:
    if isinstance(spec, MatmulSpec):
        return _matmul(spec, machine)
    if isinstance(spec, WinogradSpec):
        backward = spec.convolution.direction == "weight_gradient"
        return _winograd_gradient(spec, machine) if backward else _winograd(spec, machine)
    if isinstance(spec, DepthwiseSpec):
        return _depthwise(spec, machine)
    if isinstance(spec, FewOutputsSpec):
        return _few_outputs(spec, machine)
    if isinstance(spec, StatisticsSpec):
        return _statistics(spec, machine)
    if spec.direction == "weight_gradient":
        return _weight_gradient(spec, machine)
    return _convolution(spec, machine)


def candidates(spec: Spec, machine: Machine | None = None) -> list[Parameters]:
    """Parameters worth trying, best first by the model; all of one numerics class."""
    return list(_ranked(spec, machine or host_machine()))


def prefers_packed(spec: MatmulSpec | ConvolutionSpec, machine: Machine | None = None) -> bool:
    """Whether the right operand should be packed.

    Read in place it costs as little, unless its columns are apart, or so much of it is walked in strides that the
    second-level cache's sets overflow (measured: 3x3 convolutions lose a tenth beyond 1 MB; products of 2,048 and 4,096
    a quarter, those of few rows or columns nothing).
    """
    if spec.pairs:
        return True
    level2 = (machine or host_machine()).level2_bytes
    if isinstance(spec, MatmulSpec):
        return spec.b_strides[1] != 1 or (spec.rows >= PACKED_ROWS and spec.columns > PACKED_COLUMNS)
    if spec.direction != "forward" or spec.weight_order != RSCK:
        return True
    weights = math.prod(spec.window) * (spec.channels // spec.groups) * spec.filters * spec.dtype.itemsize
    few = spec.images * math.prod(spec.output_spatial) <= FEW_PIXELS
    return math.prod(spec.window) > 1 and weights > level2 and not few


def takes_prologue(spec: ConvolutionSpec) -> bool:
    """Whether a convolution, or a weight gradient, computes element-wise work on its input rather than have it stored.

    Only where the window is copied into scratch anyway, for its padding: then it costs what reading it costs (ResNet-50
    at batch 8 and pix2pix, two threads: no difference in time, 62 and 12 MB less in the arena). 1x1 layers would have
    to copy theirs for it: 49 MB less still, and no difference in time that could be measured.
    """
    padded = any(map(any, spec.padding))
    if spec.direction == "forward" and few_outputs.few_outputs(spec) is not None:
        return False  # that template copies its input channel by channel
    return padded and spec.dtype == float32 and spec.groups == 1 and not spec.pairs


def _pieces(total: int, tile: int) -> list[tuple[int, int]]:
    """(size, how many) of the parts that tiles of `tile` cut `total` into."""
    parts = [(tile, total // tile), (total % tile, 1)]
    return [(size, count) for size, count in parts if size and count]


def _tile_cycles(rows: int, vectors: int, depth: float) -> float:
    products, loads, stream = rows * vectors / 2, (rows + vectors) / 2, vectors * 64 / STREAM_BYTES_PER_CYCLE
    step = max(products, loads, stream, FMA_LATENCY) + STALLED_SHARE * (loads + stream)
    return depth * step + TILE_OVERHEAD + 1.5 * rows * vectors


def _fits(rows: int, vectors: int, machine: Machine, *, widened: bool = False) -> bool:
    return rows * vectors + (vectors + 1) * (2 if widened else 1) <= machine.vectors


def _cut_cycles(cuts: Iterable[list[tuple[int, int]]], vectors: list[tuple[int, int]], depth: float) -> float:
    """Cycles of all tiles, rows cut along several axes."""
    shapes = [(1, 1)]
    for cut in cuts:
        shapes = [(size * part, count * many) for size, count in shapes for part, many in cut]
    cycles = sum(count * many * _tile_cycles(size, thick, depth) for size, count in shapes for thick, many in vectors)
    return cycles * (1 + VARIANT_PENALTY * (len(shapes) * len(vectors) - 1))


def _steps(tile: int, total: int) -> list[int]:
    """Multiples of `tile`, doubling, up to one that covers `total`."""
    sizes = [tile]
    while sizes[-1] < total:
        sizes.append(min(2 * sizes[-1], -(-total // tile) * tile))
    return sizes


def _balance(tasks: int) -> float:
    """How much longer the slowest thread works than the mean; few tasks also wait for whoever was disturbed."""
    return sum(math.ceil(tasks / threads) * threads / tasks for threads in THREADS) / len(THREADS) + WAIT / tasks


def _best(
    options: Iterable[tuple[float, Choice]], variants: Callable[[Choice], Iterable[Choice]] = lambda choice: ()
) -> tuple[Choice, ...]:
    """The cheapest parameters, best first, and `variants` of the choice right after it."""
    ranked = sorted(options, key=lambda option: option[0])
    if not ranked:
        raise ValueError(f"no tile of this problem fits {SCRATCH_LIMIT} bytes of scratch")
    least, choice = ranked[0]
    ranked += [(VARIED * least, variant) for variant in variants(choice)]
    ranked.sort(key=lambda option: option[0])
    worth = dict.fromkeys(parameters for total, parameters in ranked if total <= HOPELESS * least)
    return tuple(worth)[:MOST_CANDIDATES]


def _sizes(options: Iterable[tuple[float, int, Choice]]) -> list[tuple[float, Choice]]:
    """Of one tile's (cost, tasks, parameters) the cheapest, and the cheapest of those with far more or fewer tasks."""
    ranked = sorted(options, key=lambda option: option[0])
    others = [option for option in ranked if not ranked[0][1] < 2 * option[1] < 4 * ranked[0][1]]
    return [(total, parameters) for total, _, parameters in (*ranked[:1], *others[:1])]


def _cheapest_tiles(options: Iterable[tuple[float, Shape]]) -> list[tuple[float, Shape]]:
    """The tiles worth sizing tasks for."""
    return sorted(set(options))[:MOST_TILES]


def _by_tiles(spec: MatmulSpec | ConvolutionSpec, machine: Machine) -> bool:
    """Whether AMX multiplies: pairs where the class says so, quads where it can."""
    return spec.tiled or (bool(spec.quads) and machine.int8_tiles)


def _instructions(spec: MatmulSpec | ConvolutionSpec, machine: Machine) -> tuple[bool, bool]:
    """(whether one instruction multiplies the elements of pairs or quads, whether the tile needs further registers)."""
    if _by_tiles(spec, machine):
        return False, False
    if spec.quads:
        return machine.int8, spec.quads == "signed" or not machine.int8
    return spec.pairs and machine.bfloat16, spec.pairs and not machine.bfloat16


def _matmul(spec: MatmulSpec, machine: Machine) -> tuple[MatmulParameters, ...]:
    native, crowded = _instructions(spec, machine)
    vectors, matrices = -(-spec.columns // lanes_of(spec.dtype)), math.prod(spec.batch)
    by_tiles = _by_tiles(spec, machine)
    if by_tiles:
        tiles = _cheapest_tiles(
            [
                (tile_shapes.cycles([_pieces(spec.rows, m)], _pieces(vectors, v), spec.steps, 1), (m, v))
                for v in range(1, min(vectors, tile_shapes.MOST_VECTORS) + 1)
                for m in tile_shapes.heights(spec.rows)
            ]
        )
    else:
        tiles = _cheapest_tiles(
            [
                (_cut_cycles([_pieces(spec.rows, m)], _pieces(vectors, v), spec.steps), (m, v))
                for v in range(1, min(vectors, 4) + 1)
                for m in range(1, min(spec.rows, machine.vectors) + 1)
                if _fits(m, v, machine, widened=crowded)
            ]
        )
    right = vectors * spec.steps * 64
    options: list[tuple[float, MatmulParameters]] = []
    for cycles, (m, v) in tiles:
        sizes = []
        for task_vectors in _steps(v, vectors):
            for task_rows in _steps(m, spec.rows):
                parameters = MatmulParameters(m, v, task_rows, task_vectors, native=native, tiles=by_tiles)
                tasks = contraction.tasks(spec, parameters)
                rows = min(task_rows, spec.rows) * spec.steps * spec.dtype.itemsize
                left_reads = tasks * rows * _reads(rows, v * spec.steps * 64, -(-task_vectors // v), machine)
                right_reads = matrices * right * _reads(right, rows, -(-spec.rows // task_rows), machine)
                total = matrices * cycles + tasks * TASK_OVERHEAD + (left_reads + right_reads) / STREAM_BYTES_PER_CYCLE
                total *= _balance(tasks)
                sizes.append((total, tasks, parameters))
        options += _sizes(sizes)
    return _best(options, functools.partial(_matmul_variants, spec))


def _matmul_variants(spec: MatmulSpec, choice: MatmulParameters) -> Iterator[MatmulParameters]:
    if spec.steps > 1 and not choice.tiles:
        yield replace(choice, unroll=2)
    packed = replace(choice, pack_rows=True)
    read_again = choice.task_vectors > choice.tile_vectors and spec.a_strides[1] == 1
    if read_again and contraction.scratch_bytes(spec, packed) <= SCRATCH_LIMIT:
        yield packed


def _reads(operand: int, beside: int, passes: int, machine: Machine) -> float:
    """What `passes` passes over an operand cost, in reads from the second-level cache; `beside` bytes are used between.

    Tasks walk the columns of b before the next rows of a: what doesn't stay in that cache is read again each time.
    """
    if operand + beside <= machine.level2_bytes:
        return 1
    return passes if operand <= FAR_BYTES else passes * STREAM_BYTES_PER_CYCLE / SHARED_BYTES_PER_CYCLE


def _convolution(spec: ConvolutionSpec, machine: Machine) -> tuple[ConvolutionParameters, ...]:
    native, crowded = _instructions(spec, machine)
    form = correlation(spec)
    vectors, itemsize = form.packing.panels, spec.dtype.itemsize
    heights, widths = ([phase.count for phase in axis.phases] for axis in (form.rows, form.columns))
    height, width = max(heights), max(widths)
    depth = form.packing.depth / len(form.phases)
    pixels = form.images * form.groups * len(form.phases)
    in_place, apart = not (form.leaves_input or spec.prologue.body), form.columns.input_step * form.inputs * itemsize
    by_tiles = _by_tiles(spec, machine)
    tiles = []
    for v in range(1, min(vectors, 4) + 1):
        for tile_columns in tile_shapes.heights(width) if by_tiles else range(1, min(width, machine.vectors) + 1):
            for tile_rows in range(1, (min(height, 4) if by_tiles or tile_columns < width else height) + 1):
                if not (by_tiles or _fits(tile_rows * tile_columns, v, machine, widened=crowded)):
                    continue
                cuts = [_pieces(height, tile_rows), _pieces(width, tile_columns)]
                met = _rows_inside(form.rows, tile_rows)
                if by_tiles:
                    runs = met * depth / form.group_inputs
                    cycles = tile_shapes.cycles(cuts, _pieces(vectors, v), form.group_inputs, runs)
                else:
                    cycles = _cut_cycles(cuts, _pieces(vectors, v), depth * met)
                    if in_place and apart % PAGE_BYTES == 0 and tile_rows * tile_columns >= WAYS:
                        cycles *= CROWDED
                tiles.append((pixels * cycles, (tile_rows, tile_columns, v)))
    options: list[tuple[float, ConvolutionParameters]] = []
    for cycles, (tile_rows, tile_columns, v) in _cheapest_tiles(tiles):
        sizes = []
        for task_vectors in _steps(v, vectors):
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
                total *= _balance(tasks)
                sizes.append((total, tasks, parameters))
        options += _sizes(sizes)
    return _best(options, functools.partial(_convolution_variants, spec))


BLOCK_TILES = 8
"""Tiles whose pixels a task takes through all its vectors before the next ones: they stay in the first-level cache."""


def _statistics(spec: StatisticsSpec, machine: Machine) -> tuple[ConvolutionParameters, ...]:
    """The tiles that the convolution would have alone, its tasks cut as the reduction's blocks are."""
    plain = spec.convolution
    form = correlation(plain)
    vectors, pixels = form.packing.panels, form.columns.output_extent
    part = statistics.part_vectors(spec)
    options: list[tuple[float, ConvolutionParameters]] = []
    for place, tile in enumerate(_ranked(plain, machine)):
        assert isinstance(tile, ConvolutionParameters)
        share = math.lcm(tile.tile_vectors, part)
        for task_vectors in sorted({min(share * count, -(-vectors // tile.tile_vectors) * tile.tile_vectors)
                                    for count in (1, 2, 4, 8, 16, 32)}):  # fmt: skip
            parameters = replace(
                tile,
                task_columns=spec.block,
                task_vectors=task_vectors,
                trim=False,
                block_columns=BLOCK_TILES * tile.tile_columns,
            )
            tasks, output = statistics.tasks(spec, parameters), min(spec.block, pixels) * task_vectors * 64
            reads = min(spec.block, pixels) * form.inputs * plain.dtype.itemsize
            far = max(0, output + reads - machine.level2_bytes) / SHARED_BYTES_PER_CYCLE
            total = tasks * (far + TASK_OVERHEAD + reads / STREAM_BYTES_PER_CYCLE) * _balance(tasks)
            cycles = vectors * pixels * form.packing.depth / 2 * (1 + VARIANT_PENALTY * place)
            options.append((total + cycles * _balance(tasks), parameters))
    return _best(options)


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
    all_rows, all_columns = _steps(rows, height), _steps(columns, width)
    parts = [(part, all_columns[-1], 1) for part in all_rows]
    parts += [(part, other, 1) for part in (all_rows if height == 1 else all_rows[:2]) for other in all_columns[:-1]]
    return parts + [(all_rows[-1], all_columns[-1], count) for count in _steps(1, images)[1:]]


def _weight_gradient(spec: ConvolutionSpec, machine: Machine) -> tuple[WeightGradientParameters, ...]:
    native = spec.pairs and machine.bfloat16
    vectors = -(-(spec.filters // spec.groups) // lanes_of(spec.dtype))
    channels, (taps_rows, taps_columns) = spec.channels // spec.groups, spec.window
    blocks = weight_gradient.pixel_blocks(spec)
    pixels, count = math.prod(blocks.block), math.prod(blocks.counts)
    weights = taps_rows * taps_columns * channels
    tiles = []
    for v in range(1, min(vectors, 4) + 1):
        for m in range(1, min(weights, machine.vectors) + 1):
            if _fits(m, v, machine, widened=spec.pairs and not native):
                run = weights if weights <= m else channels * (taps_columns if spec.dilation[1] == 1 else 1)
                lines = weights // run
                cycles = lines * _cut_cycles([_pieces(run, min(m, run))], _pieces(vectors, v), pixels)
                tiles.append((count * spec.groups * cycles, (min(m, run), v)))
    options: list[tuple[float, WeightGradientParameters]] = []
    for cycles, (m, v) in _cheapest_tiles(tiles):
        sizes = []
        for task_vectors in _steps(v, vectors):
            for task_lines in _steps(1, weights // max(1, min(channels, weights))):
                parameters = WeightGradientParameters(m, v, task_lines, task_vectors, native=native)
                scratch = weight_gradient.scratch_bytes(spec, parameters)
                tasks = weight_gradient.tasks(spec, parameters)
                per_task = blocks.blocks_per_group * (scratch or pixels * channels * spec.dtype.itemsize)
                rate = COPY_BYTES_PER_CYCLE if scratch else STREAM_BYTES_PER_CYCLE
                total = (cycles + tasks * (TASK_OVERHEAD + per_task / rate)) * _balance(tasks)
                sizes.append((total, tasks, parameters))
        options += _sizes(sizes)
    return _best(options, functools.partial(_weight_gradient_variants, spec))


def _weight_gradient_variants(
    spec: ConvolutionSpec, choice: WeightGradientParameters
) -> Iterator[WeightGradientParameters]:
    for padding in (0, PADDING):
        copied = replace(choice, copy=True, pixel_padding=padding)
        scratch = weight_gradient.scratch_bytes(spec, copied)
        if scratch <= SCRATCH_LIMIT and (padding or not weight_gradient.scratch_bytes(spec, choice)):
            yield copied


SHARED_BYTES_PER_CYCLE = 8
"""What a core reads of memory that no second-level cache of its own holds."""


def _winograd(spec: WinogradSpec, machine: Machine) -> tuple[WinogradParameters, ...]:
    form, lanes = correlation(spec.convolution), lanes_of(spec.convolution.dtype)
    points, panels, tiles = spec.algorithm.points**2, -(-form.outputs // lanes), spec.tiles
    shapes = _cheapest_tiles(
        [
            (points * _cut_cycles([_pieces(tiles, m)], _pieces(panels, v), form.inputs), (m, v))
            for v in range(1, min(panels, 4) + 1)
            for m in range(1, min(tiles, machine.vectors) + 1)
            if _fits(m, v, machine)
        ]
    )
    options: list[tuple[float, WinogradParameters]] = []
    for cycles, (m, v) in shapes:
        sizes = []
        for task_vectors in _steps(v, panels):
            for block_vectors in _steps(v, task_vectors):
                for task_tiles in range(m, min(tiles, 64) + m, m):
                    parameters = WinogradParameters(m, v, task_tiles, task_vectors, block_vectors)
                    scratch = winograd.scratch_bytes(spec, parameters)
                    if scratch > SCRATCH_LIMIT:
                        continue
                    tasks = winograd.tasks(spec, parameters)
                    inputs = tiles * -(-form.inputs // lanes) * -(-panels // task_vectors)
                    transforms = (inputs + tiles * panels) * points * WINOGRAD_CYCLES
                    block = points * form.inputs * min(block_vectors, panels) * 64
                    share = points * form.inputs * min(task_vectors, panels) * 64
                    blocks = -(-min(task_vectors, panels) // block_vectors)
                    weights = tasks * share if share + scratch > machine.level2_bytes else tasks * share / 4
                    again = tasks * blocks * max(0, scratch + block - machine.level2_bytes)
                    total = cycles + transforms + tasks * TASK_OVERHEAD + (weights + again) / SHARED_BYTES_PER_CYCLE
                    total *= _balance(tasks)
                    sizes.append((total, tasks, parameters))
        options += _sizes(sizes)
    return _best(options)


WINOGRAD_CYCLES = 4
"""Of one transformed vector of inputs or products."""


def _winograd_gradient(spec: WinogradSpec, machine: Machine) -> tuple[WinogradGradientParameters, ...]:
    plain, blocks, lanes = spec.convolution, winograd_gradient.tile_blocks(spec), lanes_of(spec.convolution.dtype)
    points, panels, inputs = spec.algorithm.points**2, -(-plain.filters // lanes), -(-plain.channels // lanes)
    tiles = min(winograd_gradient.TILES, spec.tiles)
    shapes = _cheapest_tiles(
        [
            (_cut_cycles([_pieces(plain.channels, m)], _pieces(panels, v), tiles), (m, v))
            for v in range(1, min(panels, 4) + 1)
            for m in range(1, min(plain.channels, machine.vectors) + 1)
            if _fits(m, v, machine)
        ]
    )
    options: list[tuple[float, WinogradGradientParameters]] = []
    for cycles, (m, v) in shapes:
        sizes = []
        for task_channels in _steps(1, inputs):
            for task_vectors in _steps(v, panels):
                parameters = WinogradGradientParameters(m, v, task_channels, task_vectors)
                scratch = winograd_gradient.scratch_bytes(spec, parameters)
                if scratch > SCRATCH_LIMIT:
                    continue
                tasks = winograd_gradient.tasks(spec, parameters)
                vectors = min(task_vectors, panels)
                read = points * tiles * (task_channels + vectors) * WINOGRAD_CYCLES
                again = max(0, scratch - machine.level2_bytes) * 2 / SHARED_BYTES_PER_CYCLE
                back = points * task_channels * lanes * vectors * WINOGRAD_CYCLES
                total = tasks * (blocks.blocks_per_group * (read + again) + back + TASK_OVERHEAD)
                total += blocks.count * points * cycles
                sizes.append((total * _balance(tasks), tasks, parameters))
        options += _sizes(sizes)
    return _best(options)


def _depthwise(spec: DepthwiseSpec, machine: Machine) -> tuple[DepthwiseParameters, ...]:
    convolution, panels = spec.convolution, depthwise.vectors_of(spec)
    products = math.prod(convolution.window) * math.prod(convolution.output_spatial) * convolution.images * spec.group
    if convolution.direction == "weight_gradient":
        options: list[tuple[float, DepthwiseParameters]] = []
        for task_vectors in _steps(1, panels):
            parameters = DepthwiseParameters(1, 1, task_vectors)
            tasks = depthwise_weights.tasks(spec, parameters)
            options.append(((products * panels / 2 + tasks * TASK_OVERHEAD) * _balance(tasks), parameters))
        return _best(options)
    form = correlation(convolution)
    rows = max(phase.count for phase in form.rows.phases)
    width = max(phase.count for phase in form.columns.phases)
    factors = convolution.window[1] * spec.group
    most = max(1, min(width, machine.vectors - 2 - (factors if 2 * factors < machine.vectors else spec.group)))
    options = []
    for tile_columns in range(max(1, most // 2), most + 1):
        reads = sum(
            size + convolution.window[1] + 4 for size, many in _pieces(width, tile_columns) for _ in range(many)
        )
        for task_rows in _steps(1, rows):
            for task_vectors in {panels, -(-panels // 2)}:
                parameters = DepthwiseParameters(tile_columns, task_rows, task_vectors)
                tasks = depthwise.tasks(spec, parameters)
                total = (products * panels * reads / width + tasks * TASK_OVERHEAD) * _balance(tasks)
                options.append((total * (2 - task_vectors / panels), parameters))
    return _best(options)


GATHER_CYCLES = 12
"""Of a pixel whose channels are gathered, finished and stored."""


def _few_outputs(spec: FewOutputsSpec, machine: Machine) -> tuple[FewOutputsParameters, ...]:
    form = correlation(spec.convolution)
    width, height = few_outputs.width_of(form.columns), few_outputs.width_of(form.rows)
    depth = form.packing.depth / len(form.phases)
    options: list[tuple[float, FewOutputsParameters]] = []
    for task_rows in _steps(1, height):
        vectors, sizes = few_outputs.vectors_of(spec, task_rows), []
        for v in range(1, min(vectors, machine.vectors) + 1):
            parameters = FewOutputsParameters(v, task_rows)
            scratch = few_outputs.scratch_bytes(spec, parameters)
            spills = v > 1 and not _fits(form.outputs, v, machine)  # of the smallest tile there is no smaller one
            if spills or scratch > few_outputs.SCRATCH_LIMIT:
                continue
            tasks = few_outputs.tasks(spec, parameters)
            cycles = sum(many * _line_cycles(form.outputs, size, depth) for size, many in _pieces(vectors, v))
            cycles += TASK_OVERHEAD + scratch / COPY_BYTES_PER_CYCLE + task_rows * width * GATHER_CYCLES
            again = vectors / v * scratch if scratch > machine.level2_bytes else 0
            total = tasks * (cycles + again / SHARED_BYTES_PER_CYCLE) * _balance(tasks)
            sizes.append((total, tasks, parameters))
        options += _sizes(sizes) if sizes else []
    return _best(options)


def _line_cycles(channels: int, vectors: int, depth: float) -> float:
    """Of a tile along pixels: each of its vectors lies across two cache lines, and is loaded once for each step."""
    step = max(channels * vectors / 2, (channels + 2 * vectors) / 2, FMA_LATENCY)
    return depth * step + TILE_OVERHEAD
