"""The main job on the emulated GPU: it trains, is killed, and resumes from its checkpoint to the end."""

from __future__ import annotations

import os
import signal

import pytest

from tests.cli import conftest
from tests.cli.conftest import Commands, ended

SETTINGS = (
    "data.batch_size=8", "data.valid_batch_size=16", "data.reader.fractions={valid: 0.0016, test: 0.0016}",
    "train.epochs=null", "train.steps=20", "train.log_every_steps=1", "checkpoint.every_steps=6",
)  # fmt: skip
RUN = "runs/digits"


@pytest.mark.full
def test_digits_are_learned_on_the_emulated_gpu_in_spite_of_a_kill(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The losses are those of the CPU but for the order in which gradients of weights are summed."""
    monkeypatch.setattr(conftest, "PATIENCE", 900.0)  # the emulator takes half a minute where nothing else runs
    cpu = commands.finish("run", "digits", "--name", "cpu", "--plain", *SETTINGS)
    assert cpu.returncode == 0, cpu.stderr
    commands.environment["TRAINER_CUDA"] = "emulated"
    process = commands.start("run", "digits", "--name", "digits", "--plain", "device=cuda", *SETTINGS)
    commands.event("checkpoint", RUN, step=12)
    os.killpg(process.pid, signal.SIGKILL)
    ended(process)
    done = commands.finish("run", "--resume", "digits", "--plain")
    assert done.returncode == 0, done.stderr
    assert commands.event("resumed", RUN)["from_step"] == 12
    losses = []
    for run in (RUN, "runs/cpu"):
        training = [each for each in commands.events(run) if each["kind"] == "metric" and each["split"] == "train"]
        values = {event["step"]: event["values"]["loss"] for event in training}
        losses.append([values[step] for step in range(1, 21)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)
    assert commands.events(RUN)[-1]["status"] == "done"
