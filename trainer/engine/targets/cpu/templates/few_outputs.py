"""Convolutions with few output channels (an image, a score map), and input gradients of those with few input channels:
vectors run along pixels.

Vectors along three channels would leave 13 of 16 lanes idle. Instead, a task copies its window of the input into
scratch channel by channel. The length of each row includes padding and a gap, so that the pixels of all rows form one
line and a tap is an offset along it. A tile is all output channels by some vectors of that line; weights are broadcast.
The finished line is gathered pixel by pixel, goes through the epilogue and is stored. Values in the gaps are not used.

Numerics class "exact", the same chains as `convolution`: from zero over (r, s, c) ascending; the input gradient over
pixels of dy ascending, then k.

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments as in `convolution`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from trainer.engine.graph.dtypes import float32, float64
from trainer.engine.targets.cpu.costs import cycles as costs
from trainer.engine.targets.cpu.costs.ranking import sized
from trainer.engine.targets.cpu.kernels import copies
from trainer.engine.targets.cpu.kernels.access import Elements
from trainer.engine.targets.cpu.kernels.epilogue import OperandPointers
from trainer.engine.targets.cpu.kernels.geometry import RSCK, ConvolutionSpec, correlation
from trainer.engine.targets.cpu.kernels.task_bounds import Bounds, output_pixel, phase_bounds
from trainer.engine.targets.cpu.kernels.tile import odd_lines, run_tile, store_finished
from trainer.engine.targets.cpu.kernels.tile_shape import Level, Tile
from trainer.engine.targets.cpu.kernels.transpose import exchanged
from trainer.engine.targets.cpu.machine import Machine
from trainer.engine.targets.cpu.template import Argument, Template, TemplateKernel
from trainer.engine.targets.cpu.templates import convolution
from trainer.engine.targets.ir.expression import lanes_of
from trainer.engine.targets.ir.writer import Integer, Writer

SCRATCH_LIMIT = 2 << 20


@dataclass(frozen=True, slots=True)
class FewOutputsSpec:
    """A convolution, or an input gradient, to at most half as many channels as a vector has lanes."""

    convolution: ConvolutionSpec


@dataclass(frozen=True, slots=True)
class FewOutputsParameters:
    """Parameters of the kernel; any values give the same bits.

    A tile is all channels by tile_vectors vectors of pixels; a task covers task_rows rows of one image.
    """

    tile_vectors: int
    task_rows: int


def few_outputs(spec: ConvolutionSpec) -> FewOutputsSpec | None:
    """The specification for this template, or None if it does not support the convolution."""
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
        and 2 * form.columns.most_outputs > lanes
        and FewOutputsKernel(found, FewOutputsParameters(1, 1)).scratch_bytes <= SCRATCH_LIMIT
    )
    return found if possible else None


class FewOutputsKernel(TemplateKernel[FewOutputsSpec, FewOutputsParameters]):
    """Rows and channels in scratch are `row` and `channel` elements apart; the finished line begins at `start`."""

    def __init__(self, spec: FewOutputsSpec, parameters: FewOutputsParameters) -> None:
        super().__init__(spec, parameters)
        self.form = form = correlation(spec.convolution)
        width, rows = form.columns.most_outputs, min(parameters.task_rows, form.rows.most_outputs)
        down, along = (
            (max(max(phase.taps for phase in axis.phases), 1) - 1) * axis.tap_step for axis in (form.rows, form.columns)
        )
        self.row = width + along
        self.vectors = -(-((rows - 1) * self.row + width) // self.lanes)
        self.finished = self.vectors * self.lanes
        self.channel = odd_lines(self.finished + down * self.row + along, self.lanes)
        self.start = form.inputs * self.channel

    @property
    def grid(self) -> tuple[int, ...]:
        """Tasks along images, rows and phases."""
        rows = -(-self.form.rows.most_outputs // self.parameters.task_rows)
        return self.form.images, rows, len(self.form.phases)

    @property
    def scratch_bytes(self) -> int:
        return (self.start + self.form.outputs * self.finished) * self.dtype.itemsize

    def write(self) -> None:
        plain, form, lanes, w, at = self.spec.convolution, self.form, self.lanes, self.w, self.memory.at
        if not (plain.packed or (plain.direction == "forward" and plain.weight_order == RSCK)):
            raise ValueError(f"only the forward pass of weights in the order {RSCK} can do without packing")
        x, weights, output = (w.argument(word) for word in range(3))
        operands = OperandPointers.load(w, plain.epilogue, 3)
        image, row_task, phase = w.unravel("%task", *self.grid[1:])
        shares = self.parameters.task_rows, form.columns.most_outputs
        rows, columns, depth_start = phase_bounds(w, form, shares, phase, row_task, 0)
        depth_step = lanes if plain.packed else plain.filters
        weights = at(weights, w.multiply(depth_start, depth_step))
        self.copy(x, image, rows, columns)

        run = w.multiply(columns.taps, form.inputs)
        values = {"%row_taps": rows.taps, "%column_taps": columns.taps, "%line_step": w.multiply(run, depth_step)}
        known = {key: value if isinstance(value, int) else key for key, value in values.items()}
        levels = (
            Level(known["%row_taps"], known["%line_step"], form.rows.tap_step * self.row),
            Level(known["%column_taps"], form.inputs * depth_step, form.columns.tap_step),
            Level(form.inputs, depth_step, self.channel),
        )
        channels = tuple(range(form.outputs))
        outputs = tuple(channel * self.finished for channel in channels)
        finished = at("%scratch", self.start)
        with w.loop(0, self.vectors, self.parameters.tile_vectors) as place:
            here = w.multiply(place.index, lanes)
            pointers = weights, at("%scratch", here), at(finished, here)
            for count, _ in w.cut(place.index, self.vectors, self.parameters.tile_vectors):
                shape = Tile(self.dtype, channels, outputs, count, lanes, lanes, levels)
                run_tile(w, f"tile_{count}", shape, pointers, values)

        with w.loop(rows.start, rows.stop) as row, w.loop(0, columns.count) as column:
            line = w.add(w.multiply(w.subtract(row.index, rows.start), self.row), column.index)
            value = "zeroinitializer"
            for channel in channels:
                pointer = at(finished, w.add(line, channel * self.finished))
                scalar = w.value(f"load {self.memory.element}, ptr {pointer}, align {self.dtype.itemsize}", "s")
                value = w.value(
                    f"insertelement {self.memory.kind} {value}, {self.memory.element} {scalar}, i32 {channel}", "s"
                )
            pixel = output_pixel(w, form, (rows, columns), image, row.index, column.index)
            offset = w.multiply(pixel, form.outputs)
            store_finished(w, operands, self.dtype, value, output, offset, 0, form.outputs)

    def copy(self, x: str, image: Integer, rows: Bounds, columns: Bounds) -> None:
        """Copies the rows that a task reads into scratch, channel by channel, with zeros beyond the image."""
        form, lanes, w, at = self.form, self.lanes, self.w, self.memory.at
        clear, square = copies.define_clear(w, self.dtype), self.define_square()
        top = w.add(rows.input_start, rows.start)
        height = w.add(w.subtract(rows.stop, rows.start), w.multiply(w.subtract(rows.taps, 1), form.rows.tap_step))
        width = w.add(columns.count, w.multiply(w.subtract(columns.taps, 1), form.columns.tap_step))
        first, last, right = copies.inside(w, columns.input_start, width, form.columns.extent)
        before, valid = w.subtract(first, columns.input_start), w.subtract(last, first)
        after = w.subtract(right, last)
        with w.loop(0, height) as row:
            target = at("%scratch", w.multiply(row.index, self.row))
            input_row = w.add(top, row.index)
            inside = w.value(f"icmp ult i64 {input_row}, {form.rows.extent}", "c")
            with w.unless(inside), w.loop(0, form.inputs) as channel:
                w.run(clear, (at(target, w.multiply(channel.index, self.channel)),), (width,))
            with w.when(inside):
                for start, count in ((0, before), (w.add(before, valid), after)):
                    if count != 0:
                        with w.loop(0, form.inputs) as channel:
                            there = at(target, w.add(w.multiply(channel.index, self.channel), start))
                            w.run(clear, (there,), (count,))
                if valid == 0:
                    return
                pixel = w.multiply(w.add(w.multiply(image, form.rows.extent), input_row), form.columns.extent)
                source = at(x, w.multiply(w.add(pixel, first), form.inputs))
                middle = at(target, before)

                def pointers(column: Integer, channel: Integer) -> tuple[str, str]:
                    here = at(source, w.add(w.multiply(column, form.inputs), channel))
                    return here, at(middle, w.add(w.multiply(channel, self.channel), column))

                wide = w.value(f"icmp sge i64 {valid}, {lanes}", "c")
                with w.when(wide), w.loop(0, valid, lanes) as pixels, w.loop(0, form.inputs, lanes) as channels:
                    # the last squares overlap those before them
                    column = w.minimum(pixels.index, w.subtract(valid, lanes))
                    w.run(square, pointers(column, w.minimum(channels.index, form.inputs - lanes)))
                with w.unless(wide), w.loop(0, valid) as single, w.loop(0, form.inputs) as channel:
                    here, there = pointers(single.index, channel.index)
                    value = w.value(f"load {self.memory.element}, ptr {here}, align {self.dtype.itemsize}")
                    w.emit(f"store {self.memory.element} {value}, ptr {there}, align {self.dtype.itemsize}")

    def define_square(self) -> str:
        """Defines `square(source, target)`: transposes `lanes` pixels of `lanes` channels."""

        def build(inner: Writer) -> None:
            memory = Elements(inner, self.dtype)
            places = [memory.at("%source", lane * self.form.inputs) for lane in range(self.lanes)]
            rows = [memory.load(place) for place in places]
            for lane, value in enumerate(exchanged(inner, memory.kind, rows)):
                memory.store(value, "%target", lane * self.channel)

        return self.w.function("square", [("ptr noalias", "%source"), ("ptr noalias", "%target")], build)


GATHER_CYCLES = 12
"""Cycles to gather, finish and store the channels of a pixel."""


def candidates(spec: FewOutputsSpec, machine: Machine) -> tuple[FewOutputsParameters, ...]:
    """Tiles along pixels whose accumulators stay in registers."""
    form = correlation(spec.convolution)
    width, height = form.columns.most_outputs, form.rows.most_outputs
    depth = form.packing.depth / len(form.phases)

    def sizes(_: float, task_rows: int) -> Iterator[tuple[FewOutputsParameters, int, float]]:
        vectors = FewOutputsKernel(spec, FewOutputsParameters(1, task_rows)).vectors
        for v in range(1, min(vectors, machine.vectors) + 1):
            parameters = FewOutputsParameters(v, task_rows)
            kernel = FewOutputsKernel(spec, parameters)
            scratch, tasks = kernel.scratch_bytes, kernel.tasks
            spills = v > 1 and not costs.fits_registers(form.outputs, v, machine)  # no tile is smaller than v = 1
            if spills or scratch > SCRATCH_LIMIT:
                continue
            cycles = sum(many * _line_cycles(form.outputs, size, depth) for size, many in costs.pieces(vectors, v))
            cycles += costs.TASK_OVERHEAD + scratch / costs.COPY_BYTES_PER_CYCLE + task_rows * width * GATHER_CYCLES
            again = vectors / v * scratch if scratch > machine.level2_bytes else 0
            yield parameters, tasks, tasks * (cycles + again / costs.SHARED_BYTES_PER_CYCLE)

    return sized([(0.0, (task_rows,)) for task_rows in costs.steps(1, height)], sizes, machine)


def _line_cycles(channels: int, vectors: int, depth: float) -> float:
    """Cycles of a tile along pixels: each of its vectors spans two cache lines, and is loaded once for each step."""
    step = max(channels * vectors / 2, (channels + 2 * vectors) / 2, costs.FMA_LATENCY)
    return depth * step + costs.TILE_OVERHEAD


def operands(spec: FewOutputsSpec) -> list[Argument]:
    """The arrays in the order of the argument block."""
    return convolution.operands(spec.convolution)


TEMPLATE = Template(FewOutputsSpec, FewOutputsParameters, FewOutputsKernel, operands, candidates)
