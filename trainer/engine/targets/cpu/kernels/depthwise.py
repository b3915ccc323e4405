"""Depthwise convolutions (each channel by itself), those of small groups, and their input gradients.

Vectors run along channels, so that one holds several groups: of an input vector every channel of its group is spread
over the group's lanes in turn. Numerics class "exact", the same chains as `convolution`: from zero over (r, s, c)
ascending; the input gradient over pixels of dy ascending, then k. Taps in the padding are left out. Weights are read as
they lie (RSCK); for the input gradient of groups `render_weights` exchanges c and k within each group. The weight
gradient is in `depthwise_weights`.

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: [input, weights, output, epilogue operands...],
addresses; input and output are channels-last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from trainer.engine.graph.dtypes import float32, float64
from trainer.engine.targets.cpu.kernels import weight_gradient
from trainer.engine.targets.cpu.kernels.access import load_vector, store_vector
from trainer.engine.targets.cpu.kernels.convolution import output_pixel, taps_inside
from trainer.engine.targets.cpu.kernels.epilogue import OperandPointers
from trainer.engine.targets.cpu.kernels.expression import MEMORY
from trainer.engine.targets.cpu.kernels.geometry import RSCK, Axis, AxisPhase, ConvolutionSpec, Phase, correlation
from trainer.engine.targets.cpu.kernels.tile import cut_columns, finish, lanes_of
from trainer.engine.targets.cpu.kernels.writer import Integer, Writer, vector

SMALL_GROUPS = (1, 2, 4, 8)
"""Channels of a group that these templates take: several groups in a vector."""


@dataclass(frozen=True, slots=True)
class DepthwiseSpec:
    """A direction of a convolution with groups of a few channels and as many filters; weights in RSCK order."""

    convolution: ConvolutionSpec

    @property
    def group(self) -> int:
        """Channels, and filters, of a group."""
        return self.convolution.channels // self.convolution.groups

    @property
    def exchanges(self) -> bool:
        """Whether the weights are those that `render_weights` wrote."""
        return self.group > 1 and self.convolution.direction == "input_gradient"


@dataclass(frozen=True, slots=True)
class DepthwiseParameters:
    """How it is computed; any values give the same bits.

    tile_columns pixels are accumulated at once (not in weight gradients); a task covers task_rows rows of one image
    and task_vectors vectors of channels, of a weight gradient one group of blocks and task_vectors vectors.
    """

    tile_columns: int
    task_rows: int
    task_vectors: int


def depthwise(spec: ConvolutionSpec) -> DepthwiseSpec | None:
    """The problem as one for these templates, or None."""
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


def vectors_of(spec: DepthwiseSpec) -> int:
    """Vectors of channels."""
    return -(-spec.convolution.channels // lanes_of(spec.convolution.dtype))


def _grid(spec: DepthwiseSpec, parameters: DepthwiseParameters) -> tuple[int, int, int, int]:
    """Tasks along vectors, images, rows and phases."""
    form = correlation(spec.convolution)
    rows = max(phase.count for phase in form.rows.phases)
    vectors = -(-vectors_of(spec) // parameters.task_vectors)
    return vectors, form.images, -(-rows // parameters.task_rows), len(form.phases)


def tasks(spec: DepthwiseSpec, parameters: DepthwiseParameters) -> int:
    """How many tasks the kernel has."""
    return math.prod(_grid(spec, parameters))


def scratch_bytes(spec: DepthwiseSpec, parameters: DepthwiseParameters) -> int:
    """Scratch memory that a thread needs: none."""
    return 0


def render(spec: DepthwiseSpec, parameters: DepthwiseParameters, name: str) -> str:
    """The module of the forward pass or the input gradient."""
    convolution = spec.convolution
    form, lanes = correlation(convolution), lanes_of(convolution.dtype)
    w = Writer()
    x, weights, output = (w.argument(word) for word in range(3))
    operands = OperandPointers.load(w, convolution.epilogue, 3)
    element, stored = (
        MEMORY[each.name] for each in (convolution.dtype, convolution.epilogue.output(convolution.dtype))
    )
    vector_tasks, _, row_tasks, phases = _grid(spec, parameters)
    image, vector_task, row_task, phase_task = w.unravel("%task", vector_tasks, row_tasks, phases)
    first_vector, last_vector = w.share(vector_task, parameters.task_vectors, vectors_of(spec))
    rows, columns, channels = form.rows, form.columns, convolution.channels
    for number in w.places(phase_task, range(phases)):
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
            weight = w.multiply(tap, convolution.window[1] * spec.group * channels)
            for edge, width in _edges(w, columns, phase.columns, parameters.tile_columns, column.index):
                with w.loop(first_vector, last_vector) as block:
                    channel = w.multiply(block.index, lanes)
                    offset = w.add(written, channel)
                    pointers = (
                        w.pointer(x, w.add(read, channel), element),
                        w.pointer(weights, w.add(weight, channel), element),
                        w.pointer(output, offset, stored),
                        *operands.at(w, offset, channel),
                    )
                    for _, active in cut_columns(w, block.index, channels, lanes):
                        function = _define_tile(w, spec, phase, number, edge, width, active)
                        w.run(function, pointers, (taps,))
    return w.module(name, scratch=True)


def _taps_inside(w: Writer, axis: Axis, phase: AxisPhase, start: Integer) -> tuple[Integer, Integer]:
    """The first tap that meets the image where tap 0 reads `start`, and how many do."""
    inside = phase.input_start >= 0 and phase.input_start + axis.reach(phase.count, phase.taps) <= axis.extent
    if inside or not phase.taps:
        return 0, phase.taps
    return taps_inside(w, axis, phase.taps, start)


def _pairs(axis: Axis, phase: AxisPhase, start: int, width: int) -> tuple[tuple[int, int], ...]:
    """(pixel, tap) of a tile of `width` at `start` that meet the image."""
    return tuple(
        (pixel, tap)
        for pixel in range(width)
        for tap in range(phase.taps)
        if 0 <= phase.input_start + (start + pixel) * axis.input_step + tap * axis.tap_step < axis.extent
    )


def _edges(w: Writer, axis: Axis, phase: AxisPhase, tile: int, column: Integer) -> Iterator[tuple[int, int]]:
    """Each kind of tile along a row, inside the branch where it is: (its column, its width); tiles that lie wholly
    inside the image are one kind, called -1.
    """
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


def _define_tile(w: Writer, spec: DepthwiseSpec, phase: Phase, number: int, edge: int, width: int, active: int) -> str:
    """Define `tile(x, weights, output, epilogue operands..., taps)`: `width` pixels of one vector of channels."""
    convolution = spec.convolution
    form, dtype, channels = correlation(convolution), convolution.dtype, convolution.channels
    lanes, element, epilogue = lanes_of(dtype), MEMORY[dtype.name], convolution.epilogue
    kind, stored = vector(element, lanes), epilogue.output(dtype)
    axis, columns, rows = form.columns, phase.columns, phase.rows
    every = ((pixel, tap) for pixel in range(width) for tap in range(columns.taps))
    pairs = tuple(every) if edge < 0 else _pairs(axis, columns, edge, width)
    readers: dict[int, list[tuple[int, int]]] = {}
    for pixel, tap in pairs:
        readers.setdefault(pixel * axis.input_step + tap * axis.tap_step, []).append((pixel, tap))
    bases = OperandPointers.parameters(epilogue)

    def build(inner: Writer) -> None:
        def load(base: str, offset: Integer) -> str:
            return load_vector(inner, dtype, inner.pointer(base, offset, element), lanes, active)

        sums = ["zeroinitializer"] * width
        if readers and rows.taps:
            with inner.loop(0, "%taps", 1, [(kind, value) for value in sums]) as loop:
                step = form.rows.tap_step * axis.extent * channels
                line = inner.pointer("%x", inner.multiply(loop.index, step), element)
                step = rows.step * convolution.window[1] * spec.group * channels
                row = inner.pointer("%weights", inner.multiply(loop.index, step), element)
                factors = {
                    tap: [
                        load(row, ((columns.first + tap * columns.step) * spec.group + channel) * channels)
                        for channel in range(spec.group)
                    ]
                    for tap in sorted({tap for _, tap in pairs})
                }
                sums = list(loop.carried)
                for place in sorted(readers):
                    values = spread(inner, kind, lanes, spec.group, load(line, place * channels))
                    for pixel, tap in readers[place]:
                        for value, factor in zip(values, factors[tap], strict=True):
                            sums[pixel] = inner.apply("fma", kind, value, factor, sums[pixel])
                loop.next = sums
            sums = loop.next
        for pixel, total in enumerate(sums):
            offset = pixel * axis.output_step * channels
            value = finish(inner, epilogue, dtype, total, bases.at(inner, offset, 0), active)
            target = inner.pointer("%output", offset, MEMORY[stored.name])
            store_vector(inner, stored, value, target, lanes, active)

    parameters = [("ptr noalias", "%x"), ("ptr noalias", "%weights"), ("ptr", "%output"), *bases.typed]
    name = f"tile_{number}_{'whole' if edge < 0 else edge}_{width}_{active}"
    return w.function(name, [*parameters, ("i64", "%taps")], build)


def spread(w: Writer, kind: str, lanes: int, group: int, value: str) -> list[str]:
    """For each channel of a group the vector in which all lanes of a group hold it."""
    if group == 1:
        return [value]
    orders = [[lane // group * group + channel for lane in range(lanes)] for channel in range(group)]
    return [w.shuffle(kind, value, "poison", order) for order in orders]


def weight_tasks(spec: DepthwiseSpec) -> int:
    """Tasks of `render_weights`: one for each tap."""
    return math.prod(spec.convolution.window)


def render_weights(spec: DepthwiseSpec, name: str) -> str:
    """The module of the kernel that writes weights [R][S][C/groups][K] as [R][S][K/groups][C]; arguments: [weights,
    exchanged weights]. They are few: element by element.
    """
    channels, group, element = spec.convolution.channels, spec.group, MEMORY[spec.convolution.dtype.name]
    w = Writer()
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
