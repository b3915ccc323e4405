"""The kinds of events of a run: one immutable class each. codec.py defines their form in the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, NoReturn, dataclass_transform


class _DataclassFields:
    """`__dataclass_fields__` of a kind, computed when it is first read: `dataclasses.replace` and `fields` read it."""

    def __get__(self, event: object, kind: type[Event]) -> dict[str, Any]:
        from dataclasses import make_dataclass

        fields: dict[str, Any] = vars(make_dataclass(kind.__name__, kind._fields))["__dataclass_fields__"]
        setattr(kind, "__dataclass_fields__", fields)  # noqa: B010
        return fields


@dataclass_transform(frozen_default=True)
class Event:
    """Base of all kinds; `kind` is the word in the file.

    A kind is a frozen dataclass, whose annotations are its fields, without the methods that dataclasses compile when
    they are imported: these would take 7 ms of every command's start.
    """

    kind: ClassVar[str] = ""
    _fields: ClassVar[tuple[str, ...]] = ()
    """The names of the fields, in order."""

    __dataclass_fields__ = _DataclassFields()

    _required: ClassVar[frozenset[str]] = frozenset()
    """The fields without a default."""

    def __init_subclass__(cls) -> None:
        cls._fields = tuple(
            name for name, declared in cls.__annotations__.items() if not declared.startswith("ClassVar")
        )
        cls._required = frozenset(name for name in cls._fields if name not in vars(cls))

    def __init__(self, *values: Any, **named: Any) -> None:
        given, names = self.__dict__, self._fields
        given.update(zip(names, values, strict=False))
        given.update(named)
        if len(values) > len(names) or not self._required <= given.keys() or not named.keys() <= {*names}:
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(names)}; found {values} and {named}")

    def to_dict(self) -> dict[str, Any]:
        """The values of the fields by name."""
        return {name: getattr(self, name) for name in self._fields}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and type(other) is type(self) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((type(self), *self.to_dict().values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.to_dict().items())})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: {name} can't be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: {name} can't be deleted")


NOTHING: Mapping[str, Any] = MappingProxyType({})

EventSink = Callable[[Event], None]
"""Receives the events of producers (the learner, loaders, the tuner)."""


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


class MetricEvent(Event):
    """Metric values at a step. `epoch` is fractional; `split` is train, valid or test (or test/<name>)."""

    kind: ClassVar[str] = "metric"
    step: int
    epoch: float
    split: str
    values: Mapping[str, float]
    final: bool = False


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


class StepEvent(Event):
    """The time of kernels in one run of a program (a training step is one or several), in milliseconds.

    `program` numbers the programs; `updates` is true if it changes parameters or their averages, as a training step
    does. `kernels` have a tuner decision, by the `key` of its `autotune` event; `others` have none, by operation and
    shape.
    """

    kind: ClassVar[str] = "step"
    program: int
    updates: bool
    ms: float
    kernels: Mapping[str, float] = NOTHING
    others: Mapping[str, float] = NOTHING


class SystemEvent(Event):
    """A sample of the machine.

    `cpu` in percent of all cores, `memory` in bytes held by the worker, `disk` (of the worker) and `network` (of the
    machine) in bytes a second, `data_wait` a fraction of wall time (0 to 1), `metric_lag` in records, `step_ms`
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


class RanksEvent(Event):
    """The processes of a training, the slowest first.

    Each has its rank, host, pid, state (a phase, waiting, silent, idle in …, failed, done) and, once known, step,
    step_ms (median of recent steps, in milliseconds, without waits for others), wait (the fraction of time spent
    in such waits, 0 to 1) and memory (bytes).
    """

    kind: ClassVar[str] = "ranks"
    ranks: Sequence[Mapping[str, Any]]


class SampleEvent(Event):
    """An image or text in `samples/`; `file` is relative to the run directory."""

    kind: ClassVar[str] = "sample"
    step: int
    split: str
    name: str
    file: str
    caption: str | None = None


class ReportEvent(Event):
    """An evaluation result in `reports/`; `file` is relative to the run directory."""

    kind: ClassVar[str] = "report"
    step: int
    split: str
    name: str
    file: str
    caption: str | None = None


class CheckpointEvent(Event):
    """A completed checkpoint; `path` is relative to the run directory, `reasons` are latest, best, requested, …

    The loop waited for `stall_ms`, including `copy_ms` for the copy; a thread wrote it in `write_s`, with `cpu_s` of
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


class BadItemEvent(Event):
    """An unusable item of the data set; `action` is skipped or raised, `count` the number so far."""

    kind: ClassVar[str] = "bad_item"
    source: str
    reason: str
    action: str
    count: int


class WarningEvent(Event):
    """A problem that the user should look at; the run continues."""

    kind: ClassVar[str] = "warning"
    message: str
    where: str | None = None
    level: str = "warning"


class LogEvent(Event):
    """A line for the log panel."""

    kind: ClassVar[str] = "log"
    message: str
    where: str | None = None
    level: str = "info"


class RequestEvent(Event):
    """The state of a control request; `state` is received, done or refused."""

    kind: ClassVar[str] = "request"
    id: str
    what: str
    state: str
    why: str | None = None


class ResumedEvent(Event):
    """A new attempt resumes from a checkpoint; readers drop earlier attempts' records above `from_step`."""

    kind: ClassVar[str] = "resumed"
    from_step: int
    checkpoint: str | None = None


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
    metrics: Mapping[str, float] = NOTHING
    reason: str | None = None
    traceback: str | None = None


class UnknownEvent(Event):
    """A line of a kind, or of a form, that is unknown to this version; its fields are kept unchanged."""

    kind: str = ""  # type: ignore[misc]  # here the kind is data
    fields: Mapping[str, Any] = NOTHING


class Record(NamedTuple):
    """An event as returned by readers, and its time (seconds since 1970; seconds since the process started)."""

    event: Event
    time: float
    since_start: float
    attempt: int


KINDS: dict[str, type[Event]] = {kind.kind: kind for kind in Event.__subclasses__() if kind.kind}
