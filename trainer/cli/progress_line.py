"""A progress line on the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from trainer.cli.output import escape_controls

SECONDS_BETWEEN = 0.1


class ProgressLine:
    """Rewrites one line of standard error; does nothing if that is not a terminal."""

    def __init__(self) -> None:
        self.is_shown = sys.__stderr__ is not None and sys.__stderr__.isatty()
        self._last = 0.0

    def of(self, what: str) -> Callable[[int, int], None]:
        """A callback (done, total); a total of 0 means unknown."""

        def show(done: int, total: int) -> None:
            now = time.monotonic()
            if self.is_shown and (now - self._last >= SECONDS_BETWEEN or done == total):
                self._last = now
                self.note(f"{what}: {done} of {total}" if total else f"{what}: {done}")

        return show

    def note(self, text: str) -> None:
        """Shows this text instead of the line."""
        if self.is_shown:
            _write(f"\r{escape_controls(text)}\x1b[K")

    def clear(self) -> None:
        """Removes the line."""
        if self.is_shown:
            _write("\r\x1b[K")


def _write(text: str) -> None:
    """Writes to the terminal directly: standard error escapes cursor movements."""
    assert sys.__stderr__ is not None
    sys.__stderr__.write(text)
    sys.__stderr__.flush()
