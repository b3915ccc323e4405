"""Tables on the screen: columns that fit, a selected row that stays visible, sorting by any column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainer.tui.glyphs import Glyphs
from trainer.tui.text import Line, cell_width, crop

MIN_TEXT_WIDTH = 10
"""Minimum width of a text column."""


@dataclass(frozen=True)
class Column:
    """A column: its title, and whether its cells are right-aligned numbers.

    If space is short, columns with the highest `rank` are left out first, then texts are cropped. `most` is the maximum
    width.
    """

    title: str
    is_number: bool = False
    rank: int = 0
    most: int = 60


@dataclass(frozen=True)
class Row:
    """A row: the texts of its cells, and the keys that sort them.

    `role` is its color, `mark` stands before it, `item` is the object that the row describes.
    """

    cells: tuple[str, ...]
    keys: tuple[Any, ...]
    role: str = "text"
    mark: str = ""
    item: Any = None


@dataclass(frozen=True)
class TableState:
    """The user's choices: the row under the cursor, the sorting column (-1: none), and the direction."""

    selected: int = 0
    column: int = -1
    is_reversed: bool = False

    def moved(self, by: int, rows: int) -> TableState:
        """The state with the cursor moved down `by` rows, within the number of `rows`."""
        return replace(self, selected=min(max(0, rows - 1), max(0, self.selected + by)))

    def sorted_by_next(self, columns: int) -> TableState:
        """The state sorted by the next column; after the last column, in the original order."""
        return replace(self, column=self.column + 1 if self.column + 1 < columns else -1, is_reversed=False)

    def sorted_by(self, column: int) -> TableState:
        """The state sorted by a column; in the other direction if that column already sorts."""
        return replace(self, column=column, is_reversed=column == self.column and not self.is_reversed)

    def clicked(self, at: tuple[int | None, int | None]) -> TableState:
        """The state after a click: with the row selected, or sorted by the column, that `place_in_table` returned."""
        row, column = at
        if row is not None:
            return replace(self, selected=row)
        return self if column is None else self.sorted_by(column)


def ordered(rows: Sequence[Row], state: TableState) -> list[Row]:
    """The rows in the order of the state; rows without a value come last in both directions."""
    listed = list(rows)
    if listed and 0 <= state.column < len(listed[0].keys):
        has: list[Row] = []
        has_not: list[Row] = []
        for row in listed:
            (has_not if _is_missing(row.keys[state.column]) else has).append(row)
        has.sort(key=lambda row: row.keys[state.column], reverse=state.is_reversed)
        return has + has_not
    return listed[::-1] if state.is_reversed else listed


def draw_table(
    columns: Sequence[Column], rows: Sequence[Row], state: TableState, width: int, height: int, glyphs: Glyphs
) -> list[Line]:
    """Header and the rows around the selected one, in `height` lines of `width` cells."""
    listed, margin, widths, first = _laid_out(columns, rows, state, width, height)
    shown = [index for index in range(len(columns)) if widths[index]]
    header = [(" " * (1 + margin), "dim")]
    for index in shown:
        is_sorting = index == state.column
        title = columns[index].title + (("^" if state.is_reversed else "v") if is_sorting else "")
        header.append((_set(title, widths[index], columns[index], glyphs) + "  ", "key" if is_sorting else "dim"))
    lines: list[Line] = [tuple(header)]
    for number, row in enumerate(listed[first : first + height - 1], start=first):
        text = "".join(_set(row.cells[index], widths[index], columns[index], glyphs) + "  " for index in shown)
        is_selected = number == state.selected
        before = (glyphs.cursor if is_selected else " ") + row.mark.ljust(margin)
        lines.append(((before, "key"), (text, "strong" if is_selected else row.role)))
    return lines


def place_in_table(
    columns: Sequence[Column], rows: Sequence[Row], state: TableState, width: int, height: int, x: int, y: int
) -> tuple[int | None, int | None]:
    """The part of a table of `draw_table` at a cell: (row, None), (None, column) in the header, or (None, None).

    Args:
        x, y: the cell, from the table's upper left corner.
    """
    listed, margin, widths, first = _laid_out(columns, rows, state, width, height)
    if y > 0:
        return (first + y - 1 if first + y - 1 < len(listed) else None), None
    end = 1 + margin
    for index, of_column in enumerate(widths):
        end += of_column + 2 if of_column else 0
        if of_column and 1 + margin <= x < end and y == 0:
            return None, index
    return None, None


def _laid_out(
    columns: Sequence[Column], rows: Sequence[Row], state: TableState, width: int, height: int
) -> tuple[list[Row], int, list[int], int]:
    """The rows in order, the width of their marks, the width of each column, and the first row shown."""
    listed, room = ordered(rows, state), height - 1
    margin = max((len(row.mark) + 1 for row in listed if row.mark), default=0)
    first = min(max(0, state.selected - room // 2), max(0, len(listed) - room))
    return listed, margin, _widths(columns, listed, width - 1 - margin), first


def _set(text: str, width: int, column: Column, glyphs: Glyphs) -> str:
    text = crop(text, width, glyphs.ellipsis)
    padding = " " * (width - cell_width(text))
    return padding + text if column.is_number else text + padding


def _widths(columns: Sequence[Column], rows: Sequence[Row], width: int) -> list[int]:
    """The width of each column, 0 for those that are left out."""
    widths = [
        min(column.most, max([cell_width(column.title) + 1, *(cell_width(row.cells[index]) for row in rows)]))
        for index, column in enumerate(columns)
    ]
    for index in sorted(range(len(columns)), key=lambda index: -columns[index].rank):
        if sum(widths) + 2 * sum(map(bool, widths)) <= width or not columns[index].rank:
            break
        widths[index] = 0
    over = sum(widths) + 2 * sum(map(bool, widths)) - width
    while over > 0:  # numbers stay complete: the widest text is cropped
        texts = [
            index for index, column in enumerate(columns) if not column.is_number and widths[index] > MIN_TEXT_WIDTH
        ]
        if not texts:
            break
        widths[max(texts, key=lambda index: widths[index])] -= 1
        over -= 1
    return widths


def _is_missing(key: Any) -> bool:
    return key is None or (isinstance(key, float) and math.isnan(key))
