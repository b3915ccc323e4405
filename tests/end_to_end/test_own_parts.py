"""A schedule, an optimizer and a hook from outside the package: a file each, named in the YAML or handed over."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainer

TRAINER = [sys.executable, "-P", "-m", "trainer.cli"]

FILES = {
    "saw.py": """\
from trainer.configs import Schedule


class Saw(Schedule):
    name: str = "saw"
    period: int = 10

    def shape(self, time, stretch, xp):
        return 1 - (time / self.period - xp.floor(time / self.period))
""",
    "signs.py": """\
from trainer import engine
from trainer.learner import Optimizer


class Signs(Optimizer):
    moment_names = ("total",)

    def __init__(self, target, learning_rate, *, share=1.0, **common):
        self.share = share
        super().__init__(target, learning_rate, **common)

    def update(self, parameter, gradient, moments, settings):
        total = moments["total"] + gradient
        step = engine.sign(total) * settings.learning_rate.astype(parameter.dtype) * self.share
        return parameter - step, {"total": total}
""",
    "diary.py": """\
from trainer.learner import Hook


class Diary(Hook):
    def __init__(self, file):
        self.file = file

    def after_validation(self, training, moment):
        with open(self.file, "a") as file:
            print(moment.step, sorted(moment.measured), file=file)
""",
    "task.py": """\
import numpy as np

from trainer import engine
from trainer.datasets import ArrayDataset, Loader
from trainer.engine import nn
from trainer.learner import DataSplits, Task
from trainer.metrics import Mean


class Slope(Task):
    def data(self):
        x = np.linspace(1, 2, 8, dtype=np.float32)[:, None]
        data = ArrayDataset({"x": x, "y": 50 * x})
        return DataSplits(train=Loader(data, 2), valid=Loader(data, 8))

    def build(self):
        self.net = nn.Linear(1, 1, bias=False)
        self.optimizer = self.optimizer_for(self.net)

    def train_step(self, batch):
        metrics = self.valid_step(batch)
        self.optimizer.minimize(metrics["loss"].value)
        return metrics

    def valid_step(self, batch):
        return {"loss": Mean(engine.mean(abs(self.net(batch["x"]) - batch["y"])))}
""",
    "config.yaml": """\
task: ./task.py:Slope
device: reference
optimizer: {name: "./signs.py:Signs", learning_rate: 0.5, options: {share: 0.25}}
schedule: {name: "./saw.py:Saw", options: {period: 4}}
hooks: [{name: "./diary.py:Diary", options: {file: diary.txt}}]
train: {epochs: 2, log_every_steps: 1}
""",
}
RATES = [0.5, 0.375, 0.25, 0.125] * 2
"""0.5 times 1, 3/4, 2/4, 1/4."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def weight_of(checkpoint: Path) -> float:
    from trainer.learner.checkpoints import read_checkpoint

    return float(read_checkpoint(checkpoint).arrays["model"]["net.weight"].values.item())


def test_parts_of_ones_own_train_by_the_command(folder: Path, repository: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    done = subprocess.run(
        [*TRAINER, "run", "config.yaml", "--plain"], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    run = trainer.open_run(folder / "runs" / "slope")
    assert list(run.metrics["train/learning_rate"].value) == RATES
    first, last = (weight_of(run.paths.checkpoints / f"step-{step}") for step in (4, 8))
    # the gradient's sign is the same all along, the slope of 50 being far away: each step goes up a quarter of the rate
    assert last - first == pytest.approx(sum(RATES[4:]) / 4, rel=1e-5)
    assert (folder / "diary.txt").read_text() == "4 ['valid/loss']\n8 ['valid/loss']\n"


def test_parts_of_ones_own_are_handed_over_in_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    from trainer.learner import Hook, Optimizer

    class Counts(Hook):
        is_inline = True
        steps = 0

        def after_step(self, training: Any, moment: Any) -> None:
            assert isinstance(training.parts.optimizers["optimizer"], Optimizer)
            self.steps += 1

    counts = Counts()
    result = trainer.run("config.yaml", hooks=[counts], show=False, keep=False, schedule={"options": {"period": 8}})
    assert counts.steps == 8 and (folder / "diary.txt").is_file()
    rates = np.asarray(result.history["train/learning_rate"].value)
    np.testing.assert_allclose(rates, 0.5 * (1 - np.arange(8) / 8))


def test_a_mistake_in_a_part_of_ones_own_is_told_with_its_place(folder: Path, repository: Path) -> None:
    for word, said in (
        ("schedule.options.period=word", "<cli> schedule.options.period: input should be a valid integer"),
        ("schedule.name=./saw.py:Sew", "<cli> schedule.name: ValueError: "),
    ):
        done = subprocess.run(
            [*TRAINER, "check", "config.yaml", word], cwd=folder, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(repository)},
        )  # fmt: skip
        assert done.returncode == 2 and done.stderr.startswith(f"error: {said}"), done.stderr


def test_a_metric_of_ones_own_is_measured_by_the_command(folder: Path, repository: Path) -> None:
    """The file is the one that docs/metrics.md shows."""
    shown = re.findall(r"```python\n(.*?)```", (repository / "docs" / "metrics.md").read_text(encoding="utf-8"), re.S)
    (near,) = (text for text in shown if "class WithinOne" in text)
    (folder / "near.py").write_text(near)
    overrides = ['metrics.valid=["accuracy", {name: "./near.py:WithinOne", as: near, options: {distance: 9}}]']
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    command = [*TRAINER, "run", "digits", "--plain", "train.steps=2", *overrides]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    metrics = trainer.open_run(folder / "runs" / "digits").metrics
    assert list(metrics["test/near"].value) == [1.0]
    assert 0 < metrics["test/accuracy"].value[0] < 1


def test_a_metric_that_can_not_be_computed_is_refused_at_its_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    config = folder / "config.yaml"
    lines = config.read_text().splitlines()
    config.write_text("\n".join([*lines, "metrics:", "  valid:", "    - name: roc_auc", "      average: micro"]) + "\n")
    with pytest.raises(trainer.TrainerError) as refused:
        trainer.run("config.yaml", show=False, keep=False)
    assert f"config.yaml:{len(lines) + 3}:7: the metric 'roc_auc' can't be computed" in str(refused.value)
    assert "predictions of Slope.valid_step\n  found:    no Predictions" in str(refused.value)
