"""Convolutions of stride 1 or 2 and their input gradients by Winograd's F(mxm, rxr).

Numerics class "fast". Images are cut into tiles of m x m outputs that read (m + r - 1)^2 inputs. For each of the
(m + r - 1)^2 points the transformed inputs of all tiles times the transformed weights are one matrix product, whose
elements are chains of fused multiply-adds over channels ascending, started from zero. With stride 2 there is such a
product for each part of the input, and their results are added in the order of the parts. Transforms are written
instruction by instruction (`winograd_transforms`). The bits therefore depend only on the shape, which also decides the
algorithm (`winograd_choice`), never on tiles of the micro-kernel, tasks or threads.

Kernels: `void name(ptr arguments, i64 task, ptr scratch)`. `WinogradWeights` reads the panels of
`convolution.pack_spec`; arguments: [packed weights, transformed weights]. `WinogradKernel`: [input, transformed
weights, output, epilogue operands...], with channels-last activations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.cpu.costs.cycles import SCRATCH_LIMIT, SHARED_BYTES_PER_CYCLE, TASK_OVERHEAD, steps
from trainer.engine.targets.cpu.costs.ranking import product_tiles, sized
from trainer.engine.targets.cpu.kernels.access import Elements, load_vector, store_vector
from trainer.engine.targets.cpu.kernels.epilogue import OperandPointers
from trainer.engine.targets.cpu.kernels.geometry import Phase, correlation
from trainer.engine.targets.cpu.kernels.tile import cut_columns, odd_lines, run_tile, store_finished
from trainer.engine.targets.cpu.kernels.tile_shape import Level, Tile
from trainer.engine.targets.cpu.kernels.winograd_choice import WinogradSpec
from trainer.engine.targets.cpu.kernels.winograd_tiles import TiledImage, read_tile, tile_place
from trainer.engine.targets.cpu.kernels.winograd_transforms import Transforms
from trainer.engine.targets.cpu.machine import Machine
from trainer.engine.targets.cpu.template import Argument, Template, TemplateKernel
from trainer.engine.targets.cpu.templates import convolution
from trainer.engine.targets.ir.expression import MEMORY, lanes_of
from trainer.engine.targets.ir.writer import Integer, Writer

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


def _phase_and_panel(w: Writer, spec: WinogradSpec, group: Integer) -> tuple[Integer, Integer]:
    """The phase of a vector of outputs, and its number in the phase."""
    return w.divide(group, spec.form.packing.panels) if len(spec.form.phases) > 1 else (0, group)


def _of_phase(w: Writer, name: str, phase: Integer, values: Sequence[int]) -> Integer:
    """A phase's value, from a table of those of all phases along an axis."""
    if len(values) == 1:
        return values[0]
    table = w.table("_".join((name, *map(str, values))), values)
    return w.value(f"load i64, ptr {w.pointer(table, phase, 'i64')}")


def _weight_strides(spec: WinogradSpec) -> tuple[int, int]:
    """Elements between the points and between the panels of transformed weights. The stride between points is an odd
    number of cache lines, so that stores to all points at once spread over the cache's sets.
    """
    point = (len(spec.parts) * spec.form.inputs | 1) * lanes_of(spec.convolution.dtype)
    return point, spec.points**2 * point


@dataclass(frozen=True, slots=True)
class WinogradWeights:
    """The kernel that transforms packed weights, G g G^T: [phases][panels][points][parts][inputs][lanes]."""

    winograd: WinogradSpec

    @property
    def dtype(self) -> DType:
        return self.winograd.convolution.dtype

    @property
    def size(self) -> int:
        """Elements of the transformed weights."""
        return self.winograd.panels * _weight_strides(self.winograd)[1]

    @property
    def tasks(self) -> int:
        return self.winograd.panels * -(-self.winograd.form.inputs // WEIGHT_CHUNK)

    def render(self, name: str) -> str:
        """The module of the kernel."""
        spec, w = self.winograd, Writer()
        memory, form, panel_size = Elements(w, self.dtype), spec.form, _weight_strides(spec)[1]
        source, target = w.argument(0), w.argument(1)
        group, chunk = w.divide("%task", -(-form.inputs // WEIGHT_CHUNK))
        phase, panel = _phase_and_panel(w, spec, group)
        source = memory.at(source, w.multiply(panel, form.packing.depth * memory.lanes))
        target = memory.at(target, w.multiply(group, panel_size))
        for number in w.places(phase, range(len(form.phases))):
            with w.loop(*w.share(chunk, WEIGHT_CHUNK, form.inputs)) as loop:
                here, there = (memory.at(base, w.multiply(loop.index, memory.lanes)) for base in (source, target))
                for part in range(len(spec.parts)):
                    self._transform(memory, form.phases[number], part, here, there)
        return w.module(name, scratch=True)

    def _transform(self, memory: Elements, phase: Phase, part: int, source: str, target: str) -> None:
        """Transforms the weights of one input for a part of the image; taps that the part lacks are zeros."""
        spec, form, (point, _) = self.winograd, self.winograd.form, _weight_strides(self.winograd)
        transforms, taps = Transforms(memory.writer, self.dtype, spec.algorithm), range(spec.algorithm.taps)

        def load(r: int, s: int) -> str:
            row, column = (
                first + tap * axis.input_step
                for first, tap, axis in zip(spec.parts[part], (r, s), (form.rows, form.columns), strict=True)
            )
            if row >= phase.rows.taps or column >= phase.columns.taps:
                return transforms.floats.constant(0)
            depth = phase.depth_start + (row * phase.columns.taps + column) * form.inputs
            return memory.load(source, depth * memory.lanes)

        loaded = [[load(r, s) for r in taps] for s in taps]
        for row, column, value in transforms.square(transforms.filter, len(taps), lambda r, s: loaded[s][r]):
            memory.store(value, target, (row * spec.points + column) * point + part * form.inputs * memory.lanes)


class WinogradKernel(TemplateKernel[WinogradSpec, WinogradParameters]):
    """A task's scratch holds inputs [points][tiles][channels], then `products` [points][tiles][vectors of a block];
    points and tiles are `input_point` and `input_pitch` elements apart, in products `product_point`, `product_pitch`.
    """

    def __init__(self, spec: WinogradSpec, parameters: WinogradParameters) -> None:
        super().__init__(spec, parameters)
        self.form, lanes = spec.form, self.lanes
        self.panels, tiles = spec.panels, min(parameters.task_tiles, spec.tiles)
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
        """Transforms a task's inputs, multiplies point by point, transforms back and stores. Several parts of the
        inputs are transformed one after the other, again for each block of vectors.
        """
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
        tiles = first_tile, last_tile
        if len(spec.parts) == 1:
            self.read(x, tiles, 0)
        products = at("%scratch", spec.points**2 * self.input_point)
        with w.loop(first_vector, last_vector, parameters.block_vectors) as block:
            block_end = w.minimum(w.add(block.index, parameters.block_vectors), last_vector)
            for part in range(len(spec.parts)):
                if len(spec.parts) > 1:
                    self.read(x, tiles, part)
                self.multiply((weights, products), tiles, (block.index, block_end), part)
            with w.loop(*tiles) as tile, w.loop(block.index, block_end) as vector:
                done = w.multiply(w.subtract(tile.index, first_tile), self.product_pitch)
                source_at = at(products, w.add(done, w.multiply(w.subtract(vector.index, block.index), lanes)))
                image, *window = tile_place(w, spec, tile.index)
                phase, panel = _phase_and_panel(w, spec, vector.index)
                axes, phases = (form.rows, form.columns), w.divide(phase, len(form.columns.phases))
                firsts = [
                    w.subtract(
                        start, _of_phase(w, "shifts", number, [p.input_start - axis.origin for p in axis.phases])
                    )
                    for axis, number, start in zip(axes, phases, window, strict=True)
                ]
                pixel = image
                for axis, number, first in zip(axes, phases, firsts, strict=True):
                    along = w.add(w.multiply(first, axis.output_step), number)
                    pixel = w.add(w.multiply(pixel, axis.output_extent), along)
                column = w.multiply(panel, lanes)
                offset = w.add(w.multiply(pixel, form.outputs), column)
                pointers = (source_at, w.pointer(output, offset, stored), *operands.at(w, offset, column))
                inside: list[Integer] = []
                for axis, number, first in zip(axes, phases, firsts, strict=True):
                    count = _of_phase(w, "counts", number, [p.count for p in axis.phases])
                    last = w.minimum(w.subtract(count, first), spec.outputs)
                    inside += [last] if len(axis.phases) == 1 else [w.maximum(w.subtract(0, first), 0), last]
                for _, active in cut_columns(w, panel, form.outputs, lanes):
                    w.run(self.define_output(active), pointers, inside)

    def read(self, x: str, tiles: tuple[Integer, Integer], part: int) -> None:
        """Transforms a part of the inputs of a task's tiles into scratch."""
        w, spec = self.w, self.spec
        with w.loop(*tiles) as tile:
            place = w.multiply(w.subtract(tile.index, tiles[0]), self.input_pitch)
            tiled, target = TiledImage(spec, "data", self.input_point), self.memory.at("%scratch", place)
            read_tile(w, tiled, x, tile.index, target, part=spec.parts[part])

    def multiply(
        self, pointers: tuple[str, str], tiles: tuple[Integer, Integer], block: tuple[Integer, Integer], part: int
    ) -> None:
        """Multiplies a part of the inputs by the weights of a block of vectors, point by point, and writes the products
        of the first part or adds those of another one.
        """
        spec, parameters, w, at, lanes = self.spec, self.parameters, self.w, self.memory.at, self.lanes
        weight_point, weight_panel = _weight_strides(spec)
        weights = at(pointers[0], part * self.form.inputs * lanes)
        with w.loop(*block, parameters.tile_vectors) as panel, w.loop(0, spec.points**2) as point:
            b_here = w.add(w.multiply(panel.index, weight_panel), w.multiply(point.index, weight_point))
            b_here = at(weights, b_here)
            column = w.multiply(w.subtract(panel.index, block[0]), lanes)
            result = w.add(w.multiply(point.index, self.product_point), column)
            source = w.multiply(point.index, self.input_point)
            with w.loop(*tiles, parameters.tile_rows) as strip:
                done = w.subtract(strip.index, tiles[0])
                a_here = at("%scratch", w.add(source, w.multiply(done, self.input_pitch)))
                there = at(pointers[1], w.add(result, w.multiply(done, self.product_pitch)))
                for vectors, _ in w.cut(panel.index, self.panels, parameters.tile_vectors):
                    for rows, _ in w.cut(strip.index, spec.tiles, parameters.tile_rows):
                        shape = Tile(
                            self.dtype, tuple(row * self.input_pitch for row in range(rows)),
                            tuple(row * self.product_pitch for row in range(rows)), vectors, weight_panel, lanes,
                            (Level(self.form.inputs, 1, lanes),), accumulate=part > 0,
                        )  # fmt: skip
                        run_tile(w, f"{'add' if part else 'tile'}_{rows}x{vectors}", shape, (a_here, b_here, there))

    def define_output(self, active: int) -> str:
        """Defines `output(products, output, operands…, height, width)`: A^T M A of a tile, and the epilogue and stores
        of that many rows and columns. With several phases, the first row and column are parameters `above`, `before`.
        """
        spec, form, dtype = self.spec, self.form, self.dtype
        bases = OperandPointers.parameters(spec.convolution.epilogue)
        bounds: list[tuple[Integer, str]] = [
            ("%above" if len(form.rows.phases) > 1 else 0, "%height"),
            ("%before" if len(form.columns.phases) > 1 else 0, "%width"),
        ]

        def build(inner: Writer) -> None:
            memory, transforms = Elements(inner, dtype), Transforms(inner, dtype, spec.algorithm)
            kind, lanes = memory.kind, self.lanes
            buffer = inner.value(f"alloca [{spec.outputs**2} x {kind}], align 64")

            def load(row: int, column: int) -> str:
                return memory.load("%products", (row * spec.points + column) * self.product_point)

            for row, column, value in transforms.square(transforms.output, spec.points, load):
                place = inner.pointer(buffer, row * spec.outputs + column, kind)
                store_vector(inner, dtype, value, place, lanes, alignment=64)
            with inner.loop(*bounds[0]) as down, inner.loop(*bounds[1]) as right:
                number = inner.add(inner.multiply(down.index, spec.outputs), right.index)
                total = load_vector(inner, dtype, inner.pointer(buffer, number, kind), lanes, alignment=64)
                pixel = inner.multiply(down.index, form.rows.output_step * form.columns.output_extent)
                pixel = inner.add(pixel, inner.multiply(right.index, form.columns.output_step))
                store_finished(inner, bases, dtype, total, "%output", inner.multiply(pixel, form.outputs), 0, active)

        parameters = [("ptr noalias", "%products"), ("ptr", "%output"), *bases.typed]
        parameters += [("i64", name) for pair in bounds for name in pair if isinstance(name, str)]
        return self.w.function(f"output_{active}", parameters, build)


WINOGRAD_CYCLES, FAR_CYCLES = 4, 12
"""Cycles to transform a vector of a tile; with stride 2, those of an input vector, whose tiles are read again for each
part. Measured for 5x5 with stride 2 from 16x64x112x112 to 128 filters: tasks of two vectors of filters transform the
input four times and take 28.5 ms, tasks of eight 20.4.
"""


def candidates(spec: WinogradSpec, machine: Machine) -> tuple[WinogradParameters, ...]:
    """Ranks tiles of the product in the transformed domain; the cost of tasks includes transforms."""
    form, lanes = correlation(spec.convolution), lanes_of(spec.convolution.dtype)
    points, parts, tiles = spec.points**2, len(spec.parts), spec.tiles
    panels, input_cycles = spec.panels, FAR_CYCLES if parts * len(form.phases) > 1 else WINOGRAD_CYCLES

    def sizes(cycles: float, m: int, v: int) -> Iterator[tuple[WinogradParameters, int, float]]:
        blocks = [(task, block) for task in steps(v, panels) for block in steps(v, task)]
        for (task_vectors, block_vectors), task_tiles in product(blocks, range(m, min(tiles, 64) + m, m)):
            parameters = WinogradParameters(m, v, task_tiles, task_vectors, block_vectors)
            kernel = WinogradKernel(spec, parameters)
            scratch, tasks = kernel.scratch_bytes, kernel.tasks
            if scratch > SCRATCH_LIMIT:
                continue
            passes = -(-min(task_vectors, panels) // block_vectors)
            inputs = tiles * -(-form.inputs // lanes) * -(-panels // task_vectors)
            inputs *= parts * passes if parts > 1 else 1
            transforms = (input_cycles * inputs + WINOGRAD_CYCLES * tiles * panels) * points
            block = points * form.inputs * min(block_vectors, panels) * 64
            share = parts * points * form.inputs * min(task_vectors, panels) * 64
            weights = tasks * share if share + scratch > machine.level2_bytes else tasks * share / 4
            again = tasks * passes * parts * max(0, scratch + block - machine.level2_bytes)
            read = (weights + again) / SHARED_BYTES_PER_CYCLE
            yield parameters, tasks, parts * points * cycles + transforms + tasks * TASK_OVERHEAD + read

    return sized(product_tiles(tiles, panels, form.inputs, machine), sizes, machine)


def operands(spec: WinogradSpec) -> list[Argument]:
    """The arrays in the order of the argument block."""
    source, _, *others = convolution.operands(spec.convolution)
    return [source, Argument(spec.convolution.dtype, WinogradWeights(spec).size), *others]


TEMPLATE = Template(
    WinogradSpec, WinogradParameters, WinogradKernel, operands, candidates, directions=("forward", "input_gradient")
)
