"""The activity of a rank, and the time of its steps without the waits for other ranks.

The training thread writes them, the heartbeat's thread reads them.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from trainer.rundir import Event, EventSink, PhaseEvent

RECENT_STEPS = 32
"""Number of steps in the median of step times: a compilation or a validation among them does not change it."""

STEP, DATA = "step", "data"
"""Activities inside the phase `train`: running a compiled step, and loading a batch."""


class Pace:
    """The current activities of a rank, the innermost last, and the times of its steps.

    Attributes:
        step: number of completed steps.
        measured: number of steps timed so far.
        changes: a counter that grows whenever an activity begins or ends, or a wait ends.
        is_asynchronous: whether steps run on a separate device, so that the process is idle during a long step.
        waiting_since: time when the current wait for other ranks began; None: it does not wait.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._activities: list[str] = []
        self._steps: deque[tuple[float, float]] = deque(maxlen=RECENT_STEPS)
        self.step = self.measured = self.changes = 0
        self.is_asynchronous = False
        self.waiting_since: float | None = None

    @property
    def activity(self) -> str:
        """The innermost activity: a phase, STEP or DATA."""
        return next(reversed(self._activities), "start")

    @property
    def phase(self) -> str:
        """The innermost phase."""
        return next((name for name in reversed(self._activities) if name not in (STEP, DATA)), "start")

    @property
    def waiting(self) -> float:
        """Seconds of the current wait for other ranks; 0: it does not wait."""
        since = self.waiting_since
        return 0.0 if since is None else self._clock() - since

    def listening(self, sink: EventSink) -> EventSink:
        """Returns a sink that records phases and passes all events on."""

        def receive(event: Event) -> None:
            if isinstance(event, PhaseEvent) and event.state != "progress":
                (self._begin if event.state == "started" else self._end)(event.name)
            sink(event)

        return receive

    @contextmanager
    def during(self, activity: str) -> Iterator[None]:
        """Records an activity inside the context."""
        self._begin(activity)
        try:
            yield
        finally:
            self._end(activity)

    @contextmanager
    def wait(self) -> Iterator[None]:
        """Records a wait for other ranks inside the context."""
        self.waiting_since = self._clock()
        try:
            yield
        finally:
            self.waiting_since = None
            self.changes += 1

    def note_step(self, step: int, seconds: float, waited: float) -> None:
        """Records a completed step, which took `seconds`, including `waited` seconds for other ranks."""
        self.step = step
        self.measured += 1
        self._steps.append((seconds, waited))

    def step_ms(self) -> float | None:
        """Median time of recent steps without waits for other ranks, in milliseconds; None before the first."""
        steps = list(self._steps)
        return 1e3 * statistics.median(seconds - waited for seconds, waited in steps) if steps else None

    def wait_share(self) -> float | None:
        """Fraction of the time of recent steps spent waiting for other ranks, 0 to 1; None before the first."""
        steps = list(self._steps)
        total = sum(seconds for seconds, _ in steps)
        return sum(waited for _, waited in steps) / total if total else None

    def _begin(self, activity: str) -> None:
        self._activities.append(activity)
        self.changes += 1

    def _end(self, activity: str) -> None:
        with suppress(ValueError):  # a phase whose start was not reported
            self._activities.remove(activity)
        self.changes += 1
