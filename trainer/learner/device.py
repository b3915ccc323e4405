"""The device of a config."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from trainer import TrainerError
from trainer.learner.ranks import ALONE, Group

if TYPE_CHECKING:
    from trainer.configs import RunConfig


def device_for(config: RunConfig, group: Group = ALONE) -> Any:
    """The argument for `engine.device`: the process's device, or one with another thread pool or numerics class.

    Each process on a machine has its own GPU; with `cuda:N`, the first process has GPU N.

    Raises:
        TrainerError: the machine has fewer GPUs than processes.
    """
    numerics = config.numerics
    if config.device == "cpu" and (config.threads is not None or numerics != type(numerics)()):
        from trainer.engine.targets.cpu.device import CpuDevice

        return CpuDevice(threads=config.threads, numerics=numerics.class_, bfloat16=numerics.bfloat16)
    if config.device.startswith("cuda"):
        first = int(config.device.partition(":")[2] or 0)
        index = first if group.size == 1 else first + _gpu_of(group, first)
        if numerics.class_ == "fast":
            return _fast_gpu(index)
        return f"cuda:{index}"
    return config.device


def _gpu_of(group: Group, first: int) -> int:
    """The GPU of this process, counted from the first one."""
    from trainer.engine.targets.cuda.driver import available
    from trainer.learner.ranks.agreement import local_rank

    number, processes = local_rank(group)
    gpus = len(available()) - first
    if processes > gpus:
        raise TrainerError(
            "there are more processes than GPUs on this machine",
            where="device",
            found=f"{processes} processes; GPUs{f' from number {first} on' if first else ''}: {max(0, gpus)}",
            expected="a GPU for each process",
            hint="Start fewer processes per machine, or set `device: cpu`.",
        )
    return number


@functools.cache
def _fast_gpu(index: int) -> Any:
    """The device of a GPU with fast numerics, created once: it has separate kernels, memory and streams."""
    from trainer.engine.targets.cuda.device import CudaDevice

    return CudaDevice(index, numerics="fast")
