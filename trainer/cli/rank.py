"""Training in several processes: rank 0 is the worker, the others follow it.

    rank 0   run directory → attempt to all → Learner.run() → `end` event
    others   attempt from rank 0 → its resolved config → Learner.run(), without run directory, events and requests

`python -P -m trainer.cli.rank ATTEMPT PROCESSES` runs one of the processes of `train.processes`. The worker has created
the run directory; it starts and ends these processes (`rank_starter`).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from trainer import TrainerError
from trainer.cli.attempt import Attempt
from trainer.cli.exit_codes import FAILURE, RANK_LOST, USER_MISTAKE
from trainer.cli.plugins import leave_out_plugins
from trainer.cli.rank_starter import heartbeats_of
from trainer.cli.watcher import Watcher, die_with_parent
from trainer.learner.ranks import Group, RankLost
from trainer.learner.ranks import start as ranks
from trainer.learner.ranks.heartbeats import Heartbeats
from trainer.rundir import Event, EventSink, LogEvent, PhaseEvent, RunPaths, host_name

if TYPE_CHECKING:
    from trainer.configs import Loaded, RunConfig


def train_as_first(
    attempt: Attempt, loaded: Loaded, sink: EventSink, watcher: Watcher, group: Group
) -> BaseException | None:
    """Trains as rank 0; returns the error of a failed run."""
    from trainer.cli.tasks import task_class
    from trainer.cli.worker import learner_for

    resume = attempt.checkpoint, attempt.is_forced
    group.from_first((attempt.paths.root.absolute(), attempt.number, *resume))
    sink(LogEvent(f"{group.size} processes train together, each on {loaded.config.train.shards // group.size} shards"))
    threads = share_of_threads(group)  # from here on, all ranks have started
    group.heartbeats = Heartbeats(
        heartbeats_of(attempt.paths.root, attempt.number), 0, group.size, group.pace, sink,
        end=lambda lost: _end_now(lambda: watcher.abort(FAILURE, str(RankLost(lost)), "failed")),
    )  # fmt: skip
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
        _leave(group, failure)


def follow_first(group: Group) -> int:
    """Trains as a rank other than 0 until rank 0 ends; returns the exit code."""
    from trainer import configs
    from trainer.cli.tasks import task_class
    from trainer.learner import Learner

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # rank 0 decides, and all save and end together
    order = group.from_first()
    if order is None:  # no run was created: rank 0 has reported why
        ranks.end(group)
        return FAILURE
    root, number_of_attempt, checkpoint, is_forced = order
    paths = RunPaths(root)
    threads = share_of_threads(group)
    group.heartbeats = Heartbeats(
        heartbeats_of(root, number_of_attempt), group.rank, group.size, group.pace,
        end=lambda lost: _end_now(lambda: os._exit(RANK_LOST)),
    )  # fmt: skip
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
        return RANK_LOST if isinstance(outcome.error, RankLost) else outcome.exit_code
    except BaseException as error:
        failure = f"{type(error).__name__}: {error}"
        raise
    finally:
        _leave(group, failure)


def _leave(group: Group, failure: str | None) -> None:
    """Leaves MPI and ends the heartbeat. If nothing failed, MPI ends first, to report a rank that dies meanwhile."""
    assert group.heartbeats is not None
    if failure is None:
        ranks.end(group)
    group.heartbeats.stop(failure)
    if failure is not None:
        ranks.abandon()


def _end_now(end: Callable[[], None]) -> None:
    """Ends this process: its main thread continues although another rank is lost."""
    ranks.abandon()
    end()


def share_of_threads(group: Group) -> int:
    """The number of physical cores that this rank may use, divided by the number of ranks on this machine that may use
    some of the same cores: launchers often bind ranks to separate cores. Waits for all ranks.
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


def main(words: list[str] | None = None) -> int:
    """Runs one of the processes that `start_ranks` starts."""
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
