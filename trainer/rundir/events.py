"""The kinds of events of a run: one frozen dataclass each. codec.py defines their form in the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all kinds; `kind` is the word in the file."""

    kind: ClassVar[str] = ""


EventSink = Callable[[Event], None]
"""Receives the events of producers (the learner, loaders, the tuner)."""


@dataclass(frozen=True, slots=True)
class RunEvent(Event):
    """The start of an attempt: what is trained, by which process, on which device."""

    kind: ClassVar[str] = "run"
    name: str
    task: str
    version: str
    pid: int
    host: str
    device: str
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class PhaseEvent(Event):
    """The progress of a phase.

    `name`: config, load, weights, device, data, model, trace, compile, autotune, train, validate, … `state` is started,
    progress, finished or failed; `now` is the current item, `remaining` is in seconds.
    """

    kind: ClassVar[str] = "phase"
    name: str
    state: str
    done: float | None = None
    total: float | None = None
    unit: str | None = None
    now: str | None = None
    remaining: float | None = None


@dataclass(frozen=True, slots=True)
class MetricEvent(Event):
    """Metric values at a step. `epoch` is fractional; `split` is train, valid or test (or test/<name>)."""

    kind: ClassVar[str] = "metric"
    step: int
    epoch: float
    split: str
    values: Mapping[str, float]
    final: bool = False


@dataclass(frozen=True, slots=True)
class AutotuneEvent(Event):
    """One decision of the kernel tuner; times in milliseconds, `source` is measured or cache."""

    kind: ClassVar[str] = "autotune"
    key: str
    operation: str
    shape: str
    default_ms: float | None = None
    best_ms: float | None = None
    candidates: int | None = None
    skipped: Mapping[str, int] | None = None
    seconds: float | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class StepEvent(Event):
    """The time of kernels in one run of a program (a training step is one or several), in milliseconds.

    `program` numbers the programs; `updates` is true if it changes parameters or their averages, as a training step
    does. `kernels` have decisions, by the `key` of their `autotune` event; `others` have none, by operation and shape.
    """

    kind: ClassVar[str] = "step"
    program: int
    updates: bool
    ms: float
    kernels: Mapping[str, float] = field(default_factory=dict)
    others: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SystemEvent(Event):
    """A sample of the machine.

    `cpu` in percent of all cores, `memory` in bytes held by the worker, `disk` and `network` in bytes a second (of the
    worker, and of the whole machine), `data_wait` a fraction of wall time (0 to 1), `metric_lag` in records, `step_ms`
    in milliseconds; each GPU has use (%), memory (bytes), power (W) and temperature (°C).
    """

    kind: ClassVar[str] = "system"
    cpu: float | None = None
    memory: float | None = None
    disk: float | None = None
    network: float | None = None
    gpus: Sequence[Mapping[str, float]] | None = None
    data_wait: float | None = None
    metric_lag: float | None = None
    step_ms: float | None = None


@dataclass(frozen=True, slots=True)
class RanksEvent(Event):
    """The processes of a training, the slowest first.

    Each has its rank, host, pid, state (a phase, waiting, silent, idle in …, failed, done) and, once known, step,
    step_ms (median of recent steps, in milliseconds, without waits for others), wait (the share of the time spent in
    such waits, 0 to 1) and memory (bytes).
    """

    kind: ClassVar[str] = "ranks"
    ranks: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class SampleEvent(Event):
    """An image or text in `samples/`; `file` is relative to the run directory."""

    kind: ClassVar[str] = "sample"
    step: int
    split: str
    name: str
    file: str
    caption: str | None = None


@dataclass(frozen=True, slots=True)
class ReportEvent(Event):
    """An evaluation result in `reports/`; `file` is relative to the run directory."""

    kind: ClassVar[str] = "report"
    step: int
    split: str
    name: str
    file: str
    caption: str | None = None


@dataclass(frozen=True, slots=True)
class CheckpointEvent(Event):
    """A completed checkpoint; `path` is relative to the run directory, `reasons` are latest, best, requested, …

    The loop waited for `stall_ms`, of which copying took `copy_ms`; a thread wrote it in `write_s`, with `cpu_s` of
    processor time.
    """

    kind: ClassVar[str] = "checkpoint"
    step: int
    path: str
    bytes: int | None = None
    copy_ms: float | None = None
    write_s: float | None = None
    reasons: Sequence[str] = ()
    stall_ms: float | None = None
    cpu_s: float | None = None


@dataclass(frozen=True, slots=True)
class BadItemEvent(Event):
    """An unusable item of the data set; `action` is skipped or raised, `count` the number so far."""

    kind: ClassVar[str] = "bad_item"
    source: str
    reason: str
    action: str
    count: int


@dataclass(frozen=True, slots=True)
class WarningEvent(Event):
    """A problem that the user should look at; the run continues."""

    kind: ClassVar[str] = "warning"
    message: str
    where: str | None = None
    level: str = "warning"


@dataclass(frozen=True, slots=True)
class LogEvent(Event):
    """A line for the log panel."""

    kind: ClassVar[str] = "log"
    message: str
    where: str | None = None
    level: str = "info"


@dataclass(frozen=True, slots=True)
class RequestEvent(Event):
    """The state of a control request; `state` is received, done or refused."""

    kind: ClassVar[str] = "request"
    id: str
    what: str
    state: str
    why: str | None = None


@dataclass(frozen=True, slots=True)
class ResumedEvent(Event):
    """A new attempt resumes from a checkpoint; readers drop earlier attempts' records above `from_step`."""

    kind: ClassVar[str] = "resumed"
    from_step: int
    checkpoint: str | None = None


@dataclass(frozen=True, slots=True)
class EndEvent(Event):
    """The last event of an attempt.

    `status` is done, stopped, pruned (by a sweep), interrupted or failed; `metrics` are the final values by
    "split/name"; `traceback` names a file in the run directory.
    """

    kind: ClassVar[str] = "end"
    status: str
    exit_code: int
    step: int | None = None
    seconds: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    reason: str | None = None
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class UnknownEvent(Event):
    """A line of a kind, or of a form, that is unknown to this version; its fields are kept unchanged."""

    kind: str = ""  # type: ignore[misc]  # here the kind is data
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Record:
    """The result of readers: an event and its time (seconds since 1970; seconds since the process started)."""

    event: Event
    time: float
    since_start: float
    attempt: int


KINDS: dict[str, type[Event]] = {
    kind.kind: kind
    for kind in (
        RunEvent, PhaseEvent, MetricEvent, AutotuneEvent, StepEvent, SystemEvent, RanksEvent, SampleEvent,
        ReportEvent, CheckpointEvent, BadItemEvent, WarningEvent, LogEvent, RequestEvent, ResumedEvent, EndEvent,
    )
}  # fmt: skip
