"""Starts the processes of a run on this machine, and ends them all once one is lost, whatever the others do.

    a rank fails before its heartbeat exists      no other process can name it: all end at once
    a rank dies, or names rank 0 as lost          rank 0 has SECONDS_TO_SAY_SO to end the run: it may hang, too
    a rank fails by itself                        rank 0, which may fail for the same reason, has SECONDS_TO_FAIL
    rank 0 has ended                              the others have SECONDS_TO_END

Rank 0 writes the `end` event; if it did not, this module writes it, with the rank that was lost.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainer.cli.attempt import Attempt
from trainer.cli.exit_codes import BY_SIGNAL, FAILURE, RANK_LOST
from trainer.learner.ranks import start as ranks
from trainer.rundir import host_name
from trainer.rundir.processes import process_is_alive

LOOK_SECONDS = 0.05
"""Seconds between two checks of the processes."""

SECONDS_TO_SAY_SO, SECONDS_TO_FAIL, SECONDS_TO_END = 3.0, 8.0, 2.0
"""At most ten seconds, together with the time until a stopped heartbeat is noticed."""


def heartbeats_of(root: Path, attempt: int) -> Path:
    """The folder of the heartbeats of an attempt."""
    return root / "ranks" / str(attempt)


def start_ranks(attempt: Attempt, processes: int) -> int:
    """Starts the processes of an attempt whose run directory exists, and waits for their end; returns the exit code.

    Raises:
        TrainerError: there is no launcher.
    """
    described = {
        "root": str(attempt.paths.root.absolute()), "number": attempt.number, "debug": attempt.debug,
        "process_start": attempt.process_start, "is_forced": attempt.is_forced,
        "checkpoint": None if attempt.checkpoint is None else str(attempt.checkpoint),
    }  # fmt: skip
    folder = heartbeats_of(attempt.paths.root, attempt.number).absolute()
    arguments = ["-P", "-m", "trainer.cli.rank", json.dumps(described), str(processes)]
    command = ranks.command(processes, arguments, folder)
    if attempt.lock is not None:
        attempt.lock.release()  # rank 0 takes it
    launcher = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)

    def forward(number: int, frame: object) -> None:
        with suppress(OSError, KeyError):
            os.kill(_heartbeat(folder, 0)["pid"], number)

    for number in BY_SIGNAL:
        signal.signal(number, forward)
    from trainer.cli.ending import end_of, settle  # while the ranks start

    loss, deadline = None, 0.0
    while launcher.poll() is None:
        time.sleep(LOOK_SECONDS)
        if loss is None and (loss := loss_of(folder)) is not None:
            deadline = time.monotonic() + loss[1]
        if loss is not None and (not (alive := _alive(folder)) or time.monotonic() >= deadline):
            for pid in alive:
                with suppress(ProcessLookupError):  # it has just ended
                    os.kill(pid, signal.SIGKILL)
            launcher.terminate()  # it ends its remaining processes
            launcher.wait()
    rank = None if loss is None else loss[0]
    known = {} if rank is None else _heartbeat(folder, rank)
    at = f" (pid {known['pid']} on {known['host']})" if known else ""
    who = "a process of the training" if rank is None else f"rank {rank}{at}"
    settle(attempt, ranks.failed(folder).get(-1 if rank is None else rank, FAILURE), known.get("failure") or "", who)
    ranks.forget_failed(folder)
    end = end_of(attempt)
    return FAILURE if end is None else end.exit_code


def loss_of(folder: Path) -> tuple[int, float] | None:
    """The lost rank, and the seconds in which all ranks with heartbeats in `folder` have to end; None: they train, or
    rank 0 has reported why it ends.
    """
    codes, first = ranks.failed(folder), _heartbeat(folder, 0)
    for rank in codes:
        if not _heartbeat(folder, rank):
            return rank, 0.0
    if first and not _is_alive(first):
        return 0, SECONDS_TO_END
    if not codes or first.get("failure") or first.get("is_done"):
        return None
    rank = min(codes, key=lambda rank: (codes[rank] > 0 and codes[rank] != RANK_LOST, rank))
    is_lost = codes[rank] < 0 or codes[rank] == RANK_LOST
    return rank, SECONDS_TO_SAY_SO if is_lost else SECONDS_TO_FAIL


def _heartbeat(folder: Path, rank: int) -> dict[str, Any]:
    """The content of a rank's heartbeat file; empty before it exists."""
    with suppress(OSError, ValueError):
        known: dict[str, Any] = json.loads((folder / f"{rank}.json").read_text(encoding="utf-8"))
        return known
    return {}


def _is_alive(known: dict[str, Any]) -> bool:
    return known["host"] == host_name() and process_is_alive(known["pid"], known["started"])


def _alive(folder: Path) -> list[int]:
    """The process ids of living ranks that have a heartbeat file."""
    beats = [_heartbeat(folder, int(path.stem)) for path in folder.glob("*.json")]
    return [known["pid"] for known in beats if known and _is_alive(known)]
