"""The device of a config."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.configs import RunConfig


def device_for(config: RunConfig) -> Any:
    """The argument for `engine.device`: the process's device, or one with another thread pool or numerics class."""
    numerics = config.numerics
    if config.device == "cpu" and (config.threads is not None or numerics != type(numerics)()):
        from trainer.engine.targets.cpu.device import CpuDevice

        return CpuDevice(threads=config.threads, numerics=numerics.class_, bfloat16=numerics.bfloat16)
    if config.device.startswith("cuda") and numerics.class_ == "fast":
        return _fast_gpu(int(config.device.partition(":")[2] or 0))
    return config.device


@functools.cache
def _fast_gpu(index: int) -> Any:
    """One device for each GPU: kernels, memory and streams are its own."""
    from trainer.engine.targets.cuda.device import CudaDevice

    return CudaDevice(index, numerics="fast")
