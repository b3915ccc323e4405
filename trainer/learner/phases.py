"""Phases as events: started, progress with count, total and remaining time, finished or failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trainer.learner.inbox import Stopped
from trainer.rundir import EventSink, PhaseEvent

SECONDS_BETWEEN_EVENTS = 0.1


class Phase:
    """A running phase. Reports progress at most ten times a second."""

    def __init__(
        self, name: str, sink: EventSink, *, unit: str | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.name, self._sink, self._unit, self._clock = name, sink, unit, clock
        self._started = clock()
        self._last_event = float("-inf")
        self._first_done: float | None = None
        self._done: float | None = None
        self._total: float | None = None
        self._tell("started")

    def progress(self, done: float, total: float | None = None, now: str | None = None) -> None:
        """Reports that `done` of `total` units are done, and what is in progress (`now`)."""
        self._done, self._total = done, total
        moment = self._clock()
        if self._first_done is None:
            self._first_done, self._started = done, moment
        if moment - self._last_event < SECONDS_BETWEEN_EVENTS and done != total:
            return
        self._last_event = moment
        advanced = done - self._first_done
        remaining = None
        if total is not None and advanced > 0:
            remaining = round((total - done) * (moment - self._started) / advanced, 3)
        self._tell("progress", now, remaining)

    def end(self, state: str = "finished") -> None:
        """Ends the phase: finished or failed."""
        self._tell(state)

    def _tell(self, state: str, now: str | None = None, remaining: float | None = None) -> None:
        self._sink(PhaseEvent(self.name, state, self._done, self._total, self._unit, now, remaining))


@contextmanager
def phase(name: str, sink: EventSink, *, unit: str | None = None) -> Iterator[Phase]:
    """Reports to `sink` that a phase started, and at the end that it finished (a stop is not a failure) or failed."""
    running = Phase(name, sink, unit=unit)
    try:
        yield running
    except Stopped:
        running.end()
        raise
    except BaseException:
        running.end("failed")
        raise
    running.end()


class CompilePhases:
    """The phases of a program's first run: "trace" until the compiler's first report, then "compile"."""

    def __init__(self, sink: EventSink) -> None:
        self._sink = sink
        self._running: Phase | None = None

    @contextmanager
    def watching(self, what: str) -> Iterator[None]:
        """Reports the phases of the first run of the program called `what`, inside the context."""
        self._running = Phase("trace", self._sink)
        self._running.progress(0, 1, what)
        try:
            yield
        except BaseException as error:
            self._switch(None, "finished" if isinstance(error, Stopped) else "failed")
            raise
        self._switch(None)

    def report(self, done: int, total: int, now: str) -> None:
        """Reports compilation: `done` of `total` kernels are ready, `now` is in progress; 0 of 0 while planning."""
        if self._running is not None and not total:
            self._running.progress(0, 1, now)
            return
        if self._running is not None and self._running.name == "trace":
            self._switch("compile")
        if self._running is not None:
            self._running.progress(done, total, now)
            if done >= total:
                self._switch(None)

    def _switch(self, name: str | None, state: str = "finished") -> None:
        if self._running is not None:
            if self._running.name == "trace" and state == "finished":
                self._running.progress(1, 1)
            self._running.end(state)
        self._running = Phase(name, self._sink, unit="kernel") if name else None
