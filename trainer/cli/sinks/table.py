"""Metrics as one CSV file, one value per row, for spreadsheets and data frames."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from trainer.cli.sinks.sink import Sink
from trainer.rundir import MetricEvent, Record, ResumedEvent, RunPaths, replacing

HEADER = ("time", "attempt", "step", "epoch", "split", "name", "value")


class CsvSink(Sink):
    """Writes `metrics.csv` into the run directory, or the file that `path` names.

    Rows that a resumed attempt replaced are removed, including those of the step that it resumed from.
    """

    def __init__(self, paths: RunPaths, path: str | None = None) -> None:
        super().__init__(paths)
        self.path = paths.root / "metrics.csv" if path is None else Path(path)
        self.place = str(self.path)
        self._file: TextIO | None = None
        self._resumed_from = -1

    def record(self, record: Record) -> None:
        event = record.event
        if isinstance(event, ResumedEvent):
            self._resumed_from = event.from_step
            self._keep(lambda step, split, name: step <= event.from_step)
        elif isinstance(event, MetricEvent):
            if event.step == self._resumed_from:
                keys = {(event.split, name) for name in event.values}
                self._keep(lambda step, split, name: step != event.step or (split, name) not in keys)
            rows = csv.writer(self._open())
            for name, value in event.values.items():
                rows.writerow((record.time, record.attempt, event.step, event.epoch, event.split, name, repr(value)))

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> TextIO:
        if self._file is None:
            is_new = not self.path.exists()
            self._file = self.path.open("a", newline="", encoding="utf-8")
            if is_new:
                csv.writer(self._file).writerow(HEADER)
        return self._file

    def _keep(self, is_kept: Callable[[int, str, str], bool]) -> None:
        """Keeps only the rows whose step, split and name are selected."""
        self.close()
        if not self.path.exists():
            return
        with open(self.path, newline="", encoding="utf-8") as file:
            rows = [row for row in csv.reader(file) if row[2] == "step" or is_kept(int(row[2]), row[4], row[5])]
        with replacing(self.path) as aside, open(aside, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
