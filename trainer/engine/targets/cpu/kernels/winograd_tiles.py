"""Reads an image tile by tile for Winograd's algorithm and transforms every vector of channels of a tile.

A tile is at (image, row, column) of a grid; its values beyond the image are zeros, and so are the missing channels of
the last vector. Transformed values are stored at `points`^2 places, `point_stride` elements apart.
"""

from __future__ import annotations

import functools
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal

from trainer.engine.targets.cpu.kernels.access import Elements, mask_of
from trainer.engine.targets.cpu.kernels.geometry import Pair
from trainer.engine.targets.cpu.kernels.winograd_choice import WinogradSpec
from trainer.engine.targets.cpu.kernels.winograd_transforms import Transforms
from trainer.engine.targets.ir.expression import lanes_of
from trainer.engine.targets.ir.writer import Integer, Writer, vector


@dataclass(frozen=True, slots=True)
class TiledImage:
    """Channels-last images, cut into the Winograd tiles of a convolution.

    `transform`: "data" for its inputs; a tile reads m + r - 1 pixels along each axis (B^T d B). "gradient" for images
    of its outputs; a tile reads m pixels (A y A^T). Tile (0, 0) begins at `start`; the pixels of a part are `steps`
    apart, and tiles m of them.
    """

    spec: WinogradSpec
    transform: Literal["data", "gradient"]
    point_stride: int

    @property
    def side(self) -> int:
        """Pixels that a tile reads along an axis."""
        return self.spec.points if self.transform == "data" else self.spec.outputs

    @property
    def extents(self) -> tuple[int, int]:
        rows, columns = self.spec.form.rows, self.spec.form.columns
        if self.transform == "data":
            return rows.extent, columns.extent
        return rows.output_extent, columns.output_extent

    @property
    def channels(self) -> int:
        return self.spec.form.inputs if self.transform == "data" else self.spec.form.outputs

    @property
    def start(self) -> Pair:
        rows, columns = self.spec.form.rows, self.spec.form.columns
        return (rows.origin, columns.origin) if self.transform == "data" else (0, 0)

    @property
    def steps(self) -> Pair:
        rows, columns = self.spec.form.rows, self.spec.form.columns
        return (rows.input_step, columns.input_step) if self.transform == "data" else (1, 1)


def tile_place(w: Writer, spec: WinogradSpec, tile: Integer) -> tuple[Integer, Integer, Integer]:
    """The image of a tile, and the row and column of its first output."""
    image, row, column = w.unravel(tile, *spec.grid)
    return image, w.multiply(row, spec.outputs), w.multiply(column, spec.outputs)


def read_tile(
    w: Writer, tiled: TiledImage, x: str, tile: Integer, target: str, vectors: tuple[Integer, Integer] | None = None,
    part: tuple[Integer, Integer] = (0, 0),
) -> None:  # fmt: skip
    """Transforms the channels of one tile of a part into `target`: those of the vectors [first, last), or all."""
    memory, (rows, columns) = Elements(w, tiled.spec.convolution.dtype), tiled.extents
    lanes = memory.lanes
    image, top, left = tile_place(w, tiled.spec, tile)
    top, left = (
        w.add(w.add(w.multiply(place, step), start), first)
        for place, step, start, first in zip((top, left), tiled.steps, tiled.start, part, strict=True)
    )
    pixel = w.add(w.multiply(w.add(w.multiply(image, rows), top), columns), left)
    full, tail = divmod(tiled.channels, lanes)
    first, last = vectors or (0, full + bool(tail))
    source = memory.at(x, w.add(w.multiply(pixel, tiled.channels), w.multiply(first, lanes)))
    inside = [
        w.value(f"icmp {relation} i64 {place}, {bound}", "c")
        for place, extent, step in ((top, rows, tiled.steps[0]), (left, columns, tiled.steps[1]))
        for relation, bound in (("sge", 0), ("sle", extent - 1 - step * (tiled.side - 1)))
    ]
    whole = functools.reduce(lambda one, other: w.value(f"and i1 {one}, {other}", "c"), inside)
    checked = _define(w, tiled, True)

    def send(function: str, start: Integer, count: Integer, mask: str) -> None:
        pointers = [("ptr", memory.at(pointer, start)) for pointer in (source, target)]
        extra = [("i64", str(top)), ("i64", str(left)), (vector("i1", lanes), mask)] if function == checked else []
        w.call("void", function, *pointers, ("i64", str(count)), *extra)

    if full:
        count = w.subtract(w.minimum(last, full), first)
        with w.when(whole):
            send(_define(w, tiled, False), 0, count, "")
        with w.unless(whole):
            send(checked, 0, count, mask_of(lanes, lanes))
    if tail:
        known = isinstance(last, int)
        with nullcontext() if known else w.when(w.value(f"icmp sgt i64 {last}, {full}", "c")):
            send(checked, w.multiply(w.subtract(full, first), lanes), 1, mask_of(tail, lanes))


def _define(w: Writer, tiled: TiledImage, checked: bool) -> str:
    """Defines a transform `name(source, target, vectors)`; if `checked`, (top, left, lanes) too: zeros outside."""
    spec, side, dtype = tiled.spec, tiled.side, tiled.spec.convolution.dtype
    lanes = lanes_of(dtype)
    bits = vector("i1", lanes)

    def build(inner: Writer) -> None:
        memory, transforms = Elements(inner, dtype), Transforms(inner, dtype, spec.algorithm)
        transform = transforms.data if tiled.transform == "data" else transforms.gradient
        rows_inside, columns_inside = (
            [
                inner.value(f"icmp ult i64 {inner.add(start, step * number)}, {extent}", "c") if checked else ""
                for number in range(side)
            ]
            for start, extent, step in zip(("%top", "%left"), tiled.extents, tiled.steps, strict=True)
        )

        def load(pointer: str, row: int, column: int) -> str:
            pixel = row * tiled.steps[0] * tiled.extents[1] + column * tiled.steps[1]
            place = memory.at(pointer, pixel * tiled.channels)
            if not checked:
                return memory.load(place)
            both = inner.value(f"and i1 {rows_inside[row]}, {columns_inside[column]}", "c")
            return memory.load(place, 0, inner.value(f"select i1 {both}, {bits} %lanes, {bits} zeroinitializer", "m"))

        with inner.loop(0, "%vectors") as loop:
            here, there = (memory.at(base, inner.multiply(loop.index, lanes)) for base in ("%source", "%target"))
            for row, column, value in transforms.square(transform, side, lambda r, c: load(here, r, c)):
                memory.store(value, there, (row * spec.points + column) * tiled.point_stride)

    parameters = [("ptr noalias", "%source"), ("ptr noalias", "%target"), ("i64", "%vectors")]
    if checked:
        parameters += [("i64", "%top"), ("i64", "%left"), (bits, "%lanes")]
    name = "input" if tiled.transform == "data" else "gradient"
    return w.function(f"checked_{name}" if checked else name, parameters, build)
