"""The device that a config asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.configs import RunConfig


def device_for(config: RunConfig) -> Any:
    """What to hand to `engine.device`: the name of the process's device, or one with a thread pool of its own size
    or of another numerics class.
    """
    if config.device == "cpu" and (config.threads is not None or config.numerics.class_ != "exact"):
        from trainer.engine.devices.cpu.device import CpuDevice

        return CpuDevice(threads=config.threads, numerics=config.numerics.class_)
    return config.device
