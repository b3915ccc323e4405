"""Hooks of the user's own in threads of their own: the loop hands over a moment and goes on."""

from __future__ import annotations

import queue
import threading
import traceback
from contextlib import suppress
from functools import partial

from trainer.learner.hooks.handle import MOMENTS, Moment, TrainingHandle
from trainer.learner.hooks.hook import Hook
from trainer.rundir import WarningEvent

MOST_WAITING = 1000
PATIENCE_SECONDS = 10.0
"""How long the end of a run waits for hooks that are still at work."""


class Aside(Hook):
    """Runs another hook's moments in a thread, in order. It never keeps the loop waiting.

    Moments that it can't keep up with are left out and counted; a hook that raises is told of and not called again.
    """

    is_inline = True

    def __init__(self, hook: Hook) -> None:
        self.hook, self.order = hook, hook.order
        self.missed = 0
        self._waiting: queue.Queue[tuple[str, TrainingHandle, Moment] | None] = queue.Queue(MOST_WAITING)
        self._thread = threading.Thread(target=self._work, daemon=True, name=f"hook {type(hook).__name__}")
        self._thread.start()
        for moment in MOMENTS:
            if getattr(type(hook), moment) is not getattr(Hook, moment):
                setattr(self, moment, partial(self._hand_over, moment))

    def close(self, training: TrainingHandle) -> None:
        """Wait a little for what is still to do, and say what was left out."""
        name = type(self.hook).__name__
        with suppress(queue.Full):  # then the hook is at work on one moment all the while
            self._waiting.put(None, timeout=PATIENCE_SECONDS)
        self._thread.join(PATIENCE_SECONDS)
        if self._thread.is_alive():
            training.tell(WarningEvent(f"the hook {name} is still at work after {PATIENCE_SECONDS:g} s: left behind"))
        if self.missed:
            training.tell(WarningEvent(f"the hook {name} was too slow for {self.missed} moments"))

    def _hand_over(self, name: str, training: TrainingHandle, moment: Moment) -> None:
        try:
            self._waiting.put_nowait((name, training, moment))
        except queue.Full:
            self.missed += 1

    def _work(self) -> None:
        while (item := self._waiting.get()) is not None:
            name, training, moment = item
            try:
                getattr(self.hook, name)(training, moment)
            except Exception:  # a user's code: whatever it raises is told of, and training goes on
                where = f"{type(self.hook).__name__}.{name}"
                training.tell(WarningEvent(f"a hook failed and is not called again\n{traceback.format_exc()}", where))
                return
