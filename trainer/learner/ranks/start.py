"""Forms the group of ranks: from a launcher, or by starting further processes on this machine.

mpi4py (extra `distributed`) is imported only with more than one process.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from trainer import TrainerError
from trainer.learner.ranks import rendezvous
from trainer.learner.ranks.group import Group

_STAYING = '"$@" || { mkdir -p "$0/${PMI_RANK-$OMPI_COMM_WORLD_RANK}.ended.$?"; exec sleep 600; }'
"""A shell command that runs the process. If it fails, the shell records its rank and exit code (see `failed`) and
sleeps in its place: a launcher that sees a process end kills the others, or lets them wait for it forever.
"""


def from_launcher(count: int, launcher: str) -> Group:
    """The group of the `count` processes that a launcher (mpiexec, srun, torchrun) has started.

    Raises:
        TrainerError: mpi4py is missing, the launcher and MPI do not know each other, or torchrun's processes do not
            find each other.
    """
    _require_mpi4py()
    is_torchrun = launcher == "torchrun"
    with rendezvous.joined(rendezvous.Place.of(os.environ)) if is_torchrun else nullcontext():
        communicator = _mpi().COMM_WORLD
    if communicator.Get_size() != count:
        raise TrainerError(
            f"{launcher} started {count} processes that MPI does not know",
            found=f"an MPI world of {communicator.Get_size()}",
            expected=f"one of {count}",
            hint=f"Start with `mpiexec -n {count} trainer run …`, or with `srun --mpi=pmi2` or `--mpi=pmix`. torchrun "
            "needs MPICH, as `pip install mpich` brings it.",
        )
    return Group(communicator)


def command(count: int, arguments: Sequence[str], heartbeats: Path) -> list[str]:
    """The command that starts `count` processes of this Python interpreter on this machine, with these arguments.

    If a process dies, the others continue, to report it, until the caller ends the launcher; `failed` says which died.

    Raises:
        TrainerError: MPI's launcher or mpi4py is missing.
    """
    _require_mpi4py()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    launcher = shutil.which("mpiexec", path=path)
    if launcher is None:
        raise _missing("no `mpiexec` on the path")
    found = subprocess.run([launcher, "--version"], capture_output=True, text=True, check=False).stdout
    options = [] if "HYDRA" in found else ["--oversubscribe"]  # Open MPI counts cores
    return [launcher, *options, "-n", str(count), "sh", "-c", _STAYING, str(heartbeats), sys.executable, *arguments]


def failed(heartbeats: Path) -> dict[int, int]:
    """Exit codes of the failed processes of `command`, by rank; minus the signal number for a killed process."""
    notes = [path.name.split(".") for path in heartbeats.glob("*.ended.*")]
    codes = {int(rank): int(code) for rank, _, code in notes}
    return {rank: 128 - code if code > 128 else code for rank, code in codes.items()}


def forget_failed(heartbeats: Path) -> None:
    """Deletes the records that `failed` reads."""
    for path in heartbeats.glob("*.ended.*"):
        path.rmdir()


def end(group: Group) -> None:
    """Finalizes MPI; all ranks call it at the end of a training without failure."""
    if group.size > 1:
        _mpi().Finalize()


def abandon(prefix: str = "/dev/shm/mpich_shm_") -> None:
    """Cleans up after a failure, when finalizing MPI might wait forever.

    Only finalizing deletes MPICH's shared memory: files whose paths begin with `prefix`, 1 to 2 MB on each machine.
    """
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux: MPI has no such files
        return
    for path in {line[line.find("/") :] for line in lines}:
        if path.startswith(prefix):
            with suppress(OSError):  # another rank has deleted it
                os.unlink(path)


def _mpi() -> Any:
    import mpi4py

    mpi4py.rc.finalize = False  # after a rank was lost, finalizing at exit would wait for it forever
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # depends on the version of mpi4py
        raise _missing(f"mpi4py, but no MPI library: {error}") from error
    return MPI


def _require_mpi4py() -> None:
    if importlib.util.find_spec("mpi4py") is None:
        raise _missing("no such package")


def _missing(found: str) -> TrainerError:
    return TrainerError(
        "training in several processes needs MPI and mpi4py",
        found=found,
        hint="Install them with `pip install 'lucid-trainer[distributed]'`, or MPICH or Open MPI from the system.",
    )
