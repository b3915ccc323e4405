"""3x3 convolutions of stride 1 and their input gradients by Winograd's F(2x2, 3x3) and F(4x4, 3x3).

Numerics class "fast". Images are cut into tiles of m x m outputs that read (m + 2) x (m + 2) inputs. For each of the
(m + 2)^2 points the transformed inputs of all tiles times the transformed weights are one matrix product, whose
elements are chains of fused multiply-adds over channels ascending, started from zero; transforms are written
instruction by instruction (`winograd_transforms`). The bits therefore depend only on the shape, which also decides the
algorithm (`winograd_choice`), never on tiles of the micro-kernel, tasks or threads.

Kernels: `void name(ptr arguments, i64 task, ptr scratch)`. `WinogradWeights` reads the panels of
`convolution.pack_spec`; arguments: [packed weights, transformed weights]. `WinogradKernel`: [input, transformed
weights, output, epilogue operands...], with channels-last activations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.cpu.costs.cycles import SCRATCH_LIMIT, SHARED_BYTES_PER_CYCLE, TASK_OVERHEAD, steps
from trainer.engine.targets.cpu.costs.ranking import product_tiles, sized
from trainer.engine.targets.cpu.kernels.access import Elements, load_vector, store_vector
from trainer.engine.targets.cpu.kernels.epilogue import OperandPointers
from trainer.engine.targets.cpu.kernels.geometry import correlation
from trainer.engine.targets.cpu.kernels.tile import cut_columns, odd_lines, run_tile, store_finished
from trainer.engine.targets.cpu.kernels.tile_shape import Level, Tile
from trainer.engine.targets.cpu.kernels.winograd_choice import WinogradSpec
from trainer.engine.targets.cpu.kernels.winograd_tiles import TiledImage, read_tile, tile_place
from trainer.engine.targets.cpu.kernels.winograd_transforms import Transforms
from trainer.engine.targets.cpu.machine import Machine
from trainer.engine.targets.cpu.template import Argument, Template, TemplateKernel
from trainer.engine.targets.cpu.templates import convolution
from trainer.engine.targets.ir.expression import MEMORY, lanes_of
from trainer.engine.targets.ir.writer import Writer

WEIGHT_CHUNK = 32
"""Input channels whose weights one task transforms."""


@dataclass(frozen=True, slots=True)
class WinogradParameters:
    """Parameters of the kernel; any values give the same bits.

    The micro-kernel computes tile_rows Winograd tiles by tile_vectors vectors of outputs. A task covers task_tiles
    Winograd tiles and task_vectors vectors, block_vectors at a time (all multiples of the micro-kernel's).
    """

    tile_rows: int
    tile_vectors: int
    task_tiles: int
    task_vectors: int
    block_vectors: int


def _weight_strides(spec: WinogradSpec) -> tuple[int, int]:
    """Elements between the points and between the panels of transformed weights. The stride between points is an odd
    number of cache lines, so that stores to all points at once spread over the cache's sets.
    """
    point = (spec.form.inputs | 1) * lanes_of(spec.convolution.dtype)
    return point, spec.points**2 * point


@dataclass(frozen=True, slots=True)
class WinogradWeights:
    """The kernel that transforms packed weights, G g G^T: [panels][points][inputs][lanes]."""

    winograd: WinogradSpec

    @property
    def dtype(self) -> DType:
        return self.winograd.convolution.dtype

    @property
    def size(self) -> int:
        """Elements of the transformed weights."""
        return self.winograd.form.packing.panels * _weight_strides(self.winograd)[1]

    @property
    def tasks(self) -> int:
        return self.winograd.form.packing.panels * -(-self.winograd.form.inputs // WEIGHT_CHUNK)

    def render(self, name: str) -> str:
        """The module of the kernel."""
        spec, w = self.winograd, Writer()
        memory, transforms = Elements(w, self.dtype), Transforms(w, self.dtype, spec.algorithm)
        lanes, inputs, (point, panel_size) = memory.lanes, spec.form.inputs, _weight_strides(spec)
        source, target = w.argument(0), w.argument(1)
        panel, chunk = w.divide("%task", -(-inputs // WEIGHT_CHUNK))
        source = memory.at(source, w.multiply(panel, 9 * inputs * lanes))
        target = memory.at(target, w.multiply(panel, panel_size))
        with w.loop(*w.share(chunk, WEIGHT_CHUNK, inputs)) as loop:
            here, there = (memory.at(base, w.multiply(loop.index, lanes)) for base in (source, target))
            taps = [[memory.load(here, (r * 3 + s) * inputs * lanes) for r in range(3)] for s in range(3)]
            for row, column, value in transforms.square(transforms.filter, 3, lambda r, s: taps[s][r]):
                memory.store(value, there, (row * spec.points + column) * point)
        return w.module(name, scratch=True)


class WinogradKernel(TemplateKernel[WinogradSpec, WinogradParameters]):
    """A task's scratch holds inputs [points][tiles][channels], then `products` [points][tiles][vectors of a block];
    points and tiles are `input_point` and `input_pitch` elements apart, in products `product_point`, `product_pitch`.
    """

    def __init__(self, spec: WinogradSpec, parameters: WinogradParameters) -> None:
        super().__init__(spec, parameters)
        self.form, lanes = spec.form, self.lanes
        self.panels, tiles = self.form.packing.panels, min(parameters.task_tiles, spec.tiles)
        self.input_pitch = odd_lines(self.form.inputs, lanes)
        self.product_pitch = min(parameters.block_vectors, self.panels) * lanes
        self.input_point = odd_lines(tiles * self.input_pitch, lanes)
        self.product_point = odd_lines(tiles * self.product_pitch, lanes)

    @property
    def grid(self) -> tuple[int, ...]:
        """Tasks along vectors and along Winograd tiles."""
        return -(-self.panels // self.parameters.task_vectors), -(-self.spec.tiles // self.parameters.task_tiles)

    @property
    def scratch_bytes(self) -> int:
        return self.spec.points**2 * (self.input_point + self.product_point) * self.dtype.itemsize

    def write(self) -> None:
        """Transforms a task's inputs, multiplies point by point, transforms back and stores."""
        spec, parameters, form, w, at, lanes = (
            self.spec, self.parameters, self.form, self.w, self.memory.at, self.lanes
        )  # fmt: skip
        epilogue = spec.convolution.epilogue
        x, weights, output = (w.argument(word) for word in range(3))
        operands = OperandPointers.load(w, epilogue, 3)
        stored = MEMORY[epilogue.output(self.dtype).name]
        vector_task, tile_task = w.divide("%task", self.grid[1])
        first_tile, last_tile = w.share(tile_task, parameters.task_tiles, spec.tiles)
        first_vector, last_vector = w.share(vector_task, parameters.task_vectors, self.panels)
        with w.loop(first_tile, last_tile) as tile:
            place = w.multiply(w.subtract(tile.index, first_tile), self.input_pitch)
            read_tile(w, TiledImage(spec, "data", self.input_point), x, tile.index, at("%scratch", place))

        products = at("%scratch", spec.points**2 * self.input_point)
        weight_point, weight_panel = _weight_strides(spec)
        with w.loop(first_vector, last_vector, parameters.block_vectors) as block:
            block_end = w.minimum(w.add(block.index, parameters.block_vectors), last_vector)
            with w.loop(block.index, block_end, parameters.tile_vectors) as panel, w.loop(0, spec.points**2) as point:
                b_here = w.add(w.multiply(panel.index, weight_panel), w.multiply(point.index, weight_point))
                b_here = at(weights, b_here)
                column = w.multiply(w.subtract(panel.index, block.index), lanes)
                result = w.add(w.multiply(point.index, self.product_point), column)
                source = w.multiply(point.index, self.input_point)
                with w.loop(first_tile, last_tile, parameters.tile_rows) as strip:
                    done = w.subtract(strip.index, first_tile)
                    a_here = at("%scratch", w.add(source, w.multiply(done, self.input_pitch)))
                    there = at(products, w.add(result, w.multiply(done, self.product_pitch)))
                    for vectors, _ in w.cut(panel.index, self.panels, parameters.tile_vectors):
                        for rows, _ in w.cut(strip.index, spec.tiles, parameters.tile_rows):
                            shape = Tile(
                                self.dtype, tuple(row * self.input_pitch for row in range(rows)),
                                tuple(row * self.product_pitch for row in range(rows)), vectors, weight_panel, lanes,
                                (Level(form.inputs, 1, lanes),),
                            )  # fmt: skip
                            run_tile(w, f"tile_{rows}x{vectors}", shape, (a_here, b_here, there))
            with w.loop(first_tile, last_tile) as tile, w.loop(block.index, block_end) as panel:
                done = w.multiply(w.subtract(tile.index, first_tile), self.product_pitch)
                source_at = at(products, w.add(done, w.multiply(w.subtract(panel.index, block.index), lanes)))
                image, top, left = tile_place(w, spec, tile.index)
                pixel = w.add(w.multiply(image, form.rows.output_extent), top)
                pixel = w.add(w.multiply(pixel, form.columns.output_extent), left)
                column = w.multiply(panel.index, lanes)
                offset = w.add(w.multiply(pixel, form.outputs), column)
                pointers = (source_at, w.pointer(output, offset, stored), *operands.at(w, offset, column))
                height = w.minimum(w.subtract(form.rows.output_extent, top), spec.outputs)
                width = w.minimum(w.subtract(form.columns.output_extent, left), spec.outputs)
                for _, active in cut_columns(w, panel.index, form.outputs, lanes):
                    w.run(self.define_output(active), pointers, (height, width))

    def define_output(self, active: int) -> str:
        """Defines `output(products, output, operands…, height, width)`: A^T M A and the epilogue of a tile."""
        spec, form, dtype = self.spec, self.form, self.dtype
        bases = OperandPointers.parameters(spec.convolution.epilogue)

        def build(inner: Writer) -> None:
            memory, transforms = Elements(inner, dtype), Transforms(inner, dtype, spec.algorithm)
            kind, lanes = memory.kind, self.lanes
            buffer = inner.value(f"alloca [{spec.outputs**2} x {kind}], align 64")

            def load(row: int, column: int) -> str:
                return memory.load("%products", (row * spec.points + column) * self.product_point)

            for row, column, value in transforms.square(transforms.output, spec.points, load):
                place = inner.pointer(buffer, row * spec.outputs + column, kind)
                store_vector(inner, dtype, value, place, lanes, alignment=64)
            with inner.loop(0, "%height") as down, inner.loop(0, "%width") as right:
                number = inner.add(inner.multiply(down.index, spec.outputs), right.index)
                total = load_vector(inner, dtype, inner.pointer(buffer, number, kind), lanes, alignment=64)
                pixel = inner.add(inner.multiply(down.index, form.columns.output_extent), right.index)
                store_finished(inner, bases, dtype, total, "%output", inner.multiply(pixel, form.outputs), 0, active)

        parameters = [("ptr noalias", "%products"), ("ptr", "%output"), *bases.typed]
        return self.w.function(f"output_{active}", [*parameters, ("i64", "%height"), ("i64", "%width")], build)


WINOGRAD_CYCLES = 4
"""Cycles to transform one vector of inputs or products."""


def candidates(spec: WinogradSpec, machine: Machine) -> tuple[WinogradParameters, ...]:
    """Ranks tiles of the product in the transformed domain; the cost of tasks includes transforms."""
    form, lanes = correlation(spec.convolution), lanes_of(spec.convolution.dtype)
    points, panels, tiles = spec.points**2, form.packing.panels, spec.tiles

    def sizes(cycles: float, m: int, v: int) -> Iterator[tuple[WinogradParameters, int, float]]:
        blocks = [(task, block) for task in steps(v, panels) for block in steps(v, task)]
        for (task_vectors, block_vectors), task_tiles in product(blocks, range(m, min(tiles, 64) + m, m)):
            parameters = WinogradParameters(m, v, task_tiles, task_vectors, block_vectors)
            kernel = WinogradKernel(spec, parameters)
            scratch, tasks = kernel.scratch_bytes, kernel.tasks
            if scratch > SCRATCH_LIMIT:
                continue
            inputs = tiles * -(-form.inputs // lanes) * -(-panels // task_vectors)
            transforms = (inputs + tiles * panels) * points * WINOGRAD_CYCLES
            block = points * form.inputs * min(block_vectors, panels) * 64
            share = points * form.inputs * min(task_vectors, panels) * 64
            passes = -(-min(task_vectors, panels) // block_vectors)
            weights = tasks * share if share + scratch > machine.level2_bytes else tasks * share / 4
            again = tasks * passes * max(0, scratch + block - machine.level2_bytes)
            read = (weights + again) / SHARED_BYTES_PER_CYCLE
            yield parameters, tasks, points * cycles + transforms + tasks * TASK_OVERHEAD + read

    return sized(product_tiles(tiles, panels, form.inputs, machine), sizes, machine)


def operands(spec: WinogradSpec) -> list[Argument]:
    """The arrays in the order of the argument block."""
    source, _, *others = convolution.operands(spec.convolution)
    return [source, Argument(spec.convolution.dtype, WinogradWeights(spec).size), *others]


TEMPLATE = Template(
    WinogradSpec, WinogradParameters, WinogradKernel, operands, candidates, directions=("forward", "input_gradient")
)
