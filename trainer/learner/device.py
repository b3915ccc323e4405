"""The device that a config asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.configs import RunConfig


def device_for(config: RunConfig) -> Any:
    """What to hand to `engine.device`: the name of the process's device, or one with a thread pool of its own size
    or of another numerics class.
    """
    numerics = config.numerics
    if config.device == "cpu" and (config.threads is not None or numerics != type(numerics)()):
        from trainer.engine.targets.cpu.device import CpuDevice

        return CpuDevice(threads=config.threads, numerics=numerics.class_, bfloat16=numerics.bfloat16)
    return config.device
