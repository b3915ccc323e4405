"""The validation metrics of a run that is not shown, without its training metrics, most of a long event file."""

from __future__ import annotations

import re
import time
from pathlib import Path

from trainer.rundir import MetricEvent, ResumedEvent
from trainer.rundir.codec import decode_lines
from trainer.tui.series import Series

CHUNK_BYTES = 1 << 20
_OF_INTEREST = re.compile(rb'"valid|"resumed"')


class Validations:
    """Follows an event file; other lines are not decoded, so that a gigabyte takes about a second.

    Attributes:
        series: by "split/name", every validation metric.
        at_end: whether the last poll read the file to its end at that time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.series: dict[str, Series] = {}
        self.at_end = False
        self._offset = 0

    def poll(self, max_seconds: float) -> None:
        """Reads new lines, for at most about `max_seconds`; a file that does not exist yet is empty."""
        deadline = time.perf_counter() + max_seconds
        try:
            with open(self.path, "rb") as file:
                self.at_end = False
                while not self.at_end:
                    file.seek(self._offset)
                    chunk = file.read(CHUNK_BYTES)
                    whole = chunk.rfind(b"\n") + 1
                    self._take(chunk[:whole])
                    is_full = len(chunk) == CHUNK_BYTES
                    self.at_end = not is_full  # a line that is still being written is left for the next poll
                    self._offset += whole if whole or not is_full else CHUNK_BYTES
                    if time.perf_counter() >= deadline:
                        break
        except FileNotFoundError:
            self.at_end = True

    def _take(self, chunk: bytes) -> None:
        lines, end = [], 0
        while (found := _OF_INTEREST.search(chunk, end)) is not None:
            start = chunk.rfind(b"\n", 0, found.start()) + 1
            end = chunk.index(b"\n", found.start())
            lines.append(chunk[start:end])
        for record in decode_lines(lines):
            event = None if record is None else record.event
            if isinstance(event, MetricEvent) and event.split.startswith("valid"):
                for name, value in event.values.items():
                    self.series.setdefault(f"{event.split}/{name}", Series()).append(event.step, value)
            elif isinstance(event, ResumedEvent):
                for series in self.series.values():
                    series.take_back(event.from_step)
