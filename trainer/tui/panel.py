"""The one widget: draws a panel's lines, and repaints only the cells that changed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from itertools import zip_longest
from typing import Protocol

from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from trainer.tui.frame import Frame
from trainer.tui.palette import Palette
from trainer.tui.text import Line, cell_width

Draw = Callable[[Frame, int, int], list[Line]]


class FrameSource(Protocol):
    """Whoever knows what to draw: the app."""

    palette: Palette

    def frame(self) -> Frame: ...


class Panel(Widget):
    """A panel of a screen.

    Args:
        draw: lines from a frame, a width and a height; a pure function.
        title: what stands in the border: a text, or a function of the frame.
        version: what the drawing depends on; while it stays equal, nothing is drawn. None: drawn for every frame
            (cheap panels of a few lines).
        source: where the palette comes from.
    """

    def __init__(
        self,
        draw: Draw,
        *,
        source: FrameSource,
        id: str,
        title: str | Callable[[Frame], str] = "",
        version: Callable[[Frame], Hashable] | None = None,
        classes: str = "",
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._draw = draw
        self._title = title
        self._version = version
        self._source = source
        self._frame = source.frame()
        self._drawn: tuple[Hashable, ...] | None = None
        self._lines: list[Line] = []
        self._shown_title = ""
        self._set_title()

    @property
    def lines(self) -> list[Line]:
        """What stands on the panel."""
        return self._lines

    def show(self, frame: Frame) -> None:
        """Draw a frame; what did not change is not painted again."""
        self._frame = frame
        self._set_title()
        if not self.display or not self.size or not self._is_stale():
            return
        before = self._lines
        self._draw_lines()
        regions = changed_regions(before, self._lines, self.size.width)
        if regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        """Textual asks for a line; after a change of size it is drawn first."""
        if self._is_stale():
            self._draw_lines()
        line = self._lines[y] if y < len(self._lines) else ()
        return Strip([Segment(text, _style(self._source.palette[role])) for text, role in line]).extend_cell_length(
            self.size.width, Style.null()
        )

    def _is_stale(self) -> bool:
        return self._version is None or self._drawn != self._key() or not self._lines

    def _key(self) -> tuple[Hashable, ...]:
        return (self.size, self._version(self._frame) if self._version else self._frame)

    def _draw_lines(self) -> None:
        self._drawn = self._key()
        self._lines = self._draw(self._frame, self.size.width, self.size.height)

    def _set_title(self) -> None:
        title = self._title(self._frame) if callable(self._title) else self._title
        if title != self._shown_title:
            self._shown_title = title
            self.border_title = Content(title)  # type: ignore[assignment]  # text as it is, no markup in it


def changed_regions(before: list[Line], after: list[Line], width: int) -> list[Region]:
    """The parts of lines that differ, one region a line, relative to the panel."""
    regions = []
    for y, (old, new) in enumerate(zip_longest(before, after, fillvalue=())):
        if old == new:
            continue
        start = _common_width(old, new)
        left = cell_width("".join(text for text, _ in new)), cell_width("".join(text for text, _ in old))
        end = max(left)
        if left[0] == left[1]:
            end -= _common_width(old[::-1], new[::-1])
        regions.append(Region(start, y, max(1, min(end, width) - start), 1))
    return regions


def _common_width(old: Line, new: Line) -> int:
    """Width of the spans that both lines begin with."""
    width = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        width += cell_width(one[0])
    return width


@lru_cache(256)
def _style(definition: str) -> Style:
    return Style.parse(definition) if definition else Style.null()
