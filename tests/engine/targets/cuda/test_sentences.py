"""Each reason why `device: cuda` can't be used is one sentence that says what to do."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from tests.engine.targets.cuda.recorder import Recorder
from trainer import TrainerError, engine
from trainer.engine.targets.cuda import driver
from trainer.engine.targets.cuda.device import CudaDevice


@pytest.mark.parametrize(
    ("settings", "index", "message", "found"),
    [
        ({"gpus": 0}, 0, "there is no GPU for `device: cuda`", "no NVIDIA GPU, or no driver for it"),
        ({"gpus": 2}, 3, "there is no GPU for `device: cuda:3`", "2 NVIDIA GPUs"),
        ({"driver": 11080}, 0, "NVIDIA's driver is too old", "a driver for CUDA 11.8"),
        ({"capability": (7, 5), "name": "Tesla T4"}, 0, "Tesla T4 is too old", "compute capability 7.5"),
    ],
)
def test_a_gpu_that_can_not_be_used(settings: dict[str, Any], index: int, message: str, found: str) -> None:
    with pytest.raises(TrainerError) as caught:
        CudaDevice(index, Recorder(**settings))
    error = caught.value
    assert message in error.message and found in str(error.found) and error.hint and "cpu" in error.hint


def test_the_summary_describes_usable_gpus_next_to_one_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = Recorder(gpus=2)
    properties = mixed.runtime.getDeviceProperties
    old = {"major": 7, "minor": 5, "name": b"Tesla T4"}
    mixed.runtime.getDeviceProperties = lambda index: properties(index) | (old if index == 0 else {})
    unusable, usable = driver.summary(mixed).split("; ")
    assert unusable.startswith("cuda: not usable: Tesla T4 is too old") and unusable.endswith("Set `device: cpu`.")
    assert usable.startswith("cuda:1: emulated GPU, ")
    assert "there is no GPU" in driver.summary(Recorder(gpus=0))
    assert driver.summary(Recorder(driver=11080)).startswith("cuda: not usable: NVIDIA's driver is too old")
    monkeypatch.delenv(driver.VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "cupy.cuda", None)
    assert driver.summary().startswith("not usable: ") and "CuPy" in driver.summary()


def test_without_cupy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(driver.VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setitem(sys.modules, "cupy.cuda", None)
    with pytest.raises(TrainerError, match=r"(?s)needs CuPy.*lucid-trainer\[cuda\]"):
        driver.open_gpu()


def test_the_emulator_needs_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    driver._emulated.cache_clear()
    monkeypatch.setenv(driver.VARIABLE, driver.EMULATED)
    monkeypatch.setattr(driver, "EMULATOR", "no_such_folder.recorder")
    with pytest.raises(TrainerError, match=r"(?s)needs the emulator.*Run from a checkout"):
        driver.load()
    monkeypatch.setenv(driver.VARIABLE, "fast")
    with pytest.raises(TrainerError, match="unknown value"):
        driver.load()


def test_full_memory_names_what_holds_it() -> None:
    with engine.device(CudaDevice(0, Recorder(executes=False, memory=500_000))):
        state = engine.State(np.ones((100, 400), np.float32), "weight")
        assert state.numpy().size == 40_000
        (state * 1).numpy()
        with pytest.raises(MemoryError) as caught:
            engine.trace(lambda x: engine.tanh(x + state))(np.ones((100, 400), np.float32))
    error = caught.value
    assert isinstance(error, TrainerError) and error.message == "out of memory on cuda (emulated GPU)"
    assert "0.3 MB of weights, states and other tensors, " in str(error.found) and "smaller batches" in str(error.hint)


def test_gpus_get_what_their_processor_executes() -> None:
    found = {
        capability: driver.open_gpu(0, Recorder(capability=capability)).processor
        for capability in ((8, 0), (8, 9), (9, 0), (10, 0), (12, 0))
    }
    assert found == {(8, 0): "sm_80", (8, 9): "sm_80", (9, 0): "sm_90a", (10, 0): "sm_100a", (12, 0): "sm_80"}
