"""Copying what a task reads into its scratch: rows, and windows of channels-last images."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.engine.graph.dtypes import DType
from trainer.engine.program.spec import Epilogue
from trainer.engine.targets.cpu.kernels.access import load_vector, store_vector
from trainer.engine.targets.cpu.kernels.epilogue import OperandPointers
from trainer.engine.targets.cpu.kernels.tile import finish, lanes_of
from trainer.engine.targets.ir.expression import MEMORY
from trainer.engine.targets.ir.writer import Integer, Writer, vector

APPLIED_VECTORS = 4
"""Vectors of a pixel that a prologue handles in one turn of its loop."""


def define_copy(writer: Writer, dtype: DType) -> str:
    """Define `copy(target, source, count)`: `count` contiguous elements, in vectors; none where `count` is negative."""
    return _define_stream(writer, dtype, "copy", True)


def define_clear(writer: Writer, dtype: DType) -> str:
    """Define `clear(target, count)`: zeros; nothing where `count` is negative."""
    return _define_stream(writer, dtype, "clear", False)


def _define_stream(writer: Writer, dtype: DType, verb: str, reads: bool) -> str:
    element, lanes = MEMORY[dtype.name], lanes_of(dtype)
    kind = vector(element, lanes)

    def move(inner: Writer, index: Integer, of: str) -> None:
        value = "zeroinitializer"
        if reads:
            value = inner.value(f"load {of}, ptr {inner.pointer('%source', index, element)}, align {dtype.itemsize}")
        inner.emit(f"store {of} {value}, ptr {inner.pointer('%target', index, element)}, align {dtype.itemsize}")

    def build(inner: Writer) -> None:
        count = inner.maximum("%count", 0)
        whole = inner.value(f"and i64 {count}, {-4 * lanes}", "i")
        with inner.loop(0, whole, 4 * lanes) as loop:
            for part in range(4):
                move(inner, inner.add(loop.index, part * lanes), kind)
        vectors = inner.value(f"and i64 {count}, {-lanes}", "i")
        with inner.loop(whole, vectors, lanes) as loop:
            move(inner, loop.index, kind)
        with inner.loop(vectors, count) as loop:
            move(inner, loop.index, element)

    parameters = [("ptr noalias", "%target"), *([("ptr noalias", "%source")] if reads else []), ("i64", "%count")]
    return writer.function(f"{verb}_{dtype.name}", parameters, build)


@dataclass(frozen=True, slots=True)
class Window:
    """How a window of channels-last images is copied into scratch.

    Of each pixel's `channels`, the first `taken` from the given address on; scratch has `pixel`, `row` and `image`
    elements between neighbors.
    """

    dtype: DType
    spatial: tuple[int, int]
    channels: int
    taken: int
    pixel: int
    row: int
    image: int


def define_apply(writer: Writer, window: Window, prologue: Epilogue) -> str:
    """Define `apply(target, source, operands…, count)`: `count` neighboring pixels, each element by the prologue.

    Pixel by pixel: a column of them would walk memory in strides, and what belongs to a channel stays in the nearest
    cache.
    """
    element, lanes = MEMORY[window.dtype.name], lanes_of(window.dtype)
    operands = OperandPointers.parameters(prologue)

    def build(inner: Writer) -> None:
        def move(first: Integer, channel: Integer, there: str, here: str, active: int) -> None:
            value = load_vector(inner, window.dtype, inner.pointer(here, channel, element), lanes, active)
            others = operands.at(inner, inner.add(first, channel), channel)
            value = finish(inner, prologue, window.dtype, value, others, active)
            store_vector(inner, window.dtype, value, inner.pointer(there, channel, element), lanes, active)

        strip = APPLIED_VECTORS * lanes
        whole = window.taken - window.taken % strip
        with inner.loop(0, "%count") as pixel:
            first = inner.multiply(pixel.index, window.channels)
            here = inner.pointer("%source", first, element)
            there = inner.pointer("%target", inner.multiply(pixel.index, window.pixel), element)
            if whole:
                with inner.loop(0, whole, strip) as loop:
                    for part in range(0, strip, lanes):
                        move(first, inner.add(loop.index, part), there, here, lanes)
            for channel in range(whole, window.taken, lanes):
                move(first, channel, there, here, min(lanes, window.taken - channel))

    parameters = [("ptr noalias", "%target"), ("ptr", "%source"), *operands.typed, ("i64", "%count")]
    return writer.function("apply", parameters, build)


def inside(w: Writer, first: Integer, count: Integer, extent: int) -> tuple[Integer, Integer, Integer]:
    """Where the part of [first, first + count) that lies in [0, extent) begins and ends, and where the whole ends."""
    stop = w.add(first, count)
    start = w.minimum(w.maximum(first, 0), stop)
    return start, w.maximum(w.minimum(stop, extent), start), stop


def copy_window(
    w: Writer, window: Window, source: str, images: tuple[Integer, Integer], rows: tuple[Integer, Integer],
    columns: tuple[Integer, Integer], applied: OperandPointers | None = None,
) -> None:  # fmt: skip
    """Copy images [start, stop), and of each the window of (first, count) rows and columns; zeros beyond the image.

    What lies inside goes through the prologue of `applied`, whose pointers belong to the element at `source`.
    """
    element = MEMORY[window.dtype.name]
    clear = define_clear(w, window.dtype)

    (top, height), (left, width) = rows, columns
    valid_left, valid_right, right = inside(w, left, width, window.spatial[1])
    before = w.multiply(w.subtract(valid_left, left), window.pixel)
    valid = w.multiply(w.subtract(valid_right, valid_left), window.pixel)
    after = w.multiply(w.subtract(right, valid_right), window.pixel)
    with w.loop(*images) as image, w.loop(0, height) as row:
        place = w.multiply(w.subtract(image.index, images[0]), window.image)
        target = w.pointer("%scratch", w.add(place, w.multiply(row.index, window.row)), element)
        input_row = w.add(top, row.index)
        is_inside = w.value(f"icmp ult i64 {input_row}, {window.spatial[0]}", "c")
        with w.unless(is_inside):
            w.run(clear, (target,), (w.multiply(width, window.pixel),))
        with w.when(is_inside):
            if before != 0:
                w.run(clear, (target,), (before,))
            pixel = w.add(w.multiply(image.index, window.spatial[0]), input_row)
            pixel = w.add(w.multiply(pixel, window.spatial[1]), valid_left)
            first = w.multiply(pixel, window.channels)
            start, middle = w.pointer(source, first, element), w.pointer(target, before, element)
            if applied is not None and applied.epilogue.body:
                count = w.subtract(valid_right, valid_left)
                pointers = (middle, start, *applied.at(w, first, 0))
                w.run(define_apply(w, window, applied.epilogue), pointers, (count,))
            elif window.pixel == window.channels:
                w.run(define_copy(w, window.dtype), (middle, start), (valid,))
            elif valid != 0:
                with w.loop(valid_left, valid_right) as column:
                    step = w.subtract(column.index, valid_left)
                    there = w.pointer(middle, w.multiply(step, window.pixel), element)
                    here = w.pointer(start, w.multiply(step, window.channels), element)
                    w.run(define_copy(w, window.dtype), (there, here), (window.taken,))
            if after != 0:
                w.run(clear, (w.pointer(middle, valid, element),), (after,))
