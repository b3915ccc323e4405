"""Weighted sums of a few table rows each, for example the pixels around a point; shapes and strides are baked in."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.cpu.kernels.access import load_vector, store_vector
from trainer.engine.targets.cpu.kernels.lines import Line
from trainer.engine.targets.cpu.kernels.loops import bounds, broadcast, counted_loop, vectors, word
from trainer.engine.targets.ir.expression import LANES, MEMORY, compute_type
from trainer.engine.targets.ir.writer import Integer, Writer

_TASK_TERMS = 32768

Strides = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GatherSum:
    """y[n, p] = the sum over t of weights[n, p, t] · table[n, indices[n, p, t]], rows of `channels` elements.

    Addresses: (table, indices, weights, y); strides are in elements, by axis, and 1 along the channels. An index out of
    range reads the nearest row.
    """

    dtype: DType
    index_dtype: DType
    batch: int
    rows: int
    taps: int
    channels: int
    size: int
    table_strides: Strides
    index_strides: Strides
    weight_strides: Strides
    output_strides: Strides

    @property
    def rows_per_task(self) -> int:
        return max(1, _TASK_TERMS // max(1, self.taps * self.channels))

    @property
    def tasks(self) -> int:
        return -(-self.batch * self.rows // self.rows_per_task)

    def render(self, name: str) -> str:
        """The module text, exporting `void name(ptr arguments, i64 task)`; terms are added in their order."""
        writer = Writer()
        table, indices, weights, target = (word(writer, place, "ptr") for place in range(4))
        element, kind = MEMORY[self.dtype.name], compute_type(self.dtype)
        first, last = bounds(writer, "%task", self.rows_per_task, self.batch * self.rows)
        with counted_loop(writer, first, last, 1, "row") as loop:
            image, row = writer.divide(loop.index, self.rows)

            def begin(base: str, element: str, strides: Strides, image: Integer = image, row: Integer = row) -> str:
                offset = writer.add(writer.multiply(image, strides[0]), writer.multiply(row, strides[1]))
                return writer.pointer(base, offset, element)

            own = writer.pointer(table, writer.multiply(image, self.table_strides[0]), element)
            places = Line(begin(indices, f"i{8 * self.index_dtype.itemsize}", self.index_strides),
                          f"i{8 * self.index_dtype.itemsize}", self.index_strides[2])  # fmt: skip
            factors = begin(weights, element, self.weight_strides)
            sources, shares = [], []
            for tap in range(self.taps):
                index = places.load(writer, tap)
                wide = index if places.element == "i64" else writer.value(f"sext i32 {index} to i64")
                held = writer.apply("smin", "i64", writer.apply("smax", "i64", wide, "0"), str(self.size - 1))
                sources.append(writer.pointer(own, writer.multiply(held, self.table_strides[1]), element))
                place = writer.pointer(factors, tap * self.weight_strides[2], element)
                share = writer.value(f"load {element}, ptr {place}, align {self.dtype.itemsize}")
                shares.append(broadcast(writer, element, share))
            result = begin(target, element, self.output_strides)
            for part in vectors(writer, 0, self.channels, "channels"):
                total = ""
                for source, share in zip(sources, shares, strict=True):
                    value = load_vector(
                        writer, self.dtype, writer.pointer(source, part.position, element), LANES, part.mask
                    )
                    if total:
                        total = writer.apply("fma", kind, value, share, total)
                    else:
                        total = writer.value(f"fmul {kind} {value}, {share}")
                place = writer.pointer(result, part.position, element)
                store_vector(writer, self.dtype, total, place, LANES, part.mask)
        return writer.module(name)
