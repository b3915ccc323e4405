"""Recognizes that a launcher (mpiexec, srun, torchrun) has started several processes, by the variables that it sets."""

from __future__ import annotations

import os
from collections.abc import Mapping

SIZES = {
    "PMI_SIZE": "mpiexec",
    "OMPI_COMM_WORLD_SIZE": "mpiexec",
    "SLURM_STEP_NUM_TASKS": "srun",
    "WORLD_SIZE": "torchrun",
}
"""Variables with the number of processes, and what sets each."""


def launched(environment: Mapping[str, str] = os.environ) -> tuple[int, str]:
    """The number of processes that a launcher has started, of which this is one, and its name; 1 without a launcher."""
    for name, launcher in SIZES.items():
        if (count := environment.get(name, "")).isdigit() and int(count) > 1:
            return int(count), launcher
    return 1, ""
