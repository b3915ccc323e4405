"""Terminal escape sequences for lines that are drawn before Textual is imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from colorsys import rgb_to_hls
from functools import lru_cache
from typing import Literal

from trainer.tui.palette import Palette
from trainer.tui.text import Line, cell_width, visible

ColorSystem = Literal["none", "standard", "256", "truecolor"]

_ATTRIBUTES = {"bold": "1", "dim": "2", "reverse": "7"}
_COLORS = {
    name: str(30 + number)
    for number, name in enumerate(("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"))
}


def color_system_of(environment: Mapping[str, str]) -> ColorSystem:
    """The color system of a terminal, from its environment, by the rules of Rich; `none` with NO_COLOR."""
    if "NO_COLOR" in environment:
        return "none"
    if environment.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return "truecolor"
    colors = environment.get("TERM", "").strip().lower().rpartition("-")[2]
    return "256" if colors in ("256color", "kitty") else "standard"


def place(lines: Iterable[tuple[int, int, Line]], palette: Palette, colors: ColorSystem, *, on_empty: bool) -> str:
    """Returns the text that writes each line at its column and row; on an empty screen, unstyled blanks are skipped.

    Half of a screen is blank, and a terminal takes 4 KB at a time.
    """
    written = list[str]()
    current = ""
    for x, y, line in lines:
        is_there = False
        for text, role in line:
            codes = codes_of(palette[role], colors)
            if on_empty and not codes and text.isspace():
                x, is_there = x + len(text), False
                continue
            if not is_there:
                written.append(f"\x1b[{y + 1};{x + 1}H")
                is_there = True
            if codes != current:
                written.append(f"\x1b[0;{codes}m" if codes else "\x1b[0m")
                current = codes
            written.append(visible(text))
            x += cell_width(text)
    return "".join([*written, "\x1b[0m"])


@lru_cache(256)
def codes_of(style: str, colors: ColorSystem) -> str:
    """The SGR parameters of a palette style (`bold reverse #3aa655`)."""
    codes = []
    for word in style.split():
        if word in _ATTRIBUTES:
            codes.append(_ATTRIBUTES[word])
        elif colors != "none":
            codes.append(_COLORS[word] if word[0] != "#" else _hexadecimal(word, colors))
    return ";".join(codes)


def _hexadecimal(color: str, colors: ColorSystem) -> str:
    red, green, blue = (int(color[start : start + 2], 16) for start in (1, 3, 5))
    if colors == "truecolor":
        return f"38;2;{red};{green};{blue}"
    _, lightness, saturation = rgb_to_hls(red / 255, green / 255, blue / 255)
    if saturation < 0.15:  # one of 24 shades of gray, as in Rich
        return f"38;5;{231 + round(lightness * 25)}"
    levels = [round(value / 95 if value < 95 else 1 + (value - 95) / 40) for value in (red, green, blue)]
    return f"38;5;{16 + 36 * levels[0] + 6 * levels[1] + levels[2]}"
