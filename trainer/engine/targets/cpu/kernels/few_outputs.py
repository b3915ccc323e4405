"""Convolutions to a few channels (an image, a map of scores), and input gradients of those from a few: vectors run
along pixels.

Vectors along three channels would leave 13 of 16 lanes idle. Here a task brings its window of the input into scratch
channel by channel, padding and a gap included in each row's length, so that the pixels of all its rows are one line
and a tap is a displacement along it. A tile is all output channels by some vectors of that line: weights are
broadcast. The finished line is gathered pixel by pixel, goes through the epilogue and is stored. What is computed in
gaps is left there.

Numerics class "exact", the same chains as `convolution`: from zero over (r, s, c) ascending; the input gradient over
pixels of dy ascending, then k.

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments as in `convolution`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainer.engine.graph.dtypes import float32, float64
from trainer.engine.targets.cpu.kernels import copies
from trainer.engine.targets.cpu.kernels.access import load_vector, store_vector
from trainer.engine.targets.cpu.kernels.convolution import Bounds, output_pixel, phase_bounds
from trainer.engine.targets.cpu.kernels.epilogue import OperandPointers
from trainer.engine.targets.cpu.kernels.expression import MEMORY
from trainer.engine.targets.cpu.kernels.geometry import RSCK, Axis, ConvolutionSpec, correlation
from trainer.engine.targets.cpu.kernels.tile import Level, Tile, finish, lanes_of, odd_lines, run_tile
from trainer.engine.targets.cpu.kernels.transpose import exchanged
from trainer.engine.targets.cpu.kernels.writer import Integer, Writer, vector

SCRATCH_LIMIT = 2 << 20


@dataclass(frozen=True, slots=True)
class FewOutputsSpec:
    """A convolution, or an input gradient, to at most half as many channels as a vector has lanes."""

    convolution: ConvolutionSpec


@dataclass(frozen=True, slots=True)
class FewOutputsParameters:
    """How it is computed; any values give the same bits.

    A tile is all channels by tile_vectors vectors of pixels; a task covers task_rows rows of one image.
    """

    tile_vectors: int
    task_rows: int


def few_outputs(spec: ConvolutionSpec) -> FewOutputsSpec | None:
    """The problem as one for this template, or None."""
    if spec.dtype not in (float32, float64) or spec.pairs or spec.groups > 1 or spec.prologue.body:
        return None
    if spec.direction == "weight_gradient" or math.prod(spec.window) == 1 or not math.prod(spec.output_spatial):
        return None
    form, lanes = correlation(spec), lanes_of(spec.dtype)
    found = FewOutputsSpec(spec)
    possible = (
        2 * form.outputs <= lanes
        and form.inputs >= lanes
        and form.rows.input_step == form.columns.input_step == 1
        and 2 * width_of(form.columns) > lanes
        and scratch_bytes(found, FewOutputsParameters(1, 1)) <= SCRATCH_LIMIT
    )
    return found if possible else None


def width_of(axis: Axis) -> int:
    """The most outputs that a phase has."""
    return max(phase.count for phase in axis.phases)


@dataclass(frozen=True, slots=True)
class _Line:
    """A task's input as it lies in scratch: elements between rows and between channels, vectors of the finished line
    and elements between its channels, and where it begins.
    """

    row: int
    channel: int
    vectors: int
    finished: int
    start: int

    @classmethod
    def of(cls, spec: FewOutputsSpec, task_rows: int) -> _Line:
        form, lanes = correlation(spec.convolution), lanes_of(spec.convolution.dtype)
        width, rows = width_of(form.columns), min(task_rows, width_of(form.rows))
        down, along = (
            (max(max(phase.taps for phase in axis.phases), 1) - 1) * axis.tap_step for axis in (form.rows, form.columns)
        )
        row = width + along
        vectors = -(-((rows - 1) * row + width) // lanes)
        channel = odd_lines(vectors * lanes + down * row + along, lanes)
        return cls(row, channel, vectors, vectors * lanes, form.inputs * channel)


def vectors_of(spec: FewOutputsSpec, task_rows: int) -> int:
    """Vectors of pixels that a task of so many rows computes, gaps included."""
    return _Line.of(spec, task_rows).vectors


def _grid(spec: FewOutputsSpec, parameters: FewOutputsParameters) -> tuple[int, int, int]:
    """Tasks along images, rows and phases."""
    form = correlation(spec.convolution)
    return form.images, -(-width_of(form.rows) // parameters.task_rows), len(form.phases)


def tasks(spec: FewOutputsSpec, parameters: FewOutputsParameters) -> int:
    """How many tasks the kernel has."""
    return math.prod(_grid(spec, parameters))


def scratch_bytes(spec: FewOutputsSpec, parameters: FewOutputsParameters) -> int:
    """Scratch memory that a thread needs."""
    line = _Line.of(spec, parameters.task_rows)
    outputs = correlation(spec.convolution).outputs
    return (line.start + outputs * line.finished) * spec.convolution.dtype.itemsize


def render(spec: FewOutputsSpec, parameters: FewOutputsParameters, name: str) -> str:
    """The module of the kernel."""
    convolution = spec.convolution
    if not (convolution.packed or (convolution.direction == "forward" and convolution.weight_order == RSCK)):
        raise ValueError(f"only the forward pass of weights in the order {RSCK} can do without packing")
    form, lanes, line = correlation(convolution), lanes_of(convolution.dtype), _Line.of(spec, parameters.task_rows)
    element = MEMORY[convolution.dtype.name]
    w = Writer()
    x, weights, output = (w.argument(word) for word in range(3))
    operands = OperandPointers.load(w, convolution.epilogue, 3)
    _, row_tasks, phases = _grid(spec, parameters)
    image, row_task, phase = w.unravel("%task", row_tasks, phases)
    shares = parameters.task_rows, width_of(form.columns)
    rows, columns, depth_start = phase_bounds(w, form, shares, phase, row_task, 0)
    depth_step = lanes if convolution.packed else convolution.filters
    weights = w.pointer(weights, w.multiply(depth_start, depth_step), element)
    _copy(w, convolution, line, x, image, rows, columns)

    run = w.multiply(columns.taps, form.inputs)
    values = {"%row_taps": rows.taps, "%column_taps": columns.taps, "%line_step": w.multiply(run, depth_step)}
    known = {key: value if isinstance(value, int) else key for key, value in values.items()}
    levels = (
        Level(known["%row_taps"], known["%line_step"], form.rows.tap_step * line.row),
        Level(known["%column_taps"], form.inputs * depth_step, form.columns.tap_step),
        Level(form.inputs, depth_step, line.channel),
    )
    channels = tuple(range(form.outputs))
    finished = w.pointer("%scratch", line.start, element)
    with w.loop(0, line.vectors, parameters.tile_vectors) as place:
        here = w.multiply(place.index, lanes)
        pointers = weights, w.pointer("%scratch", here, element), w.pointer(finished, here, element)
        for count, _ in w.cut(place.index, line.vectors, parameters.tile_vectors):
            outputs = tuple(channel * line.finished for channel in channels)
            shape = Tile(convolution.dtype, channels, outputs, count, lanes, lanes, levels)
            run_tile(w, f"tile_{count}", shape, pointers, values)
    _store(w, convolution, line, (finished, output), operands, image, rows, columns)
    return w.module(name, scratch=True)


def _store(
    w: Writer,
    spec: ConvolutionSpec,
    line: _Line,
    places: tuple[str, str],
    operands: OperandPointers,
    image: Integer,
    rows: Bounds,
    columns: Bounds,
) -> None:
    """Gather each pixel's channels, finish and store them; `places` are where the line and the output begin."""
    form, lanes, (finished, output) = correlation(spec), lanes_of(spec.dtype), places
    element, stored = MEMORY[spec.dtype.name], MEMORY[spec.epilogue.output(spec.dtype).name]
    kind = vector(element, lanes)
    with w.loop(rows.start, rows.stop) as row, w.loop(0, columns.count) as column:
        place = w.add(w.multiply(w.subtract(row.index, rows.start), line.row), column.index)
        value = "zeroinitializer"
        for channel in range(form.outputs):
            pointer = w.pointer(finished, w.add(place, channel * line.finished), element)
            scalar = w.value(f"load {element}, ptr {pointer}, align {spec.dtype.itemsize}", "s")
            value = w.value(f"insertelement {kind} {value}, {element} {scalar}, i32 {channel}", "s")
        pixel = output_pixel(w, form, (rows, columns), image, row.index, column.index)
        offset = w.multiply(pixel, form.outputs)
        others = operands.at(w, offset, 0)
        value = finish(w, spec.epilogue, spec.dtype, value, others, form.outputs)
        store_vector(w, spec.epilogue.output(spec.dtype), value, w.pointer(output, offset, stored), lanes, form.outputs)


def _copy(w: Writer, spec: ConvolutionSpec, line: _Line, x: str, image: Integer, rows: Bounds, columns: Bounds) -> None:
    """Bring the rows that a task reads into scratch, channel by channel, zeros where it reads beyond the image."""
    form, lanes, element = correlation(spec), lanes_of(spec.dtype), MEMORY[spec.dtype.name]
    clear = copies.define_clear(w, spec.dtype)
    square = _define_square(w, spec, form.inputs, line.channel)
    top = w.add(rows.input_start, rows.start)
    height = w.add(w.subtract(rows.stop, rows.start), w.multiply(w.subtract(rows.taps, 1), form.rows.tap_step))
    left = columns.input_start
    width = w.add(columns.count, w.multiply(w.subtract(columns.taps, 1), form.columns.tap_step))
    right = w.add(left, width)
    first = w.minimum(w.maximum(left, 0), right)
    last = w.maximum(w.minimum(right, form.columns.extent), first)
    before, valid, after = w.subtract(first, left), w.subtract(last, first), w.subtract(right, last)
    with w.loop(0, height) as row:
        target = w.pointer("%scratch", w.multiply(row.index, line.row), element)
        input_row = w.add(top, row.index)
        inside = w.value(f"icmp ult i64 {input_row}, {form.rows.extent}", "c")
        with w.when(w.value(f"xor i1 {inside}, true", "c")), w.loop(0, form.inputs) as channel:
            there = w.pointer(target, w.multiply(channel.index, line.channel), element)
            w.run(clear, (there,), (width,))
        with w.when(inside):
            for start, count in ((0, before), (w.add(before, valid), after)):
                if count != 0:
                    with w.loop(0, form.inputs) as channel:
                        there = w.pointer(target, w.add(w.multiply(channel.index, line.channel), start), element)
                        w.run(clear, (there,), (count,))
            if valid == 0:
                return
            pixel = w.multiply(w.add(w.multiply(image, form.rows.extent), input_row), form.columns.extent)
            source = w.pointer(x, w.multiply(w.add(pixel, first), form.inputs), element)
            middle = w.pointer(target, before, element)
            wide = w.value(f"icmp sge i64 {valid}, {lanes}", "c")
            with w.when(wide), w.loop(0, valid, lanes) as pixels, w.loop(0, form.inputs, lanes) as channels:
                # the last squares overlap those before them
                column = w.minimum(pixels.index, w.subtract(valid, lanes))
                channel_place = w.minimum(channels.index, form.inputs - lanes)
                here = w.pointer(source, w.add(w.multiply(column, form.inputs), channel_place), element)
                there = w.pointer(middle, w.add(w.multiply(channel_place, line.channel), column), element)
                w.run(square, (here, there))
            with (
                w.when(w.value(f"xor i1 {wide}, true", "c")),
                w.loop(0, valid) as single,
                w.loop(0, form.inputs) as channel,
            ):
                here = w.pointer(source, w.add(w.multiply(single.index, form.inputs), channel.index), element)
                there = w.pointer(middle, w.add(w.multiply(channel.index, line.channel), single.index), element)
                value = w.value(f"load {element}, ptr {here}, align {spec.dtype.itemsize}")
                w.emit(f"store {element} {value}, ptr {there}, align {spec.dtype.itemsize}")


def _define_square(w: Writer, spec: ConvolutionSpec, source_step: int, target_step: int) -> str:
    """Define `square(source, target)`: as many pixels of as many channels as a vector has lanes, transposed."""
    lanes, element = lanes_of(spec.dtype), MEMORY[spec.dtype.name]

    def build(inner: Writer) -> None:
        places = [inner.pointer("%source", lane * source_step, element) for lane in range(lanes)]
        rows = [load_vector(inner, spec.dtype, place, lanes) for place in places]
        for lane, value in enumerate(exchanged(inner, vector(element, lanes), rows)):
            store_vector(inner, spec.dtype, value, inner.pointer("%target", lane * target_step, element), lanes)

    return w.function("square", [("ptr noalias", "%source"), ("ptr noalias", "%target")], build)
