"""The resolved configuration."""

from __future__ import annotations

from collections.abc import Iterable

from textual.widget import Widget

from trainer.tui.frame import Frame
from trainer.tui.panel import Panel
from trainer.tui.panels.config import draw_config
from trainer.tui.screens.base import RunScreen, bindings_of
from trainer.tui.text import Line


class Config(RunScreen):
    """The resolved configuration."""

    BINDINGS = bindings_of("config", "screen")
    scope = "config"
    scrolling = "config"

    def text_lines(self) -> int:
        return len(self._shown(self.dashboard.frame()).config)

    def search(self, text: str) -> None:
        self.searched, self.scrolled = text, 0
        self.dashboard.draw()

    def _shown(self, frame: Frame) -> Frame:
        """The frame with only the lines that contain the searched text."""
        found = tuple(line for line in frame.config if self.searched.lower() in line.lower())
        return frame._replace(config=found) if self.searched else frame

    def _draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        return draw_config(self._shown(frame), width, height)

    def _title(self, frame: Frame) -> str:
        return f"config  with {self.searched!r}" if self.searched else "config"

    def body(self) -> Iterable[Widget]:
        yield Panel(self._draw, source=self.dashboard, id="config", title=self._title, classes="box full")
