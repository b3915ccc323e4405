"""The run directory: the contract between training and everything that looks at it. Standard library only."""

from trainer.rundir.attempts import without_superseded
from trainer.rundir.codec import decode, encode, json_value
from trainer.rundir.control import REQUESTS, Request, send_request, take_requests, waiting_requests
from trainer.rundir.events import (
    BadItemEvent,
    CheckpointEvent,
    EndEvent,
    Event,
    EventSink,
    LogEvent,
    MetricEvent,
    PhaseEvent,
    Record,
    ReportEvent,
    RequestEvent,
    ResumedEvent,
    RunEvent,
    SampleEvent,
    SystemEvent,
    TuneEvent,
    UnknownEvent,
    WarningEvent,
)
from trainer.rundir.layout import RunPaths, create_run, create_run_at, latest_run, list_runs
from trainer.rundir.lock import LockState, RunLock, read_lock
from trainer.rundir.processes import host_name, process_age, process_is_alive
from trainer.rundir.reader import EventTail, first_records, last_records, read_events, sample_events
from trainer.rundir.run import Metrics, Run, Series, open_run
from trainer.rundir.summary import RunSummary, summarize
from trainer.rundir.writer import EventWriter, write_error

__all__ = [
    "REQUESTS",
    "BadItemEvent",
    "CheckpointEvent",
    "EndEvent",
    "Event",
    "EventSink",
    "EventTail",
    "EventWriter",
    "LockState",
    "LogEvent",
    "MetricEvent",
    "Metrics",
    "PhaseEvent",
    "Record",
    "ReportEvent",
    "Request",
    "RequestEvent",
    "ResumedEvent",
    "Run",
    "RunEvent",
    "RunLock",
    "RunPaths",
    "RunSummary",
    "SampleEvent",
    "Series",
    "SystemEvent",
    "TuneEvent",
    "UnknownEvent",
    "WarningEvent",
    "create_run",
    "create_run_at",
    "decode",
    "encode",
    "first_records",
    "host_name",
    "json_value",
    "last_records",
    "latest_run",
    "list_runs",
    "open_run",
    "process_age",
    "process_is_alive",
    "read_events",
    "read_lock",
    "sample_events",
    "send_request",
    "summarize",
    "take_requests",
    "waiting_requests",
    "without_superseded",
    "write_error",
]
