"""A picture of a terminal: `tmux capture-pane -e -p | python docs/terminal_picture.py FILE.png [--light]`.

Dots, blocks and lines are drawn by their geometry, so that columns stay columns; letters come from DejaVu Sans Mono.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from rich.color import Color, ColorType
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, MONOKAI
from rich.text import Text

CELL_WIDTH, CELL_HEIGHT = 9, 18
FONT_SIZE = 14
COLORS = 64
FONTS = Path("/usr/share/fonts/truetype/dejavu")

RGB = tuple[int, int, int]


@dataclass(frozen=True)
class Theme:
    """The colors of a terminal: its text, its background, and whether that is light."""

    ink: RGB
    paper: RGB
    is_light: bool = False


DARK, LIGHT = Theme((216, 216, 216), (16, 20, 24)), Theme((40, 40, 40), (252, 252, 250), is_light=True)

Cell = tuple[str, Style]


def rgb(color: Color | None, default: RGB, theme: Theme) -> RGB:
    """A color of a style as red, green and blue."""
    if color is None or color.type == ColorType.DEFAULT:
        return default
    return tuple(color.get_truecolor(DEFAULT_TERMINAL_THEME if theme.is_light else MONOKAI))  # type: ignore[return-value]


def cells_of(captured: str) -> list[list[Cell]]:
    """Characters with their styles, from text with escape sequences."""
    console = Console(width=1000, color_system="truecolor", force_terminal=True, legacy_windows=False)
    return [
        [(character, segment.style or Style.null()) for segment in line.render(console, end="")
         for character in segment.text]
        for line in Text.from_ansi(captured).split("\n")
    ]  # fmt: skip


def picture_of(rows: Sequence[Sequence[Cell]], theme: Theme) -> Image.Image:
    """The terminal drawn."""
    columns = max((len(row) for row in rows), default=1)
    image = Image.new("RGB", (columns * CELL_WIDTH + 16, len(rows) * CELL_HEIGHT + 16), theme.paper)
    draw = ImageDraw.Draw(image)
    fonts = {name: ImageFont.truetype(str(FONTS / f"DejaVuSansMono{name}.ttf"), FONT_SIZE) for name in ("", "-Bold")}
    for y, row in enumerate(rows):
        for x, (character, style) in enumerate(row):
            _draw_cell(draw, 8 + x * CELL_WIDTH, 8 + y * CELL_HEIGHT, character, style, theme, fonts)
    return image


def _draw_cell(
    draw: ImageDraw.ImageDraw, left: int, top: int, character: str, style: Style, theme: Theme,
    fonts: dict[str, ImageFont.FreeTypeFont],
) -> None:  # fmt: skip
    ink, paper = rgb(style.color, theme.ink, theme), rgb(style.bgcolor, theme.paper, theme)
    if style.reverse:
        ink, paper = paper, ink
    if style.dim:
        ink = tuple((one + other) // 2 for one, other in zip(ink, paper, strict=True))  # type: ignore[assignment]
    right, bottom = left + CELL_WIDTH - 1, top + CELL_HEIGHT - 1
    if paper != theme.paper:
        draw.rectangle((left, top, right, bottom), fill=paper)
    code = ord(character)
    if character == " ":
        return
    if 0x2800 < code <= 0x28FF:
        for x, y in _dots(code - 0x2800):
            across, down = left + 2 + 4 * x, top + 2 + 4.5 * y
            draw.ellipse((across, down, across + 1.6, down + 1.6), fill=ink)
    elif character == "▀":
        draw.rectangle((left, top, right, top + CELL_HEIGHT // 2 - 1), fill=ink)
    elif "▁" <= character <= "█":
        draw.rectangle((left, bottom + 1 - round(CELL_HEIGHT * (code - 0x2580) / 8), right, bottom), fill=ink)
    elif character in LINES:
        _draw_lines(draw, left, top, LINES[character], ink)
    else:
        draw.text((left, top + 1), character, fill=ink, font=fonts["-Bold" if style.bold else ""])


def _dots(bits: int) -> Iterable[tuple[int, int]]:
    """Column and row of the dots of a Braille character."""
    places = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
    return [place for bit, place in enumerate(places) if bits >> bit & 1]


LINES = {
    "─": "lr", "│": "ud", "╭": "dr", "╮": "dl", "╰": "ur", "╯": "ul", "└": "ur", "┤": "udl", "━": "LR",
}  # fmt: skip
"""To which sides of its cell a line goes; a capital letter for a thick one."""


def _draw_lines(draw: ImageDraw.ImageDraw, left: int, top: int, sides: str, ink: RGB) -> None:
    x, y = left + CELL_WIDTH // 2, top + CELL_HEIGHT // 2
    ends = {"l": (left, y), "r": (left + CELL_WIDTH - 1, y), "u": (x, top), "d": (x, top + CELL_HEIGHT - 1)}
    for side in sides:
        draw.line(((x, y), ends[side.lower()]), fill=ink, width=3 if side.isupper() else 1)


def save(image: Image.Image, target: Path) -> None:
    """Write a small PNG."""
    image.quantize(COLORS, dither=Image.Dither.NONE).save(target, optimize=True)


def main() -> None:
    """Read what tmux captured, draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--light", action="store_true", help="a terminal with a light background")
    arguments = parser.parse_args()
    rows = cells_of(sys.stdin.read().rstrip("\n"))
    save(picture_of(rows, LIGHT if arguments.light else DARK), arguments.file)


if __name__ == "__main__":
    main()
