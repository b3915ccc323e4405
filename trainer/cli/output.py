"""Standard output and error of a command: text from anywhere is made harmless, and a stream that fails is said."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, TextIO

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_controls(text: str) -> str:
    r"""The text with everything that is no visible character written as `\u001b`; lines and tabs stay.

    Escape sequences would drive the terminal, marks of direction would reorder what is read, and lone surrogates have
    no UTF-8. In texts within JSON the escape means the character.
    """
    return text if text.isascii() and text.isprintable() else _CONTROLS.sub(_escaped, text)


def _escaped(character: re.Match[str]) -> str:
    return f"\\u{ord(character[0]):04x}"


class Output:
    """A stream to which everything that the command prints goes; control characters are escaped.

    Args:
        stream: what it writes to.
        name: what it is called in an error; None drops what can't be written, as where the error itself would go.
    """

    def __init__(self, stream: TextIO, name: str | None) -> None:
        self._stream, self._name = stream, name
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal without UTF-8

    def write(self, text: str) -> int:
        """Write text, escaped.

        Raises:
            TrainerError: the stream takes nothing more (a full disk).
        """
        try:
            self._stream.write(escape_controls(text))
        except OSError as error:
            self._refused(error)
        return len(text)

    def flush(self) -> None:
        """Write what waits; raises as `write` does."""
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
        from trainer.rundir import write_error  # where it is wanted: it takes 20 ms

        raise write_error(self._name, error) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Outputs:
    """Within, `sys.stdout` and `sys.stderr` are `Output`s; at the end all that was printed is written."""

    def __enter__(self) -> None:
        self._former = sys.stdout, sys.stderr
        if sys.stdout is not None:  # closed by who started us
            sys.stdout = Output(sys.stdout, "standard output")
        if sys.stderr is not None:
            sys.stderr = Output(sys.stderr, None)

    def __exit__(self, *exception: object) -> None:
        sys.stdout, sys.stderr = self._former


def abandon(stream: TextIO) -> None:
    """Send what is left of the output nowhere: Python would complain once more when it flushes at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
