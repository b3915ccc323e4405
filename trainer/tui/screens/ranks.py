"""The processes that train together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual.widget import Widget

from trainer.tui.frame import Frame
from trainer.tui.listing import Column, Row
from trainer.tui.panel import Panel
from trainer.tui.panels.ranks import COLUMNS, draw_ranks, rank_rows
from trainer.tui.screens.base import bindings_of
from trainer.tui.screens.table import TableScreen
from trainer.tui.text import Line


class Ranks(TableScreen):
    """A row for each process, the slowest first."""

    BINDINGS = bindings_of("ranks", "screen")
    scope = "ranks"
    scrolling = "all-ranks"

    def body(self) -> Iterable[Widget]:
        yield Panel(self._draw, source=self.dashboard, id="all-ranks", title=self._title, classes="box full")

    def listed(self) -> tuple[Sequence[Column], Sequence[Row]]:
        return COLUMNS, rank_rows(self.dashboard.feed.view)

    def _title(self, frame: Frame) -> str:
        return f"ranks  {len(frame.view.ranks)}, the slowest first" if frame.view.ranks else "ranks"

    def _draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        return draw_ranks(frame, width, height, self.table)
