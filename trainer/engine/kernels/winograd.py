"""3x3 convolutions of stride 1 and their input gradients by Winograd's F(2x2, 3x3) and F(4x4, 3x3).

Numerics class "fast". Images are cut into tiles of m x m outputs that read (m + 2) x (m + 2) inputs. For each of the
(m + 2)^2 points the transformed inputs of all tiles times the transformed weights are one matrix product, whose
elements are chains of fused multiply-adds over channels ascending, started from zero; transforms are written down
instruction by instruction (`winograd_transforms`). So the bits depend on the shape alone, which also decides the
algorithm (`algorithm`), never on tiles of the micro-kernel, tasks or threads.

Kernels: `void name(ptr arguments, i64 task, ptr scratch)`. `render_weights` (arguments: [packed weights, transformed
weights]) takes the panels of `convolution.pack_spec`; `render` [input, transformed weights, output, epilogue
operands...], activations channels-last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainer.engine.graph.dtypes import float32
from trainer.engine.kernels import pack
from trainer.engine.kernels.epilogue import OperandPointers
from trainer.engine.kernels.expression import MEMORY
from trainer.engine.kernels.geometry import ConvolutionSpec, Correlation, correlation
from trainer.engine.kernels.loop_writer import Integer, LoopWriter
from trainer.engine.kernels.tile import (
    Level,
    Tile,
    call_tile,
    define_tile,
    finish,
    lanes_of,
    load_vector,
    mask_of,
    store_vector,
)
from trainer.engine.kernels.winograd_transforms import Algorithm, Transforms
from trainer.engine.kernels.writer import mangled, vector

LEAST_CHANNELS = 16
"""Fewer inputs or outputs leave the products too little work for their transforms."""

WEIGHT_CHUNK = 32
"""Input channels whose weights one task transforms."""


@dataclass(frozen=True, slots=True)
class WinogradSpec:
    """The forward pass or the input gradient of `convolution` by F(outputs x outputs, 3 x 3)."""

    convolution: ConvolutionSpec
    outputs: int

    @property
    def algorithm(self) -> Algorithm:
        return Algorithm(self.outputs)


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


def is_possible(spec: ConvolutionSpec) -> bool:
    """Whether the templates here can compute it."""
    return (
        spec.dtype is float32
        and spec.direction != "weight_gradient"
        and spec.window == (3, 3)
        and spec.strides == spec.dilation == (1, 1)
        and spec.groups == 1
    )


def algorithm(spec: ConvolutionSpec) -> WinogradSpec | None:
    """Which algorithm the class "fast" uses; None: the direct one. A function of the shape alone.

    Costs are multiply-adds, those of tiles beyond the image included, and for every transformed value what a handful
    of them take; the weights' are spread over the images.
    """
    if not is_possible(spec) or min(spec.channels, spec.filters) < LEAST_CHANNELS:
        return None
    form = correlation(spec)
    best, chosen = _direct_cost(form), None
    for outputs in (2, 4):
        candidate = WinogradSpec(spec, outputs)
        cost = _cost(candidate, form)
        if cost < best:
            best, chosen = cost, candidate
    return chosen


TRANSFORM_COST = 20
WEIGHT_COST = 90
"""Of one transformed input or output, and of one transformed weight, in multiply-adds.

A transformed weight is written, and read by every task: 512 x 512 of them pay only from sixteen 7x7 images on.
"""


def _direct_cost(form: Correlation) -> int:
    return form.images * form.rows.output_extent * form.columns.output_extent * form.inputs * form.outputs * 9


def _cost(spec: WinogradSpec, form: Correlation) -> int:
    points, tiles = spec.algorithm.points**2, tile_count(spec)
    values = tiles * (form.inputs + form.outputs) * TRANSFORM_COST
    return points * (tiles * form.inputs * form.outputs + values + form.inputs * form.outputs * WEIGHT_COST)


def _tile_grid(spec: WinogradSpec) -> tuple[int, int]:
    form = correlation(spec.convolution)
    return -(-form.rows.output_extent // spec.outputs), -(-form.columns.output_extent // spec.outputs)


def tile_count(spec: WinogradSpec) -> int:
    """Winograd tiles of all images."""
    return spec.convolution.images * math.prod(_tile_grid(spec))


@dataclass(frozen=True, slots=True)
class _Shape:
    """Sizes in elements. Strides between points are odd numbers of cache lines, so that what is stored for all points
    at once spreads over the cache's sets.
    """

    form: Correlation
    points: int
    grid: tuple[int, int]
    tiles: int
    panels: int
    weight_point: int
    input_pitch: int

    @classmethod
    def of(cls, spec: WinogradSpec) -> _Shape:
        form, lanes = correlation(spec.convolution), lanes_of(spec.convolution.dtype)
        lines = -(-form.inputs // lanes)
        return cls(
            form,
            spec.algorithm.points,
            _tile_grid(spec),
            tile_count(spec),
            -(-form.outputs // lanes),
            (form.inputs | 1) * lanes,
            (lines | 1) * lanes,
        )

    @property
    def weight_panel(self) -> int:
        return self.points**2 * self.weight_point


def _odd_lines(elements: int, lanes: int) -> int:
    return (-(-elements // lanes) | 1) * lanes


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
    w, inputs = LoopWriter(), shape.form.inputs
    w.label("entry")
    element, lanes = MEMORY[dtype.name], lanes_of(dtype)
    source, target = w.argument(0), w.argument(1)
    transforms = Transforms(w, dtype, spec.algorithm)
    panel, chunk = w.divide("%task", -(-inputs // WEIGHT_CHUNK))
    source = w.pointer(source, w.multiply(panel, 9 * inputs * lanes), element)
    target = w.pointer(target, w.multiply(panel, shape.weight_panel), element)
    first = w.multiply(chunk, WEIGHT_CHUNK)
    with w.loop(first, w.minimum(w.add(first, WEIGHT_CHUNK), inputs)) as loop:
        here = w.pointer(source, w.multiply(loop.index, lanes), element)
        there = w.pointer(target, w.multiply(loop.index, lanes), element)
        taps = [
            [
                load_vector(w, dtype, w.pointer(here, (r * 3 + s) * inputs * lanes, element), lanes, lanes)
                for r in range(3)
            ]
            for s in range(3)
        ]
        columns = [transforms.filter(column) for column in taps]
        for row in range(shape.points):
            for column, value in enumerate(transforms.filter([part[row] for part in columns])):
                place = w.pointer(there, (row * shape.points + column) * shape.weight_point, element)
                store_vector(w, dtype, value, place, lanes, lanes)
    w.emit("ret void")
    return w.module(name, pack.KERNEL_PARAMETERS)


def _grid(spec: WinogradSpec, parameters: WinogradParameters) -> tuple[int, int]:
    """Tasks along vectors and along Winograd tiles."""
    shape = _Shape.of(spec)
    return -(-shape.panels // parameters.task_vectors), -(-shape.tiles // parameters.task_tiles)


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
        tiles = min(parameters.task_tiles, shape.tiles)
        pitch = min(parameters.block_vectors, shape.panels) * lanes
        input_point = _odd_lines(tiles * shape.input_pitch, lanes)
        product_point = _odd_lines(tiles * pitch, lanes)
        products = input_point * shape.points**2
        return cls(input_point, product_point, pitch, products, products + product_point * shape.points**2)


def scratch_bytes(spec: WinogradSpec, parameters: WinogradParameters) -> int:
    """Scratch memory that a thread needs."""
    return _Scratch.of(spec, parameters).size * spec.convolution.dtype.itemsize


def render(spec: WinogradSpec, parameters: WinogradParameters, name: str) -> str:
    """The module of the kernel: transform a task's inputs, multiply point by point, transform back and store."""
    dtype, epilogue = spec.convolution.dtype, spec.convolution.epilogue
    shape, scratch = _Shape.of(spec), _Scratch.of(spec, parameters)
    w = LoopWriter()
    w.label("entry")
    element, lanes, form = MEMORY[dtype.name], lanes_of(dtype), shape.form
    x, weights, output = (w.argument(word) for word in range(3))
    operands = OperandPointers.load(w, epilogue, 3)
    stored = MEMORY[epilogue.output(dtype).name]
    vector_task, tile_task = w.divide("%task", _grid(spec, parameters)[1])
    first_tile = w.multiply(tile_task, parameters.task_tiles)
    last_tile = w.minimum(w.add(first_tile, parameters.task_tiles), shape.tiles)
    first_vector = w.multiply(vector_task, parameters.task_vectors)
    last_vector = w.minimum(w.add(first_vector, parameters.task_vectors), shape.panels)

    with w.loop(first_tile, last_tile) as tile:
        place = w.multiply(w.subtract(tile.index, first_tile), shape.input_pitch)
        _transform_input(w, spec, shape, scratch, x, tile.index, w.pointer("%scratch", place, element))

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
                    for rows, _ in w.cut(strip.index, shape.tiles, parameters.tile_rows):
                        function = define_tile(w, f"tile_{rows}x{vectors}", product(rows, vectors))
                        call_tile(w, function, (a_here, b_here, there))
        with w.loop(first_tile, last_tile) as tile, w.loop(block.index, block_end) as panel:
            done = w.multiply(w.subtract(tile.index, first_tile), scratch.product_pitch)
            channel = w.multiply(w.subtract(panel.index, block.index), lanes)
            source_at = w.pointer(products, w.add(done, channel), element)
            image, top, left = _tile_place(w, spec, shape, tile.index)
            pixel = w.add(w.multiply(image, form.rows.output_extent), top)
            pixel = w.add(w.multiply(pixel, form.columns.output_extent), left)
            column = w.multiply(panel.index, lanes)
            offset = w.add(w.multiply(pixel, form.outputs), column)
            pointers = (source_at, w.pointer(output, offset, stored), *operands.at(w, offset, column))
            height = w.minimum(w.subtract(form.rows.output_extent, top), spec.outputs)
            width = w.minimum(w.subtract(form.columns.output_extent, left), spec.outputs)
            tail = form.outputs - (shape.panels - 1) * lanes
            for _, last in w.cut(panel.index, shape.panels, 1, last_differs=tail != lanes):
                function = _define_output(w, spec, shape, scratch, tail if last else lanes)
                arguments = [*(("ptr", pointer) for pointer in pointers), ("i64", str(height)), ("i64", str(width))]
                w.call("void", function, *arguments)
    w.emit("ret void")
    return w.module(name, pack.KERNEL_PARAMETERS)


def _tile_place(w: LoopWriter, spec: WinogradSpec, shape: _Shape, tile: Integer) -> tuple[Integer, Integer, Integer]:
    """A Winograd tile's image, and its first output's row and column."""
    rest, column = w.divide(tile, shape.grid[1])
    image, row = w.divide(rest, shape.grid[0])
    return image, w.multiply(row, spec.outputs), w.multiply(column, spec.outputs)


def _transform_input(
    w: LoopWriter, spec: WinogradSpec, shape: _Shape, scratch: _Scratch, x: str, tile: Integer, target: str
) -> None:
    """Transform all channels of one tile into scratch; the last vector's missing channels as zeros."""
    dtype, form = spec.convolution.dtype, shape.form
    element, lanes, rows, columns = MEMORY[dtype.name], lanes_of(dtype), form.rows, form.columns
    image, top, left = _tile_place(w, spec, shape, tile)
    top = w.add(top, rows.phases[0].input_start)
    left = w.add(left, columns.phases[0].input_start)
    pixel = w.add(w.multiply(w.add(w.multiply(image, rows.extent), top), columns.extent), left)
    source = w.pointer(x, w.multiply(pixel, form.inputs), element)
    inside = [
        w.value(f"icmp {relation} i64 {place}, {bound}", "c")
        for place, extent in ((top, rows.extent), (left, columns.extent))
        for relation, bound in (("sge", 0), ("sle", extent - shape.points))
    ]
    whole = inside[0]
    for condition in inside[1:]:
        whole = w.value(f"and i1 {whole}, {condition}", "c")
    full, tail = divmod(form.inputs, lanes)
    checked = _define_input(w, spec, shape, scratch, True)

    def send(function: str, start: int, vectors: int, mask: str) -> None:
        pointers = [("ptr", w.pointer(pointer, start, element)) for pointer in (source, target)]
        extra = [("i64", str(top)), ("i64", str(left)), (vector("i1", lanes), mask)] if function == checked else []
        w.call("void", function, *pointers, ("i64", str(vectors)), *extra)

    if full:
        with w.when(whole):
            send(_define_input(w, spec, shape, scratch, False), 0, full, "")
        with w.when(w.value(f"xor i1 {whole}, true", "c")):
            send(checked, 0, full, mask_of(lanes, lanes))
    if tail:
        send(checked, full * lanes, 1, mask_of(tail, lanes))


def _define_input(w: LoopWriter, spec: WinogradSpec, shape: _Shape, scratch: _Scratch, checked: bool) -> str:
    """Define `input(source, target, vectors)`: B^T d B of so many vectors of channels; `checked` takes (top, left,
    lanes) too and reads zeros beyond the image.
    """
    dtype, form = spec.convolution.dtype, shape.form
    element, lanes, points = MEMORY[dtype.name], lanes_of(dtype), shape.points
    kind, bits = vector(element, lanes), vector("i1", lanes)

    def build(inner: LoopWriter) -> None:
        transforms = Transforms(inner, dtype, spec.algorithm)
        rows_inside, columns_inside = (
            [
                inner.value(f"icmp ult i64 {inner.add(start, step)}, {axis.extent}", "c") if checked else ""
                for step in range(points)
            ]
            for start, axis in (("%top", form.rows), ("%left", form.columns))
        )

        def load(pointer: str, row: int, column: int) -> str:
            place = inner.pointer(pointer, (row * form.columns.extent + column) * form.inputs, element)
            if not checked:
                return load_vector(inner, dtype, place, lanes, lanes)
            both = inner.value(f"and i1 {rows_inside[row]}, {columns_inside[column]}", "c")
            mask = inner.value(f"select i1 {both}, {bits} %lanes, {bits} zeroinitializer", "m")
            align = ("i32", str(dtype.itemsize))
            operands = [("ptr", place), align, (bits, mask), (kind, "zeroinitializer")]
            return inner.intrinsic(f"masked.load.{mangled(kind)}.p0", kind, *operands)

        with inner.loop(0, "%vectors") as loop:
            here = inner.pointer("%source", inner.multiply(loop.index, lanes), element)
            there = inner.pointer("%target", inner.multiply(loop.index, lanes), element)
            columns = [transforms.data([load(here, row, column) for row in range(points)]) for column in range(points)]
            for row in range(points):
                for column, value in enumerate(transforms.data([part[row] for part in columns])):
                    place = inner.pointer(there, (row * points + column) * scratch.input_point, element)
                    store_vector(inner, dtype, value, place, lanes, lanes)

    parameters = [("ptr noalias", "%source"), ("ptr noalias", "%target"), ("i64", "%vectors")]
    if checked:
        parameters += [("i64", "%top"), ("i64", "%left"), (bits, "%lanes")]
    return w.function("checked_input" if checked else "input", parameters, build)


def _define_output(w: LoopWriter, spec: WinogradSpec, shape: _Shape, scratch: _Scratch, active: int) -> str:
    """Define `output(products, output, epilogue operands…, height, width)`: A^T M A of one tile and one vector, and the
    epilogue of the outputs inside the image.
    """
    dtype, epilogue, form = spec.convolution.dtype, spec.convolution.epilogue, shape.form
    element, lanes, points = MEMORY[dtype.name], lanes_of(dtype), shape.points
    kind, stored = vector(element, lanes), epilogue.output(dtype)
    bases = OperandPointers(epilogue, tuple(f"%operand{i}" for i in range(len(epilogue.operands))))

    def build(inner: LoopWriter) -> None:
        transforms = Transforms(inner, dtype, spec.algorithm)
        buffer = inner.value(f"alloca [{spec.outputs**2} x {kind}], align 64")
        columns = [
            transforms.output(
                [
                    load_vector(
                        inner,
                        dtype,
                        inner.pointer("%products", (row * points + column) * scratch.product_point, element),
                        lanes,
                        lanes,
                    )
                    for row in range(points)
                ]
            )
            for column in range(points)
        ]
        for row in range(spec.outputs):
            for column, value in enumerate(transforms.output([part[row] for part in columns])):
                place = inner.pointer(buffer, row * spec.outputs + column, kind)
                inner.emit(f"store {kind} {value}, ptr {place}, align 64")
        with inner.loop(0, "%height") as down, inner.loop(0, "%width") as right:
            number = inner.add(inner.multiply(down.index, spec.outputs), right.index)
            total = inner.value(f"load {kind}, ptr {inner.pointer(buffer, number, kind)}, align 64")
            pixel = inner.add(inner.multiply(down.index, form.columns.output_extent), right.index)
            offset = inner.multiply(pixel, form.outputs)
            value = finish(inner, epilogue, dtype, total, bases.at(inner, offset, 0), active)
            target = inner.pointer("%output", offset, MEMORY[stored.name])
            store_vector(inner, stored, value, target, lanes, active)

    parameters = [("ptr noalias", "%products"), ("ptr", "%output")]
    parameters += [("ptr", base) for base in bases.bases]
    return w.function(f"output_{active}", [*parameters, ("i64", "%height"), ("i64", "%width")], build)
