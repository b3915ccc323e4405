"""Where runs train: on this machine, or through a scheduler on others, which share its file system.

    command → Executor.start(order) → Job
    local       each run in a process of this machine
    pilots      each run on one of several pilots: processes on other machines that take orders from a folder
                (pilot.py), started by Ray (ray_tasks.py) or as a Slurm job array (slurm.py)

A pilot waits in the scheduler's queue only once, instead of once for each run.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from trainer import TrainerError
from trainer.cli.executors.local import Executor, Job, LocalProcesses

__all__ = ["Executor", "Job", "LocalProcesses", "executor_named"]

PLACES = "local, ray:ADDRESS or slurm:PARTITION"


def executor_named(place: str, folder: Path, *, runs: int, threads: int | None) -> AbstractContextManager[Executor]:
    """The executor of the option `--on`, as a context manager.

    Args:
        place: local, ray:ADDRESS or slurm:PARTITION.
        folder: for the orders to pilots; visible to all machines. No other command uses it.
        runs: number of runs at the same time.
        threads: threads of each run; None: an equal share of the cores, or one on Slurm.

    Raises:
        TrainerError: no such place, or it can't be reached.
    """
    kind, _, address = place.partition(":")
    if place == "local":
        return LocalProcesses(runs, threads)
    if not address or kind not in ("ray", "slurm"):
        raise TrainerError("no such place", where="--on", found=place, expected=PLACES)
    from trainer.cli.executors.pilots import Pilots

    if kind == "ray":
        from trainer.cli.executors.ray_tasks import RayTasks

        return Pilots(folder, RayTasks(address, runs, threads), runs)
    from trainer.cli.executors.slurm import SlurmArray

    return Pilots(folder, SlurmArray(address, folder.resolve().parent.name, threads), runs)
