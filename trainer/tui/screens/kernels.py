"""The decisions of autotuning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual.widget import Widget

from trainer.tui.frame import Frame
from trainer.tui.listing import Column, Row
from trainer.tui.panel import Panel
from trainer.tui.panels.kernels import ABOVE, BY_SHARE, COLUMNS, draw_kernels, kernel_rows
from trainer.tui.screens.base import bindings_of
from trainer.tui.screens.table import TableScreen
from trainer.tui.text import Line


class Kernels(TableScreen):
    """A row for each kernel, the kernel with the largest share of a step first."""

    BINDINGS = bindings_of("kernels", "screen")
    scope = "kernels"
    scrolling = "kernels"
    initial = BY_SHARE
    lines_above = ABOVE

    def body(self) -> Iterable[Widget]:
        yield Panel(self._draw, source=self.dashboard, id="kernels", title=self._title, classes="box full")

    def listed(self) -> tuple[Sequence[Column], Sequence[Row]]:
        return COLUMNS, kernel_rows(self.dashboard.feed.view, self.searched)

    def _title(self, frame: Frame) -> str:
        return f"kernels  with {self.searched!r}" if self.searched else "kernels"

    def _draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        return draw_kernels(frame, width, height, self.table, self.searched)
