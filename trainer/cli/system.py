"""Samples of the machine during training: processor, memory, GPUs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from trainer.rundir import SystemEvent


class SystemSampler:
    """Samples this process and the GPUs; rates are computed between consecutive samples."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        import psutil

        from trainer.engine.targets.cpu.topology import available_processors

        self._process = psutil.Process()
        self._process.cpu_percent()
        self._processors = available_processors()
        self._gpus = _Gpus()
        self._disk, self._network = Rate(self._disk_bytes, clock), Rate(_network_bytes, clock)

    def sample(self) -> SystemEvent:
        """Processor use in percent of the usable logical processors, resident memory in bytes, rates, GPUs."""
        return SystemEvent(
            cpu=round(self._process.cpu_percent() / self._processors, 1),
            memory=self._process.memory_info().rss,
            disk=self._disk.take(),
            network=self._network.take(),
            gpus=self._gpus.sample() or None,
        )

    def _disk_bytes(self) -> int | None:
        """Bytes that this process has read and written so far; None if the system doesn't report it."""
        if not hasattr(self._process, "io_counters"):  # macOS
            return None
        counters = self._process.io_counters()
        return int(counters.read_bytes + counters.write_bytes)


class Rate:
    """The growth rate of a counter between two readings."""

    def __init__(self, read: Callable[[], int | None], clock: Callable[[], float]) -> None:
        self._read, self._clock = read, clock
        self._count, self._time = read(), clock()

    def take(self) -> float | None:
        """Growth per second since the last call; None if there is no counter."""
        count, now = self._read(), self._clock()
        before, since = self._count, now - self._time
        self._count, self._time = count, now
        if count is None or before is None or since <= 0:
            return None
        return round(max(0, count - before) / since)


def _network_bytes() -> int | None:
    """Bytes in and out over all interfaces except the loopback; None if the system doesn't report it."""
    import psutil

    try:
        counters = psutil.net_io_counters(pernic=True)
    except OSError:
        return None
    return sum(one.bytes_sent + one.bytes_recv for name, one in counters.items() if not name.startswith("lo"))


class _Gpus:
    """NVIDIA GPUs through NVML; none without a driver."""

    def __init__(self) -> None:
        self._handles: list[Any] = []
        self._nvml: Any = None
        try:
            import pynvml
        except ImportError:
            return
        self._nvml = pynvml
        try:
            pynvml.nvmlInit()
            self._handles = [pynvml.nvmlDeviceGetHandleByIndex(n) for n in range(pynvml.nvmlDeviceGetCount())]
        except pynvml.NVMLError:
            self._handles = []

    def names(self) -> list[str]:
        """Each GPU's name and memory."""
        nvml = self._nvml
        return [
            f"{nvml.nvmlDeviceGetName(handle)}, {nvml.nvmlDeviceGetMemoryInfo(handle).total / 2**30:.0f} GiB"
            for handle in self._handles
        ]

    def sample(self) -> list[dict[str, float]]:
        """Use in percent, memory in bytes, power in watts, temperature in °C; values that a GPU doesn't report are
        omitted.
        """
        return [self._sample(handle) for handle in self._handles]

    def _sample(self, handle: Any) -> dict[str, float]:
        nvml = self._nvml
        readings = {
            "use": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
            "memory": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
            "power": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            "temperature": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        }
        sample = {}
        for name, read in readings.items():
            try:
                sample[name] = float(read())
            except nvml.NVMLError:
                continue
        return sample


def gpu_names() -> list[str]:
    """The NVIDIA GPUs of this machine."""
    return _Gpus().names()
