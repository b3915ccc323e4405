"""The process of a sink: reads the events of a run until the run ends.

python -P -m trainer.cli.sinks.follow RUN '{"name": "csv", "options": {}, "attempt": 1}'
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from trainer import TrainerError
from trainer.cli.sinks.sink import Sink, make_sink
from trainer.rundir import EndEvent, EventTail, EventWriter, RunPaths, WarningEvent, process_is_alive

SECONDS_BETWEEN_LOOKS = 0.5


def follow(paths: RunPaths, sink: Sink, *, attempt: int, worker: int) -> None:
    """Passes the records of an attempt to the sink, until its end or until its process is gone."""
    with EventTail(paths.events) as tail:
        is_over = False
        while not is_over:
            was_alive = process_is_alive(
                worker
            )  # checked first, so that everything written before the process died is read
            records = [record for record in tail.poll() if record.attempt >= attempt]
            for record in records:
                sink.record(record)
                is_over = is_over or (isinstance(record.event, EndEvent) and record.attempt == attempt)
            if records:
                sink.flush()
            is_over = is_over or not was_alive
            if not is_over:
                time.sleep(SECONDS_BETWEEN_LOOKS)
    sink.close()


def main(words: list[str]) -> int:
    """The main function of the process: a failure of the sink becomes a warning of the run."""
    paths, order = RunPaths(Path(words[0])), json.loads(words[1])
    try:
        sink = make_sink(order["name"], paths, order["options"])
        follow(paths, sink, attempt=order["attempt"], worker=order["worker"])
    except Exception as error:  # any exception of another tool: training continues
        message = str(error) if isinstance(error, TrainerError) else f"{type(error).__name__}: {error}"
        with EventWriter(paths.events, attempt=order["attempt"], process_start=order["process_start"]) as writer:
            writer.write(WarningEvent(f"the sink {order['name']} failed: {message}", where="sinks"))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
