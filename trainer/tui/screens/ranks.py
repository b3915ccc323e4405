"""The processes that train together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from textual.widget import Widget

from trainer.tui.frame import Frame
from trainer.tui.listing import TableState, place_in_table
from trainer.tui.panel import Panel
from trainer.tui.panels.ranks import COLUMNS, draw_ranks, rank_rows
from trainer.tui.screens.base import RunScreen, bindings_of
from trainer.tui.text import Line

if TYPE_CHECKING:
    from trainer.tui.app import Dashboard


class Ranks(RunScreen):
    """A row for each process, the slowest first."""

    BINDINGS = bindings_of("ranks", "screen")
    scope = "ranks"
    scroll_step = 1
    scrolling = "all-ranks"

    def __init__(self, dashboard: Dashboard) -> None:
        super().__init__(dashboard)
        self.table = TableState()

    def body(self) -> Iterable[Widget]:
        yield Panel(self._draw, source=self.dashboard, id="all-ranks", title=self._title, classes="box full")

    def scroll_lines(self, lines: int) -> None:
        self.table = self.table.moved(lines, len(self.dashboard.feed.view.ranks))

    def action_sort(self) -> None:
        self._set(self.table.sorted_by_next(len(COLUMNS)))

    def action_reverse(self) -> None:
        self._set(replace(self.table, is_reversed=not self.table.is_reversed))

    def clicked(self, panel: Panel, x: int, y: int, *, is_double: bool) -> None:
        if panel.id != "all-ranks":
            super().clicked(panel, x, y, is_double=is_double)
            return
        rows = rank_rows(self.dashboard.feed.view)
        self._set(self.table.clicked(place_in_table(COLUMNS, rows, self.table, *panel.drawn_size, x, y)))

    def _set(self, table: TableState) -> None:
        self.table = table
        self.dashboard.draw()

    def _title(self, frame: Frame) -> str:
        return f"ranks  {len(frame.view.ranks)}, the slowest first" if frame.view.ranks else "ranks"

    def _draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        return draw_ranks(frame, width, height, self.table)
