"""Screens with a table: the cursor, the order of the rows, the filter, and clicks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from trainer.tui.listing import Column, Row, TableState, ordered, place_in_table
from trainer.tui.panel import Panel
from trainer.tui.screens.base import RunScreen

if TYPE_CHECKING:
    from trainer.tui.app import Dashboard


class TableScreen(RunScreen):
    """A screen whose panel `scrolling` shows a table.

    Attributes:
        table: the selected row and the order of the rows; it begins as `initial`.
        lines_above: lines of the panel above the table.
    """

    scroll_step = 1
    initial: ClassVar[TableState] = TableState()
    lines_above: ClassVar[int] = 0

    def __init__(self, dashboard: Dashboard) -> None:
        super().__init__(dashboard)
        self.table = self.initial

    def listed(self) -> tuple[Sequence[Column], Sequence[Row]]:
        """The columns, and the rows that contain `searched`, in their original order."""
        raise TypeError(f"{type(self).__name__} has no table")

    def selected(self) -> Row | None:
        """The row under the cursor, or None."""
        rows = ordered(self.listed()[1], self.table)
        return rows[min(self.table.selected, len(rows) - 1)] if rows else None

    def set_table(self, table: TableState) -> None:
        """Draws the table with another cursor or order."""
        self.table = table
        self.dashboard.draw()

    def scroll_lines(self, lines: int) -> None:
        self.table = self.table.moved(lines, len(self.listed()[1]))

    def search(self, text: str) -> None:
        self.searched = text
        self.set_table(replace(self.table, selected=0))

    def clicked(self, panel: Panel, x: int, y: int, *, is_double: bool) -> None:
        if panel.id != self.scrolling:
            super().clicked(panel, x, y, is_double=is_double)
            return
        width, height = panel.drawn_size
        above = self.lines_above
        place = place_in_table(*self.listed(), self.table, width, height - above, x, y - above)
        self.set_table(self.table.clicked(place))
        if place[0] is not None and is_double:
            self.action_choose()

    def action_sort(self) -> None:
        self.set_table(self.table.sorted_by_next(len(self.listed()[0])))

    def action_reverse(self) -> None:
        self.set_table(replace(self.table, is_reversed=not self.table.is_reversed))

    def action_choose(self) -> None:
        """Opens the selected row, on screens whose rows can be opened."""
