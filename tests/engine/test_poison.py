"""The engine's tests run with NaN in freed memory, of every device."""

from __future__ import annotations

import ctypes

import numpy as np

from trainer.engine import targets
from trainer.engine.targets.cpu.arena import OVERRUN, Arena
from trainer.engine.targets.cpu.device import CpuDevice


def test_freed_memory_is_filled_in_the_processs_device_and_in_those_that_a_test_makes() -> None:
    device = targets.get("cpu")
    assert isinstance(device, CpuDevice) and device.poison and CpuDevice(threads=1).poison


def test_a_run_fills_what_its_program_uses_and_shortly_past_it_whatever_the_largest_program_uses() -> None:
    arena, size = Arena(), 1000
    arena.reserve(1 << 20)
    arena.poison(size)
    memory = np.frombuffer(ctypes.string_at(arena.address, arena.size), np.uint8)
    assert (memory[: size + OVERRUN] == 0xFF).all() and not memory[size + OVERRUN :].any()
    arena.poison(arena.size)
    assert ctypes.string_at(arena.address, arena.size) == b"\xff" * arena.size
