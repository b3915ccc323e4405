"""The gradient of a depthwise convolution, or one of small groups, with respect to its weights: vectors run along
filters, each with its group's channels in turn.

Numerics class "exact", the same sums as `weight_gradient`: its blocks of pixels, within a block one chain over (image,
row, column) ascending for each weight, padding left out, blocks and groups added in order. A row of y is taken with
every tap that meets the image there; the sums of a block lie in scratch between rows.

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: [x, dy, totals], addresses; totals as in
`weight_gradient`, whose totals are added up where they are not the result (`totals`).
"""

from __future__ import annotations

import math

from trainer.engine.targets.cpu.kernels import weight_gradient
from trainer.engine.targets.cpu.kernels.access import load_vector, store_vector
from trainer.engine.targets.cpu.kernels.depthwise import DepthwiseParameters, DepthwiseSpec, spread, vectors_of
from trainer.engine.targets.cpu.kernels.expression import MEMORY
from trainer.engine.targets.cpu.kernels.tile import cut_columns, lanes_of
from trainer.engine.targets.cpu.kernels.writer import Integer, Writer, vector

MOST_SUMS = 25
"""Sums that a pass over a row holds in registers; larger windows take several passes, each some rows of taps."""


def tasks(spec: DepthwiseSpec, parameters: DepthwiseParameters) -> int:
    """How many tasks the kernel has."""
    vectors = -(-vectors_of(spec) // parameters.task_vectors)
    return vectors * weight_gradient.pixel_blocks(spec.convolution).groups


def scratch_bytes(spec: DepthwiseSpec, parameters: DepthwiseParameters) -> int:
    """Scratch memory that a thread needs: a block's sums."""
    return math.prod(spec.convolution.window) * spec.group * 64


def _row_kinds(spec: DepthwiseSpec) -> tuple[list[int], list[tuple[int, int]]]:
    """For each row of y the number of its kind, and the kinds: rows of taps [first, last) that meet the image."""
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


def render(spec: DepthwiseSpec, parameters: DepthwiseParameters, name: str) -> str:
    """The module of the kernel."""
    convolution = spec.convolution
    dtype, channels, blocks = convolution.dtype, convolution.channels, weight_gradient.pixel_blocks(convolution)
    element, lanes, taps = MEMORY[dtype.name], lanes_of(dtype), math.prod(convolution.window) * spec.group
    kind = vector(element, lanes)
    w = Writer()
    x, dy, totals = (w.argument(word) for word in range(3))
    group, vector_task = w.divide("%task", -(-vectors_of(spec) // parameters.task_vectors))
    totals = w.pointer(totals, w.multiply(group, taps * channels), element)
    first_vector, last_vector = w.share(vector_task, parameters.task_vectors, vectors_of(spec))
    first_block, last_block = w.share(group, blocks.blocks_per_group, math.prod(blocks.counts))
    numbers, kinds = _row_kinds(spec)
    table = w.table("kinds", numbers)
    (height, width), (rows, columns) = convolution.spatial, convolution.output_spatial

    def add_block(block: Integer, channel: Integer, active: int) -> None:
        with w.loop(0, taps) as tap:
            place = w.pointer("%scratch", w.multiply(tap.index, lanes), element)
            store_vector(w, dtype, "zeroinitializer", place, lanes)
        starts, extents = weight_gradient.block_bounds(w, blocks, block)
        with w.loop(starts[0], w.add(starts[0], extents[0])) as image:  # noqa: SIM117 - the rows' bounds are its own
            with w.loop(starts[1], w.add(starts[1], extents[1])) as row:
                top = w.subtract(w.multiply(row.index, convolution.strides[0]), convolution.padding[0][0])
                read = w.multiply(w.add(w.multiply(image.index, height), top), width * channels)
                given = w.multiply(w.add(w.multiply(image.index, rows), row.index), columns * channels)
                line = w.pointer(x, w.add(read, channel), element)
                slope = w.pointer(dy, w.add(given, channel), element)
                number: Integer = w.value(f"load i64, ptr {w.pointer(table, row.index, 'i64')}")
                for met in w.places(number, range(len(kinds))):
                    for function in _define_rows(w, spec, kinds[met], active):
                        w.run(function, ("%scratch", line, slope))
        with w.loop(0, taps) as tap:
            target = w.pointer(totals, w.add(w.multiply(tap.index, channels), channel), element)
            place = w.pointer("%scratch", w.multiply(tap.index, lanes), element)
            value = load_vector(w, dtype, place, lanes)
            value = w.value(f"fadd {kind} {load_vector(w, dtype, target, lanes, active)}, {value}")
            store_vector(w, dtype, value, target, lanes, active)

    with w.loop(first_vector, last_vector) as each:
        channel = w.multiply(each.index, lanes)
        for _, active in cut_columns(w, each.index, channels, lanes):
            with w.loop(0, taps) as tap:
                target = w.pointer(totals, w.add(w.multiply(tap.index, channels), channel), element)
                store_vector(w, dtype, "zeroinitializer", target, lanes, active)
            with w.loop(first_block, last_block) as block:
                add_block(block.index, channel, active)
    return w.module(name, scratch=True)


def _define_rows(w: Writer, spec: DepthwiseSpec, kind: tuple[int, int], active: int) -> list[str]:
    """Functions `row(sums, x, dy)` that together add a row of y to the sums of the taps rows [first, last)."""
    at_once = max(1, MOST_SUMS // (spec.convolution.window[1] * spec.group))
    return [_define_row(w, spec, (first, min(first + at_once, kind[1])), active) for first in range(*kind, at_once)]


def _define_row(w: Writer, spec: DepthwiseSpec, taps_rows: tuple[int, int], active: int) -> str:
    convolution = spec.convolution
    dtype, channels, width = convolution.dtype, convolution.channels, convolution.spatial[1]
    element, lanes, columns = MEMORY[dtype.name], lanes_of(dtype), convolution.output_spatial[1]
    kind, taps_columns = vector(element, lanes), convolution.window[1]
    step, spacing, padding = convolution.strides[1], convolution.dilation[1], convolution.padding[1][0]
    taps = [(r, s) for r in range(*taps_rows) for s in range(taps_columns)]

    def inside(column: int, tap: int) -> bool:
        return 0 <= column * step + tap * spacing - padding < width

    whole = [column for column in range(columns) if inside(column, 0) and inside(column, taps_columns - 1)]
    first, last = (whole[0], whole[-1] + 1) if len(whole) > 1 else (columns, columns)

    def build(inner: Writer) -> None:
        def places(tap: tuple[int, int]) -> list[str]:
            first = (tap[0] * taps_columns + tap[1]) * spec.group
            return [inner.pointer("%sums", (first + channel) * lanes, element) for channel in range(spec.group)]

        def pixel(sums: list[str], column: Integer, used: list[tuple[int, int]]) -> list[str]:
            line = inner.pointer("%x", inner.multiply(column, step * channels), element)
            slope = inner.pointer("%dy", inner.multiply(column, channels), element)
            factor = load_vector(inner, dtype, slope, lanes, active)
            result = list(sums)
            for r, s in used:
                offset = (r * convolution.dilation[0] * width + s * spacing - padding) * channels
                value = load_vector(inner, dtype, inner.pointer(line, offset, element), lanes, active)
                first_sum = taps.index((r, s)) * spec.group
                for number, each in enumerate(spread(inner, kind, lanes, spec.group, value), first_sum):
                    result[number] = inner.apply("fma", kind, each, factor, result[number])
            return result

        kept = [place for tap in taps for place in places(tap)]
        sums = [load_vector(inner, dtype, place, lanes) for place in kept]
        for column in range(first):
            sums = pixel(sums, column, [tap for tap in taps if inside(column, tap[1])])
        if first < last:
            with inner.loop(first, last, 1, [(kind, value) for value in sums]) as loop:
                loop.next = pixel(loop.carried, loop.index, taps)
            sums = loop.next
        for column in range(last, columns):
            sums = pixel(sums, column, [tap for tap in taps if inside(column, tap[1])])
        for place, value in zip(kept, sums, strict=True):
            store_vector(inner, dtype, value, place, lanes)

    parameters = [("ptr noalias", "%sums"), ("ptr noalias", "%x"), ("ptr noalias", "%dy")]
    return w.function(f"row_{taps_rows[0]}_{taps_rows[1]}_{active}", parameters, build)
