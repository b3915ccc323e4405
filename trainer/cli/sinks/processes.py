"""The processes of a run's sinks, from start to end."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trainer.cli.sinks.sink import check_sink
from trainer.rundir import RunPaths

if TYPE_CHECKING:
    from trainer.configs.sinks import SinkConfig

SECONDS_TO_FINISH = 20.0
"""Seconds that sinks have after the end of the run to write their remaining records."""


@contextlib.contextmanager
def running(paths: RunPaths, sinks: Sequence[SinkConfig], *, attempt: int, process_start: float) -> Iterator[None]:
    """Runs a process per sink inside this context; leaving it waits for them for a limited time.

    Raises:
        TrainerError: no such sink, or a package that it needs is not installed.
    """
    for sink in sinks:
        check_sink(sink.name)
    processes = [
        subprocess.Popen(
            [sys.executable, "-P", "-m", "trainer.cli.sinks.follow", str(paths.root), json.dumps({
                "name": sink.name, "options": sink.options, "attempt": attempt, "worker": os.getpid(),
                "process_start": process_start,
            })],
            stdin=subprocess.DEVNULL,
        )
        for sink in sinks
    ]  # fmt: skip
    try:
        yield
    finally:
        deadline = time.monotonic() + SECONDS_TO_FINISH
        for process in processes:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
