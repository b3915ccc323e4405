"""A command in a pseudo-terminal of its own, as a user's window is: it can be resized, closed, and typed into."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from recorded_terminal import Screen

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
"""Seconds until a test gives up on something that takes a fraction of one."""

_MODE = re.compile(rb"\x1b\[\?([0-9;]+)([hl])")
_KEYBOARD = re.compile(rb"\x1b\[([<>])[0-9;]*u")
_ESCAPES = re.compile(r"\x1b(\[[0-9;?<>=$]*[a-zA-Z~]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][0-9A-B]|[=>78])")


class Terminal:
    """A command with a terminal; all that it writes is kept in `output`.

    Args:
        command: the command and its words.
        folder: where it is started.
        size: columns and lines.
        is_controlling: closing it sends a SIGHUP, as closing a window does.
        environment: variables beside those of this process.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        size: tuple[int, int] = (100, 30),
        *,
        is_controlling: bool = True,
        **environment: str,
    ) -> None:
        self.descriptor, theirs = pty.openpty()
        self.output = b""
        self._screen, self._size = Screen(*size), size
        self.resize(*size)
        self.attributes_before = self.attributes()
        variables = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
        variables |= {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **environment}
        self.process = subprocess.Popen(
            command, cwd=folder, env=variables, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            preexec_fn=(lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)) if is_controlling else None,
        )  # fmt: skip
        os.close(theirs)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.kill()
        self.process.wait()
        self.close()

    def resize(self, columns: int, lines: int) -> None:
        """Make the window another size; what runs in it hears of that by a signal."""
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        if (columns, lines) != self._size:
            self._screen, self._size = Screen(columns, lines), (columns, lines)

    def attributes(self) -> list[Any]:
        """Echo, line by line input, and so on, as they are now; see termios(3)."""
        return termios.tcgetattr(self.descriptor)

    def press(self, keys: bytes | str) -> None:
        """Type something."""
        os.write(self.descriptor, keys.encode() if isinstance(keys, str) else keys)

    def read(self) -> bool:
        """Take what the command has written, waiting a little for it; False once the other side is closed."""
        if not select.select([self.descriptor], [], [], 0.05)[0]:
            return True
        try:
            data = os.read(self.descriptor, 1 << 16)
        except OSError:
            data = b""
        self.output += data
        self._screen.feed(data)
        return bool(data)

    def until(self, *texts: str, since: int = 0) -> int:
        """Read until the command has written all of `texts` after the first `since` bytes; how much there is then.

        Of a text that takes the place of one alike only what differs is written: that it stands on the screen, and did
        not then, is as good.
        """
        before = Screen(*self._size)
        before.feed(self.output[:since])
        stood = {text for text in texts if text in before.text}

        def have_come() -> bool:
            written, shown = self.output[since:], self._screen.text
            return all(text.encode() in written or (text in shown and text not in stood) for text in texts)

        self.until_true(have_come, f"no {texts}")
        return len(self.output)

    def until_true(self, claim: Callable[[], bool], complaint: str = "it did not come about") -> None:
        """Read until a claim is true."""
        deadline = time.monotonic() + PATIENCE
        while not claim():
            if not self.read():
                time.sleep(0.01)  # the other side is closed: its process is about to end
            assert claim() or time.monotonic() < deadline, f"{complaint} in {self.text()[-3000:]}"

    def wait(self) -> int:
        """Read until the command has ended; its exit code."""
        self.until_true(lambda: self.process.poll() is not None, "the command does not end")
        while self.read() and select.select([self.descriptor], [], [], 0)[0]:
            pass
        return self.process.returncode

    def text(self, since: int = 0) -> str:
        """What was written after the first `since` bytes, without its escape sequences."""
        return _ESCAPES.sub("", self.output[since:].decode("utf-8", "replace"))

    def close(self) -> None:
        """Close the window."""
        with suppress(OSError):
            os.close(self.descriptor)

    def is_given_back(self) -> bool:
        """Whether the terminal is as it was found, as far as what was written to it and its attributes tell."""
        return not changed_modes(self.output) and self.attributes() == self.attributes_before


def changed_modes(output: bytes) -> dict[str, bool]:
    """The private modes that were left otherwise than a terminal has them at first, and whether they are on.

    At first the cursor is shown (25) and lines wrap (7); the alternate screen (1049), reports of the mouse (1000 to
    1016), focus (1004), and bracketed paste (2004) are off, and the keyboard speaks as it always did.
    """
    modes: dict[str, bool] = {}
    for numbers, state in _MODE.findall(output):
        for number in numbers.split(b";"):
            modes[number.decode()] = state == b"h"
    changed = {number: is_on for number, is_on in modes.items() if is_on != (number in ("7", "25"))}
    depth = sum({b">": 1, b"<": -1}[sign] for sign in _KEYBOARD.findall(output))
    return changed | ({"keyboard": True} if depth > 0 else {})
