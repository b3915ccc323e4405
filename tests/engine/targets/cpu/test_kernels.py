"""Loaded kernels: shared between programs, bounded in memory, and alive as long as a program holds them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Storage
from trainer.engine.program.build import Request
from trainer.engine.program.partition import Policy
from trainer.engine.targets import disk_cache
from trainer.engine.targets.cpu import loaded_kernels, native
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.loaded_kernels import Kernels
from trainer.engine.targets.cpu.lowering.launch import Launch
from trainer.engine.targets.cpu.machine import host_machine
from trainer.engine.targets.cpu.target import CpuTarget


def leaf(values: np.ndarray) -> Node:
    return p.buffer(Storage.of(values, dtypes.float32))


def launches(node: Node) -> list[Launch]:
    return CpuTarget(host_machine()).lower(Request((node,)), Policy()).launches


def test_equal_kernels_are_loaded_once_whatever_their_sizes() -> None:
    kernels = Kernels(native.host_target())
    found = [kernels.of(launches(p.exp(leaf(np.zeros(size, np.float32)))))[0] for size in (7, 70_000)]
    assert found[0] is found[1]


def test_progress_counts_what_is_compiled_and_says_what_it_is() -> None:
    heard: list[tuple[int, int, str]] = []
    tanh = p.tanh(leaf(np.zeros(3, np.float32)))
    Kernels(native.host_target()).of(launches(tanh), lambda *what: heard.append(what))
    assert heard == [(0, 1, "tanh"), (1, 1, "")]


def test_kernels_that_threads_compile_at_the_same_time_are_those_of_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = leaf(np.zeros(3, np.float32))
    needed = [launch for operation in (p.exp, p.log, p.sin, p.cos, p.tanh, p.erf) for launch in launches(operation(x))]
    found = []
    for threads in (1, 4):
        monkeypatch.setenv("TRAINER_CACHE_DIR", str(tmp_path / f"{threads} threads"))
        monkeypatch.setattr(loaded_kernels, "available_threads", lambda count=threads: count)
        before, interval = native.object_counts(), sys.getswitchinterval()
        Kernels(native.host_target()).of(needed)
        assert native.object_counts() == (before[0] + len(needed), before[1])
        assert sys.getswitchinterval() == interval
        found.append({file.name: file.read_bytes() for file in disk_cache.cache_directory().iterdir()})
    assert found[0] == found[1] and len(found[0]) == 2 * len(needed)


def test_code_that_is_forgotten_still_serves_the_program_that_holds_it() -> None:
    device = CpuDevice(threads=1)
    device.kernels = Kernels(native.host_target(), largest_bytes=1)
    x = np.linspace(-2, 2, 50).astype(np.float32)
    first = p.sin(leaf(x))
    device.evaluate([first])
    device.evaluate([p.cos(leaf(x))])
    assert not device.kernels.nbytes
    np.testing.assert_allclose(device.evaluate([first])[0].view(), np.sin(x), rtol=1e-6)
