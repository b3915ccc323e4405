"""Pilots as tasks of a Ray cluster, whose machines share this one's file system and environment."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any

from trainer import TrainerError
from trainer.cli.starting import worker_environment

try:
    import ray
    import ray.exceptions
except ImportError as missing:
    raise TrainerError(
        "--on ray:ADDRESS needs Ray, which is not installed", found=str(missing),
        hint="pip install 'lucid-trainer[ray]'",
    ) from missing  # fmt: skip

RETRIES = 10
"""How often Ray starts a pilot again whose process was lost."""


class RayTasks:
    """A connection to a Ray cluster.

    Args:
        address: as for `ray.init`: HOST:PORT, auto, or local for a cluster of this machine that ends with the command.
        runs: number of runs at the same time.
        threads: processors of each run; None: an equal share of the cluster's.

    Raises:
        TrainerError: the cluster can't be reached, or has too few processors.
    """

    def __init__(self, address: str, runs: int, threads: int | None) -> None:
        try:
            if not ray.is_initialized():
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError, AssertionError) as error:
            raise TrainerError(
                "the Ray cluster can't be reached", where=f"--on ray:{address}", found=str(error).partition("\n")[0],
                hint="`ray status` shows the cluster; `ray start --head` starts one on this machine.",
            ) from error  # fmt: skip
        processors = int(ray.cluster_resources().get("CPU", 0))
        self.threads = threads or max(1, processors // runs)
        if self.threads > processors:
            raise TrainerError(
                "the Ray cluster has too few processors", where=f"--on ray:{address}", found=str(processors),
                expected=f"at least {self.threads}, the threads of one run",
            )  # fmt: skip
        self._tasks: list[Any] = []

    def launch(self, command: Sequence[str], count: int) -> None:
        """Starts the tasks; Ray runs as many at once as there are processors."""
        environment = {"env_vars": {"PYTHONPATH": worker_environment()["PYTHONPATH"]}}
        task = ray.remote(num_cpus=self.threads, max_retries=RETRIES, runtime_env=environment)(_pilot)
        self._tasks = [task.remote(list(command[4:]), number) for number in range(count)]

    def living(self) -> set[int]:
        """The tasks that have not ended."""
        _, waiting = ray.wait(self._tasks, num_returns=len(self._tasks), timeout=0, fetch_local=False)
        return {number for number, task in enumerate(self._tasks) if task in waiting}

    def end(self) -> None:
        """Cancels the tasks and waits for them: their runs end with a checkpoint."""
        for task in self._tasks:
            ray.cancel(task)
        ray.wait(self._tasks, num_returns=len(self._tasks), timeout=None, fetch_local=False)

    def last_words(self) -> str:
        """The error of the first task that failed."""
        for task in self._tasks:
            try:
                ray.get(task, timeout=0)
            except (ray.exceptions.RayError, TimeoutError) as error:
                return str(error).strip()
        return ""


def _pilot(words: list[str], number: int) -> None:
    """A pilot in the process of a Ray task."""
    from trainer.cli.executors.pilot import main

    os.environ.pop("OMP_NUM_THREADS", None)  # Ray's: the run sets its own
    main([*words, str(number)])
