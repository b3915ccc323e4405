"""The gradient of a convolution of stride 1 or 2 with respect to its weights by Winograd's F(mxm, rxr).

    dW = G^T [sum over tiles of (B^T x B) * (A dy A^T)] G,  x of (m + r - 1)^2 pixels, dy of m x m

Numerics class "fast". With stride 2, each part of x gives the weights of every second tap. Tiles are numbered by
(image, row, column) and cut into blocks of TILES. For each of the (m + r - 1)^2 points an element of a block is one
chain of fused multiply-adds from zero over its tiles ascending; the blocks of a group are added in ascending order,
starting from zero, then transformed back, and the groups' results are added in ascending order (`totals`). Blocks and
groups follow from the shape alone.

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: [x, dy, totals], addresses; totals is
[groups][R][S][C][K], and the result itself if `totals_of(spec)` is not needed. A task computes one group of blocks for
task_channels vectors of input channels and task_vectors of filters, entirely in scratch. For the 3x3 layers of
ResNet-50 this scratch fits the second-level cache; storing all transformed tiles would move 2.25 times the images' size
through memory twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from trainer.engine.targets.cpu.costs.cycles import SCRATCH_LIMIT, SHARED_BYTES_PER_CYCLE, TASK_OVERHEAD, steps
from trainer.engine.targets.cpu.costs.ranking import product_tiles, sized
from trainer.engine.targets.cpu.kernels import copies
from trainer.engine.targets.cpu.kernels.access import Elements
from trainer.engine.targets.cpu.kernels.tile import cut_columns, run_tile
from trainer.engine.targets.cpu.kernels.tile_shape import Level, Tile
from trainer.engine.targets.cpu.kernels.totals import TotalsSpec
from trainer.engine.targets.cpu.kernels.winograd_choice import WinogradSpec
from trainer.engine.targets.cpu.kernels.winograd_tiles import TiledImage, read_tile
from trainer.engine.targets.cpu.kernels.winograd_transforms import Transforms
from trainer.engine.targets.cpu.machine import Machine
from trainer.engine.targets.cpu.template import Argument, Template, TemplateKernel, activations
from trainer.engine.targets.cpu.templates import winograd
from trainer.engine.targets.cpu.templates.weight_gradient import groups_of
from trainer.engine.targets.ir.expression import lanes_of
from trainer.engine.targets.ir.writer import Integer, Writer

TILES = 32
"""Number of tiles in a block: more leave less room in the cache, fewer add to the sums there more often."""


@dataclass(frozen=True, slots=True)
class WinogradGradientParameters:
    """Parameters of the kernel; any values give the same bits.

    The micro-kernel computes tile_rows input channels by tile_vectors vectors of filters; a task covers task_channels
    vectors of channels and task_vectors of filters (a multiple of the micro-kernel's).
    """

    tile_rows: int
    tile_vectors: int
    task_channels: int
    task_vectors: int


@dataclass(frozen=True, slots=True)
class TileBlocks:
    """The blocks of tiles: number of tiles, of blocks, and of groups of blocks."""

    tiles: int
    count: int
    groups: int

    @property
    def blocks_per_group(self) -> int:
        return -(-self.count // self.groups)


def tile_blocks(spec: WinogradSpec) -> TileBlocks:
    """The blocks of a shape. They determine the bits, and depend only on the shape."""
    count = -(-spec.tiles // TILES)
    return TileBlocks(spec.tiles, count, groups_of(count, spec.convolution.weights))


def totals_of(spec: WinogradSpec) -> TotalsSpec:
    """The totals of the groups."""
    return TotalsSpec.of(spec.convolution, tile_blocks(spec).groups)


class WinogradGradientKernel(TemplateKernel[WinogradSpec, WinogradGradientParameters]):
    """A task's scratch holds transformed inputs [points][tiles][channels], transformed gradients
    [points][tiles][filters] and sums [points][channels][filters]. An extra cache line separates points: for an even
    number of tiles they are an odd number of cache lines apart.
    """

    def __init__(self, spec: WinogradSpec, parameters: WinogradGradientParameters) -> None:
        super().__init__(spec, parameters)
        plain, lanes, tiles = spec.convolution, self.lanes, min(TILES, spec.tiles)
        self.channel_panels, self.panels = -(-plain.channels // lanes), -(-plain.filters // lanes)
        self.input_pitch = min(parameters.task_channels, self.channel_panels) * lanes
        self.gradient_pitch = min(parameters.task_vectors, self.panels) * lanes
        self.input_point = tiles * self.input_pitch + lanes
        self.gradient_point = tiles * self.gradient_pitch + lanes
        self.sum_point = self.input_pitch * self.gradient_pitch + lanes
        self.gradients = spec.points**2 * self.input_point
        """Offset of the transformed gradients in scratch."""
        self.sums = self.gradients + spec.points**2 * self.gradient_point
        """Offset of the sums in scratch."""

    @property
    def grid(self) -> tuple[int, ...]:
        """Tasks along groups of blocks, parts of the image, channels and filters."""
        channels = -(-self.channel_panels // self.parameters.task_channels)
        vectors = -(-self.panels // self.parameters.task_vectors)
        return tile_blocks(self.spec).groups, len(self.spec.parts), channels, vectors

    @property
    def scratch_bytes(self) -> int:
        return (self.sums + self.spec.points**2 * self.sum_point) * self.dtype.itemsize

    def write(self) -> None:
        """Transforms both operands of each block, adds its products, transforms the sums back."""
        spec, plain, blocks, parameters = self.spec, self.spec.convolution, tile_blocks(self.spec), self.parameters
        w, at, lanes = self.w, self.memory.at, self.lanes
        x, dy, totals = (w.argument(word) for word in range(3))
        group, part, channel_task, vector_task = w.unravel("%task", *self.grid[1:])
        place_of_part = w.divide(part, spec.form.columns.input_step)
        first_vector, last_vector = w.share(vector_task, parameters.task_vectors, self.panels)
        first_channels, last_channels = w.share(channel_task, parameters.task_channels, self.channel_panels)
        first_channel = w.multiply(first_channels, lanes)
        channels = w.subtract(w.minimum(w.multiply(last_channels, lanes), plain.channels), first_channel)
        gradients, sums = (at("%scratch", place) for place in (self.gradients, self.sums))

        w.run(copies.define_clear(w, self.dtype), (sums,), (spec.points**2 * self.sum_point,))
        first_block, last_block = w.share(group, blocks.blocks_per_group, blocks.count)
        inputs, slopes = TiledImage(spec, "data", self.input_point), TiledImage(spec, "gradient", self.gradient_point)
        with w.loop(first_block, last_block) as block:
            first_tile = w.multiply(block.index, TILES)
            count = w.minimum(w.subtract(blocks.tiles, first_tile), TILES) if blocks.tiles % TILES else TILES
            with w.loop(0, count) as tile:
                number = w.add(first_tile, tile.index)
                target = at("%scratch", w.multiply(tile.index, self.input_pitch))
                read_tile(w, inputs, x, number, target, (first_channels, last_channels), place_of_part)
                target = at(gradients, w.multiply(tile.index, self.gradient_pitch))
                read_tile(w, slopes, dy, number, target, (first_vector, last_vector))
            with w.loop(0, spec.points**2) as point:
                a_point = at("%scratch", w.multiply(point.index, self.input_point))
                b_point = at(gradients, w.multiply(point.index, self.gradient_point))
                sum_point = at(sums, w.multiply(point.index, self.sum_point))
                self.multiply((a_point, b_point, sum_point), channels, count, (first_vector, last_vector))
        for known_part in w.places(part, range(len(spec.parts))):
            first_tap = (spec.parts[known_part][0] * plain.window[1] + spec.parts[known_part][1]) * plain.channels
            with w.loop(0, channels) as channel, w.loop(first_vector, last_vector) as panel:
                column = w.multiply(w.subtract(panel.index, first_vector), lanes)
                source = at(sums, w.add(w.multiply(channel.index, self.gradient_pitch), column))
                row = w.multiply(group, math.prod(plain.window) * plain.channels)
                row = w.add(w.add(row, w.add(first_channel, channel.index)), first_tap)
                place = w.add(w.multiply(row, plain.filters), w.multiply(panel.index, lanes))
                for _, active in cut_columns(w, panel.index, plain.filters, lanes):
                    w.run(self.define_weights(known_part, active), (source, at(totals, place)))

    def multiply(
        self, pointers: tuple[str, str, str], channels: Integer, count: Integer, vectors: tuple[Integer, Integer]
    ) -> None:
        """Adds one block's products at one point to the sums."""
        w, at, lanes, parameters = self.w, self.memory.at, self.lanes, self.parameters
        tiles: Integer = count if isinstance(count, int) else "%tiles"
        level = Level(tiles, self.input_pitch, self.gradient_pitch)
        total, widest = self.spec.convolution.channels, self.input_pitch
        possible = sorted({min(widest, total - start) for start in range(0, total, widest)})
        with w.loop(*vectors, parameters.tile_vectors) as panel, w.loop(0, channels, parameters.tile_rows) as run:
            column = w.multiply(w.subtract(panel.index, vectors[0]), lanes)
            a, b = at(pointers[0], run.index), at(pointers[1], column)
            result = at(pointers[2], w.add(w.multiply(run.index, self.gradient_pitch), column))
            for thick, _ in w.cut(panel.index, self.panels, parameters.tile_vectors):
                for height, _ in w.cut(run.index, channels, parameters.tile_rows, possible):
                    rows, outputs = range(height), tuple(row * self.gradient_pitch for row in range(height))
                    tile = Tile(self.dtype, tuple(rows), outputs, thick, lanes, lanes, (level,), accumulate=True)
                    run_tile(w, f"tile_{height}x{thick}", tile, (a, b, result), {"%tiles": count})

    def define_weights(self, part: int, active: int) -> str:
        """Defines `weights(sums, totals)`: G^T U G of one channel and one vector of filters, for the taps of a part."""
        spec, plain = self.spec, self.spec.convolution

        def build(inner: Writer) -> None:
            memory, transforms = Elements(inner, self.dtype), Transforms(inner, self.dtype, spec.algorithm)

            def load(row: int, column: int) -> str:
                return memory.load("%sums", (row * spec.points + column) * self.sum_point)

            for row, column, value in transforms.square(transforms.weights, spec.points, load):
                r, s = row * plain.strides[0], column * plain.strides[1]
                if spec.parts[part][0] + r < plain.window[0] and spec.parts[part][1] + s < plain.window[1]:
                    memory.store(value, "%totals", (r * plain.window[1] + s) * plain.channels * plain.filters, active)

        parameters = [("ptr noalias", "%sums"), ("ptr noalias", "%totals")]
        name = f"weights_{part}_{active}" if part else f"weights_{active}"
        return self.w.function(name, parameters, build)


def candidates(spec: WinogradSpec, machine: Machine) -> tuple[WinogradGradientParameters, ...]:
    """Ranks tiles of channels and filters at each point; the cost of tasks includes transforms there and back."""
    plain, blocks, lanes = spec.convolution, tile_blocks(spec), lanes_of(spec.convolution.dtype)
    points, panels, inputs = spec.points**2, -(-plain.filters // lanes), -(-plain.channels // lanes)
    tiles, parts = min(TILES, spec.tiles), len(spec.parts)

    def sizes(cycles: float, m: int, v: int) -> Iterator[tuple[WinogradGradientParameters, int, float]]:
        for task_channels, task_vectors in product(steps(1, inputs), steps(v, panels)):
            parameters = WinogradGradientParameters(m, v, task_channels, task_vectors)
            kernel = WinogradGradientKernel(spec, parameters)
            scratch, tasks = kernel.scratch_bytes, kernel.tasks
            if scratch > SCRATCH_LIMIT:
                continue
            vectors = min(task_vectors, panels)
            read = points * tiles * (task_channels + vectors) * winograd.WINOGRAD_CYCLES
            again = max(0, scratch - machine.level2_bytes) * 2 / SHARED_BYTES_PER_CYCLE
            back = points * task_channels * lanes * vectors * winograd.WINOGRAD_CYCLES
            total = tasks * (blocks.blocks_per_group * (read + again) + back + TASK_OVERHEAD)
            yield parameters, tasks, total + parts * blocks.count * points * cycles

    return sized(product_tiles(plain.channels, panels, tiles, machine), sizes, machine)


def operands(spec: WinogradSpec) -> list[Argument]:
    """The arrays in the order of the argument block."""
    x, y = activations(spec.convolution)
    dtype = spec.convolution.dtype
    totals = Argument(dtype, totals_of(spec).size, written=True)
    return [Argument(dtype, x), Argument(dtype, y), totals]


TEMPLATE = Template(
    WinogradSpec, WinogradGradientParameters, WinogradGradientKernel, operands, candidates,
    directions=("weight_gradient",),
)  # fmt: skip
