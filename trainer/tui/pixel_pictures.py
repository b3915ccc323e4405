"""Pixel pictures in a panel, written after the text around them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from textual.geometry import Offset, Region

from trainer.tui.annotations import Layers, Pixels, labels_of
from trainer.tui.graphics import Form, Hanging, Placed
from trainer.tui.panel import Panel

if TYPE_CHECKING:
    from trainer.tui.app import Dashboard
    from trainer.tui.pictures import Sample

CELL = (8, 16)
"""Assumed width and height of a cell in pixels, rather too small: if too large, pictures cross the edge."""

MAX_ACROSS = 1600
"""Maximum width of a picture in pixels."""


class Wall:
    """The pixel pictures of a panel. `form` is how pictures are shown; with half-blocks, this shows nothing."""

    def __init__(self, dashboard: Dashboard) -> None:
        self.form: Form = dashboard.pictures
        self._dashboard = dashboard
        self._hanging = Hanging(self.form)
        self._pictures: list[tuple[Sample, tuple[object, ...], Region]] = []
        self._overwritten: list[Region] = []
        self._panel: HungPanel | None = None

    def begin(self) -> None:
        """Starts a new drawing of the panel, without pictures yet."""
        self._pictures = []

    def hang(self, sample: Sample, key: tuple[object, ...], column: int, row: int, columns: int, rows: int) -> None:
        """Adds a picture in these cells of the panel's drawing."""
        self._pictures.append((sample, key, Region(column, row, columns, rows)))

    def drawn(self, panel: HungPanel, overwritten: list[Region]) -> None:
        """Called after the panel was drawn, before text is written to these parts of it."""
        if self.form != "half":
            self._panel = panel
            self._overwritten += [region.translate(panel.region.offset) for region in overwritten]
            panel.call_after_refresh(self.show)

    def show(self) -> None:
        """Writes the new pictures, if this screen is in front."""
        panel = self._panel
        if self.form == "half" or panel is None or self._dashboard.screen is not panel.screen:
            return
        placed = [self._placed(panel, *one) for one in self._pictures]
        stale = self._hanging.stale(placed)
        if self.form == "sixel" and stale:  # the cells below are written again, which removes the pictures
            panel.refresh(*(Region(*picture.place).translate(-panel.region.offset) for picture in stale))
            self._overwritten += [Region(*picture.place) for picture in stale]
            self._hanging.take_down(stale)
            panel.call_after_refresh(self.show)
            return
        overwritten = [(place.x, place.y, place.width, place.height) for place in self._overwritten]
        self._overwritten = []
        self._write(self._hanging.show(placed, overwritten))

    def clear(self) -> None:
        """Removes all pictures."""
        self._write(self._hanging.clear())

    def _placed(self, panel: HungPanel, sample: Sample, key: tuple[object, ...], cells: Region) -> Placed:
        from trainer.tui.pictures import render

        left, top = panel.drawn_at
        width, height = cell_size()
        layers = key[-1]
        assert isinstance(layers, Layers)
        scale = min(1.0, MAX_ACROSS / (cells.width * width))
        room = int(cells.width * width * scale), int(cells.height * height * scale)
        at = panel.region.offset + Offset(left, top) + cells.offset
        name = (*key, room)
        known = self._hanging.known(name, at.x, at.y)
        if known is not None:
            return known
        pixels = _lettered(render(sample, *room, layers), sample, layers)
        columns = max(1, round(pixels.shape[1] / scale / width))
        rows = max(1, min(cells.height, round(pixels.shape[0] / scale / height)))
        return Placed(name, at.x, at.y, columns, rows, pixels)

    def _write(self, text: str) -> None:
        driver: Any = self._dashboard._driver
        if text and driver is not None:
            driver.write(text)
            driver.flush()


class HungPanel(Panel):
    """A panel whose pictures a `Wall` shows."""

    def __init__(self, *arguments: Any, wall: Wall, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._wall = wall

    def repainted(self, regions: list[Region]) -> None:
        self._wall.drawn(self, regions)


def _lettered(pixels: Pixels, sample: Sample, layers: Layers) -> Pixels:
    """The picture with the labels of its boxes."""
    labels = list(labels_of(sample.annotations, sample.size, pixels.shape, layers))
    if not labels:
        return pixels
    from PIL import Image, ImageDraw

    image = Image.fromarray(pixels)
    pen = ImageDraw.Draw(image)
    for (x, y), words in labels:
        pen.rectangle(pen.textbbox((x + 2, y + 1), words), fill=(0, 0, 0))
        pen.text((x + 2, y + 1), words, fill=(255, 255, 255))
    return np.asarray(image)


def cell_size() -> tuple[int, int]:
    """Width and height of a cell in pixels, from the operating system; the terminal is not queried."""
    try:
        import fcntl
        import struct
        import termios

        answer = fcntl.ioctl(1 if os.isatty(1) else 2, termios.TIOCGWINSZ, b"\0" * 8)
    except (ImportError, OSError):
        return CELL
    rows, columns, width, height = struct.unpack("HHHH", answer)
    if not (rows and columns and width >= columns and height >= rows):
        return CELL
    return width // columns, height // rows
