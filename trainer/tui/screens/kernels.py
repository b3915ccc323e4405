"""What autotuning decided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from textual.widget import Widget

from trainer.tui.frame import Frame
from trainer.tui.listing import TableState, place_in_table
from trainer.tui.panel import Panel
from trainer.tui.panels.kernels import ABOVE, BY_SHARE, COLUMNS, draw_kernels, kernel_rows
from trainer.tui.screens.base import RunScreen, bindings_of
from trainer.tui.text import Line

if TYPE_CHECKING:
    from trainer.tui.app import Dashboard


class Kernels(RunScreen):
    """A row for each kernel, that which takes most of a step first."""

    BINDINGS = bindings_of("kernels", "screen")
    scope = "kernels"
    scroll_step = 1
    scrolling = "kernels"

    def __init__(self, dashboard: Dashboard) -> None:
        super().__init__(dashboard)
        self.table = BY_SHARE

    def body(self) -> Iterable[Widget]:
        yield Panel(self._draw, source=self.dashboard, id="kernels", title=self._title, classes="box full")

    def scroll_lines(self, lines: int) -> None:
        self.table = self.table.moved(lines, len(kernel_rows(self.dashboard.feed.view, self.searched)))

    def search(self, text: str) -> None:
        self.searched = text
        self._set(replace(self.table, selected=0))

    def action_sort(self) -> None:
        self._set(self.table.sorted_by_next(len(COLUMNS)))

    def action_reverse(self) -> None:
        self._set(replace(self.table, is_reversed=not self.table.is_reversed))

    def clicked(self, panel: Panel, x: int, y: int, *, is_double: bool) -> None:
        if panel.id != "kernels":
            super().clicked(panel, x, y, is_double=is_double)
            return
        width, height = panel.drawn_size
        rows = kernel_rows(self.dashboard.feed.view, self.searched)
        at = place_in_table(COLUMNS, rows, self.table, width, height - ABOVE, x, y - ABOVE)
        self._set(self.table.clicked(at))

    def _set(self, table: TableState) -> None:
        self.table = table
        self.dashboard.draw()

    def _title(self, frame: Frame) -> str:
        return f"kernels  with {self.searched!r}" if self.searched else "kernels"

    def _draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        return draw_kernels(frame, width, height, self.table, self.searched)
