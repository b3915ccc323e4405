"""The state of a run: one of a few words, each with a glyph, never shown by color alone.

The words are those of `trainer runs list` and of the report; the dashboard distinguishes a few more for live runs.
"""

from __future__ import annotations

from typing import NamedTuple

from trainer.rundir import LockState
from trainer.tui.view import View

SILENT_AFTER_SECONDS = 15.0
"""A live worker that has not updated its lock for this long is shown as silent."""

STARTING_SECONDS = 30.0
"""Seconds after its last event during which a run without a lock counts as starting."""


class Status(NamedTuple):
    """A state of a run.

    `glyph` names a field of Glyphs, `role` a color; `is_over`: nothing changes any more unless the run is resumed;
    `is_moving`: the run makes steps, as far as its records show.
    """

    word: str
    glyph: str
    role: str
    is_over: bool = False
    is_moving: bool = False


STARTING = Status("STARTING", "starting", "busy")
RUNNING = Status("RUNNING", "running", "busy", is_moving=True)
READING = Status("READING", "starting", "busy")
PAUSED = Status("PAUSED", "paused", "warn")
STOPPING = Status("STOPPING", "stopped", "warn", is_moving=True)
SILENT = Status("SILENT", "silent", "bad")
LOST = Status("LOST", "failed", "bad", is_over=True)
DONE = Status("DONE", "finished", "good", is_over=True)
STOPPED = Status("STOPPED", "stopped", "warn", is_over=True)
PRUNED = Status("PRUNED", "stopped", "warn", is_over=True)
INTERRUPTED = Status("INTERRUPTED", "stopped", "warn", is_over=True)
FAILED = Status("FAILED", "failed", "bad", is_over=True)

_BY_END = {"done": DONE, "stopped": STOPPED, "pruned": PRUNED, "interrupted": INTERRUPTED, "failed": FAILED}


def status_of(view: View, lock: LockState | None, now: float) -> Status:
    """The state of a run from its records, its lock and the time (seconds since 1970)."""
    if view.end is not None:
        return _BY_END.get(view.end.status, DONE)
    if lock is None:
        last = view.last_time if view.last_time is not None else now
        return STARTING if now - last < STARTING_SECONDS else LOST
    if not lock.alive:
        return LOST
    if now - lock.heartbeat > SILENT_AFTER_SECONDS:
        return SILENT
    if view.stopping:
        return STOPPING
    if view.paused:
        return PAUSED
    return RUNNING
