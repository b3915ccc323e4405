"""Processor time of the whole machine, and of this process and its children."""

from __future__ import annotations

import os
import time
from typing import Any

import psutil


def machine_seconds() -> float:
    """Processor time that the whole machine has used, including time taken by the hypervisor."""
    times: Any = psutil.cpu_times()
    fields = ("user", "nice", "system", "irq", "softirq", "steal")
    return float(sum(getattr(times, name, 0.0) for name in fields))


def own_seconds() -> float:
    """Processor time of this process and all its descendants, running and ended."""
    total = sum(os.times()[:4])
    for child in psutil.Process().children(recursive=True):
        try:
            total += sum(child.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue  # it ended after it was listed; the next call counts it with the ended ones
    return total


class Watch:
    """Measures the wall time since its creation, and the share of the machine that other processes used since then."""

    def __init__(self) -> None:
        self._start, self._busy, self._own = time.perf_counter(), machine_seconds(), own_seconds()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._start

    @property
    def disturbance(self) -> float:
        others = (machine_seconds() - self._busy) - (own_seconds() - self._own)
        return max(0.0, others / (self.seconds * (os.cpu_count() or 1)))
