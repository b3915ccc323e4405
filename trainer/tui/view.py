"""The state of a run, built from its records one by one; panels read it. Pure; a table has a handler for each kind."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from trainer.rundir import (
    ENDING_REQUESTS,
    AutotuneEvent,
    BadItemEvent,
    CheckpointEvent,
    EndEvent,
    LogEvent,
    MetricEvent,
    PhaseEvent,
    RanksEvent,
    Record,
    ReportEvent,
    RequestEvent,
    ResumedEvent,
    RunEvent,
    SampleEvent,
    StepEvent,
    SystemEvent,
    TimeTaken,
    WarningEvent,
    named_first,
    task_name,
)
from trainer.tui.numbers import duration, number, size
from trainer.tui.series import Series
from trainer.tui.text import printable

LOG_LINES = 1000
MAX_SAMPLES = 4000
HISTORY = 64
"""Number of samples of the machine that are kept for each sparkline."""

RATE_WINDOW_SECONDS = 10.0


@dataclass
class Phase:
    """A phase; times in seconds since 1970."""

    name: str
    state: str
    started: float
    changed: float
    done: float | None = None
    total: float | None = None
    unit: str | None = None
    now: str | None = None
    remaining: float | None = None

    @property
    def is_active(self) -> bool:
        return self.state in ("started", "progress")

    def seconds(self, now: float) -> float:
        """The duration so far, or in total."""
        return max(0.0, (now if self.is_active else self.changed) - self.started)


class LogLine(NamedTuple):
    """One line of the log panel; `level` is info, warning, error, good or output."""

    time: float
    level: str
    message: str


class Validation(NamedTuple):
    """Metrics of a split at a step, `at`, by "split/name", and the line of the log that reports them."""

    at: tuple[str, int]
    values: Mapping[str, float]
    line: LogLine


@dataclass(eq=False)
class View:
    """A run according to the records so far.

    `revision` grows with every record, `samples_taken` with every sample of the machine; a later attempt removes
    the records that its resumption supersedes.
    """

    name: str
    task: str = ""
    device: str = ""
    threads: int | None = None
    pid: int | None = None
    host: str = ""
    attempt: int = 0
    step: int | None = None
    epoch: float | None = None
    paused: bool = False
    stopping: bool = False
    end: EndEvent | None = None
    system: SystemEvent | None = None
    ranks: tuple[Mapping[str, Any], ...] = ()
    """The processes of the training, the slowest first; empty for a single process."""
    best_step: float | None = None
    leading: str | None = None
    """The metric that chooses the best checkpoint, "split/name"; None if the config names none."""
    taken: TimeTaken = field(default_factory=TimeTaken)
    process_start: float | None = None
    last_time: float | None = None
    revision: int = 0
    phases: dict[str, Phase] = field(default_factory=dict)
    series: dict[tuple[str, str], Series] = field(default_factory=dict)
    finals: dict[str, float] = field(default_factory=dict)
    decisions: dict[str, AutotuneEvent] = field(default_factory=dict)
    steps: dict[int, StepEvent] = field(default_factory=dict)
    samples: deque[SampleEvent] = field(default_factory=lambda: deque(maxlen=MAX_SAMPLES))
    reports: dict[str, ReportEvent] = field(default_factory=dict)
    samples_taken: int = 0
    histories: dict[str, deque[float]] = field(default_factory=dict)
    log: deque[LogLine] = field(default_factory=lambda: deque(maxlen=LOG_LINES))
    log_count: int = 0
    validation: Validation | None = None
    requests: dict[str, RequestEvent] = field(default_factory=dict)
    recent_steps: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=256))

    def apply(self, record: Record) -> None:
        """Applies one record; records of a superseded attempt are ignored."""
        if record.attempt < self.attempt:
            return
        if record.attempt > self.attempt:
            self._begin_attempt(record.attempt)
        self.taken.see(record)
        self.process_start = record.time - record.since_start
        self.last_time = record.time
        self.revision += 1
        handler = HANDLERS.get(type(record.event))
        if handler is not None:
            handler(self, record.event, record.time)

    def say(self, time: float, level: str, message: str) -> None:
        """Adds a line to the log."""
        self.log.append(LogLine(time, level, printable(message)))
        self.log_count += 1

    def steps_per_second(self) -> float | None:
        """Speed over the last ten seconds of training, None before it is known."""
        if len(self.recent_steps) < 2:
            return None
        end_time, end_step = self.recent_steps[-1]
        time, step = next(moment for moment in self.recent_steps if end_time - moment[0] <= RATE_WINDOW_SECONDS)
        return (end_step - step) / (end_time - time) if end_time > time else None

    def epoch_of(self, step: float) -> float | None:
        """The epoch of a step, for a run that counts epochs of equal length."""
        return step * self.epoch / self.step if self.step and self.epoch else None

    def _begin_attempt(self, attempt: int) -> None:
        if self.attempt:
            self.phases.clear()
            self.steps.clear()
            self.recent_steps.clear()
            self.requests.clear()
        self.ranks = ()
        self.attempt, self.end, self.paused, self.stopping = attempt, None, False, False


def speed_up(events: Iterable[AutotuneEvent]) -> float | None:
    """The sum of the default times divided by the sum of the best times, each kernel once; None if not measured."""
    pairs = [(event.default_ms, event.best_ms) for event in events if event.default_ms and event.best_ms]
    return sum(default for default, _ in pairs) / sum(best for _, best in pairs) if pairs else None


def _run(view: View, event: RunEvent, time: float) -> None:
    view.name, view.task, view.device, view.threads = event.name, task_name(event.task), event.device, event.threads
    view.pid, view.host = event.pid, event.host


def _phase(view: View, event: PhaseEvent, time: float) -> None:
    phase = view.phases.get(event.name)
    if phase is None or (event.state == "started" and not phase.is_active):
        # The first phase, reading the configuration, began with the process and is reported when it is done.
        is_first = not view.phases and event.state == "finished"
        started = view.process_start if is_first and view.process_start is not None else time
        phase = view.phases[event.name] = Phase(event.name, event.state, started, time)
    phase.state, phase.changed = event.state, time
    for name in ("done", "total", "unit"):
        value = getattr(event, name)
        if value is not None:
            setattr(phase, name, value)
    if event.state == "finished" and event.done is None:
        phase.done = phase.total
    phase.now = printable(event.now) if event.now else None
    phase.remaining = event.remaining
    if event.state == "failed":
        view.say(time, "error", f"{event.name} failed" + (f": {phase.now}" if phase.now else ""))


def _metric(view: View, event: MetricEvent, time: float) -> None:
    for name, value in event.values.items():
        if event.final and event.split.startswith("test"):
            view.finals[f"{event.split}/{name}"] = value
            continue
        series = view.series.get((event.split, name))
        if series is None:
            series = view.series[event.split, name] = Series()
        series.append(event.step, value)
    if event.split == "train":
        view.step, view.epoch = event.step, event.epoch
        view.recent_steps.append((time, event.step))
        return
    _say_metrics(view, event, time)


def _say_metrics(view: View, event: MetricEvent, time: float) -> None:
    """Logs one line for all metrics of a split at a step: later metrics of the step replace the previous line."""
    values = {f"{event.split}/{name}": value for name, value in event.values.items()}
    before = view.validation
    if before is not None and before.at == (event.split, event.step) and view.log and view.log[-1] is before.line:
        values = {**before.values, **values}
        view.log.pop()
    names = _named(values, view.leading, f"{event.split}/")
    view.say(time, "good" if event.final else "info", f"{event.split} at step {event.step}: {names}")
    view.validation = Validation((event.split, event.step), values, view.log[-1])


def _named(values: Mapping[str, float], leading: str | None, prefix: str = "") -> str:
    """The most important metrics in words, without their split if the prefix names it."""
    shown, left_out = named_first(values, leading)
    words = [f"{name.removeprefix(prefix)} {number(value)}" for name, value in shown.items()]
    return " ".join([*words, *([f"and {left_out} more"] if left_out else [])])


def _sample(view: View, event: SampleEvent, time: float) -> None:
    view.samples.append(event)


def _report(view: View, event: ReportEvent, time: float) -> None:
    view.reports[f"{event.split}/{event.name}"] = event


def _autotune(view: View, event: AutotuneEvent, time: float) -> None:
    view.decisions[event.key] = event
    text = f"autotune {event.operation} {event.shape}"
    if event.default_ms and event.best_ms:
        gain = event.default_ms / event.best_ms
        text += f": {event.default_ms:.3g} to {event.best_ms:.3g} ms ({gain:.2f}x)"
    if event.candidates:
        text += f", {event.candidates} candidate" + "s" * (event.candidates != 1)
    view.say(time, "info", text)


def _step(view: View, event: StepEvent, time: float) -> None:
    view.steps[event.program] = event


MEASURED = ("cpu", "memory", "disk", "network", "data_wait", "step_ms")
"""Fields of the machine's samples with a history."""


def _system(view: View, event: SystemEvent, time: float) -> None:
    # Several threads sample: a field that one sample leaves out keeps its previous value.
    sampled = {name: value for name, value in event.to_dict().items() if value is not None}
    view.samples_taken += 1
    view.system = event if view.system is None else replace(view.system, **sampled)
    for name in MEASURED:
        value = sampled.get(name)
        if value is not None:
            view.histories.setdefault(name, deque(maxlen=HISTORY)).append(value)
    for index, gpu in enumerate(event.gpus or ()):
        if "use" in gpu:
            view.histories.setdefault(f"gpu{index}", deque(maxlen=HISTORY)).append(gpu["use"])


def _ranks(view: View, event: RanksEvent, time: float) -> None:
    view.ranks = tuple(event.ranks)


def _checkpoint(view: View, event: CheckpointEvent, time: float) -> None:
    if "best" in event.reasons:
        view.best_step = event.step
    details = [", ".join(event.reasons)] if event.reasons else []
    details += [size(event.bytes)] if event.bytes else []
    details += [duration(event.write_s)] if event.write_s is not None else []
    view.say(time, "good", f"checkpoint at step {event.step}" + (f" ({'; '.join(details)})" if details else ""))


def _bad_item(view: View, event: BadItemEvent, time: float) -> None:
    view.say(time, "warning", f"bad item {event.action} ({event.count} so far): {event.source}: {event.reason}")


def _message(view: View, event: WarningEvent | LogEvent, time: float) -> None:
    view.say(time, event.level, event.message + (f" ({event.where})" if event.where else ""))


def _request(view: View, event: RequestEvent, time: float) -> None:
    view.requests[event.id] = event
    if event.state == "refused":
        view.say(time, "warning", f"{event.what} refused" + (f": {event.why}" if event.why else ""))
    elif event.what in ("pause", "resume") and event.state == "done":
        view.paused = event.what == "pause"
    elif event.what in ENDING_REQUESTS:
        view.stopping = True
    if event.state == "received":
        view.say(time, "info", f"{event.what} requested")


def _resumed(view: View, event: ResumedEvent, time: float) -> None:
    for series in view.series.values():
        series.take_back(event.from_step)
    kept = [sample for sample in view.samples if sample.step <= event.from_step]
    if len(kept) < len(view.samples):
        view.samples = deque(kept, MAX_SAMPLES)
    if view.best_step is not None and view.best_step > event.from_step:
        view.best_step = None
    view.step = event.from_step
    view.recent_steps.clear()
    view.say(time, "info", f"attempt {view.attempt} continues from step {event.from_step}")


def _end(view: View, event: EndEvent, time: float) -> None:
    view.end, view.stopping, view.paused = event, False, False
    view.finals.update(event.metrics)
    if event.step is not None:
        view.step = event.step
    level = "good" if event.status == "done" else "error" if event.status == "failed" else "warning"
    numbers = _named(event.metrics, view.leading)
    view.say(time, level, " ".join(filter(None, (event.status, event.reason, numbers))))
    for phase in view.phases.values():
        if phase.is_active:
            phase.state, phase.changed = "failed" if event.status == "failed" else "finished", time


HANDLERS: dict[type, Callable[[View, Any, float], None]] = {
    RunEvent: _run,
    PhaseEvent: _phase,
    MetricEvent: _metric,
    SampleEvent: _sample,
    ReportEvent: _report,
    AutotuneEvent: _autotune,
    StepEvent: _step,
    SystemEvent: _system,
    RanksEvent: _ranks,
    CheckpointEvent: _checkpoint,
    BadItemEvent: _bad_item,
    WarningEvent: _message,
    LogEvent: _message,
    RequestEvent: _request,
    ResumedEvent: _resumed,
    EndEvent: _end,
}
