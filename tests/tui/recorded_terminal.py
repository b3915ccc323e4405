"""A command in a pseudo-terminal, recorded: what stood on the screen from when on. For tests and benchmarks."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_ESCAPE = re.compile(
    r"\x1b\[(?P<place>\d*;?\d*)H|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]P_][^\x1b\x07]*(?:\x1b\\|\x07)|\x1b[=>78()][AB0]?"
)
_BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]P_][^\x1b\x07]*\x1b?|[()]?)?\Z")


class Screen:
    """The characters that a terminal shows: those that are written, at the places to which the cursor is moved."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._cells = [[" "] * columns for _ in range(rows)]
        self._x = self._y = 0
        self._rest = ""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    @property
    def text(self) -> str:
        """What stands there."""
        return "\n".join("".join(row).rstrip() for row in self._cells)

    def feed(self, data: bytes) -> None:
        """Take in what was written."""
        text = self._rest + self._decode(data)
        begun = _BEGUN.search(text)
        self._rest = text[begun.start() :] if begun else ""
        text = text[: begun.start()] if begun else text
        at = 0
        for escape in _ESCAPE.finditer(text):
            self._write(text[at : escape.start()])
            at = escape.end()
            if escape["place"] is not None:
                row, _, column = escape["place"].partition(";")
                self._y, self._x = int(row or 1) - 1, int(column or 1) - 1
        self._write(text[at:])

    def _write(self, text: str) -> None:
        for character in text:
            if character == "\r":
                self._x = 0
            elif character == "\n":
                self._y += 1
            elif character >= " " and self._x < self.columns and self._y < self.rows:
                self._cells[self._y][self._x] = character
                self._x += 1


@dataclass(frozen=True)
class Moment:
    """What stood on the screen from a time on, in seconds since the command was started."""

    time: float
    text: str


def record(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], until: re.Pattern[str], *,
    columns: int = 120, rows: int = 40, patience: float = 300.0, last_keys: bytes = b"",
) -> list[Moment]:  # fmt: skip
    """Every screen of a command until one has `until` in it; then `last_keys` are typed, and it is waited for.

    Raises:
        RuntimeError: that never came.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    start = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=dict(environment), start_new_session=True
    )
    os.close(theirs)
    screen, moments = Screen(columns, rows), list[Moment]()
    has_come = False
    try:
        while select.select([ours], [], [], patience)[0]:
            try:
                data = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
            now = time.perf_counter() - start
            screen.feed(data)
            if not has_come and (not moments or moments[-1].text != screen.text):
                moments.append(Moment(now, screen.text))
                if until.search(screen.text):
                    has_come = True
                    os.write(ours, last_keys)
            if now > patience:
                break
        if not has_come:
            raise RuntimeError(f"{until.pattern!r} never came; in the end there was:\n{screen.text}")
        process.wait(patience)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return moments
