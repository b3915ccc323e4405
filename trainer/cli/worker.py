"""The worker: `python -P -m trainer.cli.worker RUN_DIR`, the process that trains.

    take the lock → start the watch (signals, heartbeat, samples of the machine)
      → import the engine and the task → Learner.run() → `end` event → give the lock back

Whatever goes wrong is in the run directory before the process ends: the reason in the `end` event, a failure's
traceback in a file beside it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trainer import TrainerError
from trainer.cli import FAILURE, USER_MISTAKE
from trainer.cli.watcher import Interrupted, Watcher, die_with_parent
from trainer.rundir import (
    EndEvent,
    Event,
    EventSink,
    EventWriter,
    MetricEvent,
    PhaseEvent,
    Record,
    ResumedEvent,
    RunLock,
    RunPaths,
    take_requests,
)


@dataclass(frozen=True)
class Assignment:
    """What a worker is to do: an attempt of a run, whose config lies in the run directory."""

    paths: RunPaths
    attempt: int
    process_start: float
    resumes: bool = False
    debug: bool = False
    parent: int | None = None


class RecordedSink:
    """Writes events, and remembers what the `end` event will need: the last step, and whether one was written."""

    def __init__(self, write: EventSink, also: Callable[[Record], None] | None, assignment: Assignment) -> None:
        self._write, self._also, self._assignment = write, also, assignment
        self.step: int | None = None
        self.ended: EndEvent | None = None

    def __call__(self, event: Event) -> None:
        self._write(event)
        if isinstance(event, MetricEvent):
            self.step = event.step
        elif isinstance(event, EndEvent):
            self.ended = event
        if self._also is not None:
            now = time.time()
            self._also(Record(event, now, now - self._assignment.process_start, self._assignment.attempt))


def work(
    assignment: Assignment,
    *,
    announce: Callable[[EventSink], None] | None = None,
    also: Callable[[Record], None] | None = None,
) -> int:
    """Do the assignment in this process; returns the exit code, which the `end` event has too.

    Args:
        assignment: what to do.
        announce: writes the attempt's first events, where nobody else does.
        also: is shown each event after it was written.

    Raises:
        TrainerError: the run directory can't be written, or another process trains this run.
    """
    paths = assignment.paths
    writer = EventWriter(paths.events, attempt=assignment.attempt, process_start=assignment.process_start)
    with writer, RunLock(paths) as lock:
        sink = RecordedSink(writer, also, assignment)
        if announce is not None:
            announce(sink)
        with Watcher(assignment.paths, sink, lock, parent=assignment.parent, attempt=assignment.attempt) as watcher:
            end = _end_of_training(assignment, sink, watcher)
        if sink.ended is None:
            sink(end)
        return end.exit_code


def _end_of_training(assignment: Assignment, sink: RecordedSink, watcher: Watcher) -> EndEvent:
    """Train, and turn every way in which that can end into an `end` event."""
    begun = time.monotonic()

    def end(status: str, code: int, reason: str, file: str | None = None) -> EndEvent:
        return EndEvent(status, code, sink.step, round(time.monotonic() - begun, 3), reason=reason, traceback=file)

    try:
        error = _train(assignment, sink, watcher)
        if error is not None and assignment.debug:
            _write_traceback(assignment, error)
    except Interrupted as interruption:
        return end("interrupted", interruption.exit_code, str(interruption))
    except TrainerError as error:
        file = _write_traceback(assignment, error) if assignment.debug else None
        return end("failed", USER_MISTAKE, str(error), file)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        return end(
            "failed", FAILURE, f"{type(error).__name__}: {error}".rstrip(": "), _write_traceback(assignment, error)
        )
    return sink.ended or end("failed", FAILURE, "the learner returned without an end")


def _train(assignment: Assignment, sink: RecordedSink, watcher: Watcher) -> BaseException | None:
    """Run the learner, which writes the `end` event itself; what a failed run died of is returned."""
    paths = assignment.paths
    sink(PhaseEvent("load", "started", now="engine and task"))
    from trainer.cli.tasks import task_class
    from trainer.configs import load_resolved

    loaded = load_resolved(paths.config(assignment.attempt))
    task = task_class(loaded.task)
    from trainer.learner import Learner
    from trainer.learner.checkpoints import steps_in

    resume = assignment.resumes and bool(steps_in(paths.checkpoints))
    if assignment.resumes and not resume:  # it ended before its first checkpoint: begin again
        sink(ResumedEvent(0))
    learner = Learner(
        task, loaded.config, loaded.options, paths=paths, sink=sink, requests=lambda: take_requests(paths),
        attempt=assignment.attempt, resume=paths.root if resume else None,
    )  # fmt: skip
    sink(PhaseEvent("load", "finished"))
    watcher.hand_signals_to(learner.interrupt)
    return learner.run().error


def _write_traceback(assignment: Assignment, error: BaseException) -> str | None:
    """Put the error's traceback into the run directory, and into the log; the file's name."""
    text = "".join(traceback.format_exception(error))
    print(text, file=sys.stderr, flush=True)
    path = assignment.paths.traceback(assignment.attempt)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        print(f"can't write {path}: {error}", file=sys.stderr, flush=True)
        return None
    return path.name


def main(words: list[str] | None = None) -> int:
    """The worker's command line."""
    parser = argparse.ArgumentParser(prog="trainer worker", description="Train what lies in a run directory.")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--attempt", type=int, required=True)
    parser.add_argument("--process-start", type=float, required=True, help="when the command began, since 1970")
    parser.add_argument("--parent", type=int, help="end when this process, our parent, is gone")
    parser.add_argument("--resume", action="store_true", help="go on from the latest checkpoint")
    parser.add_argument("--last-words", type=int, metavar="FD", help="where to speak when no event can be written")
    parser.add_argument("--debug", action="store_true", help="keep tracebacks of the user's mistakes, too")
    arguments = parser.parse_args(words)
    if arguments.parent is not None:
        die_with_parent(arguments.parent)
    assignment = Assignment(
        RunPaths(arguments.run_dir), arguments.attempt, arguments.process_start,
        resumes=arguments.resume, debug=arguments.debug, parent=arguments.parent,
    )  # fmt: skip
    try:
        return work(assignment)
    except TrainerError as error:
        print(error, file=sys.stderr, flush=True)
        if arguments.last_words is not None:
            os.write(arguments.last_words, str(error).encode("utf-8", "replace"))
        return FAILURE


if __name__ == "__main__":
    sys.exit(main())
