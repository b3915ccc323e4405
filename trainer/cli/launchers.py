"""Recognizes that a launcher (mpiexec, srun, torchrun) has started several processes, by the variables that it sets."""

from __future__ import annotations

import os
from collections.abc import Mapping

SIZES = {
    "WORLD_SIZE": "torchrun",
    "PMI_SIZE": "mpiexec",
    "OMPI_COMM_WORLD_SIZE": "mpiexec",
    "SLURM_STEP_NUM_TASKS": "srun",
}
"""Variables with the number of processes, and the launcher that sets each. srun may start torchrun on each machine."""


def launched(environment: Mapping[str, str] = os.environ) -> tuple[int, str]:
    """The number of processes that a launcher has started, including this one, and its name; 1 without a launcher."""
    for name, launcher in SIZES.items():
        if name == "WORLD_SIZE" and "RANK" not in environment:
            continue  # it says nothing about this process
        if (count := environment.get(name, "")).isdigit() and int(count) > 1:
            return int(count), launcher
    return 1, ""
