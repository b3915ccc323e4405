"""The worker: `python -P -m trainer.cli.worker ORDER`, the process that trains.

    read and check the config → make the run directory, take its lock → report to the command that started it → start
      the watcher (signals, heartbeat, samples of the machine) → import the engine and the task → Learner.run() → `end`
      event → release the lock

The config is checked here and not by the command, so that the command can import the dashboard at the same time, and so
that only one process imports the checking code.

Every failure is written to the run directory before the process ends: the reason in the `end` event, a traceback in a
file next to it.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer import TrainerError, __version__
from trainer.cli.attempt import Attempt
from trainer.cli.environment import EnvironmentRecorder
from trainer.cli.exit_codes import FAILURE, USER_MISTAKE
from trainer.cli.order import Order
from trainer.cli.plugins import leave_out_plugins
from trainer.cli.watcher import Watcher, die_with_parent
from trainer.rundir import (
    CheckpointEvent,
    EndEvent,
    Event,
    EventSink,
    MetricEvent,
    PhaseEvent,
    Record,
    ResumedEvent,
    RunEvent,
    RunLock,
    RunPaths,
    complain,
    gone,
    host_name,
    read_events,
    take_requests,
    write_error,
)

if TYPE_CHECKING:
    from trainer.configs import Loaded
    from trainer.learner import Learner, Task
    from trainer.learner.ranks import Group


class RecordedSink:
    """Writes events, with at most one `end`, and remembers the last step for it."""

    def __init__(self, write: EventSink, also: Callable[[Record], None] | None, attempt: Attempt) -> None:
        self._write, self._also, self._attempt = write, also, attempt
        self.step: int | None = None
        self.ended: EndEvent | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, EndEvent) and self.ended is not None:
            return  # a signal arrived after the end
        if isinstance(event, EndEvent) and (error := gone(self._attempt.paths.root)):
            event = replace(event, status="failed", exit_code=USER_MISTAKE, reason=str(error))
        if isinstance(event, MetricEvent):
            self.step = max(event.step, self.step or 0)  # slow evaluations may report late
        self._write(event)
        if isinstance(event, EndEvent):
            self.ended = (
                event  # only now: an event that failed to be written is tried again, and reported to the command
            )
        if self._also is not None:
            now = time.time()
            self._also(Record(event, now, now - self._attempt.process_start, self._attempt.number))


def work(
    attempt: Attempt,
    loaded: Loaded,
    *,
    parent: int | None = None,
    also: Callable[[Record], None] | None = None,
    complain: Callable[[str], None] = complain,
    group: Group | None = None,
) -> EndEvent:
    """Executes an attempt in this process; returns how it ended.

    Args:
        attempt: the attempt.
        loaded: its config.
        parent: the process whose end also ends this one, if any.
        also: receives each event after it was written.
        complain: receives the message if events can't be written.
        group: the processes that train together, with this one as rank 0; None: this process alone.

    Raises:
        TrainerError: the run directory can't be written, or another process is training this run.
    """
    with watched(attempt, loaded, parent=parent, also=also, complain=complain) as (sink, watcher):
        end = _end_of_training(attempt, loaded, sink, watcher, group)
        if sink.ended is None:
            sink(end)
        return end


@contextlib.contextmanager
def watched(
    attempt: Attempt,
    loaded: Loaded,
    *,
    parent: int | None = None,
    also: Callable[[Record], None] | None = None,
    complain: Callable[[str], None] = complain,
    is_guest: bool = False,
) -> Iterator[tuple[RecordedSink, Watcher]]:
    """Locks the run, writes its first events, and starts the watcher, for the duration of the context; see `work`,
    `Watcher`.
    """
    with attempt.lock or RunLock(attempt.paths) as lock, attempt.writer(complain) as writer:
        sink = RecordedSink(writer, also, attempt)
        config = loaded.config
        sink(RunEvent(
            attempt.paths.name, config.task, __version__, os.getpid(), host_name(), config.device, config.threads
        ))  # fmt: skip
        sink(PhaseEvent("config", "finished"))
        recorder = EnvironmentRecorder(attempt.paths.environment(attempt.number), sink)
        with (
            _sinks(attempt, loaded),
            recorder,
            Watcher(attempt.paths, sink, lock, parent=parent, is_guest=is_guest) as watcher,
        ):
            yield sink, watcher


def _sinks(attempt: Attempt, loaded: Loaded) -> contextlib.AbstractContextManager[None]:
    """Runs the configured sinks inside this context."""
    if not loaded.config.sinks:
        return contextlib.nullcontext()
    from trainer.cli.sinks.processes import running

    return running(attempt.paths, loaded.config.sinks, attempt=attempt.number, process_start=attempt.process_start)


def _end_of_training(
    attempt: Attempt, loaded: Loaded, sink: RecordedSink, watcher: Watcher, group: Group | None
) -> EndEvent:
    """Trains, and converts every outcome into an `end` event."""
    begun = time.monotonic()

    def end(status: str, code: int, reason: str, file: str | None = None) -> EndEvent:
        return EndEvent(status, code, sink.step, round(time.monotonic() - begun, 3), reason=reason, traceback=file)

    try:
        error = _train(attempt, loaded, sink, watcher, group)
        if error is not None and attempt.debug:
            _write_traceback(attempt, error)
    except TrainerError as error:
        file = _write_traceback(attempt, error) if attempt.debug else None
        return end("failed", USER_MISTAKE, str(error), file)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        return end("failed", FAILURE, f"{type(error).__name__}: {error}".rstrip(": "), _write_traceback(attempt, error))
    return sink.ended or end("failed", FAILURE, "the learner returned without an end event")


def _train(
    attempt: Attempt, loaded: Loaded, sink: RecordedSink, watcher: Watcher, group: Group | None
) -> BaseException | None:
    """Runs the learner, which writes the `end` event itself; returns the error of a failed run."""
    sink(PhaseEvent("load", "started", now="engine and task"))
    if group is not None:
        from trainer.cli.rank import train_as_first

        return train_as_first(attempt, loaded, sink, watcher, group)
    _bound_threads(loaded)
    from trainer.cli.tasks import task_class

    learner = learner_for(attempt, loaded, task_class(loaded.task), sink)
    sink(PhaseEvent("load", "finished"))
    watcher.hand_signals_to(learner.interrupt)
    return learner.run().error


def _bound_threads(loaded: Loaded) -> None:
    """Limits NumPy's own threads to the config's `threads`; call it before NumPy is imported."""
    if loaded.config.threads is not None:
        for library in ("OMP", "OPENBLAS", "MKL"):  # NumPy's own threads, created when it is imported
            os.environ.setdefault(f"{library}_NUM_THREADS", str(loaded.config.threads))


def learner_for(attempt: Attempt, loaded: Loaded, task: type[Task], sink: EventSink, **further: Any) -> Learner:
    """The learner of an attempt, which resumes an earlier one if needed; `further` are additional arguments."""
    from trainer.cli.prepare import write_config
    from trainer.cli.weights import with_weights
    from trainer.learner import Learner

    paths = attempt.paths
    resume = attempt.resumes and (attempt.checkpoint is not None or _has_saved(paths))
    if attempt.resumes and not resume:  # it ended before its first checkpoint: start from the beginning
        sink(ResumedEvent(0))
    if not resume and (settled := with_weights(loaded, sink)).config != loaded.config:
        loaded = settled
        write_config(paths, attempt.number, loaded)
    return Learner(
        task, loaded.config, loaded.options, paths=paths, sink=sink, requests=lambda: take_requests(paths),
        attempt=attempt.number, resume=(attempt.checkpoint or paths.root) if resume else None,
        is_forced=attempt.is_forced, **further,
    )  # fmt: skip


def _has_saved(paths: RunPaths) -> bool:
    """Whether the run has, or should have, a checkpoint: a deleted or damaged one must not restart the run."""
    if any(paths.checkpoints.glob("step-*")) or (paths.checkpoints / "latest").exists():
        return True
    return any(isinstance(record.event, CheckpointEvent) for record in read_events(paths.events))


def _write_traceback(attempt: Attempt, error: BaseException) -> str | None:
    """Writes the error's traceback to the run directory and to the log; returns the file's name."""
    text = _traceback_text(error)
    print(text, file=sys.stderr, flush=True)
    path = attempt.paths.traceback(attempt.number)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        print(f"can't write {path}: {error}", file=sys.stderr, flush=True)
        return None
    return path.name


def _traceback_text(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


class Report:
    """The worker's reports to the command that started it, through a pipe, one JSON object per line.

    {"root": …, "attempt": …, …}     the run directory is ready; events follow there
    {"mistake": …, "traceback": …}   why no run is created, or no further event can be written
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def ready(self, attempt: Attempt) -> None:
        self._tell({"root": str(attempt.paths.root), "attempt": attempt.number, "process_start": attempt.process_start})

    def mistake(self, error: TrainerError, *, debug: bool) -> None:
        self._tell({"mistake": str(error), "traceback": _traceback_text(error) if debug else None})

    def _tell(self, fields: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # the command has ended: a detached run continues
            os.write(self._descriptor, json.dumps(fields).encode() + b"\n")


def main(words: list[str] | None = None) -> int:
    """The worker's command line."""
    parser = argparse.ArgumentParser(prog="trainer worker", description="Executes an order of `trainer run`.")
    parser.add_argument("order", type=Order.from_json, help="the order as JSON")
    parser.add_argument("--parent", type=int, help="end when this parent process ends")
    parser.add_argument("--report", type=int, metavar="FD", required=True, help="file descriptor for reports")
    arguments = parser.parse_args(words)
    order: Order = arguments.order
    if arguments.parent is not None:
        die_with_parent(arguments.parent)
    report = Report(arguments.report)
    leave_out_plugins()
    gc.disable()  # the first frame waits for this process, and garbage collection would take a tenth of that time
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the watcher runs, any signal ends the process
    try:
        from trainer.cli.prepare import is_elsewhere, prepare

        if is_elsewhere(order):
            from trainer.cli.remote.relay import relay

            gc.enable()
            return relay(order, report.ready, arguments.parent)
        attempt, loaded = prepare(order)
        complain = _complaining(is_shown=arguments.parent is not None)
        _output_to(attempt.paths.log)
        report.ready(attempt)
        gc.enable()
        if (processes := loaded.config.train.processes) > 1:
            from trainer.cli.rank_starter import start_ranks

            return start_ranks(attempt, processes)
        return work(attempt, loaded, parent=arguments.parent, complain=complain).exit_code
    except TrainerError as error:
        report.mistake(error, debug=order.debug)
        return USER_MISTAKE


class _Log(io.FileIO):
    """A log file whose write errors are ignored: a full disk loses lines of the log, not the run."""

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError:
            return len(content)


def _complaining(*, is_shown: bool) -> Callable[[str], None]:
    """A function that writes messages to the current standard error if `is_shown`; the log is on the same disk."""
    if not is_shown:
        return complain
    descriptor = os.dup(sys.stderr.fileno())

    def say(text: str) -> None:
        with contextlib.suppress(OSError):
            os.write(descriptor, f"warning: {text}\n".encode())

    return say


def _output_to(log: Path) -> None:
    """Redirects all further output, of any library, to the run's log."""
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        raise write_error(log, error) from error
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        stream.flush()
        os.dup2(descriptor, number := stream.fileno())
        raw = _Log(number, "w", closefd=False)
        setattr(sys, name, io.TextIOWrapper(raw, "utf-8", "backslashreplace", write_through=True))
    os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main())
