"""Pilots as tasks of a Ray cluster, whose machines share this one's file system and environment."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainer import TrainerError
from trainer.cli.executors.orders import last_printed
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
"""How often Ray restarts a pilot whose process was lost."""
NAMESPACE = "trainer"
"""The namespace of detached actors, in which other processes find them by name."""
SECONDS_TO_ANSWER = 1.0


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
        processors = _processors(address)
        self.threads = threads or max(1, processors // runs)
        _refuse_too_few(address, self.threads, processors)
        self._tasks: list[Any] = []

    def launch(self, command: Sequence[str], count: int) -> None:
        """Starts the tasks; Ray runs as many at the same time as the processors allow."""
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


class LastingTask:
    """A pilot that outlives this process, as a detached actor of a Ray cluster.

    Args:
        address: as in `RayTasks`.
        threads: processors of the run; None: all processors of the largest machine.

    Raises:
        TrainerError: the cluster can't be reached, or has too few processors.
    """

    def __init__(self, address: str, threads: int | None) -> None:
        _processors(address)
        largest = max(int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"])
        self.threads, self.job, self._logs = threads or max(1, largest), "", Path()
        _refuse_too_few(address, self.threads, largest)
        self._actor: Any = None

    def launch(self, command: Sequence[str], count: int) -> None:
        """Starts the actor, which waits until the cluster has enough free processors."""
        assert count == 1
        self.job, self._logs = f"trainer-{os.urandom(8).hex()}", Path(command[4])
        environment = {"env_vars": {"PYTHONPATH": worker_environment()["PYTHONPATH"]}}
        actor = ray.remote(num_cpus=self.threads, max_restarts=0)(_Holder)
        self._actor = actor.options(
            name=self.job, namespace=NAMESPACE, lifetime="detached", runtime_env=environment
        ).remote([*command, "0"], str(self._logs / "pilot-0.log"))

    def find(self, job: str, logs: Path) -> None:
        """Continues with an actor that another process has started."""
        self.job, self._logs = job, logs
        try:
            self._actor = ray.get_actor(job, namespace=NAMESPACE)
        except ValueError:
            self._actor = None  # it has ended, with its cluster or alone

    def living(self) -> set[int]:
        """The pilot, if its process runs or waits for processors."""
        if self._actor is None:
            return set()
        try:
            return {0} if ray.get(self._actor.is_alive.remote(), timeout=SECONDS_TO_ANSWER) else set()
        except TimeoutError:
            return {0}  # it waits for processors, or its machine is busy
        except ray.exceptions.RayError:
            return set()

    def end(self) -> None:
        """Ends the pilot, whose run ends with a checkpoint."""
        if self._actor is None:
            return
        try:
            ray.get(self._actor.end.remote(), timeout=SECONDS_TO_ANSWER)
        except TimeoutError:
            self.forget()  # it waits for processors
        except ray.exceptions.RayError:
            self._actor = None  # it has ended

    def forget(self) -> None:
        """Removes the actor."""
        if self._actor is not None:
            ray.kill(self._actor)
            self._actor = None

    def last_words(self) -> str:
        """The last output of the pilot."""
        return last_printed(self._logs) or f"the actor {self.job} without output"


class _Holder:
    """An actor that runs the process of a pilot, and ends with it."""

    def __init__(self, command: list[str], log: str) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}  # set by Ray
        with open(log, "ab") as printed:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, env=environment
            )
        threading.Thread(target=self._end_with_process, daemon=True).start()

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def end(self) -> None:
        """Asks the process to end."""
        self._process.terminate()

    def _end_with_process(self) -> None:
        self._process.wait()
        os._exit(0)  # frees the processors even if no process requests the result


def _processors(address: str) -> int:
    """Connects to a cluster; returns the number of its processors.

    Raises:
        TrainerError: it can't be reached.
    """
    try:
        if not ray.is_initialized():
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError, AssertionError) as error:
        raise TrainerError(
            "the Ray cluster can't be reached", where=f"--on ray:{address}", found=str(error).partition("\n")[0],
            hint="`ray status` shows the cluster; `ray start --head` starts one on this machine.",
        ) from error  # fmt: skip
    return int(ray.cluster_resources().get("CPU", 0))


def _refuse_too_few(address: str, threads: int, processors: int) -> None:
    if threads > processors:
        raise TrainerError(
            "the Ray cluster has too few processors", where=f"--on ray:{address}", found=str(processors),
            expected=f"at least {threads}, the threads of one run",
        )  # fmt: skip


def _pilot(words: list[str], number: int) -> None:
    """Runs a pilot in the process of a Ray task."""
    from trainer.cli.executors.pilot import main

    os.environ.pop("OMP_NUM_THREADS", None)  # set by Ray; the run sets its own
    main([*words, str(number)])
