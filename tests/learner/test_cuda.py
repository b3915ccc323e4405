"""Training on `device: cuda`, by the recording driver: the bits of the CPU, and errors of the driver lose nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.targets.cuda.hardware import gpu
from tests.engine.targets.cuda.recorder import MESSAGES, Recorder
from tests.learner.test_asynchronous import SETTINGS, assert_same, attempt, told
from trainer.engine import nn
from trainer.engine.targets import Device
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cuda.device import CudaDevice
from trainer.learner import DataSplits, loop
from trainer.learner.checkpoints import read_checkpoint, steps_in
from trainer.learner.device import device_for
from trainer.rundir import EndEvent, RunPaths, create_run

FAILURES = {
    2: "out of memory",
    222: "can't load a kernel",
    700: "a kernel failed",
    702: "took longer",
    46: "no longer responds",
}
"""One error of each class, and the sentence that it becomes."""

BRIEF: dict[str, Any] = {
    "optimizer": {"name": "sgd", "learning_rate": 0.05},
    "schedule": {"name": "constant"},
    "data": {"batch_size": 16},
    "train": {"steps": 3, "log_every_steps": 1},
    "checkpoint": {"every_steps": 1, "keep_last": 5},
}

Choose = Callable[[Device], None]


@pytest.fixture
def compute_on(monkeypatch: pytest.MonkeyPatch) -> Choose:
    """Makes trainings compute on a device of the test."""
    return lambda device: monkeypatch.setattr(loop, "device_for", lambda config, group: device)


@pytest.mark.full
def test_metrics_and_checkpoints_are_those_of_the_cpu(
    blobs: Any, config: Any, tmp_path: Path, compute_on: Choose
) -> None:
    on_gpu, on_cpu = create_run(tmp_path, "gpu"), create_run(tmp_path, "cpu")
    for device, paths in ((gpu(), on_gpu), (CpuDevice(threads=1), on_cpu)):
        compute_on(device)
        attempt(blobs, config(**SETTINGS), paths)
    assert [event.status for event in told(on_gpu, EndEvent)] == ["done"]
    assert_same(on_gpu, on_cpu)


@pytest.fixture
def mlp(blobs: Any) -> Any:
    """The task `blobs` with two layers and without validation: few kernels to compile in each of many runs."""

    class Mlp(blobs):  # type: ignore[misc]
        def data(self) -> DataSplits:
            return DataSplits(train=super().data().train)

        def build(self) -> None:
            self.net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3))
            self.optimizer = self.optimizer_for(self.net)

    return Mlp


def run(task: Any, config: Any, paths: RunPaths, number: int = 1) -> EndEvent:
    """The end of a run of three steps on the device that was chosen."""
    attempt(task, config(**BRIEF), paths, number=number)
    return told(paths, EndEvent)[-1]


def sites(mlp: Any, config: Any, paths: RunPaths, compute_on: Choose) -> list[str]:
    """The sites of the device's code that call the driver in a run, each once."""
    recorder = Recorder(executes=False)
    compute_on(CudaDevice(0, recorder))
    recorder.calls.clear()
    assert run(mlp, config, paths).status == "done"
    return list(dict.fromkeys(site for _, site in recorder.calls))


def fails_well(site: str, status: int, mlp: Any, config: Any, paths: RunPaths, compute_on: Choose) -> None:
    """A run whose call at `site` fails ends with one sentence, keeps its checkpoints, and can be resumed."""
    recorder = Recorder(executes=False)
    compute_on(CudaDevice(0, recorder))
    recorder.fail(site, status)
    end = run(mlp, config, paths)
    assert (end.status, end.exit_code, end.traceback) == ("failed", 1, None), (site, status, end)
    reason = str(end.reason)
    assert FAILURES[status] in reason.splitlines()[0], (site, reason)
    assert status == 2 or MESSAGES[status] in reason, (site, reason)
    for step in steps_in(paths.checkpoints):
        read_checkpoint(paths.checkpoints / f"step-{step}")
    compute_on(CudaDevice(0, Recorder(executes=False)))
    assert (run(mlp, config, paths, number=2).status, end.step <= 3) == ("done", True), (site, status)


def test_an_error_of_the_driver_is_a_sentence_and_the_run_goes_on(
    mlp: Any, config: Any, tmp_path: Path, compute_on: Choose
) -> None:
    found = sites(mlp, config, create_run(tmp_path, "clean"), compute_on)
    for status, site in ((2, found[len(found) // 2]), (700, found[-1])):
        fails_well(site, status, mlp, config, create_run(tmp_path, f"failing-{status}"), compute_on)


@pytest.mark.full
@pytest.mark.parametrize("status", FAILURES)
def test_no_call_of_the_driver_loses_anything(
    status: int, mlp: Any, config: Any, tmp_path: Path, compute_on: Choose
) -> None:
    """Each line that calls the driver fails with each error, and each way to such a line with one of them."""
    found = sites(mlp, config, create_run(tmp_path, "clean"), compute_on)
    lines = {site.partition(" ")[0]: site for site in reversed(found)}
    ways = found[list(FAILURES).index(status) :: len(FAILURES)]
    for number, site in enumerate(dict.fromkeys([*lines.values(), *ways])):
        fails_well(site, status, mlp, config, create_run(tmp_path, f"failing-{number}"), compute_on)


def test_fast_numerics_have_one_device_for_each_gpu(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINER_CUDA", "emulated")
    settings = {"device": "cuda", "numerics": {"class": "fast"}}
    first, second = (device_for(config(**settings)) for _ in range(2))
    assert isinstance(first, CudaDevice) and first is second
