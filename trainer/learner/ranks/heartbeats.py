"""Heartbeats of ranks in the run directory: a rank that died, hangs or failed is named.

Each rank has a file `ranks/N.json` with its process and machine, which a thread touches every second; a rank that fails
writes the reason into it.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainer.rundir import host_name
from trainer.rundir.processes import process_is_alive, process_started

BEAT_SECONDS = 1.0
SILENT_SECONDS = 5.0
"""A rank whose heartbeat stops for this long is lost: with the time that the others have to end, within ten seconds."""


class Heartbeats:
    """The heartbeat of one rank, and a check of the others.

    Args:
        folder: where the files are; the same for all ranks.
        clock: seconds, for the age of heartbeats as seen from here: clocks of machines are not compared.
    """

    def __init__(self, folder: Path, rank: int, size: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder, self.rank, self.size, self._clock = folder, rank, size, clock
        self._beats: dict[int, tuple[int, float]] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._known = {"pid": os.getpid(), "started": process_started(os.getpid()), "host": host_name()}

    def start(self) -> None:
        """Write the file and touch it from now on."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._write({})
        self._thread.start()

    def stop(self, failure: str | None = None) -> None:
        """End the heartbeat: the rank is done, or failed for a reason."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._write({"failure": failure} if failure else {"is_done": True})

    def lost(self) -> str | None:
        """A sentence about the first rank that is lost; None while all others live or are done."""
        for rank in range(self.size):
            if rank != self.rank and (problem := self._problem(rank)) is not None:
                return problem
        return None

    def _problem(self, rank: int) -> str | None:
        path = self._folder / f"{rank}.json"
        try:
            written, known = path.stat().st_mtime_ns, json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not there yet, or being replaced
            written, known = 0, {}
        name = f"rank {rank} (pid {known['pid']} on {known['host']})" if known else f"rank {rank}"
        if known.get("failure"):
            return f"{name} failed: {known['failure']}"
        if known.get("is_done"):
            return None
        if known and known["host"] == host_name() and not process_is_alive(known["pid"], known["started"]):
            return f"{name} died"
        before, since = self._beats.get(rank, (-1, 0.0))
        now = self._clock()
        if written != before:
            self._beats[rank] = written, now
        elif now - since >= SILENT_SECONDS:
            return f"{name} has not responded for {now - since:.0f} s"
        return None

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            with suppress(OSError):  # the run directory is gone or full: the others will say so
                os.utime(self._folder / f"{self.rank}.json")

    def _write(self, fields: dict[str, Any]) -> None:
        path = self._folder / f"{self.rank}.json"
        aside = path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            aside.write_text(json.dumps({**self._known, **fields}), encoding="utf-8")
            os.replace(aside, path)
