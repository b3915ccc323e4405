"""The gradient of a depthwise convolution, or of one with small groups, with respect to its weights: vectors run along
filters and are multiplied by the channels of their groups in turn.

Numerics class "exact", the same sums as `weight_gradient`: its blocks of pixels, within a block one chain over (image,
row, column) ascending for each weight, without padding, blocks and groups added in order. A row of y is multiplied with
every tap that is inside the image there; the sums of a block stay in scratch between rows.

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: [x, dy, totals], addresses; totals as in
`weight_gradient`; the kernel of `totals` adds them up if they are not the result.
"""

from __future__ import annotations

import math

from trainer.engine.targets.cpu.costs.cycles import TASK_OVERHEAD, balance, steps
from trainer.engine.targets.cpu.costs.ranking import best
from trainer.engine.targets.cpu.kernels.access import Elements
from trainer.engine.targets.cpu.kernels.tile import cut_columns
from trainer.engine.targets.cpu.machine import Machine
from trainer.engine.targets.cpu.template import Argument, Template, TemplateKernel
from trainer.engine.targets.cpu.templates import weight_gradient
from trainer.engine.targets.cpu.templates.depthwise import DepthwiseParameters, DepthwiseSpec, spread
from trainer.engine.targets.ir.writer import Integer, Writer

MOST_SUMS = 25
"""Maximum sums that a pass over a row holds in registers; larger windows take several passes over rows of taps."""


def _row_kinds(spec: DepthwiseSpec) -> tuple[list[int], list[tuple[int, int]]]:
    """For each row of y, the number of its kind; and the kinds: rows of taps [first, last) inside the image."""
    convolution = spec.convolution
    step, spacing, padding = convolution.strides[0], convolution.dilation[0], convolution.padding[0][0]
    kinds: dict[tuple[int, int], int] = {}
    numbers = []
    for row in range(convolution.output_spatial[0]):
        places = [row * step + tap * spacing - padding for tap in range(convolution.window[0])]
        met = [tap for tap, place in enumerate(places) if 0 <= place < convolution.spatial[0]]
        kind = (met[0], met[-1] + 1) if met else (0, 0)
        numbers.append(kinds.setdefault(kind, len(kinds)))
    return numbers, list(kinds)


class DepthwiseWeightsKernel(TemplateKernel[DepthwiseSpec, DepthwiseParameters]):
    """Computes vectors of filters, each over the pixels of one block after another."""

    def __init__(self, spec: DepthwiseSpec, parameters: DepthwiseParameters) -> None:
        super().__init__(spec, parameters)
        self.blocks = weight_gradient.pixel_blocks(spec.convolution)
        self.taps = math.prod(spec.convolution.window) * spec.group

    @property
    def grid(self) -> tuple[int, ...]:
        """Tasks along groups of blocks and vectors."""
        return self.blocks.groups, -(-self.spec.vectors // self.parameters.task_vectors)

    @property
    def scratch_bytes(self) -> int:
        return self.taps * 64  # a block's sums

    def write(self) -> None:
        plain, blocks, taps, w, memory = self.spec.convolution, self.blocks, self.taps, self.w, self.memory
        channels, lanes = plain.channels, self.lanes
        x, dy, totals = (w.argument(word) for word in range(3))
        group, vector_task = w.divide("%task", self.grid[1])
        totals = memory.at(totals, w.multiply(group, taps * channels))
        first_vector, last_vector = w.share(vector_task, self.parameters.task_vectors, self.spec.vectors)
        first_block, last_block = w.share(group, blocks.blocks_per_group, math.prod(blocks.counts))
        numbers, kinds = _row_kinds(self.spec)
        table = w.table("kinds", numbers)
        (height, width), (rows, columns) = plain.spatial, plain.output_spatial

        def add_block(block: Integer, channel: Integer, active: int) -> None:
            with w.loop(0, taps) as tap:
                memory.store("zeroinitializer", "%scratch", w.multiply(tap.index, lanes))
            starts, extents = weight_gradient.block_bounds(w, blocks, block)
            with w.loop(starts[0], w.add(starts[0], extents[0])) as image:  # noqa: SIM117 - the rows' bounds are its own
                with w.loop(starts[1], w.add(starts[1], extents[1])) as row:
                    top = w.subtract(w.multiply(row.index, plain.strides[0]), plain.padding[0][0])
                    read = w.multiply(w.add(w.multiply(image.index, height), top), width * channels)
                    given = w.multiply(w.add(w.multiply(image.index, rows), row.index), columns * channels)
                    line, slope = memory.at(x, w.add(read, channel)), memory.at(dy, w.add(given, channel))
                    number: Integer = w.value(f"load i64, ptr {w.pointer(table, row.index, 'i64')}")
                    for met in w.places(number, range(len(kinds))):
                        for function in self.define_rows(kinds[met], active):
                            w.run(function, ("%scratch", line, slope))
            with w.loop(0, taps) as tap:
                target = memory.at(totals, w.add(w.multiply(tap.index, channels), channel))
                value = memory.load("%scratch", w.multiply(tap.index, lanes))
                value = w.value(f"fadd {memory.kind} {memory.load(target, 0, active)}, {value}")
                memory.store(value, target, 0, active)

        with w.loop(first_vector, last_vector) as each:
            channel = w.multiply(each.index, lanes)
            for _, active in cut_columns(w, each.index, channels, lanes):
                with w.loop(0, taps) as tap:
                    place = w.add(w.multiply(tap.index, channels), channel)
                    memory.store("zeroinitializer", totals, place, active)
                with w.loop(first_block, last_block) as block:
                    add_block(block.index, channel, active)

    def define_rows(self, kind: tuple[int, int], active: int) -> list[str]:
        """Defines functions `row(sums, x, dy)` that together add a row of y to the sums of tap rows [first, last)."""
        at_once = max(1, MOST_SUMS // (self.spec.convolution.window[1] * self.spec.group))
        return [self.define_row((first, min(first + at_once, kind[1])), active) for first in range(*kind, at_once)]

    def define_row(self, taps_rows: tuple[int, int], active: int) -> str:
        """Defines the function for some rows of taps."""
        plain, group = self.spec.convolution, self.spec.group
        channels, width, columns, taps_columns = (
            plain.channels,
            plain.spatial[1],
            plain.output_spatial[1],
            plain.window[1],
        )
        step, spacing, padding = plain.strides[1], plain.dilation[1], plain.padding[1][0]
        taps = [(r, s) for r in range(*taps_rows) for s in range(taps_columns)]

        def inside(column: int, tap: int) -> bool:
            return 0 <= column * step + tap * spacing - padding < width

        whole = [column for column in range(columns) if inside(column, 0) and inside(column, taps_columns - 1)]
        first, last = (whole[0], whole[-1] + 1) if len(whole) > 1 else (columns, columns)

        def build(inner: Writer) -> None:
            memory = Elements(inner, self.dtype)

            def pixel(sums: list[str], column: Integer, used: list[tuple[int, int]]) -> list[str]:
                line = memory.at("%x", inner.multiply(column, step * channels))
                factor = memory.load("%dy", inner.multiply(column, channels), active)
                result = list(sums)
                for r, s in used:
                    offset = (r * plain.dilation[0] * width + s * spacing - padding) * channels
                    values = spread(memory, group, memory.load(line, offset, active))
                    for number, each in enumerate(values, taps.index((r, s)) * group):
                        result[number] = inner.apply("fma", memory.kind, each, factor, result[number])
                return result

            first_sum = taps_rows[0] * taps_columns * group
            kept = [memory.at("%sums", (first_sum + number) * self.lanes) for number in range(len(taps) * group)]
            sums = [memory.load(place) for place in kept]
            for column in range(first):
                sums = pixel(sums, column, [tap for tap in taps if inside(column, tap[1])])
            if first < last:
                with inner.loop(first, last, 1, [(memory.kind, value) for value in sums]) as loop:
                    loop.next = pixel(loop.carried, loop.index, taps)
                sums = loop.next
            for column in range(last, columns):
                sums = pixel(sums, column, [tap for tap in taps if inside(column, tap[1])])
            for place, value in zip(kept, sums, strict=True):
                memory.store(value, place)

        parameters = [("ptr noalias", "%sums"), ("ptr noalias", "%x"), ("ptr noalias", "%dy")]
        return self.w.function(f"row_{taps_rows[0]}_{taps_rows[1]}_{active}", parameters, build)


def candidates(spec: DepthwiseSpec, machine: Machine) -> tuple[DepthwiseParameters, ...]:
    """Ranks tasks by how evenly they divide the work."""
    plain, panels = spec.convolution, spec.vectors
    products = math.prod(plain.window) * math.prod(plain.output_spatial) * plain.images * spec.group
    options: list[tuple[float, DepthwiseParameters]] = []
    for task_vectors in steps(1, panels):
        parameters = DepthwiseParameters(1, 1, task_vectors)
        count = DepthwiseWeightsKernel(spec, parameters).tasks
        options.append(((products * panels / 2 + count * TASK_OVERHEAD) * balance(count, machine), parameters))
    return best(options)


def operands(spec: DepthwiseSpec) -> list[Argument]:
    """The arrays in the order of the argument block."""
    return weight_gradient.operands(spec.convolution)


TEMPLATE = Template(
    DepthwiseSpec, DepthwiseParameters, DepthwiseWeightsKernel, operands, candidates, directions=("weight_gradient",)
)
