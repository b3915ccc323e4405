"""The panel widget: draws a panel's lines, and repaints only the cells that changed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from itertools import zip_longest
from typing import Protocol

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from trainer.tui.box import FRAME_HEIGHT, FRAME_LEFT, FRAME_TOP, FRAME_WIDTH, boxed
from trainer.tui.frame import Frame
from trainer.tui.palette import Palette
from trainer.tui.text import Line, cell_width, crop_line, visible

Draw = Callable[[Frame, int, int], list[Line]]

Cell = tuple[str, str]
BLANK: Cell = ("", "")


class FrameSource(Protocol):
    """The source of frames: the app."""

    palette: Palette

    def frame(self) -> Frame: ...


class Panel(Widget):
    """A panel of a screen.

    Args:
        draw: lines from a frame, a width and a height; a pure function.
        title: the title in the border of its box: a text, or a function of the frame. None: no box.
        border_role: the role of the border.
        version: the values that the drawing depends on; an equal version is not drawn again. None: drawn for every
            frame (cheap panels of a few lines).
        source: the source of the palette.
    """

    def __init__(
        self,
        draw: Draw,
        *,
        source: FrameSource,
        id: str,
        title: str | Callable[[Frame], str] | None = None,
        border_role: str = "frame",
        version: Callable[[Frame], Hashable] | None = None,
        classes: str = "",
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._draw = draw
        self._title = title
        self._border_role = border_role
        self._version = version
        self._source = source
        self._frame = source.frame()
        self._drawn_size: Size | None = None
        self._drawn_version: Hashable = None
        self._lines: list[Line] = []

    @property
    def lines(self) -> list[Line]:
        """The lines of the panel."""
        return self._lines

    @property
    def drawn_at(self) -> tuple[int, int]:
        """The column and the row where the drawing begins, inside of its box."""
        return (0, 0) if self._title is None else (FRAME_LEFT, FRAME_TOP)

    @property
    def drawn_size(self) -> tuple[int, int]:
        """Width and height of the drawing."""
        width, height = self.size
        return (width, height) if self._title is None else (max(0, width - FRAME_WIDTH), max(0, height - FRAME_HEIGHT))

    def show(self, frame: Frame) -> None:
        """Draws a frame; unchanged cells are not painted again."""
        self._frame = frame
        if not self.display or not self.size:
            return
        if (
            self._version is not None
            and self._drawn_size == self.size
            and self._drawn_version == self._version_of(frame)
        ):
            return
        before = self._lines
        self._draw_lines()
        regions = changed_regions(before, self._lines, self.size.width)
        if regions:
            self.refresh(*regions)
        self.repainted(regions)

    def repainted(self, regions: list[Region]) -> None:
        """Called after drawing, before the changed regions are written."""

    def render_line(self, y: int) -> Strip:
        """Returns a line to Textual; after a change of size, the panel is drawn first."""
        if self._drawn_size != self.size:
            self._draw_lines()
            self.repainted([Region(0, 0, *self.size)])
        line = self._lines[y] if y < len(self._lines) else ()
        palette = self._source.palette
        return Strip(
            [Segment(visible(text), _pixel(role) if role[0] == "#" else _style(palette[role])) for text, role in line]
        ).extend_cell_length(self.size.width, Style.null())

    def _version_of(self, frame: Frame) -> Hashable:
        """The values that the drawing depends on, including the run."""
        return None if self._version is None else (frame.run, self._version(frame))

    def _draw_lines(self) -> None:
        self._drawn_size = self.size
        self._drawn_version = self._version_of(self._frame)
        width, height = self.size
        if self._title is None:
            ellipsis = self._frame.glyphs.ellipsis
            self._lines = [crop_line(line, width, ellipsis) for line in self._draw(self._frame, width, height)]
            return
        title = self._title(self._frame) if callable(self._title) else self._title
        lines = self._draw(self._frame, *self.drawn_size)
        self._lines = boxed(lines, title, width, height, self._frame.glyphs, self._border_role)


NEAR = 6
"""Up to this many unchanged cells between two changes are written again: moving the cursor takes as many bytes."""


def changed_regions(before: list[Line], after: list[Line], width: int) -> list[Region]:
    """The parts of lines that differ, relative to the panel."""
    regions = []
    for y, (old, new) in enumerate(zip_longest(before, after, fillvalue=())):
        if old != new:
            regions += [Region(start, y, end - start, 1) for start, end in _changes(_cells(old), _cells(new), width)]
    return regions


def _changes(old: list[Cell], new: list[Cell], width: int) -> list[tuple[int, int]]:
    """Start and end of the ranges of cells that differ; the shorter line is padded with blanks."""
    differing = [x for x, (one, other) in enumerate(zip_longest(old, new, fillvalue=BLANK)) if one != other]
    found: list[tuple[int, int]] = []
    for x in differing:
        if x >= width:
            break
        if found and x - found[-1][1] <= NEAR:
            found[-1] = found[-1][0], x + 1
        else:
            found.append((x, x + 1))
    return found


def _cells(line: Line) -> list[Cell]:
    """The character of each cell with its combining marks, and its role; a wide character takes two cells."""
    cells: list[Cell] = []
    for text, role in line:
        if text.isascii():
            cells += [(character, role) for character in text]
            continue
        for character in text:
            width = _character_width(character)
            if width == 0 and cells:
                cells[-1] = (cells[-1][0] + character, role)
            else:
                cells += [(character, role)] * width
    return cells


_character_width = lru_cache(1 << 12)(cell_width)


@lru_cache(256)
def _style(definition: str) -> Style:
    return Style.parse(definition) if definition else Style.null()


@lru_cache(1 << 14)
def _pixel(role: str) -> Style:
    """The style of a picture's cell, whose role is its colors: `#rrggbb on #rrggbb`."""
    return Style.parse(role)
