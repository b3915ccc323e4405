"""The characters that the dashboard draws with: one set for UTF-8 terminals, one in plain ASCII."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

# The console of the Linux kernel and the old hardware terminals have no Braille in their fonts.
_TERMINALS_WITHOUT_BRAILLE = frozenset({"linux", "dumb", "vt52", "vt100", "vt102", "vt220"})


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""The letters of runs that are shown together."""


class Glyphs(NamedTuple):
    """Named characters, each one cell wide."""

    braille: bool
    finished: str
    running: str
    waiting: str
    failed: str
    paused: str
    stopped: str
    silent: str
    warning: str
    starting: str
    separator: str
    ellipsis: str
    bar_full: str
    bar_empty: str
    vertical: str
    tick: str
    horizontal: str
    corner: str
    corners: str
    levels: str
    dot: str
    best: str
    above: str
    below: str
    not_finite: str
    raw_line: str
    line: str
    arrow: str
    cursor: str
    half: str
    shades: str


UNICODE = Glyphs(
    braille=True,
    finished="✓",
    running="●",
    waiting="○",
    failed="✗",
    paused="‖",
    stopped="■",
    silent="?",
    warning="!",
    starting="◌",
    separator=" · ",
    ellipsis="…",
    bar_full="━",
    bar_empty="─",
    vertical="│",
    tick="┤",
    horizontal="─",
    corner="└",
    corners="╭╮╰╯",
    levels=" ▁▂▃▄▅▆▇█",
    dot="●",
    best="◆",
    above="▲",
    below="▼",
    not_finite="×",
    raw_line="⠤",
    line="⠤",
    arrow="→",
    cursor="▶",
    half="▀",
    shades=" ░▒▓█",
)
ASCII = Glyphs(
    braille=False,
    finished="v",
    running="*",
    waiting="o",
    failed="!",
    paused="=",
    stopped="#",
    silent="?",
    warning="!",
    starting=":",
    separator=" - ",
    ellipsis="~",
    bar_full="#",
    bar_empty="-",
    vertical="|",
    tick="+",
    horizontal="-",
    corner="+",
    corners="++++",
    levels=" .:-=+*#@",
    dot="o",
    best="@",
    above="^",
    below="v",
    not_finite="x",
    raw_line=".",
    line="*",
    arrow="->",
    cursor=">",
    half="",
    shades=" .:-=+*#@",
)


def choose_glyphs(environment: Mapping[str, str]) -> Glyphs:
    """The set this terminal can show, from its environment only: the terminal is not queried before the first frame.

    Without a locale, UTF-8 is assumed, as in Python (PEP 538); `LC_ALL=C` selects ASCII.
    """
    if environment.get("TERM", "") in _TERMINALS_WITHOUT_BRAILLE:
        return ASCII
    locale = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environment.get(name))), "utf-8")
    return UNICODE if locale.lower().replace("-", "").endswith("utf8") else ASCII


_LOOKALIKES = {
    "|": "│┃▊▎▌▐",
    "-": "─━▔▁",
    "+": "┌┐└┘╭╮╰╯├┤┬┴┼",
    " ": "\u00a0",
    "  ": "🔎",
    "~": "…",
    "*": "●•·",
    "o": "○",
    "v": "✓",
    "x": "✗",
    "#": "■█▇▆▅▄▃▂",
    ">": "→▶❯",
}
_TO_ASCII = str.maketrans({character: ascii for ascii, characters in _LOOKALIKES.items() for character in characters})


def to_ascii(text: str) -> str:
    """The text for a terminal without UTF-8: ASCII replaces every other character."""
    return text if text.isascii() else text.translate(_TO_ASCII).encode("ascii", "replace").decode("ascii")
