"""The gradient of a 3x3 convolution with respect to its weights by Winograd's F(2x2, 3x3) and F(4x4, 3x3).

    dW = G^T [sum over tiles of (B^T x B) * (A dy A^T)] G,  x of (m + 2) x (m + 2) pixels, dy of m x m

Numerics class "fast". Tiles are numbered by (image, row, column) and cut into blocks of TILES. For each of the
(m + 2)^2 points an element of a block is one chain of fused multiply-adds from zero over its tiles ascending; the
blocks of a group are added in ascending order, starting from zero, then transformed back, and the groups' results are
added in ascending order (`totals`). Blocks and groups follow from the shape alone.

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: [x, dy, totals], addresses; totals is
[groups][3][3][C][K], and the result itself where `totals_of(spec)` is not needed. A task computes one group of blocks
for task_channels vectors of input channels and task_vectors of filters, everything in scratch: for the 3x3 layers of
ResNet-50 what lies there fits the second-level cache, where storing all transformed tiles would pass 2.25 times the
images' size through memory twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainer.engine.targets.cpu.kernels import copies
from trainer.engine.targets.cpu.kernels.access import load_vector, store_vector
from trainer.engine.targets.cpu.kernels.expression import MEMORY
from trainer.engine.targets.cpu.kernels.tile import Level, Tile, cut_columns, lanes_of, run_tile
from trainer.engine.targets.cpu.kernels.totals import TotalsSpec
from trainer.engine.targets.cpu.kernels.weight_gradient import MOST_GROUPS, TOTALS_ELEMENTS
from trainer.engine.targets.cpu.kernels.winograd_choice import WinogradSpec
from trainer.engine.targets.cpu.kernels.winograd_tiles import TiledImage, read_tile
from trainer.engine.targets.cpu.kernels.winograd_transforms import Transforms
from trainer.engine.targets.cpu.kernels.writer import Integer, Writer

TILES = 32
"""Tiles of a block: more leave less room in the cache, fewer add to the sums there more often."""


@dataclass(frozen=True, slots=True)
class WinogradGradientParameters:
    """How it is computed; any values give the same bits.

    The micro-kernel takes tile_rows input channels by tile_vectors vectors of filters; a task covers task_channels
    vectors of channels and task_vectors of filters (a multiple of the micro-kernel's).
    """

    tile_rows: int
    tile_vectors: int
    task_channels: int
    task_vectors: int


@dataclass(frozen=True, slots=True)
class TileBlocks:
    """How the tiles are cut: their number, blocks in all, groups of blocks."""

    tiles: int
    count: int
    groups: int

    @property
    def blocks_per_group(self) -> int:
        return -(-self.count // self.groups)


def tile_blocks(spec: WinogradSpec) -> TileBlocks:
    """The blocks that decide the bits; a function of the shape alone."""
    count = -(-spec.tiles // TILES)
    weights = 9 * spec.convolution.channels * spec.convolution.filters
    groups = max(1, min(MOST_GROUPS, count, TOTALS_ELEMENTS // weights))
    return TileBlocks(spec.tiles, count, -(-count // -(-count // groups)))


def totals_of(spec: WinogradSpec) -> TotalsSpec:
    """What the groups leave."""
    return TotalsSpec(spec.convolution, tile_blocks(spec).groups)


@dataclass(frozen=True, slots=True)
class _Shape:
    """Sizes in elements: transformed inputs [points][tiles][channels], transformed gradients [points][tiles][filters]
    and sums [points][channels][filters] of a task lie in scratch, points an odd number of cache lines apart.
    """

    points: int
    channel_panels: int
    panels: int
    input_pitch: int
    gradient_pitch: int
    input_point: int
    gradient_point: int
    sum_point: int

    @classmethod
    def of(cls, spec: WinogradSpec, parameters: WinogradGradientParameters) -> _Shape:
        plain = spec.convolution
        lanes, tiles = lanes_of(plain.dtype), min(TILES, spec.tiles)
        channel_panels, panels = -(-plain.channels // lanes), -(-plain.filters // lanes)
        inputs = min(parameters.task_channels, channel_panels) * lanes
        gradients = min(parameters.task_vectors, panels) * lanes
        return cls(
            spec.algorithm.points,
            channel_panels,
            panels,
            inputs,
            gradients,
            tiles * inputs + lanes,
            tiles * gradients + lanes,
            inputs * gradients + lanes,
        )

    @property
    def gradients(self) -> int:
        """Where the transformed gradients begin."""
        return self.points**2 * self.input_point

    @property
    def sums(self) -> int:
        """Where the sums begin."""
        return self.gradients + self.points**2 * self.gradient_point

    @property
    def size(self) -> int:
        return self.sums + self.points**2 * self.sum_point


def _grid(spec: WinogradSpec, parameters: WinogradGradientParameters) -> tuple[int, int, int]:
    """Tasks along filters, channels and groups of blocks."""
    shape = _Shape.of(spec, parameters)
    vectors = -(-shape.panels // parameters.task_vectors)
    return vectors, -(-shape.channel_panels // parameters.task_channels), tile_blocks(spec).groups


def tasks(spec: WinogradSpec, parameters: WinogradGradientParameters) -> int:
    """How many tasks the kernel has."""
    return math.prod(_grid(spec, parameters))


def scratch_bytes(spec: WinogradSpec, parameters: WinogradGradientParameters) -> int:
    """Scratch memory that a thread needs."""
    return _Shape.of(spec, parameters).size * spec.convolution.dtype.itemsize


def render(spec: WinogradSpec, parameters: WinogradGradientParameters, name: str) -> str:
    """The module of the kernel: transform both operands of each block, add its products, transform the sums back."""
    plain, shape, blocks = spec.convolution, _Shape.of(spec, parameters), tile_blocks(spec)
    w = Writer()
    element, lanes = MEMORY[plain.dtype.name], lanes_of(plain.dtype)
    x, dy, totals = (w.argument(word) for word in range(3))
    vector_tasks, channel_tasks, _ = _grid(spec, parameters)
    group, channel_task, vector_task = w.unravel("%task", channel_tasks, vector_tasks)
    first_vector, last_vector = w.share(vector_task, parameters.task_vectors, shape.panels)
    first_channels, last_channels = w.share(channel_task, parameters.task_channels, shape.channel_panels)
    first_channel = w.multiply(first_channels, lanes)
    channels = w.subtract(w.minimum(w.multiply(last_channels, lanes), plain.channels), first_channel)
    gradients, sums = (w.pointer("%scratch", place, element) for place in (shape.gradients, shape.sums))

    clear = copies.define_clear(w, plain.dtype)
    w.run(clear, (sums,), (shape.points**2 * shape.sum_point,))
    first_block, last_block = w.share(group, blocks.blocks_per_group, blocks.count)
    images = _images(spec, shape)
    with w.loop(first_block, last_block) as block:
        first_tile = w.multiply(block.index, TILES)
        count = w.minimum(w.subtract(blocks.tiles, first_tile), TILES) if blocks.tiles % TILES else TILES
        with w.loop(0, count) as tile:
            number = w.add(first_tile, tile.index)
            target = w.pointer("%scratch", w.multiply(tile.index, shape.input_pitch), element)
            read_tile(w, images[0], x, number, target, (first_channels, last_channels))
            target = w.pointer(gradients, w.multiply(tile.index, shape.gradient_pitch), element)
            read_tile(w, images[1], dy, number, target, (first_vector, last_vector))
        with w.loop(0, shape.points**2) as point:
            a_point = w.pointer("%scratch", w.multiply(point.index, shape.input_point), element)
            b_point = w.pointer(gradients, w.multiply(point.index, shape.gradient_point), element)
            sum_point = w.pointer(sums, w.multiply(point.index, shape.sum_point), element)
            _multiply(w, spec, parameters, shape, (a_point, b_point, sum_point), channels, count,
                      (first_vector, last_vector))  # fmt: skip
    with w.loop(0, channels) as channel, w.loop(first_vector, last_vector) as panel:
        column = w.multiply(w.subtract(panel.index, first_vector), lanes)
        source = w.pointer(sums, w.add(w.multiply(channel.index, shape.gradient_pitch), column), element)
        row = w.add(w.multiply(group, 9 * plain.channels), w.add(first_channel, channel.index))
        place = w.add(w.multiply(row, plain.filters), w.multiply(panel.index, lanes))
        for _, active in cut_columns(w, panel.index, plain.filters, lanes):
            function = _define_weights(w, spec, shape, active)
            w.run(function, (source, w.pointer(totals, place, element)))
    return w.module(name, scratch=True)


def _images(spec: WinogradSpec, shape: _Shape) -> tuple[TiledImage, TiledImage]:
    """x and dy, cut into tiles."""
    plain, form = spec.convolution, spec.form
    start = form.rows.phases[0].input_start, form.columns.phases[0].input_start
    common = plain.dtype, spec.algorithm
    inputs = TiledImage(*common, plain.spatial, plain.channels, start, spec.grid, "data", shape.input_point)
    extents = plain.output_spatial
    return inputs, TiledImage(*common, extents, plain.filters, (0, 0), spec.grid, "gradient", shape.gradient_point)


def _multiply(
    w: Writer,
    spec: WinogradSpec,
    parameters: WinogradGradientParameters,
    shape: _Shape,
    pointers: tuple[str, str, str],
    channels: Integer,
    count: Integer,
    vectors: tuple[Integer, Integer],
) -> None:
    """Add one block's products at one point to the sums."""
    dtype = spec.convolution.dtype
    element, lanes = MEMORY[dtype.name], lanes_of(dtype)
    tiles: Integer = count if isinstance(count, int) else "%tiles"
    level = Level(tiles, shape.input_pitch, shape.gradient_pitch)
    widest = min(parameters.task_channels, shape.channel_panels) * lanes
    possible = sorted({min(widest, spec.convolution.channels - start)
                       for start in range(0, spec.convolution.channels, widest)})  # fmt: skip
    with w.loop(*vectors, parameters.tile_vectors) as panel, w.loop(0, channels, parameters.tile_rows) as run:
        column = w.multiply(w.subtract(panel.index, vectors[0]), lanes)
        a = w.pointer(pointers[0], run.index, element)
        b = w.pointer(pointers[1], column, element)
        result = w.pointer(pointers[2], w.add(w.multiply(run.index, shape.gradient_pitch), column), element)
        for thick, _ in w.cut(panel.index, shape.panels, parameters.tile_vectors):
            for height, _ in w.cut(run.index, channels, parameters.tile_rows, possible):
                outputs = tuple(row * shape.gradient_pitch for row in range(height))
                tile = Tile(dtype, tuple(range(height)), outputs, thick, lanes, lanes, (level,), accumulate=True)
                run_tile(w, f"tile_{height}x{thick}", tile, (a, b, result), {"%tiles": count})


def _define_weights(w: Writer, spec: WinogradSpec, shape: _Shape, active: int) -> str:
    """Define `weights(sums, totals)`: G^T U G of one channel and one vector of filters."""
    plain = spec.convolution
    dtype, points = plain.dtype, shape.points
    element, lanes = MEMORY[dtype.name], lanes_of(dtype)

    def build(inner: Writer) -> None:
        transforms = Transforms(inner, dtype, spec.algorithm)

        def load(row: int, column: int) -> str:
            place = inner.pointer("%sums", (row * points + column) * shape.sum_point, element)
            return load_vector(inner, dtype, place, lanes)

        for r, s, value in transforms.square(transforms.weights, points, load):
            place = inner.pointer("%totals", (r * 3 + s) * plain.channels * plain.filters, element)
            store_vector(inner, dtype, value, place, lanes, active)

    return w.function(f"weights_{active}", [("ptr noalias", "%sums"), ("ptr noalias", "%totals")], build)
