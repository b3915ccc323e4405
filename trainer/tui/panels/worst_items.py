"""The worst items of an evaluation: a list with their scores, and the samples of the selected one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from trainer.rundir import ReportEvent, SampleEvent
from trainer.tui.frame import Frame
from trainer.tui.glyphs import Glyphs
from trainer.tui.listing import Column, Row, TableState, draw_table, ordered, place_in_table
from trainer.tui.numbers import number
from trainer.tui.panels.samples import Hang, Item, Read, SamplesState, beside, draw_grid
from trainer.tui.reports import Report
from trainer.tui.text import Line, crop_line, line_width

LIST_SHARE, MIN_LIST_WIDTH = 0.4, 34
"""Width of the list next to the pictures: its share, and its minimum."""

MIN_WIDTH_BESIDE = 70
"""In a narrower pane the pictures stand below the list."""


def draw_items(
    report: Report, event: ReportEvent, frame: Frame, width: int, height: int, table: TableState, state: SamplesState,
    read: Read, hang: Hang | None = None,
) -> list[Line]:  # fmt: skip
    """The list, with the pictures of the selected item next to it or below it; or only the enlarged pictures."""
    shown = _items(report, event, table, read)
    if state.is_enlarged and shown:
        return draw_grid(shown, frame, (0, 0), width, height, state, read, hang)
    list_width, list_height = list_size(report, width, height)
    where = _source(report, table, list_width, frame.glyphs)
    lines = draw_table(*_table(report), table, list_width, list_height - 1, frame.glyphs)
    lines += [()] * (list_height - 1 - len(lines)) + [where]
    if not shown:
        return lines
    if list_height < height:
        below = draw_grid(shown, frame, (0, list_height), width, height - list_height, state, read, hang)
        return [*lines, *below]
    pictures = draw_grid(shown, frame, (list_width, 0), width - list_width, height, state, read, hang)
    return beside([lines, pictures], list_width, height)


def list_size(report: Report, width: int, height: int) -> tuple[int, int]:
    """Width and height of the list, including the line below it with the source of the selected item."""
    if not any(report.pictures):
        return width, height
    if width < MIN_WIDTH_BESIDE:
        return width, min(len(report.rows) + 2, max(4, height // 3))
    return max(MIN_LIST_WIDTH, int(LIST_SHARE * width)), height


def place_in_items(
    report: Report, width: int, height: int, state: TableState, x: int, y: int
) -> tuple[int | None, int | None]:
    """The row, or the column, at a cell of the drawing; see `place_in_table`."""
    list_width, list_height = list_size(report, width, height)
    if x >= list_width or y >= list_height - 1:
        return None, None
    return place_in_table(*_table(report), state, list_width, list_height - 1, x, y)


def _table(report: Report) -> tuple[list[Column], list[Row]]:
    _, score, shown, item = report.header
    columns = [Column("", True), Column(score, True), Column(shown, most=24), Column(item, rank=1, most=40)]
    rows = [Row((str(row[0]), number(row[1]), row[2], row[3].rpartition("/")[2]), tuple(row)) for row in report.rows]
    if not any(row[2] for row in report.rows):
        return [columns[0], columns[1], columns[3]], [
            replace(row, cells=(*row.cells[:2], row.cells[3]), keys=(*row.keys[:2], row.keys[3])) for row in rows
        ]
    return columns, rows


def _chosen(report: Report, table: TableState) -> int:
    """The number of the item under the cursor, from 0."""
    listed = ordered(_table(report)[1], table)
    return int(listed[min(table.selected, len(listed) - 1)].keys[0]) - 1


def _source(report: Report, table: TableState, width: int, glyphs: Glyphs) -> Line:
    """The source of the selected item; a path that is too long loses its beginning."""
    source = str(report.rows[_chosen(report, table)][3])
    if line_width(((source, "dim"),)) > width - 2:
        source = glyphs.ellipsis + source[-(width - 3) :]
    return crop_line(((f" {source}", "dim"),), width, glyphs.ellipsis)


def _items(report: Report, event: ReportEvent, table: TableState, read: Read) -> list[Item]:
    """The samples of the chosen item with their captions, predictions together with their ground truth."""
    chosen = _chosen(report, table)
    samples = []
    for file in report.pictures[chosen]:
        sample = SampleEvent(event.step, f"worst {chosen + 1}", Path(file).stem, file)
        content = read(sample)
        caption = None if content is None else content.annotations.get("caption")
        samples.append(replace(sample, caption=caption if isinstance(caption, str) else None))
    if not samples:
        return []
    from trainer.tui.errors import paired  # imports NumPy

    return list(paired(samples))
