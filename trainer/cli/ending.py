"""The end of an attempt: an `end` event for a worker that could not write one, and the summary for the terminal."""

from __future__ import annotations

import shutil
import signal
import sys
from collections import deque

from trainer import TrainerError
from trainer.cli.attempt import Attempt
from trainer.cli.exit_codes import ALL, BY_SIGNAL, FAILURE, USER_MISTAKE
from trainer.cli.output import print_error
from trainer.rundir import EndEvent, gone, last_records, remove_dead_lock

LOG_LINES = 12


def settle(attempt: Attempt, returncode: int, last_words: str) -> None:
    """Ensures that the attempt has an `end` event after its worker has ended.

    Args:
        attempt: the attempt.
        returncode: exit code of the worker, negative for the signal that killed it.
        last_words: message of a worker that could not write its own event.
    """
    if error := gone(attempt.paths.root):
        raise error
    remove_dead_lock(attempt.paths)  # a worker that is killed before its signal handlers are installed leaves it
    if end_of(attempt) is not None:
        return
    end = explain(returncode, last_words, _log_tail(attempt))
    try:
        with attempt.writer() as write:
            write(end)
    except TrainerError as error:  # a full disk prevents writing this event, too
        raise TrainerError(last_words or f"{end.reason}\n{error}") from error


def explain(returncode: int, last_words: str, log: str) -> EndEvent:
    """The `end` event for a worker that wrote none."""
    if -returncode in BY_SIGNAL or returncode in BY_SIGNAL.values():
        code = BY_SIGNAL.get(-returncode, returncode)
        return EndEvent("interrupted", code, reason="interrupted before training began")
    if last_words:
        return EndEvent("failed", USER_MISTAKE if returncode == USER_MISTAKE else FAILURE, reason=last_words)
    if returncode < 0:
        name = signal.Signals(-returncode).name
        hint = " (the usual sign that memory ran out)" if name == "SIGKILL" else ""
        reason = f"the worker was killed by {name}{hint}"
    else:
        reason = f"the worker ended with exit code {returncode} and without a message"
    return EndEvent("failed", FAILURE, reason=f"{reason}\n{log}".rstrip())


def end_of(attempt: Attempt) -> EndEvent | None:
    """The attempt's `end` event, or None."""
    for record in reversed(last_records(attempt.paths.events)):
        if record.attempt == attempt.number and isinstance(record.event, EndEvent):
            return record.event
    return None


def summary(attempt: Attempt) -> list[str]:
    """How the attempt ended, for the terminal: its final metrics, and how to resume it."""
    end = end_of(attempt)
    if end is None:
        return []
    root = attempt.paths.root
    lines = [f"{root}: {end.status}" + (f" at step {end.step}" if end.step else "")]
    by_split: dict[str, list[str]] = {}
    for name, value in end.metrics.items():
        split, _, metric = name.rpartition("/")
        by_split.setdefault(split, []).append(f"{metric} {value:.4g}")
    width = max(map(len, by_split), default=0)
    lines += [f"  {split:{width}}  {'  '.join(facts)}" for split, facts in by_split.items()]
    if end.status in ("stopped", "interrupted"):
        lines.append(f"  resume:  trainer run --resume {root}")
    return lines


def report(attempt: Attempt) -> int:
    """Writes the error of the attempt, if any, to standard error; returns the attempt's exit code.

    If a user error ended the run before its first step, its directory is deleted.
    """
    if error := gone(attempt.paths.root):
        raise error
    end = end_of(attempt)
    if end is None:
        print_error(f"{attempt.paths.events} has no end event")
        return FAILURE
    if end.status == "failed":
        is_unused = end.exit_code == USER_MISTAKE and not end.step and attempt.number == 1
        print_error(end.reason)
        traceback = attempt.paths.traceback(attempt.number)
        if attempt.debug and traceback.exists():
            print(traceback.read_text(encoding="utf-8"), file=sys.stderr)
        elif end.traceback and not is_unused:
            print(f"  traceback: {attempt.paths.root / end.traceback}", file=sys.stderr)
        if is_unused:
            shutil.rmtree(attempt.paths.root, ignore_errors=True)  # a failing disk is part of the error above
    return end.exit_code if end.exit_code in ALL else FAILURE


def _log_tail(attempt: Attempt) -> str:
    try:
        with open(attempt.paths.log, encoding="utf-8", errors="replace") as log:
            lines = deque(log, maxlen=LOG_LINES)
    except FileNotFoundError:
        return ""
    return f"last lines of {attempt.paths.log}:\n{''.join(lines)}" if lines else ""
