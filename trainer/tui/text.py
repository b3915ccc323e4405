"""Lines of the screen as plain data: a line is a tuple of spans, a span is (text, role).

Panels are functions that return these lines; palette.py alone defines the style of each role. A picture's cells carry
their colors: `#rrggbb on #rrggbb`. Nothing here imports Textual, so every panel is tested as data.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

Span = tuple[str, str]
Line = tuple[Span, ...]

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?")


# Letters, arrows, lines, blocks and Braille: all one cell wide. Looking up other characters costs 40 times as much.
_NARROW = re.compile("[ -~\u00a0-\u02ff\u2010-\u2027\u2190-\u2199\u2500-\u25fc\u2713\u2717\u2800-\u28ff]*")


def cell_width(text: str) -> int:
    """The number of terminal cells that `text` takes."""
    if text.isascii() or _NARROW.fullmatch(text):
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def line_width(line: Line) -> int:
    """Width of a line in cells."""
    return cell_width("".join([text for text, _ in line]))


def plain(lines: Iterable[Line]) -> str:
    """The text of some lines without its roles, for tests and for reading aloud."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)


def crop(text: str, width: int, ellipsis: str) -> str:
    """`text` in at most `width` cells; an ellipsis marks missing text."""
    if cell_width(text) <= width:
        return text
    room = width - cell_width(ellipsis)
    if room <= 0:
        return ellipsis[: max(width, 0)]
    kept: list[str] = []
    for character in text:
        room -= cell_width(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept) + ellipsis


def fit_title(title: str, width: int, ellipsis: str) -> str:
    """A title in at most `width` cells: with numbers to three digits, then without its last parts, finally cropped.

    Parts are two spaces apart. A cropped number would read as another number.
    """
    parts = title.split("  ")
    for count in range(len(parts), 0, -1):
        whole = "  ".join(parts[:count])
        for text in (whole, _NUMBER.sub(_in_three_digits, whole)):
            if cell_width(text) <= width:
                return text
    return crop(title, width, ellipsis)


def _in_three_digits(number: re.Match[str]) -> str:
    short = f"{float(number[0]):.3g}"
    return number[0] if "e" in short or len(short) > len(number[0]) else short


_NUMBER = re.compile(r"\d+\.\d+(?![\w.])")


def wrap(text: str, width: int) -> list[str]:
    """`text` in pieces of at most `width` cells: cut at a space in a line's second half, else (a path) anywhere."""
    pieces = []
    while cell_width(text) > width > 0:
        piece = crop(text, width, "") or text[0]
        space = piece.rfind(" ")
        if text[len(piece)] != " " and space >= len(piece) // 2 > 0:
            piece = piece[: space + 1]
        pieces.append(piece)
        text = text[len(piece) :].removeprefix(" ")
    return [*pieces, text]


def crop_line(line: Line, width: int, ellipsis: str) -> Line:
    """A line in at most `width` cells."""
    if line_width(line) <= width:
        return line
    kept: list[Span] = []
    for text, role in line:
        room = width - line_width(tuple(kept))
        if cell_width(text) >= room:
            kept.append((crop(text + " " if cell_width(text) == room else text, room, ellipsis), role))
            break
        kept.append((text, role))
    return tuple(kept)


def spread(left: Line, right: Line, width: int, ellipsis: str) -> Line:
    """`left` and `right` at the two ends of a line; `left` is cropped if space is short."""
    left = crop_line(left, max(0, width - line_width(right) - 1), ellipsis)
    gap = width - line_width(left) - line_width(right)
    return (*left, (" " * max(gap, 0), "text"), *crop_line(right, width, ellipsis))


def printable(text: str) -> str:
    """One line of untrusted text without escape sequences or control characters, tabs expanded.

    If a line is rewritten with carriage returns (a progress bar), its last version is kept.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _ESCAPES.sub("", text).rstrip("\r\n")
    text = text.rsplit("\r", 1)[-1].expandtabs(4)
    return "".join(character for character in text if character.isprintable())


def visible(text: str) -> str:
    """The text with a question mark in place of each character that a cell can't hold."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "?" for character in text)


def join(parts: Sequence[Line], separator: str) -> Line:
    """Lines one after the other with a dim separator between them."""
    joined: list[Span] = []
    for number, part in enumerate(parts):
        if number:
            joined.append((separator, "dim"))
        joined.extend(part)
    return tuple(joined)
