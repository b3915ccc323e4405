"""Follows `log.txt`, the worker's output, from its last lines on."""

from __future__ import annotations

import os
from pathlib import Path

from trainer.tui.text import printable

START_BYTES = 1 << 14
CHUNK_BYTES = 1 << 16


class LogTail:
    """New complete lines of a growing text file. A missing file is empty.

    Starts START_BYTES before the end of the file: older output is in the file, not on the screen.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset: int | None = None
        self._rest = b""

    def poll(self) -> list[str]:
        """The nonempty lines added since the last poll, at most CHUNK_BYTES, safe to print."""
        try:
            with open(self.path, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                starts_inside = self._offset is None and size > START_BYTES
                if self._offset is None or self._offset > size:
                    self._offset, self._rest = max(0, size - START_BYTES), b""
                if size == self._offset:
                    return []
                file.seek(self._offset)
                data = file.read(CHUNK_BYTES)
        except FileNotFoundError:
            return []
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if starts_inside:
            lines = lines[1:]
        texts = (printable(line.decode("utf-8", "replace")) for line in lines)
        return [text for text in texts if text.strip()]
