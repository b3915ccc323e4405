"""Pilots as a Slurm job array, whose machines share this one's file system and environment.

Only Slurm's commands are used. Options that a cluster needs, such as an account or a time limit, are set by Slurm's own
variables: SBATCH_ACCOUNT, SBATCH_TIMELIMIT, SBATCH_GRES and others.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from trainer import TrainerError
from trainer.cli.executors.orders import last_printed
from trainer.cli.starting import worker_environment

FORGOTTEN = "Invalid job id"
"""The message of squeue about a job that ended some minutes ago."""
SECONDS_FOR_CHECKPOINT = 60
"""Seconds before the time limit at which Slurm sends SIGTERM."""


class SlurmArray:
    """A partition of Slurm.

    Args:
        name: name of the jobs.
        threads: processors of each run; None: one.
    """

    def __init__(self, partition: str, name: str, threads: int | None) -> None:
        self._partition, self._name, self.threads = partition, name, threads or 1
        self.job, self._logs, self._living = "", Path(), set[int]()

    def launch(self, command: Sequence[str], count: int) -> None:
        """Submits the array; task N writes its output to pilot-N.log in the folder of orders."""
        self._logs = Path(command[4])
        log = f"{str(self._logs).replace('%', '%%')}/pilot-%a.log"
        script = f"exec {shlex.join(command)} $SLURM_ARRAY_TASK_ID"
        words = [
            "sbatch", "--parsable", f"--array=0-{count - 1}", f"--partition={self._partition}",
            f"--job-name={self._name}", f"--cpus-per-task={self.threads}", f"--output={log}", "--open-mode=append",
            f"--signal=B:TERM@{SECONDS_FOR_CHECKPOINT}", "--requeue", f"--wrap={script}",
        ]  # fmt: skip
        self.job = _answer(words, self._partition).partition(";")[0]
        self._living = set(range(count))

    def check(self) -> None:
        """Checks that the partition exists.

        Raises:
            TrainerError: Slurm isn't installed, doesn't answer, or has no such partition.
        """
        known = _answer(["sinfo", "--noheader", "--format=%R"], self._partition).split()
        if self._partition not in known:
            raise TrainerError(
                "Slurm has no such partition", where=f"--on slurm:{self._partition}", found=self._partition,
                expected=", ".join(sorted({*known})),
            )  # fmt: skip

    def find(self, job: str, logs: Path) -> None:
        """Continues with a job that another process has submitted."""
        self.job, self._logs, self._living = job, logs, {0}

    def forget(self) -> None:
        """Does nothing: Slurm forgets jobs that have ended."""

    def living(self) -> set[int]:
        """The tasks of the array that are queued or running; the last known ones if the controller doesn't answer.

        An order is handed out again only if its pilot is known to have ended.
        """
        listed = subprocess.run(
            ["squeue", "--noheader", "--array", f"--job={self.job}", "--format=%K"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if listed.returncode == 0:
            self._living = {int(line) for line in listed.stdout.split()}
        elif FORGOTTEN in listed.stderr:
            self._living = set()
        return self._living

    def end(self) -> None:
        """Cancels the array; the runs end with a checkpoint."""
        subprocess.run(["scancel", self.job], capture_output=True, check=False)

    def last_words(self) -> str:
        """The end of the tasks' logs."""
        return last_printed(self._logs) or f"job {self.job} without output"


def _answer(words: Sequence[str], partition: str) -> str:
    """Runs a Slurm command; returns its output.

    Raises:
        TrainerError: it isn't installed, or fails.
    """
    where = f"--on slurm:{partition}"
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=worker_environment())
    except FileNotFoundError as error:
        raise TrainerError(
            "Slurm's commands are not installed here", where=where, found=f"no {words[0]}",
            hint="Run the command on a login node of the cluster.",
        ) from error  # fmt: skip
    if done.returncode:
        raise TrainerError(
            "Slurm refuses the jobs" if words[0] == "sbatch" else "Slurm does not answer",
            where=where,
            found=done.stderr.strip(),
        )
    return done.stdout.strip()
