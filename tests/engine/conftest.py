"""Devices for tests of the engine: freed memory is poisoned, so that a wrong plan shows in the values."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trainer import engine
from trainer.engine import targets
from trainer.engine.targets.cpu.device import POISON_VARIABLE, CpuDevice


@pytest.fixture(autouse=True)
def freed_memory_is_poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process's device, those that a test makes, and those of its processes fill freed memory with NaN."""
    device = targets.get("cpu")
    assert isinstance(device, CpuDevice)
    monkeypatch.setenv(POISON_VARIABLE, "1")
    monkeypatch.setattr(device, "poison", True)


@pytest.fixture
def unpoisoned(freed_memory_is_poisoned: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that count launches: no fills among them."""
    monkeypatch.setattr(targets.get("cpu"), "poison", False)


@pytest.fixture(scope="session")
def cpu() -> CpuDevice:
    return CpuDevice(threads=2, poison=True)


@pytest.fixture
def on_cpu(cpu: CpuDevice) -> Iterator[CpuDevice]:
    with engine.device(cpu):
        yield cpu
