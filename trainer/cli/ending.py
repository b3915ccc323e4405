"""The end of an attempt: an `end` event for a worker that could not write one, and the summary for the terminal."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import sys
from collections import deque
from pathlib import Path

from trainer import TrainerError
from trainer.cli.attempt import Attempt
from trainer.cli.exit_codes import ALL, BY_SIGNAL, FAILURE, TERMINATED, USER_MISTAKE
from trainer.cli.output import print_error
from trainer.rundir import (
    EndEvent,
    RunPaths,
    by_importance,
    gone,
    last_records,
    named_first,
    remove_dead_lock,
    summarize,
)
from trainer.tui.numbers import duration, number

LOG_LINES = 12


def settle(attempt: Attempt, returncode: int, last_words: str, who: str = "the worker") -> None:
    """Ensures that the attempt has an `end` event after its worker has ended.

    Args:
        attempt: the attempt.
        returncode: exit code of the worker, negative for the signal that killed it.
        last_words: message of a worker that could not write its own event.
        who: the name of the process in the event.
    """
    if error := gone(attempt.paths.root):
        raise error
    remove_dead_lock(attempt.paths)  # a worker that is killed before its signal handlers are installed leaves it
    if _continues_elsewhere(attempt) is not None:
        if last_words:
            print_error(last_words)
        return
    if end_of(attempt) is not None:
        return
    end = explain(returncode, last_words, _log_tail(attempt), who)
    try:
        with attempt.writer() as write:
            write(end)
    except TrainerError as error:  # a full disk prevents writing this event, too
        raise TrainerError(last_words or f"{end.reason}\n{error}") from error


def explain(returncode: int, last_words: str, log: str, who: str = "the worker") -> EndEvent:
    """The `end` event for a worker that wrote none."""
    if -returncode in BY_SIGNAL or returncode in BY_SIGNAL.values():
        code = BY_SIGNAL.get(-returncode, returncode)
        return EndEvent("interrupted", code, reason="interrupted before training began")
    if last_words:
        return EndEvent("failed", USER_MISTAKE if returncode == USER_MISTAKE else FAILURE, reason=last_words)
    if returncode < 0:
        name = signal.Signals(-returncode).name
        hint = " (the usual sign that memory ran out)" if name == "SIGKILL" else ""
        reason = f"{who} was killed by {name}{hint}"
    else:
        reason = f"{who} ended with exit code {returncode} and without a message"
    return EndEvent("failed", FAILURE, reason=f"{reason}\n{log}".rstrip())


def end_of(attempt: Attempt) -> EndEvent | None:
    """The last `end` event of this attempt or of one that a scheduler started to continue it; None if missing."""
    for record in reversed(last_records(attempt.paths.events)):
        if record.attempt >= attempt.number and isinstance(record.event, EndEvent):
            return record.event
    return None


def summary(attempt: Attempt) -> list[str]:
    """Summarizes the ended attempt for the terminal: status, important metrics, weights, and the next commands."""
    end = end_of(attempt)
    if end is None:
        return []
    paths = attempt.paths
    run = summarize(paths)
    at = f" at step {end.step}" if end.step else ""
    took = f", took {duration(run.seconds)}" if run.seconds is not None else ""
    rows: list[tuple[str, str]] = []
    if run.best is not None:
        rows.append(("best", f"{run.leading} {number(run.best.value)} at step {run.best.step}"))
    rows += _final_numbers(end, run.leading)
    weights = "best" if run.best is not None else "latest"
    folder = paths.pointed(weights)
    if folder is not None:
        rows.append(("weights", f"{folder} ({weights})"))
    commands = _commands(end.status, paths, folder)
    width = max((len(command) for command, _ in commands), default=0)
    next_steps = [f"{command:{width}}  {purpose}" for command, purpose in commands]
    rows += [("next" if place == 0 else "", text) for place, text in enumerate(next_steps)]
    margin = max((len(title) for title, _ in rows), default=0)
    return [f"{paths.root}: {end.status}{at}{took}", *(f"  {title:{margin}}  {text}" for title, text in rows)]


def _final_numbers(end: EndEvent, monitored: str | None) -> list[tuple[str, str]]:
    """The last metrics of each split, the most important splits and metrics first."""
    by_split: dict[str, dict[str, float]] = {}
    for name in by_importance(end.metrics, monitored):
        by_split.setdefault(name.partition("/")[0], {})[name] = end.metrics[name]
    rows = []
    for split, metrics in by_split.items():
        shown, left_out = named_first(metrics, monitored)
        words = [f"{name.partition('/')[2]} {number(value)}" for name, value in shown.items()]
        rows.append((split, "  ".join([*words, *([f"and {left_out} more"] if left_out else [])])))
    return rows


def _commands(status: str, paths: RunPaths, weights: Path | None) -> list[tuple[str, str]]:
    """The commands to type next, each with its purpose."""
    root = shlex.quote(str(paths.root))
    commands = []
    if status in ("stopped", "pruned", "interrupted") or (status == "failed" and weights is not None):
        commands.append((f"trainer run --resume {root}", "continue training"))
    if weights is not None and _predicts(weights):
        commands.append((f"trainer predict {root} IMAGE", "predict on your own images"))
    if weights is not None:
        commands.append((f"trainer report {root}", "results, curves and samples as one web page"))
    return commands


def _predicts(checkpoint: Path) -> bool:
    """Whether the checkpoint states that its task can predict."""
    try:
        return bool(json.loads((checkpoint / "state.json").read_text(encoding="utf-8"))["facts"]["predicts"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def report(attempt: Attempt) -> int:
    """Writes the error of the attempt, if any, to standard error; returns the attempt's exit code.

    If a user error ended the run before its first step, its directory is deleted.
    """
    if error := gone(attempt.paths.root):
        raise error
    end = end_of(attempt)
    if (text := _continues_elsewhere(attempt)) is not None:
        print(f"{attempt.paths.root}: no longer received. {text}", file=sys.stderr)
        return TERMINATED
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


def _continues_elsewhere(attempt: Attempt) -> str | None:
    """How to continue an attempt whose end has not arrived from another machine; None for all others."""
    if not (attempt.paths.root / f"remote-{attempt.number}.json").exists():
        return None  # saves the import
    from trainer.cli.remote.record import how_to_continue

    return how_to_continue(attempt.paths)


def _log_tail(attempt: Attempt) -> str:
    try:
        with open(attempt.paths.log, encoding="utf-8", errors="replace") as log:
            lines = deque(log, maxlen=LOG_LINES)
    except FileNotFoundError:
        return ""
    return f"last lines of {attempt.paths.log}:\n{''.join(lines)}" if lines else ""
