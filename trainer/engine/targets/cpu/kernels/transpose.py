"""Transposes of square blocks in registers."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.cpu.kernels.access import load_vector
from trainer.engine.targets.ir.expression import LANES, MEMORY, memory_type
from trainer.engine.targets.ir.writer import Integer, Writer


def transpose_tile(writer: Writer, dtype: DType, source: str, stride: Integer, width: str, target: str) -> None:
    """Copies LANES columns of LANES consecutive elements, `stride` apart, to the rows of a dense tile at `target`.

    Columns from index `width` (at least 1) on repeat the last valid one, so nothing out of bounds is read.
    """
    element, kind = MEMORY[dtype.name], memory_type(dtype)

    def build(inner: Writer) -> None:
        place, columns = "%source", []
        for column in range(LANES):
            if column:
                inside = inner.value(f"icmp ugt i64 %width, {column}")
                step = inner.value(f"select i1 {inside}, i64 %stride, i64 0")
                place = inner.value(f"getelementptr {element}, ptr {place}, i64 {step}")
            columns.append(load_vector(inner, dtype, place, LANES))
        for row, value in enumerate(exchanged(inner, kind, columns)):
            address = inner.value(f"getelementptr {kind}, ptr %target, i64 {row}")
            inner.emit(f"store {kind} {value}, ptr {address}, align 16")

    parameters = [("ptr", "%source"), ("i64", "%stride"), ("i64", "%width"), ("ptr", "%target")]
    name = writer.helper(f"transpose_tile_{element}", "void", parameters, build)
    writer.call("void", name, ("ptr", source), ("i64", str(stride)), ("i64", width), ("ptr", target))


def exchanged(writer: Writer, kind: str, rows: Sequence[str]) -> list[str]:
    """The columns of a square of vectors of type `kind`, computed by exchanging ever smaller halves of its rows."""
    rows, lanes = list(rows), len(rows)
    half = lanes // 2
    while half:
        low = [lane if not lane & half else lanes + lane - half for lane in range(lanes)]
        high = [lane + half if not lane & half else lanes + lane for lane in range(lanes)]
        for row in (row for row in range(lanes) if not row & half):
            pair = rows[row], rows[row + half]
            rows[row], rows[row + half] = (writer.shuffle(kind, *pair, order) for order in (low, high))
        half //= 2
    return rows
