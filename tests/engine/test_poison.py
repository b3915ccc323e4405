"""The engine's tests run with NaN in freed memory, of every device."""

from __future__ import annotations

import numpy as np

from tests.engine.conftest import MOST_ARENA_BYTES
from trainer import engine
from trainer.engine import targets
from trainer.engine.targets.cpu.arena import Arena
from trainer.engine.targets.cpu.device import CpuDevice


def test_freed_memory_is_filled_in_the_processs_device_and_in_those_that_a_test_makes() -> None:
    device = targets.get("cpu")
    assert isinstance(device, CpuDevice) and device.poison and CpuDevice(threads=1).poison


def test_programs_are_bound_anew_where_the_arena_is_another() -> None:
    device = targets.get("cpu")
    assert isinstance(device, CpuDevice)
    x = engine.asarray(np.ones((64, 64), np.float32))
    step = engine.trace(lambda y: engine.matmul(engine.matmul(y, y), y))
    first = step(x).numpy()
    arena = Arena()
    arena.generation, device.arena = device.arena.generation, arena
    np.testing.assert_array_equal(step(x).numpy(), first)
    assert device.arena.size <= MOST_ARENA_BYTES
