"""`trainer.run`: training in the caller's process, what it returns, shows and leaves behind, and Ctrl-C."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import trainer
from trainer.cli.live import LiveTable, RunTable, live_table
from trainer.rundir import (
    EndEvent,
    Event,
    MetricEvent,
    PhaseEvent,
    Record,
    ResumedEvent,
    Run,
    RunEvent,
    WarningEvent,
    read_lock,
)

TASK = """\
import numpy as np

from trainer import engine
from trainer.datasets import ArrayDataset, Loader
from trainer.engine import nn
from trainer.learner import DataSplits, Task
from trainer.metrics import Mean

SLOPE = 2.0


class Line(Task):
    def data(self):
        x = np.linspace(-1, 1, 16, dtype=np.float32)[:, None]
        data = ArrayDataset({"x": x, "y": SLOPE * x})
        return DataSplits(train=Loader(data, 4), valid=Loader(data, 16))

    def build(self):
        self.net = nn.Linear(1, 1)
        self.optimizer = self.optimizer_for(self.net)

    def train_step(self, batch):
        metrics = self.valid_step(batch)
        self.optimizer.minimize(metrics["loss"].value)
        return metrics

    def valid_step(self, batch):
        return {"loss": Mean(engine.mean((self.net(batch["x"]) - batch["y"]) ** 2))}
"""


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A config as data, for a task in the working directory."""
    (tmp_path / "task.py").write_text(TASK)
    monkeypatch.chdir(tmp_path)
    return {
        "task": "./task.py:Line", "device": "reference", "optimizer": {"name": "sgd", "learning_rate": 0.5},
        "train": {"epochs": 2, "log_every_steps": 2},
    }  # fmt: skip


def test_a_run_from_python_leaves_what_the_command_leaves(line: dict[str, Any], capsys: Any) -> None:
    result = trainer.run(line, name="first", seed=3)
    assert (result.status, result.step) == ("done", 8) and result.metrics["valid/loss"] < 0.1
    assert list(result.history["train/loss"].step) == [1, 2, 4, 6, 8]
    assert result.task.net.weight.shape == (1, 1)  # type: ignore[attr-defined]
    lines = capsys.readouterr().out.splitlines()
    assert "run=first" in lines[0] and "end=done" in lines[-1]
    run = trainer.open_run("runs/first")
    assert run.status == "done" and "seed: 3" in run.config_text and "# <keywords>" in run.config_text
    assert (run.paths.checkpoints / "step-8").is_dir() and run.paths.environment(1).is_file()
    assert read_lock(run.paths) is None
    assert repr(result).startswith("<done at step 8 in runs/first, train/loss ")
    again = trainer.run(resume="first", **{"train.epochs": 3}, show=False)
    assert again.step == 12 and again.run is not None and again.run.attempt == 2
    assert list(again.history["train/loss"].step) == [1, 2, 4, 6, 8, 10, 12]
    assert capsys.readouterr().out == ""


def test_a_run_goes_on_from_a_checkpoint_that_is_named(line: dict[str, Any]) -> None:
    first = trainer.run(line, name="first", show=False, checkpoint={"keep_last": 9})
    assert first.run is not None
    checkpoints = first.run.paths.checkpoints
    for word in ("first/checkpoints/step-4", str(checkpoints / "step-4")):
        again = trainer.run(resume=word, show=False)
        assert again.run is not None and [event.from_step for event in resumed(again.run)][-1] == 4
        assert again.metrics == first.metrics
    with pytest.raises(trainer.TrainerError, match="no such checkpoint") as raised:
        trainer.run(resume="first/checkpoints/step-5", show=False)
    assert "step-4, step-8" in str(raised.value)
    (checkpoints / "step-4" / "manifest.json").unlink()
    with pytest.raises(trainer.TrainerError, match="no checkpoint to resume from"):
        trainer.run(resume="first/checkpoints/step-4", show=False)


def test_a_run_that_went_back_to_an_earlier_checkpoint_goes_on_from_there(line: dict[str, Any]) -> None:
    trainer.run(line, name="first", show=False, checkpoint={"keep_last": 9})
    trainer.run(resume="first/checkpoints/step-4", show=False, train={"epochs": 1})  # nothing is left to do
    run = trainer.run(resume="first", show=False, train={"epochs": 2}).run
    assert run is not None and [event.from_step for event in resumed(run)] == [4, 4]


def test_auto_starts_a_run_and_then_goes_on_from_its_newest_checkpoint_that_is_whole(line: dict[str, Any]) -> None:
    nameless = {key: value for key, value in line.items() if key != "name"}
    with pytest.raises(trainer.TrainerError, match="no name is set"):
        trainer.run(nameless, resume="auto", show=False)
    begun = trainer.run(line, resume="auto", name="first", show=False, checkpoint={"keep_last": 9}).run
    assert begun is not None and begun.attempt == 1 and not resumed(begun)
    newest = begun.paths.checkpoints / "step-8" / "model.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1] + b"\xff")
    again = trainer.run(line, resume="auto", name="first", show=False, checkpoint={"keep_last": 9})
    assert again.step == 8 and again.run is not None and again.run.attempt == 2
    assert [event.from_step for event in resumed(again.run)] == [4]
    warnings = [record.event for record in again.run.events() if isinstance(record.event, WarningEvent)]
    assert any("model.safetensors" in warning.message for warning in warnings)


@pytest.mark.parametrize("lost", ["step-*", "step-*/manifest.json"])
def test_a_run_whose_checkpoints_are_gone_is_an_error_and_no_start_from_scratch(
    line: dict[str, Any], lost: str
) -> None:
    begun = trainer.run(line, name="first", show=False).run
    assert begun is not None
    for path in begun.paths.checkpoints.glob(lost):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(trainer.TrainerError, match="no checkpoint to resume from"):
        trainer.run(line, resume="auto", name="first", show=False)


def resumed(run: Run) -> list[ResumedEvent]:
    return [record.event for record in run.events() if isinstance(record.event, ResumedEvent)]


def test_a_file_a_config_object_and_data_are_all_configs(line: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "task: ./task.py:Line\ndevice: reference\noptimizer: {name: sgd, learning_rate: 0.5}\ntrain: {epochs: 1}\n"
    )
    from trainer.configs import load

    losses = [
        trainer.run(config, keep=False, show=False, train={"epochs": 2, "log_every_steps": 2}).metrics
        for config in (line, tmp_path / "config.yaml", "config.yaml", load("config.yaml").config)
    ]
    assert losses[0] == losses[1] == losses[2] == losses[3]


def test_with_keep_false_nothing_is_written(line: dict[str, Any], tmp_path: Path) -> None:
    result = trainer.run(line, keep=False, show=False)
    assert result.run is None and list(result.history["valid/loss"].step) == [4, 8]
    assert {path.name for path in tmp_path.iterdir()} <= {"task.py", "__pycache__"}


def test_a_mistake_is_a_trainer_error_and_leaves_no_run(line: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(trainer.TrainerError, match=r"<keywords> train.epoch: unknown key, did you mean 'epochs'\?"):
        trainer.run(line, train={"epoch": 3})
    with pytest.raises(
        trainer.TrainerError, match=r"<config> optimizer.betas: expected a value that YAML can represent,"
    ):
        trainer.run({**line, "optimizer": {"name": "adam", "learning_rate": 0.1, "betas": object()}})
    for wrong in ({}, {"config": line, "resume": "runs/line"}):
        with pytest.raises(trainer.TrainerError, match="nothing to train"):
            trainer.run(**wrong)
    assert not (tmp_path / "runs").exists()


def test_what_a_training_died_of_is_raised_and_written(line: dict[str, Any]) -> None:
    with pytest.raises(trainer.TrainerError, match="not finite"):
        trainer.run(line, show=False, optimizer={"learning_rate": 1e6})
    end = trainer.open_run("runs/line").end
    assert end is not None and (end.status, end.exit_code) == ("failed", 1)


def test_the_tasks_file_is_read_again_when_it_has_changed(line: dict[str, Any], tmp_path: Path) -> None:
    before = trainer.run(line, keep=False, show=False, train={"epochs": 20}).task
    (tmp_path / "task.py").write_text(TASK.replace("SLOPE = 2.0", "SLOPE = -300.0"))
    after = trainer.run(line, keep=False, show=False, train={"epochs": 20}).task
    weights = [task.net.weight.item() for task in (before, after)]  # type: ignore[attr-defined]
    assert weights == pytest.approx([2.0, -300.0], rel=0.05)


def interrupting_hook(times: int, number: signal.Signals = signal.SIGINT) -> Any:
    from trainer.learner import Hook

    class Interrupts(Hook):
        is_inline = True

        def after_step(self, training: Any, moment: Any) -> None:
            if moment.step == 3:
                for _ in range(times):
                    signal.raise_signal(number)

    return Interrupts()


def test_an_interrupt_saves_and_returns_and_the_handler_is_as_before(line: dict[str, Any]) -> None:
    before = signal.getsignal(signal.SIGINT)
    result = trainer.run(line, show=False, hooks=[interrupting_hook(2)])  # at once after the first: the same wish
    assert (result.status, result.step) == ("interrupted", 3)
    assert result.run is not None and (result.run.paths.checkpoints / "step-3").is_dir()
    assert signal.getsignal(signal.SIGINT) is before
    assert trainer.run(resume=result.run.paths.root, show=False).step == 8


def test_a_script_that_is_terminated_has_saved_unless_it_handles_that_itself(line: dict[str, Any]) -> None:
    """As a cluster does to `python train.py`."""
    with pytest.raises(SystemExit) as ended:
        trainer.run(line, show=False, name="night", hooks=[interrupting_hook(1, signal.SIGTERM)])
    assert ended.value.code == 143 and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    run = trainer.open_run("runs/night")
    assert (run.status, run.end and run.end.exit_code) == ("interrupted", 143)
    assert (run.paths.checkpoints / "step-3").is_dir()
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        assert trainer.run(line, show=False, hooks=[interrupting_hook(1, signal.SIGTERM)]).status == "done"
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]


def test_a_second_interrupt_ends_it_at_once(line: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer.cli.python.SAME_WISH_SECONDS", -1.0)
    with pytest.raises(KeyboardInterrupt):
        trainer.run(line, show=False, hooks=[interrupting_hook(2)])
    run = trainer.open_run("runs/line")
    assert run.status == "interrupted" and run.end is not None and run.end.exit_code == 130
    assert read_lock(run.paths) is None


def record(event: Event) -> Record:
    return Record(event, 0.0, 0.0, 1)


def table_of(*events: Event) -> RunTable:
    table = RunTable()
    for event in events:
        table.add(record(event))
    return table


def test_the_table_has_a_row_for_each_validation_and_the_latest_training_metrics() -> None:
    table = table_of(
        RunEvent("a<b", "t", "1", 1, "h", "cpu"),
        MetricEvent(1, 0.1, "train", {"loss": 3.0, "learning_rate": 0.1}),
        MetricEvent(10, 1.0, "train", {"loss": 2.0}),
        MetricEvent(10, 1.0, "valid", {"loss": 2.5}),
        MetricEvent(12, 1.2, "train", {"loss": 1.5}),
        MetricEvent(15, 1.5, "train", {"loss": 1.25}),
        PhaseEvent("train", "progress", 15, 20, "step", "epoch 2", 4.0),
        WarningEvent("look <here>"),
    )
    assert table.cells() == [
        ["step", "epoch", "train/loss", "valid/loss"], ["10", "1", "2", "2.5"], ["15", "1.5", "1.25", ""],
    ]  # fmt: skip
    assert repr(table).splitlines()[0] == "a<b: train 15 of 20 step epoch 2 4 s left"
    shown = table._repr_html_()
    assert "<td>2.5</td>" in shown and "a&lt;b" in shown and "look &lt;here&gt;" in shown
    table.add(record(ResumedEvent(10)))
    table.add(record(MetricEvent(20, 2.0, "test", {"loss": 1.0}, final=True)))
    table.add(record(EndEvent("done", 0, 20)))
    assert list(table.rows) == [10] and table.status == "done at step 20" and "test/loss 1" in repr(table)


def test_a_notebook_gets_one_display_that_is_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    assert live_table() is None  # no notebook
    shown: list[Any] = []
    handle = types.SimpleNamespace(update=shown.append)
    shell = types.SimpleNamespace()
    module = types.ModuleType("IPython.display")
    module.display = lambda table, display_id: handle  # type: ignore[attr-defined]
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    assert live_table() is None  # IPython on a terminal
    shell.kernel = object()
    assert isinstance(live_table(), LiveTable)
    now = [0.0]
    table = LiveTable(module.display, clock=lambda: now[0])  # type: ignore[attr-defined]
    for moment in (0.1, 0.6, 0.7):
        now[0] = moment
        table(record(MetricEvent(1, 0.1, "train", {"loss": 1.0})))
    assert shown == [table.table]
    table(record(EndEvent("done", 0)))
    assert shown == [table.table] * 2


@pytest.mark.parametrize(("name", "room"), [("run", "cli"), ("open_run", "rundir")])
def test_what_the_package_hands_on_is_imported_when_it_is_used(name: str, room: str, repository: Path) -> None:
    heavy = {"numpy", "llvmlite", "textual", "trainer.engine", "trainer.learner"}
    code = (
        f"import sys, trainer; assert not any(m.startswith('trainer.') for m in sys.modules); trainer.{name}\n"
        f"assert 'trainer.{room}' in sys.modules; print(sorted(set(sys.modules) & {heavy!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=repository)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
