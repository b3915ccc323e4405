"""Logs where a run hangs if nothing happens for long."""

from __future__ import annotations

import sys
import threading
import traceback
from typing import TYPE_CHECKING

from trainer.learner.hooks.handle import Moment, TrainingHandle
from trainer.learner.hooks.hook import Hook
from trainer.rundir import Event, EventSink, WarningEvent

if TYPE_CHECKING:
    from trainer.configs import RunConfig


class Watchdog(Hook):
    """A thread that logs the stack of the training thread if nothing happens for too long.

    Any step or event counts as activity. It warns once, and again after new activity.
    """

    order, is_inline = 0, True

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._alive, self._ended = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._watched = 0

    @classmethod
    def for_config(cls, config: RunConfig) -> Watchdog | None:
        minutes = config.train.watchdog_minutes
        return None if minutes is None else cls(60 * minutes)

    def on_start(self, training: TrainingHandle, moment: Moment) -> None:
        self._watched = threading.get_ident()
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, args=(training.tell,), daemon=True, name="watchdog")
            self._thread.start()
            training.listeners.append(self.receive)

    def receive(self, event: Event) -> None:
        """Any event counts as activity."""
        self._alive.set()

    def after_step(self, training: TrainingHandle, moment: Moment) -> None:
        self._alive.set()

    def on_end(self, training: TrainingHandle, moment: Moment) -> None:
        self._ended.set()
        self._alive.set()

    on_error = on_end

    def _watch(self, tell: EventSink) -> None:
        while not self._ended.is_set():
            self._alive.clear()
            if self._alive.wait(self.seconds):
                continue
            frame = sys._current_frames().get(self._watched)
            place = "".join(traceback.format_stack(frame)[-6:]) if frame is not None else "its thread has ended"
            tell(WarningEvent(f"no progress for {self.seconds / 60:g} minutes; the training thread is at:\n{place}"))
            self._alive.clear()
            self._alive.wait()
