"""The outputs of a correlation that a task covers, the inputs that they read, and the taps inside the image."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.engine.targets.cpu.kernels.geometry import Axis, AxisPhase, Correlation
from trainer.engine.targets.ir.writer import Integer, Writer


@dataclass(frozen=True, slots=True)
class Bounds:
    """A task's part of one axis: outputs [start, stop) of a phase of `count` outputs, and the fields of the phase."""

    start: Integer
    stop: Integer
    count: Integer
    taps: Integer
    input_start: Integer
    output_start: Integer


def span(axis: Axis, share: int) -> int:
    """Maximum number of inputs that a task of `share` outputs reads."""
    return max(axis.span(min(share, phase.count), phase.taps) for phase in axis.phases)


def inputs_of(w: Writer, axis: Axis, part: Bounds) -> tuple[Integer, Integer]:
    """The first input that a task's part of an axis reads, and the number of inputs."""
    steps = w.multiply(w.subtract(w.subtract(part.stop, part.start), 1), axis.input_step)
    taps = w.multiply(w.subtract(part.taps, 1), axis.tap_step)
    first = w.add(part.input_start, w.multiply(part.start, axis.input_step))
    return first, w.add(w.add(steps, taps), 1)


def phase_bounds(
    w: Writer, form: Correlation, shares: tuple[int, int], phase: Integer, row_task: Integer, column_task: Integer
) -> tuple[Bounds, Bounds, Integer]:
    """The rows and columns of a task that covers `shares` of them, and the start of its phase's weights."""

    def fields(number: int) -> list[int]:
        item = form.phases[number]
        axes = [(a.count, a.taps, a.input_start, a.output_start) for a in (item.rows, item.columns)]
        return [*axes[0], *axes[1], item.depth_start]

    values: list[Integer] = [*fields(0)]
    if len(form.phases) > 1:
        width = len(values)
        table = w.table("phases", [word for number in range(len(form.phases)) for word in fields(number)])
        line = w.pointer(table, w.multiply(phase, width), "i64")
        values = [w.value(f"load i64, ptr {w.pointer(line, field, 'i64')}") for field in range(width)]

    def bounds(part: Integer, share: int, numbers: list[Integer]) -> Bounds:
        count, taps, input_start, output_start = numbers
        start = w.multiply(part, share)
        return Bounds(start, w.minimum(w.add(start, share), count), count, taps, input_start, output_start)

    rows = bounds(row_task, shares[0], values[:4])
    columns = bounds(column_task, shares[1], values[4:8])
    return rows, columns, values[8]


def taps_inside(w: Writer, axis: Axis, taps: Integer, start: Integer, outputs: int = 1) -> tuple[Integer, Integer]:
    """The first of `taps` inside the image for any of `outputs`, and the number inside; tap 0 first reads `start`."""
    above = w.maximum(w.subtract(0, w.add(start, (outputs - 1) * axis.input_step)), 0)
    first, _ = w.divide(w.add(above, axis.tap_step - 1), axis.tap_step)
    last, _ = w.divide(w.maximum(w.add(w.subtract(axis.extent - 1, start), axis.tap_step), 0), axis.tap_step)
    return first, w.subtract(w.minimum(last, taps), first)


def output_pixel(
    w: Writer, form: Correlation, part: tuple[Bounds, Bounds] | tuple[AxisPhase, AxisPhase], image: Integer,
    row: Integer, column: Integer,
) -> Integer:  # fmt: skip
    """The index of the pixel (row, column) of a phase among the pixels of all images."""
    y = w.add(part[0].output_start, w.multiply(row, form.rows.output_step))
    y = w.add(w.multiply(image, form.rows.output_extent), y)
    z = w.add(part[1].output_start, w.multiply(column, form.columns.output_step))
    return w.add(w.multiply(y, form.columns.output_extent), z)
