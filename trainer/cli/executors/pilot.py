"""A pilot: takes orders from a folder and trains their runs on its machine, one after the other.

python -P -m trainer.cli.executors.pilot FOLDER WORKING_DIRECTORY NUMBER
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from trainer.cli.executors.local import Executor, LocalProcesses
from trainer.cli.executors.orders import SECONDS_BETWEEN_LOOKS, Orders


def serve(orders: Orders, number: int, executor: Executor | None = None) -> None:
    """Executes orders until the command that gives them has ended. An exception ends the run with a checkpoint."""
    executor = executor or LocalProcesses()
    while not orders.is_abandoned():
        taken = orders.take(number)
        if taken is None and orders.is_carried_out():
            return
        if taken is None:
            time.sleep(SECONDS_BETWEEN_LOOKS)
            continue
        which, order = taken
        job = executor.start(order._replace(pid=os.getpid()))
        try:
            while not job.is_over() and not orders.is_to_end(which) and not orders.is_abandoned():
                time.sleep(SECONDS_BETWEEN_LOOKS)
        finally:
            if not job.is_over():
                job.end()
        orders.finish(which, job.mistake)


def main(words: list[str]) -> int:
    """The command line of a pilot."""
    folder, directory, number = words
    os.chdir(directory)
    try:
        serve(Orders(Path(folder)), int(number))
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
