"""Reading an image tile by tile for Winograd's algorithm: every vector of channels of one tile, transformed.

A tile lies at (image, row, column) of a grid; its values beyond the image are zeros, and so are the missing channels of
the last vector. What is transformed goes to `points`^2 places, `point_stride` elements apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.cpu.kernels.access import load_vector, mask_of, store_vector
from trainer.engine.targets.cpu.kernels.expression import MEMORY
from trainer.engine.targets.cpu.kernels.tile import lanes_of
from trainer.engine.targets.cpu.kernels.winograd_transforms import Algorithm, Transforms
from trainer.engine.targets.cpu.kernels.writer import Integer, Writer, vector


@dataclass(frozen=True, slots=True)
class TiledImage:
    """Channels-last images of so many `channels` and (rows, columns) `extents`, cut into a `grid` of tiles.

    Tile (0, 0) begins at `start`, the others `algorithm.outputs` pixels apart. `transform`: "data" reads m + 2 pixels
    each way (B^T d B), "gradient" m (A y A^T).
    """

    dtype: DType
    algorithm: Algorithm
    extents: tuple[int, int]
    channels: int
    start: tuple[int, int]
    grid: tuple[int, int]
    transform: Literal["data", "gradient"]
    point_stride: int

    @property
    def side(self) -> int:
        """Pixels that a tile reads along an axis."""
        return self.algorithm.points if self.transform == "data" else self.algorithm.outputs

    @property
    def name(self) -> str:
        return "input" if self.transform == "data" else "gradient"


def tile_place(w: Writer, grid: tuple[int, int], outputs: int, tile: Integer) -> tuple[Integer, Integer, Integer]:
    """A tile's image, and its first output's row and column."""
    image, row, column = w.unravel(tile, *grid)
    return image, w.multiply(row, outputs), w.multiply(column, outputs)


def read_tile(
    w: Writer, tiled: TiledImage, x: str, tile: Integer, target: str, vectors: tuple[Integer, Integer] | None = None
) -> None:
    """Transform the channels of one tile into `target`: those of the vectors [first, last), or all."""
    dtype, (rows, columns) = tiled.dtype, tiled.extents
    element, lanes = MEMORY[dtype.name], lanes_of(dtype)
    image, top, left = tile_place(w, tiled.grid, tiled.algorithm.outputs, tile)
    top, left = w.add(top, tiled.start[0]), w.add(left, tiled.start[1])
    pixel = w.add(w.multiply(w.add(w.multiply(image, rows), top), columns), left)
    full, tail = divmod(tiled.channels, lanes)
    first, last = vectors or (0, full + bool(tail))
    source = w.pointer(x, w.add(w.multiply(pixel, tiled.channels), w.multiply(first, lanes)), element)
    inside = [
        w.value(f"icmp {relation} i64 {place}, {bound}", "c")
        for place, extent in ((top, rows), (left, columns))
        for relation, bound in (("sge", 0), ("sle", extent - tiled.side))
    ]
    whole = inside[0]
    for condition in inside[1:]:
        whole = w.value(f"and i1 {whole}, {condition}", "c")
    checked = _define(w, tiled, True)

    def send(function: str, start: Integer, count: Integer, mask: str) -> None:
        pointers = [("ptr", w.pointer(pointer, start, element)) for pointer in (source, target)]
        extra = [("i64", str(top)), ("i64", str(left)), (vector("i1", lanes), mask)] if function == checked else []
        w.call("void", function, *pointers, ("i64", str(count)), *extra)

    if full:
        count = w.subtract(w.minimum(last, full), first)
        with w.when(whole):
            send(_define(w, tiled, False), 0, count, "")
        with w.when(w.value(f"xor i1 {whole}, true", "c")):
            send(checked, 0, count, mask_of(lanes, lanes))
    if tail and isinstance(last, int):
        send(checked, w.multiply(w.subtract(full, first), lanes), 1, mask_of(tail, lanes))
    elif tail:
        with w.when(w.value(f"icmp sgt i64 {last}, {full}", "c")):
            send(checked, w.multiply(w.subtract(full, first), lanes), 1, mask_of(tail, lanes))


def _define(w: Writer, tiled: TiledImage, checked: bool) -> str:
    """Define `name(source, target, vectors)`: the transform of so many vectors of channels; `checked` takes (top, left,
    lanes) too and reads zeros beyond the image.
    """
    dtype, side = tiled.dtype, tiled.side
    element, lanes, points = MEMORY[dtype.name], lanes_of(dtype), tiled.algorithm.points
    bits = vector("i1", lanes)

    def build(inner: Writer) -> None:
        transforms = Transforms(inner, dtype, tiled.algorithm)
        transform = transforms.data if tiled.transform == "data" else transforms.gradient
        rows_inside, columns_inside = (
            [
                inner.value(f"icmp ult i64 {inner.add(start, step)}, {extent}", "c") if checked else ""
                for step in range(side)
            ]
            for start, extent in zip(("%top", "%left"), tiled.extents, strict=True)
        )

        def load(pointer: str, row: int, column: int) -> str:
            place = inner.pointer(pointer, (row * tiled.extents[1] + column) * tiled.channels, element)
            if not checked:
                return load_vector(inner, dtype, place, lanes)
            both = inner.value(f"and i1 {rows_inside[row]}, {columns_inside[column]}", "c")
            mask = inner.value(f"select i1 {both}, {bits} %lanes, {bits} zeroinitializer", "m")
            return load_vector(inner, dtype, place, lanes, mask)

        with inner.loop(0, "%vectors") as loop:
            here = inner.pointer("%source", inner.multiply(loop.index, lanes), element)
            there = inner.pointer("%target", inner.multiply(loop.index, lanes), element)
            for row, column, value in transforms.square(transform, side, lambda r, c: load(here, r, c)):
                place = inner.pointer(there, (row * points + column) * tiled.point_stride, element)
                store_vector(inner, dtype, value, place, lanes)

    parameters = [("ptr noalias", "%source"), ("ptr noalias", "%target"), ("i64", "%vectors")]
    if checked:
        parameters += [("i64", "%top"), ("i64", "%left"), (bits, "%lanes")]
    return w.function(f"checked_{tiled.name}" if checked else tiled.name, parameters, build)
