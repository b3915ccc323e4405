"""Pictures in pixels on terminals that support them: kitty graphics and sixel, on request and never by probing.

kitty: https://sw.kovidgoyal.net/kitty/graphics-protocol; sixel: the VT340 manual, as in xterm, foot, WezTerm, …
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trainer.tui.forms import Form

Pixels = NDArray[np.uint8]
CHUNK = 4096
"""Maximum number of base64 characters in one escape sequence of kitty."""

SIXEL_COLORS = 128
BAND = 6
"""Pixel rows in one row of sixels."""


@dataclass(frozen=True, eq=False)
class Placed:
    """A picture (uint8 [H, W, 3]) in a rectangle of cells of the terminal; `key` identifies the drawing."""

    key: tuple[object, ...]
    column: int
    row: int
    columns: int
    rows: int
    pixels: Pixels

    @property
    def place(self) -> tuple[int, int, int, int]:
        """The rectangle: column, row, columns, rows."""
        return self.column, self.row, self.columns, self.rows


@dataclass
class Hanging:
    """The pictures on the terminal, and the output that replaces only the changed ones."""

    form: Form
    _shown: dict[tuple[object, ...], tuple[int, Placed]] = field(default_factory=dict)
    _number: int = 0

    def stale(self, pictures: Iterable[Placed]) -> list[Placed]:
        """Pictures on the terminal that are not in `pictures`."""
        kept = {_name(picture) for picture in pictures}
        return [picture for name, (_, picture) in self._shown.items() if name not in kept]

    def show(self, pictures: Sequence[Placed], overwritten: Sequence[tuple[int, int, int, int]] = ()) -> str:
        """Returns the output after which exactly these pictures are shown.

        Args:
            overwritten: rectangles (column, row, columns, rows) where text has been written since, which removes
                sixel pictures.
        """
        text = self.take_down(self.stale(pictures))
        if self.form == "sixel":
            for name, (_, picture) in list(self._shown.items()):
                if any(_overlap(picture.place, place) for place in overwritten):
                    del self._shown[name]
        for picture in pictures:
            if _name(picture) not in self._shown:
                self._number += 1
                self._shown[_name(picture)] = self._number, picture
                text += _at(picture, self._encoded(picture))
        return text

    def clear(self) -> str:
        """Returns the output that removes all pictures. Sixel pictures disappear when text is written over them."""
        return self.take_down([picture for _, picture in self._shown.values()])

    def known(self, key: tuple[object, ...], column: int, row: int) -> Placed | None:
        """The picture of this key that is shown at this cell, or None."""
        at = (picture for _, picture in self._shown.values() if picture.key == key)
        return next((picture for picture in at if picture.place[:2] == (column, row)), None)

    def take_down(self, pictures: Iterable[Placed]) -> str:
        """Returns the output that removes these pictures."""
        numbers = [self._shown.pop(_name(picture))[0] for picture in pictures]
        return "".join(f"\x1b_Ga=d,d=I,i={number},q=2\x1b\\" for number in numbers) if self.form == "kitty" else ""

    def _encoded(self, picture: Placed) -> str:
        if self.form == "kitty":
            return kitty(picture.pixels, self._number, picture.columns, picture.rows)
        return sixel(picture.pixels)


def kitty(pixels: Pixels, number: int, columns: int, rows: int) -> str:
    """The escape sequences that show a picture at the cursor, scaled to `columns` by `rows` cells; the cursor stays."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", compress_level=6)
    data = base64.standard_b64encode(file.getvalue()).decode()
    pieces = [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]
    head = f"a=T,f=100,i={number},c={columns},r={rows},C=1,q=2,"
    return "".join(
        f"\x1b_G{head if index == 0 else ''}m={int(index + 1 < len(pieces))};{piece}\x1b\\"
        for index, piece in enumerate(pieces)
    )


def sixel(pixels: Pixels) -> str:
    """The escape sequence that shows a picture at the cursor, in the nearest SIXEL_COLORS colors."""
    from PIL import Image

    image = Image.fromarray(pixels).quantize(SIXEL_COLORS, dither=Image.Dither.NONE)
    numbers, palette = np.asarray(image), np.array(image.getpalette(), np.float64).reshape(-1, 3)
    height, width = numbers.shape
    colors = "".join(
        f"#{number};2;{red};{green};{blue}"
        for number in np.unique(numbers).tolist()
        for red, green, blue in [np.rint(palette[number] / 2.55).astype(int).tolist()]
    )
    bands = [_band(numbers[top : top + BAND]) for top in range(0, height, BAND)]
    return f'\x1bP0;1q"1;1;{width};{height}{colors}{"-".join(bands)}\x1b\\'


def _band(numbers: NDArray[np.uint8]) -> str:
    """Six rows of pixels as sixels: for each color the columns that contain it, one color over the other."""
    weights = (1 << np.arange(len(numbers))).astype(np.uint8)
    return "$".join(
        f"#{color}" + _run_lengths(((numbers == color) * weights[:, None]).sum(axis=0, dtype=np.uint8) + 63)
        for color in np.unique(numbers).tolist()
    )


def _run_lengths(codes: NDArray[np.uint8]) -> str:
    cuts = np.flatnonzero(np.diff(codes)) + 1
    starts, ends = np.concatenate(([0], cuts)), np.concatenate((cuts, [len(codes)]))
    return "".join(
        chr(code) * length if length < 4 else f"!{length}{chr(code)}"
        for code, length in zip(codes[starts].tolist(), (ends - starts).tolist(), strict=True)
    )


def _at(picture: Placed, text: str) -> str:
    """The output that writes `text` at the picture's upper left cell and restores the cursor."""
    return f"\x1b7\x1b[{picture.row + 1};{picture.column + 1}H{text}\x1b8"


def _name(picture: Placed) -> tuple[object, ...]:
    return (*picture.key, picture.place)


def _overlap(one: tuple[int, int, int, int], other: tuple[int, int, int, int]) -> bool:
    return all(one[side] < other[side] + other[side + 2] and other[side] < one[side] + one[side + 2] for side in (0, 1))
