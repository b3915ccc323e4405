"""Processor time that was used: by the whole machine, and by this process and its children."""

from __future__ import annotations

import os
from typing import Any

import psutil


def machine_seconds() -> float:
    """Processor time that the whole machine has used, what the hypervisor took away included."""
    times: Any = psutil.cpu_times()
    fields = ("user", "nice", "system", "irq", "softirq", "steal")
    return float(sum(getattr(times, name, 0.0) for name in fields))


def own_seconds() -> float:
    """Processor time of this process and all below it, living and ended."""
    total = sum(os.times()[:4])
    for child in psutil.Process().children(recursive=True):
        try:
            total += sum(child.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue  # it ended between the two looks, and is counted with the ended ones next time
    return total
