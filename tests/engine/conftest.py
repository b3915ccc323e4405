"""Devices for tests of the compiler: freed memory is poisoned, so that a wrong plan shows in the values."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trainer import engine
from trainer.engine.targets.cpu.device import CpuDevice


@pytest.fixture(scope="session")
def cpu() -> CpuDevice:
    return CpuDevice(threads=2, poison=True)


@pytest.fixture
def on_cpu(cpu: CpuDevice) -> Iterator[CpuDevice]:
    with engine.device(cpu):
        yield cpu
