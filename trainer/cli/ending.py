"""How an attempt ended: an `end` event for a worker that could write none, and the report for who started it."""

from __future__ import annotations

import signal
import sys
from collections import deque

from trainer import TrainerError
from trainer.cli import DONE, FAILURE, INTERRUPTED, TERMINATED, USER_MISTAKE
from trainer.cli.prepare import Prepared
from trainer.rundir import EndEvent, last_records

EXIT_CODES = {int(signal.SIGINT): INTERRUPTED, int(signal.SIGTERM): TERMINATED}
"""By signal; a hang-up counts as being terminated."""
if hasattr(signal, "SIGHUP"):
    EXIT_CODES[int(signal.SIGHUP)] = TERMINATED

LOG_LINES = 12


def settle(prepared: Prepared, returncode: int, last_words: str) -> None:
    """See that the attempt has an `end` event, now that its worker has ended.

    Args:
        prepared: the attempt.
        returncode: of the worker, negative for the signal that killed it.
        last_words: what the worker said when it could not write its own event.
    """
    if end_of(prepared) is not None:
        return
    end = explain(returncode, last_words, _log_tail(prepared))
    try:
        with prepared.writer() as write:
            write(end)
    except TrainerError as error:  # a full disk keeps us from writing it, too: say both
        raise TrainerError(f"{end.reason}\n{error}" if str(error) != end.reason else str(error)) from error


def explain(returncode: int, last_words: str, log: str) -> EndEvent:
    """The `end` event of a worker that left none."""
    if -returncode in EXIT_CODES:
        name = signal.Signals(-returncode).name
        return EndEvent("interrupted", EXIT_CODES[-returncode], reason=f"{name} before training began")
    if last_words:
        return EndEvent("failed", USER_MISTAKE if returncode == USER_MISTAKE else FAILURE, reason=last_words)
    if returncode < 0:
        name = signal.Signals(-returncode).name
        hint = " (the system kills processes so when memory runs out)" if name == "SIGKILL" else ""
        reason = f"the worker was killed by {name}{hint}"
    else:
        reason = f"the worker ended with {returncode} and without a word"
    return EndEvent("failed", FAILURE, reason=f"{reason}\n{log}".rstrip())


def end_of(prepared: Prepared) -> EndEvent | None:
    """The attempt's `end` event, or None."""
    for record in reversed(last_records(prepared.paths.events)):
        if record.attempt == prepared.attempt and isinstance(record.event, EndEvent):
            return record.event
    return None


def report(prepared: Prepared) -> int:
    """Say on the error stream what went wrong, if anything did; returns the attempt's exit code."""
    end = end_of(prepared)
    if end is None:
        print(f"error: {prepared.paths.events} has lost its end", file=sys.stderr)
        return FAILURE
    if end.status == "failed":
        print(f"error: {end.reason}", file=sys.stderr)
        traceback = prepared.paths.traceback(prepared.attempt)
        if prepared.debug and traceback.exists():
            print(traceback.read_text(encoding="utf-8"), file=sys.stderr)
        elif end.traceback:
            print(f"  traceback: {prepared.paths.root / end.traceback}", file=sys.stderr)
    return end.exit_code if end.exit_code in (DONE, FAILURE, USER_MISTAKE, INTERRUPTED, TERMINATED) else FAILURE


def _log_tail(prepared: Prepared) -> str:
    try:
        with open(prepared.paths.log, encoding="utf-8", errors="replace") as log:
            lines = deque(log, maxlen=LOG_LINES)
    except FileNotFoundError:
        return ""
    return f"last lines of {prepared.paths.log}:\n{''.join(lines)}" if lines else ""
