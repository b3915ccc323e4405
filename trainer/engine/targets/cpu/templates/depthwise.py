"""Depthwise convolutions (each channel separately), convolutions with small groups, and their input gradients.

Vectors run along channels, so that a vector holds several groups: each channel of a group in turn is broadcast to the
group's lanes. Numerics class "exact", the same chains as `convolution`: from zero over (r, s, c) ascending; the input
gradient over pixels of dy ascending, then k. Taps in the padding are skipped. Weights are read in place, in RSCK order;
for the input gradient of groups, `ExchangedWeights` exchanges c and k within each group. The weight gradient is in
`depthwise_weights`.

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: [input, weights, output, epilogue operands...],
addresses; input and output are channels-last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from trainer.engine.graph.dtypes import DType, float32, float64
from trainer.engine.targets.cpu.costs.cycles import TASK_OVERHEAD, balance, pieces, steps
from trainer.engine.targets.cpu.costs.ranking import best
from trainer.engine.targets.cpu.kernels.access import Elements
from trainer.engine.targets.cpu.kernels.epilogue import OperandPointers
from trainer.engine.targets.cpu.kernels.geometry import RSCK, Axis, AxisPhase, ConvolutionSpec, correlation
from trainer.engine.targets.cpu.kernels.task_bounds import output_pixel, taps_inside
from trainer.engine.targets.cpu.kernels.tile import cut_columns, store_finished
from trainer.engine.targets.cpu.machine import Machine
from trainer.engine.targets.cpu.template import Argument, Template, TemplateKernel
from trainer.engine.targets.cpu.templates import convolution, weight_gradient
from trainer.engine.targets.ir.expression import MEMORY, lanes_of
from trainer.engine.targets.ir.writer import Integer, Writer

SMALL_GROUPS = (1, 2, 4, 8)
"""Supported numbers of channels in a group: a vector holds several groups."""


@dataclass(frozen=True, slots=True)
class DepthwiseSpec:
    """A direction of a convolution whose groups have a few channels and equally many filters; weights in RSCK order."""

    convolution: ConvolutionSpec

    @property
    def group(self) -> int:
        """Channels, and filters, of a group."""
        return self.convolution.channels // self.convolution.groups

    @property
    def vectors(self) -> int:
        """Vectors of channels."""
        return -(-self.convolution.channels // lanes_of(self.convolution.dtype))

    @property
    def exchanges(self) -> bool:
        """Whether the weights are `ExchangedWeights`."""
        return self.group > 1 and self.convolution.direction == "input_gradient"


@dataclass(frozen=True, slots=True)
class DepthwiseParameters:
    """Parameters of the kernel; any values give the same bits.

    tile_columns pixels are accumulated at once (not in weight gradients). A task covers task_rows rows of one image
    and task_vectors vectors of channels; in a weight gradient, one group of blocks and task_vectors vectors.
    """

    tile_columns: int
    task_rows: int
    task_vectors: int


def depthwise(spec: ConvolutionSpec) -> DepthwiseSpec | None:
    """The specification for these templates, or None if they do not support the convolution."""
    possible = (
        spec.dtype in (float32, float64)
        and spec.channels == spec.filters
        and spec.groups > 1
        and spec.channels // spec.groups in SMALL_GROUPS
        and 2 * spec.channels // spec.groups <= lanes_of(spec.dtype)
        and math.prod(spec.window) > 1
        and not spec.pairs
        and spec.weight_order == RSCK
    )
    if possible and spec.direction == "weight_gradient":
        blocks = weight_gradient.pixel_blocks(spec)
        possible = blocks.block[2] == blocks.whole[2]
    return DepthwiseSpec(spec) if possible else None


class DepthwiseKernel(TemplateKernel[DepthwiseSpec, DepthwiseParameters]):
    """The forward pass or the input gradient: pixels along rows by vectors of channels."""

    def __init__(self, spec: DepthwiseSpec, parameters: DepthwiseParameters) -> None:
        super().__init__(spec, parameters)
        self.form = correlation(spec.convolution)

    @property
    def grid(self) -> tuple[int, ...]:
        """Tasks along images, vectors, rows and phases."""
        vectors = -(-self.spec.vectors // self.parameters.task_vectors)
        rows = -(-self.form.rows.most_outputs // self.parameters.task_rows)
        return self.form.images, vectors, rows, len(self.form.phases)

    def write(self) -> None:
        plain, parameters, form, w, at = self.spec.convolution, self.parameters, self.form, self.w, self.memory.at
        x, weights, output = (w.argument(word) for word in range(3))
        operands = OperandPointers.load(w, plain.epilogue, 3)
        stored = MEMORY[plain.epilogue.output(plain.dtype).name]
        image, vector_task, row_task, phase_task = w.unravel("%task", *self.grid[1:])
        first_vector, last_vector = w.share(vector_task, parameters.task_vectors, self.spec.vectors)
        rows, columns, channels = form.rows, form.columns, plain.channels
        for number in w.places(phase_task, range(len(form.phases))):
            phase = form.phases[number]
            first_row, last_row = w.share(row_task, parameters.task_rows, phase.rows.count)
            with w.loop(first_row, last_row) as row, w.loop(0, phase.columns.count, parameters.tile_columns) as column:
                top = w.add(phase.rows.input_start, w.multiply(row.index, rows.input_step))
                first_tap, taps = _taps_inside(w, rows, phase.rows, top)
                left = w.add(phase.columns.input_start, w.multiply(column.index, columns.input_step))
                read = w.add(w.multiply(image, rows.extent), w.add(top, w.multiply(first_tap, rows.tap_step)))
                read = w.multiply(w.add(w.multiply(read, columns.extent), left), channels)
                pixel = output_pixel(w, form, (phase.rows, phase.columns), image, row.index, column.index)
                written = w.multiply(pixel, channels)
                tap = w.add(phase.rows.first, w.multiply(first_tap, phase.rows.step))
                weight = w.multiply(tap, plain.window[1] * self.spec.group * channels)
                for edge, width in _edges(w, columns, phase.columns, parameters.tile_columns, column.index):
                    with w.loop(first_vector, last_vector) as block:
                        channel = w.multiply(block.index, self.lanes)
                        offset = w.add(written, channel)
                        inputs = at(x, w.add(read, channel)), at(weights, w.add(weight, channel))
                        pointers = (*inputs, w.pointer(output, offset, stored), *operands.at(w, offset, channel))
                        for _, active in cut_columns(w, block.index, channels, self.lanes):
                            w.run(self.define_tile(number, edge, width, active), pointers, (taps,))

    def define_tile(self, number: int, edge: int, width: int, active: int) -> str:
        """Defines `tile(x, weights, output, epilogue operands..., taps)`: `width` pixels of one vector of channels."""
        plain, phase, group = self.spec.convolution, self.form.phases[number], self.spec.group
        dtype, channels, axis, columns, rows = plain.dtype, plain.channels, self.form.columns, phase.columns, phase.rows
        every = ((pixel, tap) for pixel in range(width) for tap in range(columns.taps))
        pairs = tuple(every) if edge < 0 else _pairs(axis, columns, edge, width)
        readers: dict[int, list[tuple[int, int]]] = {}
        for pixel, tap in pairs:
            readers.setdefault(pixel * axis.input_step + tap * axis.tap_step, []).append((pixel, tap))
        bases = OperandPointers.parameters(plain.epilogue)

        def build(inner: Writer) -> None:
            memory = Elements(inner, dtype)
            sums = ["zeroinitializer"] * width
            if readers and rows.taps:
                with inner.loop(0, "%taps", 1, [(memory.kind, value) for value in sums]) as loop:
                    line = memory.at("%x", inner.multiply(loop.index, self.form.rows.tap_step * axis.extent * channels))
                    step = rows.step * plain.window[1] * group * channels
                    row = memory.at("%weights", inner.multiply(loop.index, step))
                    factors = {
                        tap: [
                            memory.load(
                                row, ((columns.first + tap * columns.step) * group + channel) * channels, active
                            )
                            for channel in range(group)
                        ]
                        for tap in sorted({tap for _, tap in pairs})
                    }
                    sums = list(loop.carried)
                    for place in sorted(readers):
                        values = spread(memory, group, memory.load(line, place * channels, active))
                        for pixel, tap in readers[place]:
                            for value, factor in zip(values, factors[tap], strict=True):
                                sums[pixel] = inner.apply("fma", memory.kind, value, factor, sums[pixel])
                    loop.next = sums
                sums = loop.next
            for pixel, total in enumerate(sums):
                offset = pixel * axis.output_step * channels
                store_finished(inner, bases, dtype, total, "%output", offset, 0, active)

        parameters = [("ptr noalias", "%x"), ("ptr noalias", "%weights"), ("ptr", "%output"), *bases.typed]
        name = f"tile_{number}_{'whole' if edge < 0 else edge}_{width}_{active}"
        return self.w.function(name, [*parameters, ("i64", "%taps")], build)


def _taps_inside(w: Writer, axis: Axis, phase: AxisPhase, start: Integer) -> tuple[Integer, Integer]:
    """The first tap inside the image if tap 0 reads `start`, and the number of taps inside."""
    inside = phase.input_start >= 0 and phase.input_start + axis.span(phase.count, phase.taps) <= axis.extent
    if inside or not phase.taps:
        return 0, phase.taps
    return taps_inside(w, axis, phase.taps, start)


def _pairs(axis: Axis, phase: AxisPhase, start: int, width: int) -> tuple[tuple[int, int], ...]:
    """The pairs (pixel, tap) of a tile of `width` pixels at `start` that read inside the image."""
    return tuple(
        (pixel, tap)
        for pixel in range(width)
        for tap in range(phase.taps)
        if 0 <= phase.input_start + (start + pixel) * axis.input_step + tap * axis.tap_step < axis.extent
    )


def _edges(w: Writer, axis: Axis, phase: AxisPhase, tile: int, column: Integer) -> Iterator[tuple[int, int]]:
    """Yields each kind of tile along a row in its own branch: (column, width); column -1: entirely inside the image."""
    starts = range(0, phase.count, tile)
    whole = [start for start in starts if len(_pairs(axis, phase, start, tile)) == tile * phase.taps]
    whole = [start for start in whole if start + tile <= phase.count]
    if len(whole) < 2 or isinstance(column, int):
        for start in w.places(column, starts):
            yield start, min(tile, phase.count - start)
        return
    after = w.value(f"icmp sge i64 {column}, {whole[0]}", "c")
    before = w.value(f"icmp sle i64 {column}, {whole[-1]}", "c")
    with w.when(w.value(f"and i1 {after}, {before}", "c")):
        yield -1, tile
    for start in starts:
        if start not in whole:
            with w.when(w.value(f"icmp eq i64 {column}, {start}", "c")):
                yield start, min(tile, phase.count - start)


def spread(memory: Elements, group: int, value: str) -> list[str]:
    """For each channel of a group, a vector with this channel in all lanes of its group."""
    if group == 1:
        return [value]
    orders = [[lane // group * group + channel for lane in range(memory.lanes)] for channel in range(group)]
    return [memory.writer.shuffle(memory.kind, value, "poison", order) for order in orders]


@dataclass(frozen=True, slots=True)
class ExchangedWeights:
    """The kernel that copies weights [R][S][C/groups][K] to [R][S][K/groups][C], one tap per task."""

    depthwise: DepthwiseSpec

    @property
    def dtype(self) -> DType:
        return self.depthwise.convolution.dtype

    @property
    def size(self) -> int:
        return self.depthwise.convolution.weights

    @property
    def tasks(self) -> int:
        return math.prod(self.depthwise.convolution.window)

    def render(self, name: str) -> str:
        """The module of the kernel."""
        w, element = Writer(), MEMORY[self.dtype.name]
        channels, group = self.depthwise.convolution.channels, self.depthwise.group
        start = w.multiply("%task", group * channels)
        source, target = (w.pointer(w.argument(word), start, element) for word in range(2))
        with w.loop(0, channels) as loop:
            first, within = w.divide(loop.index, group)
            place = w.add(w.multiply(within, channels), w.multiply(first, group))
            for filter_ in range(group):
                value = w.value(f"load {element}, ptr {w.pointer(source, w.add(place, filter_), element)}")
                there = w.pointer(target, w.add(loop.index, filter_ * channels), element)
                w.emit(f"store {element} {value}, ptr {there}")
        return w.module(name, scratch=True)


def candidates(spec: DepthwiseSpec, machine: Machine) -> tuple[DepthwiseParameters, ...]:
    """Ranks tiles along a row by the data that they read, and tasks by their rows."""
    plain, panels = spec.convolution, spec.vectors
    products = math.prod(plain.window) * math.prod(plain.output_spatial) * plain.images * spec.group
    form = correlation(plain)
    width = form.columns.most_outputs
    factors = plain.window[1] * spec.group
    most = max(1, min(width, machine.vectors - 2 - (factors if 2 * factors < machine.vectors else spec.group)))
    options: list[tuple[float, DepthwiseParameters]] = []
    for tile_columns in range(max(1, most // 2), most + 1):
        reads = sum(size + plain.window[1] + 4 for size, many in pieces(width, tile_columns) for _ in range(many))
        for task_rows, task_vectors in product(steps(1, form.rows.most_outputs), {panels, -(-panels // 2)}):
            parameters = DepthwiseParameters(tile_columns, task_rows, task_vectors)
            tasks = DepthwiseKernel(spec, parameters).tasks
            total = (products * panels * reads / width + tasks * TASK_OVERHEAD) * balance(tasks, machine)
            options.append((total * (2 - task_vectors / panels), parameters))
    return best(options)


def operands(spec: DepthwiseSpec) -> list[Argument]:
    """The arrays in the order of the argument block."""
    plain = spec.convolution
    source, _, *others = convolution.operands(plain)
    return [source, Argument(plain.dtype, plain.weights), *others]


TEMPLATE = Template(
    DepthwiseSpec, DepthwiseParameters, DepthwiseKernel, operands, candidates, directions=("forward", "input_gradient")
)
