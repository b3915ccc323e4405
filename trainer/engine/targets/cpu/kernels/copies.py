"""Copies a task's inputs into its scratch: rows, and windows of channels-last images."""

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
"""Vectors of a pixel that a prologue handles in one iteration of its loop."""


def define_copy(writer: Writer, dtype: DType) -> str:
    """Defines `copy(target, source, count)`: copies `count` contiguous elements, in vectors; none if it is negative."""
    return _define_stream(writer, dtype, "copy", True)


def define_clear(writer: Writer, dtype: DType) -> str:
    """Defines `clear(target, count)`: writes `count` zeros; none if it is negative."""
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


def copy_columns(
    w: Writer, dtype: DType, target: str, source: str, rows: Integer, pitches: tuple[int, int], vectors: int,
    active: int,
) -> None:  # fmt: skip
    """Copies the first `vectors` vectors of each row; the last vector has `active` lanes, then zeros.

    pitches: elements between rows of the target and of the source.
    """
    lanes, element = lanes_of(dtype), MEMORY[dtype.name]

    def build(inner: Writer) -> None:
        with inner.loop(0, "%rows") as row:
            there, here = (
                inner.pointer(base, inner.multiply(row.index, pitch), element)
                for base, pitch in zip(("%target", "%source"), pitches, strict=True)
            )
            for first in range(0, vectors * lanes, lanes):
                read = active if first == (vectors - 1) * lanes else lanes
                value = load_vector(inner, dtype, inner.pointer(here, first, element), lanes, read)
                store_vector(inner, dtype, value, inner.pointer(there, first, element), lanes)

    parameters = [("ptr noalias", "%target"), ("ptr noalias", "%source"), ("i64", "%rows")]
    w.run(w.function(f"columns_{vectors}_{active}", parameters, build), (target, source), (rows,))


@dataclass(frozen=True, slots=True)
class Window:
    """How a window of channels-last images is copied into scratch.

    The first `taken` of each pixel's `channels` from the given address on are copied. In scratch, neighbors are
    `pixel`, `row` and `image` elements apart. `chunk`: scratch holds `pixel` channels of the whole window, the next
    ones this many elements further (0: all channels of a pixel). `steps`: distances of the copied rows and columns.
    """

    dtype: DType
    spatial: tuple[int, int]
    channels: int
    taken: int
    pixel: int
    row: int
    image: int
    chunk: int = 0
    steps: tuple[int, int] = (1, 1)


def define_apply(writer: Writer, window: Window, prologue: Epilogue) -> str:
    """Defines `apply(target, source, operands…, count)`: the prologue on each element of `count` neighboring pixels.

    The loop runs pixel by pixel: a loop along a column of pixels would read memory with strides, and the operands of
    the channels stay in the nearest cache.
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


def _define_chunks(writer: Writer, window: Window, prologue: Epilogue) -> str:
    """Defines `chunks(target, source, operands…, count)`: `apply` for scratch with chunks of channels.

    Vectors are as wide as a chunk: AVX2's masked stores are slow.
    """
    element, lanes, width = MEMORY[window.dtype.name], lanes_of(window.dtype), window.pixel
    operands = OperandPointers.parameters(prologue)

    def build(inner: Writer) -> None:
        def move(first: Integer, chunk: Integer, there: str, here: str, active: int) -> None:
            kind, channel = vector(element, active), inner.multiply(chunk, width)
            place = inner.pointer(here, channel, element)
            value = inner.value(f"load {kind}, ptr {place}, align {window.dtype.itemsize}")
            if prologue.body:
                value = inner.shuffle(kind, value, "zeroinitializer", [min(lane, active) for lane in range(lanes)])
                others = operands.at(inner, inner.add(first, channel), channel)
                value = finish(inner, prologue, window.dtype, value, others, active)
                value = inner.shuffle(vector(element, lanes), value, "poison", range(active))
            place = inner.pointer(there, inner.multiply(chunk, window.chunk), element)
            inner.emit(f"store {kind} {value}, ptr {place}, align {window.dtype.itemsize}")

        whole, rest = divmod(window.taken, width)
        with inner.loop(0, "%count") as pixel:
            first = inner.multiply(pixel.index, window.steps[1] * window.channels)
            here = inner.pointer("%source", first, element)
            there = inner.pointer("%target", inner.multiply(pixel.index, width), element)
            with inner.loop(0, whole) as chunk:
                move(first, chunk.index, there, here, width)
            if rest:
                move(first, whole, there, here, rest)

    parameters = [("ptr noalias", "%target"), ("ptr", "%source"), *operands.typed, ("i64", "%count")]
    return writer.function("chunks", parameters, build)


def _define_clear_chunks(writer: Writer, window: Window) -> str:
    """Defines `clear_chunks(target, count)`: writes zeros to `count` elements, whole pixels, of each chunk."""
    element, size = MEMORY[window.dtype.name], window.dtype.itemsize

    def build(inner: Writer) -> None:
        with (
            inner.loop(0, -(-window.taken // window.pixel)) as chunk,
            inner.loop(0, "%count", window.pixel) as pixel,
        ):
            place = inner.add(inner.multiply(chunk.index, window.chunk), pixel.index)
            there = inner.pointer("%target", place, element)
            inner.emit(f"store {vector(element, window.pixel)} zeroinitializer, ptr {there}, align {size}")

    return writer.function("clear_chunks", [("ptr noalias", "%target"), ("i64", "%count")], build)


def inside(w: Writer, first: Integer, count: Integer, extent: int, step: int = 1) -> tuple[Integer, Integer, Integer]:
    """The start and end of the part of [first, first + count) inside [0, extent), and the end of the whole; with a
    `step`, of `count` places from `first` on that are `step` apart.
    """
    stop = w.add(first, w.multiply(count, step))
    if step > 1:
        start, end = (
            w.add(first, w.multiply(w.divide(w.add(w.maximum(w.subtract(edge, first), 0), step - 1), step)[0], step))
            for edge in (0, extent)
        )
        return w.minimum(start, stop), w.minimum(end, stop), stop
    start = w.minimum(w.maximum(first, 0), stop)
    return start, w.maximum(w.minimum(stop, extent), start), stop


def copy_window(
    w: Writer, window: Window, source: str, images: tuple[Integer, Integer], rows: tuple[Integer, Integer],
    columns: tuple[Integer, Integer], applied: OperandPointers | None = None, scratch: str = "%scratch",
) -> None:  # fmt: skip
    """Copies the window of (first, count) rows and columns from each of images [start, stop); zeros beyond the image.

    The prologue of `applied` applies to elements inside the image; its pointers belong to the element at `source`.
    """
    element = MEMORY[window.dtype.name]
    clear = _define_clear_chunks(w, window) if window.chunk else define_clear(w, window.dtype)

    (top, height), (left, width) = rows, columns
    valid_left, valid_right, right = inside(w, left, width, window.spatial[1], window.steps[1])
    before, valid, after = (
        w.multiply(w.divide(w.subtract(end, start), window.steps[1])[0], window.pixel)
        for start, end in ((left, valid_left), (valid_left, valid_right), (valid_right, right))
    )
    with w.loop(*images) as image, w.loop(0, height) as row:
        place = w.multiply(w.subtract(image.index, images[0]), window.image)
        target = w.pointer(scratch, w.add(place, w.multiply(row.index, window.row)), element)
        input_row = w.add(top, w.multiply(row.index, window.steps[0]))
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
            if window.chunk or (applied is not None and applied.epilogue.body):
                applied = applied or OperandPointers(Epilogue(), ())
                define = _define_chunks if window.chunk else define_apply
                count = w.divide(w.subtract(valid_right, valid_left), window.steps[1])[0]
                pointers = (middle, start, *applied.at(w, first, 0))
                w.run(define(w, window, applied.epilogue), pointers, (count,))
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
