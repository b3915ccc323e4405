"""Square tiles transposed in registers, for operands that are contiguous along another dimension than the loop."""

from __future__ import annotations

from trainer.engine.targets.cpu.kernels.expression import LANES
from trainer.engine.targets.cpu.kernels.writer import Writer, vector


def transpose_tile(
    writer: Writer, element: str, itemsize: int, source: str, stride: str, width: str, target: str
) -> None:
    """Copies LANES columns of LANES consecutive elements, `stride` apart, to the rows of a dense tile at `target`.

    Columns from `width` on (at least 1) repeat the last one, so nothing outside is read.
    """
    parameters = [("ptr", "%source"), ("i64", "%stride"), ("i64", "%width"), ("ptr", "%target")]
    name = writer.helper(
        f"transpose_tile_{element}", "void", parameters, lambda inner: _write(inner, element, itemsize)
    )
    writer.call("void", name, ("ptr", source), ("i64", stride), ("i64", width), ("ptr", target))


def _write(writer: Writer, element: str, itemsize: int) -> None:
    kind = vector(element, LANES)
    place = "%source"
    columns = []
    for column in range(LANES):
        if column:
            inside = writer.value(f"icmp ugt i64 %width, {column}")
            step = writer.value(f"select i1 {inside}, i64 %stride, i64 0")
            place = writer.value(f"getelementptr {element}, ptr {place}, i64 {step}")
        columns.append(writer.value(f"load {kind}, ptr {place}, align {itemsize}"))
    distance = LANES // 2
    while distance:
        for first in range(LANES):
            if not first & distance:
                pair = (columns[first], columns[first + distance])
                columns[first] = _shuffle(writer, kind, pair, distance, 0)
                columns[first + distance] = _shuffle(writer, kind, pair, distance, distance)
        distance //= 2
    for row, value in enumerate(columns):
        address = writer.value(f"getelementptr {kind}, ptr %target, i64 {row}")
        writer.emit(f"store {kind} {value}, ptr {address}, align 16")


def _shuffle(writer: Writer, kind: str, pair: tuple[str, str], distance: int, offset: int) -> str:
    """Half of a swap of blocks: lanes of the first vector where bit `distance` is clear, of the second where set."""
    picks = [lane + offset if not lane & distance else LANES + lane - distance + offset for lane in range(LANES)]
    mask = ", ".join(f"i32 {pick}" for pick in picks)
    return writer.value(f"shufflevector {kind} {pair[0]}, {kind} {pair[1]}, <{LANES} x i32> <{mask}>")
