"""Standard output and error of a command: control characters are escaped, and write errors are reported."""

from __future__ import annotations

import enum
import os
import re
import sys
from typing import Any, TextIO

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_controls(text: str) -> str:
    r"""The text with invisible characters escaped as `\u001b`, except newlines and tabs.

    Escape sequences would control the terminal, direction marks would reorder the text, and lone surrogates have no
    UTF-8 encoding. Inside JSON, the escape is read as the character itself.
    """
    return text if text.isascii() and text.isprintable() else _CONTROLS.sub(_escaped, text)


def _escaped(character: re.Match[str]) -> str:
    return f"\\u{ord(character[0]):04x}"


class Style(enum.Enum):
    """Terminal style of a piece of text: the parameters of its escape sequence."""

    ERROR = "1;31"
    HEADING = "1"
    NAME = "36"


def has_colors(stream: TextIO) -> bool:
    """Whether the stream is a terminal with colors: not a pipe, not with NO_COLOR, not a dumb terminal."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(stream: Any, *pieces: tuple[str, Style | None]) -> None:
    """Writes pieces of text to standard output or error, with styles if it is a terminal with colors."""
    if isinstance(stream, Output):
        stream.paint(*pieces)
    else:
        stream.write("".join(text for text, _ in pieces))


def print_error(text: object) -> None:
    """Writes an error message to standard error."""
    if sys.stderr is not None:
        paint(sys.stderr, ("error:", Style.ERROR), (f" {text}\n", None))


_IN_HELP = re.compile(
    r"^(?P<heading>usage:|[a-z][a-z ]*:$)"
    r"|(?P<name>^  (?=[a-z])\S+(?: \S+)?(?=  )|(?<=[ \[])--?[a-zA-Z][\w-]*)",
    re.MULTILINE,
)
"""In a help text: headings, and the names of commands and options."""


def paint_help(stream: Any, text: str) -> None:
    """Writes a help text, with styles for headings and names."""
    pieces: list[tuple[str, Style | None]] = []
    end = 0
    for match in _IN_HELP.finditer(text):
        style = Style.HEADING if match["heading"] else Style.NAME
        pieces += [(text[end : match.start()], None), (match[0], style)]
        end = match.end()
    paint(stream, *pieces, (text[end:], None))


class Output:
    """The stream of all output of the command; control characters are escaped.

    Args:
        stream: the underlying stream.
        name: its name in error messages; None: output that can't be written is dropped (for standard error itself).
    """

    def __init__(self, stream: TextIO, name: str | None) -> None:
        self._stream, self._name = stream, name
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal without UTF-8

    def write(self, text: str) -> int:
        """Writes text, escaped.

        Raises:
            TrainerError: the stream can't be written (a full disk).
        """
        try:
            self._stream.write(escape_controls(text))
        except OSError as error:
            self._refused(error)
        return len(text)

    def paint(self, *pieces: tuple[str, Style | None]) -> None:
        """Writes pieces of text, with styles if this is a terminal with colors; raises as `write` does."""
        is_colored = has_colors(self._stream)
        try:
            for text, style in pieces:
                safe = escape_controls(text)
                self._stream.write(f"\x1b[{style.value}m{safe}\x1b[0m" if style and is_colored else safe)
        except OSError as error:
            self._refused(error)

    def flush(self) -> None:
        """Flushes the stream; raises as `write` does."""
        try:
            self._stream.flush()
        except OSError as error:
            self._refused(error)

    def _refused(self, error: OSError) -> None:
        if self._name is None:
            return
        if isinstance(error, BrokenPipeError):
            raise error
        abandon(self._stream)
        from trainer.rundir import write_error  # imported on first use: it takes 20 ms

        raise write_error(self._name, error) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Outputs:
    """Inside this context, `sys.stdout` and `sys.stderr` are `Output`s; leaving it flushes them."""

    def __enter__(self) -> None:
        self._former = sys.stdout, sys.stderr
        if sys.stdout is not None:  # None: closed by the parent process
            sys.stdout = Output(sys.stdout, "standard output")
        if sys.stderr is not None:
            sys.stderr = Output(sys.stderr, None)

    def __exit__(self, *exception: object) -> None:
        sys.stdout, sys.stderr = self._former


def abandon(stream: TextIO) -> None:
    """Discards the remaining output; otherwise Python would report the error again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
