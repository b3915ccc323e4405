"""Prints a run's events as they arrive, as plain lines or as JSON."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import TextIO

from trainer.cli.forms import Form
from trainer.cli.output import abandon
from trainer.cli.plain import PlainLines
from trainer.rundir import EventTail, Record, RunPaths, encode, write_error

SECONDS_BETWEEN_LOOKS = 0.1
SECONDS_BETWEEN_FIRST_LOOKS = 0.005
"""Seconds between checks until the first record arrives, because the user waits for it."""


class Printer:
    """Prints records in one form. Lines are flushed together, after each batch; `monitored` is as in `PlainLines`."""

    def __init__(self, form: Form, stream: TextIO, monitored: str | None = None) -> None:
        self._form, self._stream, self._plain = form, stream, PlainLines(monitored)
        self._begun = math.inf

    def print(self, records: list[Record]) -> None:
        if records:
            self._begun = records[-1].time - records[-1].since_start
        self._safely(lambda: self._write(records))

    def tick(self) -> None:
        """Prints the lines that are due by time while no record arrives."""
        self._safely(lambda: self._lines(self._plain.due(time.time() - self._begun)))

    def finish(self) -> None:
        """Prints the lines that are still held: no more records will come."""
        self._safely(lambda: self._lines(self._plain.rest()))

    def _safely(self, write: Callable[[], object]) -> None:
        try:
            write()
        except BrokenPipeError:
            raise
        except OSError as error:
            abandon(sys.stdout)
            raise write_error("standard output", error) from error

    def _write(self, records: list[Record]) -> None:
        for record in records:
            if self._form is Form.JSON:
                line = encode(record.event, time=record.time, since_start=record.since_start, attempt=record.attempt)
                self._stream.write(line.decode())
            else:
                for text in self._plain.lines(record):
                    self._stream.write(text + "\n")
        if records:
            self._stream.flush()

    def _lines(self, lines: list[str]) -> None:
        if lines:
            self._stream.write("\n".join(lines) + "\n")
            self._stream.flush()

    def print_record(self, record: Record) -> None:
        self.print([record])


def follow(
    paths: RunPaths,
    form: Form,
    *,
    over: Callable[[], bool],
    attempt: int = 0,
    see: Callable[[Record], None] = lambda record: None,
) -> None:
    """Prints events until `over` returns true: no more will come.

    Args:
        paths: the run.
        form: plain lines or JSON.
        over: called before each check.
        attempt: the first attempt whose records are printed; 0: all.
        see: receives each record after it was printed.
    """
    printer = Printer(form, sys.stdout, paths.leading_metric)
    pause = SECONDS_BETWEEN_FIRST_LOOKS
    with EventTail(paths.events) as tail:
        while True:
            finished = over()
            records = [record for record in tail.poll() if record.attempt >= attempt]
            printer.print(records)
            for record in records:
                see(record)
            if finished:
                printer.finish()
                return
            printer.tick()
            if records:
                pause = SECONDS_BETWEEN_LOOKS
            time.sleep(pause)
