"""3x3 convolutions of stride 1 and their input gradients by Winograd's F(2x2, 3x3) and F(4x4, 3x3).

Numerics class "fast". Images are cut into tiles of m x m outputs that read (m + 2) x (m + 2) inputs. For each of the
(m + 2)^2 points the transformed inputs of all tiles times the transformed weights are one matrix product, whose
elements are chains of fused multiply-adds over channels ascending, started from zero; transforms are written down
instruction by instruction (`winograd_transforms`). So the bits depend on the shape alone, which also decides the
algorithm (`winograd_choice`), never on tiles of the micro-kernel, tasks or threads.

Kernels: `void name(ptr arguments, i64 task, ptr scratch)`. `render_weights` (arguments: [packed weights, transformed
weights]) takes the panels of `convolution.pack_spec`; `render` [input, transformed weights, output, epilogue
operands...], activations channels-last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainer.engine.targets.cpu.kernels.access import load_vector, store_vector
from trainer.engine.targets.cpu.kernels.epilogue import OperandPointers
from trainer.engine.targets.cpu.kernels.expression import MEMORY
from trainer.engine.targets.cpu.kernels.geometry import Correlation
from trainer.engine.targets.cpu.kernels.tile import Level, Tile, cut_columns, finish, lanes_of, odd_lines, run_tile
from trainer.engine.targets.cpu.kernels.winograd_choice import WinogradSpec
from trainer.engine.targets.cpu.kernels.winograd_tiles import TiledImage, read_tile, tile_place
from trainer.engine.targets.cpu.kernels.winograd_transforms import Transforms
from trainer.engine.targets.cpu.kernels.writer import Writer, vector

WEIGHT_CHUNK = 32
"""Input channels whose weights one task transforms."""


@dataclass(frozen=True, slots=True)
class WinogradParameters:
    """How it is computed; any values give the same bits.

    The micro-kernel takes tile_rows Winograd tiles by tile_vectors vectors of outputs. A task covers task_tiles
    Winograd tiles and task_vectors vectors, of which block_vectors at a time (all multiples of the micro-kernel's).
    """

    tile_rows: int
    tile_vectors: int
    task_tiles: int
    task_vectors: int
    block_vectors: int


@dataclass(frozen=True, slots=True)
class _Shape:
    """Sizes in elements. Strides between points are odd numbers of cache lines, so that what is stored for all points
    at once spreads over the cache's sets.
    """

    form: Correlation
    points: int
    panels: int
    weight_point: int
    input_pitch: int

    @classmethod
    def of(cls, spec: WinogradSpec) -> _Shape:
        form, lanes = spec.form, lanes_of(spec.convolution.dtype)
        panels, pitch = -(-form.outputs // lanes), odd_lines(form.inputs, lanes)
        return cls(form, spec.algorithm.points, panels, (form.inputs | 1) * lanes, pitch)

    @property
    def weight_panel(self) -> int:
        return self.points**2 * self.weight_point


def weights_size(spec: WinogradSpec) -> int:
    """Elements of the transformed weights: [panels][points][inputs][lanes]."""
    shape = _Shape.of(spec)
    return shape.panels * shape.weight_panel


def weight_tasks(spec: WinogradSpec) -> int:
    """How many tasks the weights' kernel has."""
    shape = _Shape.of(spec)
    return shape.panels * -(-shape.form.inputs // WEIGHT_CHUNK)


def render_weights(spec: WinogradSpec, name: str) -> str:
    """The module of the kernel that transforms packed weights: G g G^T."""
    dtype, shape = spec.convolution.dtype, _Shape.of(spec)
    w, inputs = Writer(), shape.form.inputs
    element, lanes = MEMORY[dtype.name], lanes_of(dtype)
    source, target = w.argument(0), w.argument(1)
    transforms = Transforms(w, dtype, spec.algorithm)
    panel, chunk = w.divide("%task", -(-inputs // WEIGHT_CHUNK))
    source = w.pointer(source, w.multiply(panel, 9 * inputs * lanes), element)
    target = w.pointer(target, w.multiply(panel, shape.weight_panel), element)
    with w.loop(*w.share(chunk, WEIGHT_CHUNK, inputs)) as loop:
        here = w.pointer(source, w.multiply(loop.index, lanes), element)
        there = w.pointer(target, w.multiply(loop.index, lanes), element)
        taps = [
            [load_vector(w, dtype, w.pointer(here, (r * 3 + s) * inputs * lanes, element), lanes) for r in range(3)]
            for s in range(3)
        ]
        for row, column, value in transforms.square(transforms.filter, 3, lambda r, s: taps[s][r]):
            place = w.pointer(there, (row * shape.points + column) * shape.weight_point, element)
            store_vector(w, dtype, value, place, lanes)
    return w.module(name, scratch=True)


def _grid(spec: WinogradSpec, parameters: WinogradParameters) -> tuple[int, int]:
    """Tasks along vectors and along Winograd tiles."""
    shape = _Shape.of(spec)
    return -(-shape.panels // parameters.task_vectors), -(-spec.tiles // parameters.task_tiles)


def tasks(spec: WinogradSpec, parameters: WinogradParameters) -> int:
    """How many tasks the kernel has."""
    return math.prod(_grid(spec, parameters))


@dataclass(frozen=True, slots=True)
class _Scratch:
    """A task's scratch: inputs [points][tiles][channels] and products [points][tiles][vectors of a block]."""

    input_point: int
    product_point: int
    product_pitch: int
    products: int
    size: int

    @classmethod
    def of(cls, spec: WinogradSpec, parameters: WinogradParameters) -> _Scratch:
        shape, lanes = _Shape.of(spec), lanes_of(spec.convolution.dtype)
        tiles = min(parameters.task_tiles, spec.tiles)
        pitch = min(parameters.block_vectors, shape.panels) * lanes
        input_point = odd_lines(tiles * shape.input_pitch, lanes)
        product_point = odd_lines(tiles * pitch, lanes)
        products = input_point * shape.points**2
        return cls(input_point, product_point, pitch, products, products + product_point * shape.points**2)


def scratch_bytes(spec: WinogradSpec, parameters: WinogradParameters) -> int:
    """Scratch memory that a thread needs."""
    return _Scratch.of(spec, parameters).size * spec.convolution.dtype.itemsize


def render(spec: WinogradSpec, parameters: WinogradParameters, name: str) -> str:
    """The module of the kernel: transform a task's inputs, multiply point by point, transform back and store."""
    dtype, epilogue = spec.convolution.dtype, spec.convolution.epilogue
    shape, scratch = _Shape.of(spec), _Scratch.of(spec, parameters)
    w = Writer()
    element, lanes, form = MEMORY[dtype.name], lanes_of(dtype), shape.form
    x, weights, output = (w.argument(word) for word in range(3))
    operands = OperandPointers.load(w, epilogue, 3)
    stored = MEMORY[epilogue.output(dtype).name]
    vector_task, tile_task = w.divide("%task", _grid(spec, parameters)[1])
    first_tile, last_tile = w.share(tile_task, parameters.task_tiles, spec.tiles)
    first_vector, last_vector = w.share(vector_task, parameters.task_vectors, shape.panels)

    tiled = _input(spec, shape, scratch)
    with w.loop(first_tile, last_tile) as tile:
        place = w.multiply(w.subtract(tile.index, first_tile), shape.input_pitch)
        read_tile(w, tiled, x, tile.index, w.pointer("%scratch", place, element))

    products = w.pointer("%scratch", scratch.products, element)
    level = Level(form.inputs, 1, lanes)

    def product(rows: int, vectors: int) -> Tile:
        return Tile(
            dtype,
            tuple(row * shape.input_pitch for row in range(rows)),
            tuple(row * scratch.product_pitch for row in range(rows)),
            vectors,
            shape.weight_panel,
            lanes,
            (level,),
        )

    with w.loop(first_vector, last_vector, parameters.block_vectors) as block:
        block_end = w.minimum(w.add(block.index, parameters.block_vectors), last_vector)
        with (
            w.loop(block.index, block_end, parameters.tile_vectors) as panel,
            w.loop(0, shape.points**2) as point,
        ):
            b_here = w.add(w.multiply(panel.index, shape.weight_panel), w.multiply(point.index, shape.weight_point))
            b_here = w.pointer(weights, b_here, element)
            column = w.multiply(w.subtract(panel.index, block.index), lanes)
            result = w.add(w.multiply(point.index, scratch.product_point), column)
            source = w.multiply(point.index, scratch.input_point)
            with w.loop(first_tile, last_tile, parameters.tile_rows) as strip:
                done = w.subtract(strip.index, first_tile)
                a_here = w.pointer("%scratch", w.add(source, w.multiply(done, shape.input_pitch)), element)
                place = w.add(result, w.multiply(done, scratch.product_pitch))
                there = w.pointer(products, place, element)
                for vectors, _ in w.cut(panel.index, shape.panels, parameters.tile_vectors):
                    for rows, _ in w.cut(strip.index, spec.tiles, parameters.tile_rows):
                        run_tile(w, f"tile_{rows}x{vectors}", product(rows, vectors), (a_here, b_here, there))
        with w.loop(first_tile, last_tile) as tile, w.loop(block.index, block_end) as panel:
            done = w.multiply(w.subtract(tile.index, first_tile), scratch.product_pitch)
            channel = w.multiply(w.subtract(panel.index, block.index), lanes)
            source_at = w.pointer(products, w.add(done, channel), element)
            image, top, left = tile_place(w, spec.grid, spec.outputs, tile.index)
            pixel = w.add(w.multiply(image, form.rows.output_extent), top)
            pixel = w.add(w.multiply(pixel, form.columns.output_extent), left)
            column = w.multiply(panel.index, lanes)
            offset = w.add(w.multiply(pixel, form.outputs), column)
            pointers = (source_at, w.pointer(output, offset, stored), *operands.at(w, offset, column))
            height = w.minimum(w.subtract(form.rows.output_extent, top), spec.outputs)
            width = w.minimum(w.subtract(form.columns.output_extent, left), spec.outputs)
            for _, active in cut_columns(w, panel.index, form.outputs, lanes):
                function = _define_output(w, spec, shape, scratch, active)
                w.run(function, pointers, (height, width))
    return w.module(name, scratch=True)


def _input(spec: WinogradSpec, shape: _Shape, scratch: _Scratch) -> TiledImage:
    """The source, cut into tiles."""
    rows, columns = shape.form.rows, shape.form.columns
    return TiledImage(
        spec.convolution.dtype,
        spec.algorithm,
        (rows.extent, columns.extent),
        shape.form.inputs,
        (rows.phases[0].input_start, columns.phases[0].input_start),
        spec.grid,
        "data",
        scratch.input_point,
    )


def _define_output(w: Writer, spec: WinogradSpec, shape: _Shape, scratch: _Scratch, active: int) -> str:
    """Define `output(products, output, epilogue operands…, height, width)`: A^T M A of one tile and one vector, and the
    epilogue of the outputs inside the image.
    """
    dtype, epilogue, form = spec.convolution.dtype, spec.convolution.epilogue, shape.form
    element, lanes, points = MEMORY[dtype.name], lanes_of(dtype), shape.points
    kind, stored = vector(element, lanes), epilogue.output(dtype)
    bases = OperandPointers.parameters(epilogue)

    def build(inner: Writer) -> None:
        transforms = Transforms(inner, dtype, spec.algorithm)
        buffer = inner.value(f"alloca [{spec.outputs**2} x {kind}], align 64")

        def load(row: int, column: int) -> str:
            place = inner.pointer("%products", (row * points + column) * scratch.product_point, element)
            return load_vector(inner, dtype, place, lanes)

        for row, column, value in transforms.square(transforms.output, points, load):
            place = inner.pointer(buffer, row * spec.outputs + column, kind)
            store_vector(inner, dtype, value, place, lanes, alignment=64)
        with inner.loop(0, "%height") as down, inner.loop(0, "%width") as right:
            number = inner.add(inner.multiply(down.index, spec.outputs), right.index)
            total = load_vector(inner, dtype, inner.pointer(buffer, number, kind), lanes, alignment=64)
            pixel = inner.add(inner.multiply(down.index, form.columns.output_extent), right.index)
            offset = inner.multiply(pixel, form.outputs)
            value = finish(inner, epilogue, dtype, total, bases.at(inner, offset, 0), active)
            target = inner.pointer("%output", offset, MEMORY[stored.name])
            store_vector(inner, stored, value, target, lanes, active)

    parameters = [("ptr noalias", "%products"), ("ptr", "%output"), *bases.typed]
    return w.function(f"output_{active}", [*parameters, ("i64", "%height"), ("i64", "%width")], build)
