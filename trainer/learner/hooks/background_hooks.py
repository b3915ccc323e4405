"""Custom hooks in background threads: the loop passes a moment on and continues."""

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
"""Seconds that the end of a run waits for hooks that are still working."""


class BackgroundHook(Hook):
    """Calls another hook in a thread, in order. The loop never waits for it.

    Moments are skipped and counted if the hook is too slow. If it raises, a warning is logged and it is not called
    again.
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
        """Waits briefly for remaining work, and reports skipped moments."""
        name = type(self.hook).__name__
        with suppress(queue.Full):  # the hook is still working on one moment
            self._waiting.put(None, timeout=PATIENCE_SECONDS)
        self._thread.join(PATIENCE_SECONDS)
        if self._thread.is_alive():
            training.tell(
                WarningEvent(f"the hook {name} is still running after {PATIENCE_SECONDS:g} s and is abandoned")
            )
        if self.missed:
            training.tell(WarningEvent(f"the hook {name} was too slow and skipped {self.missed} moments"))

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
            except Exception:  # custom code: any exception is reported, and training continues
                where = f"{type(self.hook).__name__}.{name}"
                training.tell(WarningEvent(f"a hook failed and is not called again\n{traceback.format_exc()}", where))
                return
