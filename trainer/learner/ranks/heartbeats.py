"""Heartbeats of ranks in the run directory, which identify a rank that died, failed, hangs or lags.

Each rank has a file `ranks/N.json` with its process, machine and activity, which a thread writes every second; a rank
that fails writes the reason into it. The thread of rank 0 reads all files every second and reports them as events. The
threads of other ranks read the file of rank 0, which fails once it finds a lost rank. So n ranks read 2n files a
second, on a file system that they may share. A rank that waits for others then ends by itself; its thread ends a rank
that does not wait, whatever it is doing.

    file unchanged for SILENT_SECONDS                        lost: the whole process hangs
    no activity for SILENT_SECONDS, in a compiled step       lost: only the exchange between ranks may wait there
    no activity for SILENT_SECONDS elsewhere                 a warning: data, hooks and files may wait for others
    no activity for LONGEST_IDLE_SECONDS elsewhere           lost

A rank that waits for others is never idle, nor is a rank that computes, however slow it is (see `activity`).
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainer import TrainerError
from trainer.learner.ranks.activity import Activity, resident_bytes
from trainer.learner.ranks.lagging import Lagging
from trainer.learner.ranks.pace import STEP, Pace
from trainer.rundir import EventSink, RanksEvent, WarningEvent, host_name, replacing
from trainer.rundir.processes import process_is_alive, process_started

BEAT_SECONDS = 1.0
SILENT_SECONDS = 5.0
"""A rank whose heartbeat stops for this long is lost; the others then end within ten seconds of its last heartbeat."""

LONGEST_IDLE_SECONDS = 600.0
"""A rank that is idle for this long outside of a compiled step is lost: loading data and hooks may wait for a network.
The value is PyTorch's timeout of collectives.
"""

LOOKS_BEFORE_END, LOOKS_AFTER_FAILURE = 2, 6
"""Consecutive checks that find a lost rank before the thread ends its own process; one that waits has ended by then.
After the failure of a rank there are more checks: this rank may fail for the same reason, and save what it can.
"""

REPORT_SECONDS, RANKS_OF_A_REPORT = 2.0, 16
"""Seconds between two reports of up to RANKS_OF_A_REPORT ranks; reports of more ranks are longer and less frequent."""


@dataclass(frozen=True)
class Beat:
    """The heartbeat of a rank, as seen by this one: the content of its file, and seconds since the file changed."""

    rank: int
    known: dict[str, Any] = field(default_factory=dict)
    age: float = 0.0

    def __str__(self) -> str:
        return f"rank {self.rank} (pid {self['pid']} on {self['host']})" if self.known else f"rank {self.rank}"

    def __getitem__(self, name: str) -> Any:
        return self.known.get(name)

    @property
    def idle(self) -> float:
        """Seconds without activity; 0 while it waits for other ranks, or if the file does not say."""
        return 0.0 if self["waiting"] else float(self["idle"] or 0.0)

    def described(self) -> dict[str, Any]:
        """The entry of this rank in a `RanksEvent`."""
        state = "failed" if self["failure"] else "done" if self["is_done"] else self["phase"] or "start"
        if self.age >= SILENT_SECONDS and not self["is_done"]:
            state = "silent"
        elif (self["waiting"] or 0.0) >= BEAT_SECONDS:
            state = "waiting"
        elif self.idle >= SILENT_SECONDS:
            state = f"idle in {self['activity']}"
        shown = ("step", "step_ms", "wait", "memory")
        return {"rank": self.rank, "host": self["host"], "pid": self["pid"], "state": state} | {
            name: self[name] for name in shown if self[name] is not None
        }


class Heartbeats:
    """The heartbeat of one rank, and a check of the others.

    Args:
        folder: the folder of the files; the same for all ranks.
        pace: the activity of this rank.
        tell: receives reports about all ranks, and warnings; None: another rank reports them.
        end: ends this process; the thread calls it with the sentence about a lost rank. None: the process is not ended.
        clock: returns seconds, for the age of heartbeats on this machine: clocks of machines are not compared.

    Attributes:
        lost: a sentence about a lost rank, from the last check; None while all ranks that this one watches are alive or
            done.
    """

    def __init__(
        self,
        folder: Path,
        rank: int,
        size: int,
        pace: Pace | None = None,
        tell: EventSink | None = None,
        *,
        end: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self.rank, self.size, self._clock = folder, rank, size, clock
        self._pace, self._tell, self._end = pace or Pace(), tell, end
        self._beats: dict[int, tuple[int, float]] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._known = {"pid": os.getpid(), "started": process_started(os.getpid()), "host": host_name()}
        self._changes, self._active_at = 0, clock()
        self._lagging, self._idle_ranks = Lagging(), set[int]()
        self._reported_at = self._look_time = -math.inf
        self._looks_while_lost = 0
        self.lost: str | None = None

    def start(self) -> None:
        """Writes the file now, and again every second."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._write({})
        self._thread.start()

    def stop(self, failure: str | None = None) -> None:
        """Ends the heartbeat: the rank is done, or failed for the reason `failure`."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._write({"failure": failure} if failure else {"is_done": True})

    def look(self, *, at_all: bool = False) -> list[Beat]:
        """Reads the heartbeats that this rank watches, or those of all ranks; sets `lost`."""
        now = self._clock()
        if now - self._look_time >= SILENT_SECONDS:
            self._beats.clear()  # this process itself was suspended, and perhaps the others with it
        self._look_time = now
        beats = [self.beat_of(rank) for rank in (range(self.size) if at_all or self.rank == 0 else [0])]
        problems = (self._problem(beat) for beat in beats if beat.rank != self.rank)
        self.lost = next((problem for problem in problems if problem is not None), None)
        return beats

    def beat_of(self, rank: int) -> Beat:
        """Reads the current heartbeat of a rank."""
        path = self._folder / f"{rank}.json"
        try:
            written, known = path.stat().st_mtime_ns, json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not there yet, or being replaced
            written, known = 0, {}
        before, since = self._beats.get(rank, (-1, 0.0))
        now = self._clock()
        if written != before:
            self._beats[rank] = written, now
            since = now
        return Beat(rank, known, now - since)

    def watch(self) -> None:
        """Checks and reports; ends this process if several consecutive checks found a lost rank."""
        beats = self.look()
        self._looks_while_lost = 0 if self.lost is None else self._looks_while_lost + 1
        most = LOOKS_AFTER_FAILURE if any(beat["failure"] for beat in beats) else LOOKS_BEFORE_END
        if self.lost is not None and self._looks_while_lost >= most and self._end is not None:
            self._write({"failure": self.lost})
            self._end(self.lost)
        if self._tell is not None:
            with suppress(TrainerError, OSError):  # a full disk: the loop reports it
                self.report(beats)

    def report(self, beats: Sequence[Beat]) -> None:
        """Reports all ranks, and warns about idle and lagging ones."""
        assert self._tell is not None
        now = self._clock()
        if now - self._reported_at >= REPORT_SECONDS * math.ceil(self.size / RANKS_OF_A_REPORT):
            self._reported_at = now
            rows = [beat.described() for beat in beats if beat.known]
            self._tell(RanksEvent(sorted(rows, key=lambda row: (-row.get("step_ms", 0.0), row["rank"]))))
        kept = any(beat["waiting"] and beat["waiting"] >= SILENT_SECONDS for beat in beats)
        idle = {beat.rank: beat for beat in beats if kept and beat.idle >= SILENT_SECONDS}
        for rank in idle.keys() - self._idle_ranks:
            beat = idle[rank]
            self._tell(WarningEvent(
                f"{beat} has done nothing for {beat.idle:.0f} s in {beat['activity']!r}, and others wait for it"
            ))  # fmt: skip
        self._idle_ranks = set(idle)
        times = {beat.rank: beat["step_ms"] for beat in beats if beat["step_ms"] is not None}
        measured = min([beat["measured"] or 0 for beat in beats])
        for rank, others in self._lagging.found(times, measured) if len(times) == self.size else ():
            self._tell(WarningEvent(
                f"{beats[rank]} lags: its steps take {times[rank]:.3g} ms apart from waits, those of the others "
                f"{others:.3g} ms"
            ))  # fmt: skip

    def _problem(self, beat: Beat) -> str | None:
        known = beat.known
        if known.get("failure"):
            return f"{beat} failed: {known['failure']}"
        if known.get("is_done"):
            return None
        if known and known["host"] == host_name() and not process_is_alive(known["pid"], known["started"]):
            return f"{beat} died"
        if beat.age >= SILENT_SECONDS:
            return f"{beat} has not responded for {beat.age:.0f} s"
        may_wait = known.get("is_asynchronous") or known.get("activity") != STEP
        if beat.idle >= (LONGEST_IDLE_SECONDS if may_wait else SILENT_SECONDS):
            return f"{beat} is stuck: it has done nothing for {beat.idle:.0f} s in {known['activity']!r}"
        return None

    def _beat(self) -> None:
        activity = Activity()
        while not self._ended.wait(BEAT_SECONDS):
            if activity.has_any() or self._pace.changes != self._changes:
                self._changes, self._active_at = self._pace.changes, self._clock()
            self._write(self._status())
            self.watch()

    def _status(self) -> dict[str, Any]:
        pace, status = self._pace, dict[str, Any]()
        step_ms, share = pace.step_ms(), pace.wait_share()
        if step_ms is not None and share is not None:
            status = {"step_ms": round(step_ms, 3), "wait": round(share, 4)}
        return {
            "step": pace.step, "measured": pace.measured, **status, "memory": resident_bytes(),
            "phase": pace.phase, "activity": pace.activity, "waiting": round(pace.waiting, 1),
            "idle": round(self._clock() - self._active_at, 1), "is_asynchronous": pace.is_asynchronous,
        }  # fmt: skip

    def _write(self, fields: dict[str, Any]) -> None:
        with suppress(OSError), replacing(self._folder / f"{self.rank}.json") as aside:
            # if the run directory is gone or full, the other ranks report it
            aside.write_text(json.dumps({**self._known, **fields}), encoding="utf-8")
