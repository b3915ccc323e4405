"""A summary of a run at a cost independent of its length: read from both ends of its events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainer.rundir.events import EndEvent, MetricEvent, Record, ResumedEvent, RunEvent
from trainer.rundir.heartbeat import HeartbeatMonitor
from trainer.rundir.layout import RunPaths, task_name
from trainer.rundir.monitored_metric import Best, best_of
from trainer.rundir.reader import first_records, last_records, seconds_taken
from trainer.rundir.run import RUNNING, requested_state, status_of
from trainer.rundir.tags import read_note, read_tags

NEAR_THE_END, FAR_FROM_IT = 1 << 16, 1 << 22
"""Number of bytes read at the end of the events, and the larger number read if those contain no evaluation."""


@dataclass(frozen=True)
class RunSummary:
    """The entry of a run in a list of runs.

    Attributes:
        status: as `Run.status`.
        started: seconds since 1970, of the first attempt; None without any event.
        seconds: duration of all attempts together, without the time between them.
        leading: the monitored metric, which selects the best checkpoints; None if the config sets none.
        mode: which end of it is better, max or min.
        best: its best value so far; None before the first checkpoint with a value.
        step, epoch: of the last metrics; None without metrics.
        tags, note: the tags and the note that a user gave the run.
        metrics: the latest value of each metric by "split/name", as far back as was read.
    """

    paths: RunPaths
    task: str | None
    device: str | None
    status: str
    attempt: int
    started: float | None
    seconds: float | None
    step: int | None
    epoch: float | None
    metrics: Mapping[str, float]
    leading: str | None = None
    mode: str | None = None
    best: Best | None = None
    tags: tuple[str, ...] = ()
    note: str = ""

    @property
    def name(self) -> str:
        return self.paths.name


def summarize(paths: RunPaths, monitor: HeartbeatMonitor | None = None) -> RunSummary:
    """The run's summary, from the start and the end of its events; `monitor` is as in `status_of`."""
    first = first_records(paths.events)
    last = last_records(paths.events, last_bytes=NEAR_THE_END)
    if not any(isinstance(record.event, MetricEvent) and record.event.split != "train" for record in last):
        last = last_records(paths.events, last_bytes=FAR_FROM_IT)
    attempt = last[-1].attempt if last else 1
    head = next((record.event for record in (*reversed(last), *first) if isinstance(record.event, RunEvent)), None)
    end = last[-1].event if last and isinstance(last[-1].event, EndEvent) else None
    metrics, step, epoch = _latest(last)
    if end is not None:
        metrics, step = {**metrics, **end.metrics}, end.step if end.step is not None else step
    return RunSummary(
        paths=paths,
        task=task_name(head.task) if head else None,
        device=head.device if head else None,
        status=status_of(paths, end, last[-1].time if last else 0.0, monitor, _requested(last, attempt)),
        attempt=attempt,
        started=first[0].time if first else None,
        seconds=seconds_taken(paths.events),
        step=step,
        epoch=epoch,
        metrics=metrics,
        leading=paths.leading_metric,
        mode=paths.monitored_mode,
        best=best_of(paths),
        tags=read_tags(paths),
        note=read_note(paths),
    )


def _requested(records: list[Record], attempt: int) -> str:
    """The state that the last request of the attempt leads to."""
    state = RUNNING
    for record in records:
        state = requested_state(state, record.event) if record.attempt == attempt else RUNNING
    return state


def _latest(records: list[Record]) -> tuple[dict[str, float], int | None, float | None]:
    """The latest value of each metric, without those that a resumed attempt replaced; and the step and epoch of the
    last one.
    """
    metrics: dict[str, tuple[int, float]] = {}
    step: int | None = None
    epoch: float | None = None
    for record in records:
        event = record.event
        if isinstance(event, MetricEvent):
            metrics.update({f"{event.split}/{name}": (event.step, value) for name, value in event.values.items()})
            step, epoch = event.step, event.epoch
        elif isinstance(event, ResumedEvent):
            metrics = {name: value for name, value in metrics.items() if value[0] <= event.from_step}
    return {name: value for name, (_, value) in metrics.items()}, step, epoch
