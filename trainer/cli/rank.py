"""Training in several processes: rank 0 is the worker, the others follow it.

    rank 0   run directory → attempt to all → Learner.run() → `end` event
    others   attempt from rank 0 → its resolved config → Learner.run(), without run directory, events and requests

`python -P -m trainer.cli.rank ATTEMPT` is one of the processes that `train.processes` starts. Their worker has made the
run directory; it forwards signals to rank 0, and ends those that are left once rank 0 has ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from trainer import TrainerError
from trainer.cli.attempt import Attempt
from trainer.cli.exit_codes import BY_SIGNAL, FAILURE, USER_MISTAKE
from trainer.cli.plugins import leave_out_plugins
from trainer.cli.watcher import Watcher, die_with_parent
from trainer.learner.ranks import Group
from trainer.learner.ranks import start as ranks
from trainer.learner.ranks.heartbeats import Heartbeats
from trainer.rundir import EndEvent, Event, EventSink, LogEvent, PhaseEvent, RunPaths, host_name, read_events
from trainer.rundir.processes import process_is_alive

if TYPE_CHECKING:
    from trainer.configs import Loaded, RunConfig

LOOK_SECONDS = 0.05
"""Seconds between two checks of the processes."""

RANKS = "ranks"
"""The folder of the run directory with the heartbeats."""

SECONDS_TO_END = 3.0
"""Seconds that the other ranks have to end after rank 0, before they are killed: one may hang."""


def train_as_first(
    attempt: Attempt, loaded: Loaded, sink: EventSink, watcher: Watcher, group: Group
) -> BaseException | None:
    """Trains as rank 0; returns the failure of a failed run."""
    from trainer.cli.tasks import task_class
    from trainer.cli.worker import learner_for

    resume = attempt.checkpoint, attempt.is_forced
    group.from_first((attempt.paths.root.absolute(), attempt.number, *resume))
    sink(LogEvent(f"{group.size} processes train together, each on {loaded.config.train.shards // group.size} shards"))
    threads = share_of_threads(group)  # from here on, all ranks have started
    group.heartbeats = Heartbeats(heartbeats_of(attempt.paths.root, attempt.number), 0, group.size, group.pace, sink)
    group.heartbeats.start()
    failure: str | None = "it ended before its training"
    try:
        learner = learner_for(attempt, loaded, task_class(loaded.task), group.pace.listening(sink), group=group)
        learner.config = with_threads(learner.config, threads)
        group.from_first(learner.resume is not None)
        sink(PhaseEvent("load", "finished"))
        watcher.hand_signals_to(learner.interrupt)
        outcome = learner.run()
        failure = None if outcome.error is None else str(outcome.error)
        return outcome.error
    except BaseException as error:
        failure = f"{type(error).__name__}: {error}"
        raise
    finally:
        group.heartbeats.stop(failure)
        if failure is None:
            ranks.end(group)
        else:
            ranks.abandon()


def follow_first(group: Group) -> int:
    """Trains as another rank than 0, until rank 0 ends; returns the exit code."""
    from trainer import configs
    from trainer.cli.tasks import task_class
    from trainer.learner import Learner

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # rank 0 decides, and all save and end together
    order = group.from_first()
    if order is None:  # there is no run: rank 0 has said why
        ranks.end(group)
        return FAILURE
    root, number_of_attempt, checkpoint, is_forced = order
    paths = RunPaths(root)
    threads = share_of_threads(group)
    group.heartbeats = Heartbeats(heartbeats_of(root, number_of_attempt), group.rank, group.size, group.pace)
    group.heartbeats.start()
    failure: str | None = "it ended before its training"
    try:
        resumes = group.from_first()  # rank 0 has completed the config
        loaded = configs.load(str(paths.config(number_of_attempt).absolute()), ())
        learner = Learner(
            task_class(loaded.task), loaded.config, loaded.options, sink=group.pace.listening(_no_sink),
            attempt=number_of_attempt, resume=(checkpoint or Path(root)) if resumes else None, is_forced=is_forced,
            group=group,
        )  # fmt: skip
        learner.config = with_threads(loaded.config, threads)
        outcome = learner.run()
        failure = None if outcome.error is None else str(outcome.error)  # rank 0 reports it
        return outcome.exit_code
    except BaseException as error:
        failure = f"{type(error).__name__}: {error}"
        raise
    finally:
        group.heartbeats.stop(failure)
        if failure is None:
            ranks.end(group)
        else:
            ranks.abandon()


def heartbeats_of(root: Path, attempt: int) -> Path:
    """The folder of the heartbeats of an attempt."""
    return root / RANKS / str(attempt)


def share_of_threads(group: Group) -> int:
    """An equal share of the physical cores that this rank may use, for each rank of this machine that may use some of
    them too: launchers often bind ranks to cores of their own. Waits for all ranks.
    """
    from trainer.engine.targets.cpu.topology import affinity, available_threads

    own = set(affinity())
    places = group.to_all((host_name(), sorted(own)))
    return max(1, available_threads() // sum(host == host_name() and not own.isdisjoint(each) for host, each in places))


def with_threads(config: RunConfig, threads: int) -> RunConfig:
    """The config with this number of threads, unless it sets one."""
    if config.threads is not None or config.device != "cpu":
        return config
    return config.model_copy(update={"threads": threads})


def _no_sink(event: Event) -> None:
    del event


def start_ranks(attempt: Attempt, processes: int) -> int:
    """Starts the processes of an attempt whose run directory exists, and waits for their end; returns the exit code.

    Raises:
        TrainerError: there is no launcher.
    """
    described = {
        "root": str(attempt.paths.root.absolute()), "number": attempt.number, "debug": attempt.debug,
        "process_start": attempt.process_start, "is_forced": attempt.is_forced,
        "checkpoint": None if attempt.checkpoint is None else str(attempt.checkpoint),
    }  # fmt: skip
    first = heartbeats_of(attempt.paths.root, attempt.number).absolute() / "0.json"
    arguments = ["-P", "-m", "trainer.cli.rank", json.dumps(described), str(processes)]
    command = ranks.command(processes, arguments, first.parent)
    if attempt.lock is not None:
        attempt.lock.release()  # rank 0 takes it
    launcher = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)

    def forward(number: int, frame: object) -> None:
        with suppress(OSError, ValueError):
            os.kill(json.loads(first.read_text(encoding="utf-8"))["pid"], number)

    for number in BY_SIGNAL:
        signal.signal(number, forward)
    deadline, failed = None, ranks.failed_at_start(first.parent)
    while launcher.poll() is None:
        time.sleep(LOOK_SECONDS)
        if failed.exists():
            launcher.terminate()  # which ends all
            launcher.wait()
        if deadline is None and first.exists() and not _alive([first]):
            deadline = time.monotonic() + SECONDS_TO_END
        if deadline is not None and (not (alive := _alive(first.parent.glob("*.json"))) or time.monotonic() > deadline):
            for pid in alive:
                with suppress(ProcessLookupError):  # it has just ended
                    os.kill(pid, signal.SIGKILL)
            launcher.terminate()  # which ends what is left of its own
            launcher.wait()
    with suppress(OSError):  # most have not failed
        failed.rmdir()
    ended = [
        record.event
        for record in read_events(attempt.paths.events)
        if record.attempt == attempt.number and isinstance(record.event, EndEvent)
    ]
    if not ended:
        has_begun = first.exists()
        print(f"{'rank 0' if has_begun else 'a process'} of the training died", file=sys.stderr, flush=True)
        return FAILURE
    return ended[-1].exit_code


def _alive(heartbeats: Iterable[Path]) -> list[int]:
    """The processes on this machine that live and that these files name."""
    alive = []
    for path in heartbeats:
        with suppress(OSError, ValueError):
            known = json.loads(path.read_text(encoding="utf-8"))
            if known["host"] == host_name() and process_is_alive(known["pid"], known["started"]):
                alive.append(known["pid"])
    return alive


def main(words: list[str] | None = None) -> int:
    """One of the processes that `start_ranks` starts."""
    from trainer import configs
    from trainer.cli.worker import work

    described, processes = words or sys.argv[1:]
    die_with_parent(os.getppid(), signal.SIGKILL)
    leave_out_plugins()
    group = ranks.from_launcher(int(processes), "mpiexec")
    if not group.is_first:
        return follow_first(group)
    order = json.loads(described)
    root, checkpoint = Path(order.pop("root")), order.pop("checkpoint")
    attempt = Attempt(RunPaths(root), **order, checkpoint=None if checkpoint is None else Path(checkpoint))
    try:
        loaded = configs.load(str(attempt.paths.config(attempt.number)), ())
        return work(attempt, loaded, group=group).exit_code
    except TrainerError as error:
        print(error, file=sys.stderr, flush=True)
        return USER_MISTAKE


if __name__ == "__main__":
    sys.exit(main())
