"""The style of each role of a span. Two palettes: rich terminals, and the sixteen colors of all terminals.

Only foregrounds are set, so the dashboard keeps the terminal's own background, light or dark; the richer tones have
medium brightness for the same reason. Without color (NO_COLOR) bold, dim and reverse remain.
"""

from __future__ import annotations

from collections.abc import Mapping

Palette = Mapping[str, str]

SIXTEEN: Palette = {
    "text": "",
    "strong": "bold",
    "dim": "dim",
    "frame": "dim",
    "key": "bold cyan",
    "good": "green",
    "busy": "cyan",
    "warn": "yellow",
    "bad": "bold red",
    "badge_good": "bold reverse green",
    "badge_busy": "bold reverse cyan",
    "badge_warn": "bold reverse yellow",
    "badge_bad": "bold reverse red",
    "train": "bold cyan",
    "train_raw": "blue",
    "second": "bold magenta",
    "second_raw": "magenta",
    "third": "bold green",
    "third_raw": "green",
    "valid": "bold yellow",
    "best": "bold green",
    "rate": "magenta",
    "bar": "cyan",
}
RICH: Palette = {
    **SIXTEEN,
    "dim": "#808080",
    "frame": "#6a6a6a",
    "key": "bold #00a5b8",
    "good": "#3aa655",
    "busy": "#00a5b8",
    "warn": "#c88a00",
    "bad": "bold #e0483e",
    "badge_good": "bold reverse #3aa655",
    "badge_busy": "bold reverse #00a5b8",
    "badge_warn": "bold reverse #c88a00",
    "badge_bad": "bold reverse #e0483e",
    "train": "bold #00b4d0",
    "train_raw": "#4f7f8c",
    "second": "bold #c060d0",
    "second_raw": "#86608c",
    "third": "bold #58b04a",
    "third_raw": "#5f7f58",
    "valid": "bold #e0a000",
    "best": "bold #58c040",
    "rate": "#c060d0",
    "bar": "#00a5b8",
}


def choose_palette(color_system: str | None) -> Palette:
    """The palette of a color system as Rich names it (`None`, `standard`, `256`, `truecolor`)."""
    return RICH if color_system in ("256", "truecolor") else SIXTEEN
