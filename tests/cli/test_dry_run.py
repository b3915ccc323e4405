"""`trainer run --dry-run`: what it prints, its exit codes, and that it leaves nothing."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.cli.conftest import Commands, ended, eventually
from trainer.cli import main
from trainer.cli.dry_run import lines
from trainer.learner.dry_run import DryRun

OWN_TASK = """\
from trainer import TrainerError
from trainer.recipes.digits.options import Options
from trainer.recipes.digits.task import Digits

class Own(Digits):
    def __init__(self, config, options):
        super().__init__(config, Options())

    def train_step(self, batch):
        if self.config.train.steps == 4:
            raise TrainerError("the batch has no boxes")
        return 1 / 0
"""


@pytest.fixture
def left(commands: Commands, tmp_path: Path) -> Path:
    """The folder of the commands' temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    commands.environment["TMPDIR"] = str(folder)
    return folder


@pytest.mark.full
def test_a_recipe_is_told_as_json_and_leaves_nothing(commands: Commands, left: Path) -> None:
    before = set(commands.folder.rglob("*"))
    done = commands.finish("run", "digits", "--dry-run", "--json", "train.steps=300", "data.valid_batch_size=500")
    assert done.returncode == 0, done.stderr
    found = DryRun(**json.loads(done.stdout))
    assert found.batch["image"] == [[64, 1, 28, 28], "uint8"] and found.parameters == {"network": 103_850}
    assert (found.steps_per_epoch, found.total_steps, found.validations) == (125, 300, 3)
    assert 1e8 < found.peak_memory < 2e9 and found.checkpoint_bytes > 3 * 4 * 103_850
    assert 0 < found.step_seconds < found.epoch_seconds < found.total_seconds
    assert not list(left.iterdir()) and set(commands.folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["digits", "data.batch_sice=3"], 2, "did you mean 'batch_size'?"),
        pytest.param(["digits", "data.root=nowhere"], 2, "nowhere", marks=pytest.mark.full),
        (["own.yaml", "train.steps=3"], 1, "ZeroDivisionError"),
        (["own.yaml", "train.steps=4"], 2, "error: the batch has no boxes"),
    ],
)
def test_the_exit_code_says_whose_mistake_it_is(
    words: list[str], code: int, message: str, commands: Commands, left: Path
) -> None:
    (commands.folder / "own.yaml").write_text("extends: digits\ntask: ./own.py:Own\noptions: null\n")
    (commands.folder / "own.py").write_text(OWN_TASK)
    before = set(commands.folder.rglob("*"))
    done = commands.finish("run", *words, "--dry-run")
    assert done.returncode == code and message in done.stderr and not done.stdout
    assert not list(left.iterdir())
    assert {path for path in set(commands.folder.rglob("*")) - before if "__pycache__" not in str(path)} == set()


@pytest.mark.full
@pytest.mark.parametrize("begun", [1, 2], ids=["rehearsing", "measuring"])
def test_a_signal_ends_it_and_leaves_nothing(begun: int, commands: Commands, left: Path) -> None:
    process = commands.start("run", "digits", "--dry-run")
    children = set[int]()

    def has_begun() -> bool:
        children.update(child.pid for child in psutil.Process(process.pid).children())
        return len(children) == begun

    eventually(has_begun)
    process.send_signal(signal.SIGTERM)
    assert ended(process).returncode == 143
    assert not list(left.iterdir())


@pytest.mark.parametrize("words", [["--detach"], ["--name", "a"], ["--run-dir", "a"], ["--in-process"]])
def test_what_is_of_runs_only_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "digits", "--dry-run", *words]) == 2
    assert f"error: --dry-run creates no run\n  found:    {words[0]}" in capsys.readouterr().err


def test_the_table_has_each_figure_in_a_line() -> None:
    found = DryRun(
        batch={"image": ((8, 3, 256, 256), "uint8"), "weight": ((8,), "float32")}, parameters={"network": 3_238_506},
        training_items=100,
        steps_per_epoch=26, total_steps=2600, timed_steps=11, first_step_seconds=0.9, step_seconds=0.4613,
        data_wait=0.03,
        validations=5, validation_seconds=8.6, checkpoint_bytes=51_900_000, checkpoint_seconds=0.2,
        peak_memory=1_518_000_000, cache_memory=335_800_000, data_processes=0, data_memory=0,
        killed_data_processes=0, first_epoch_seconds=20.0,
        epoch_seconds=12.4, total_seconds=1240.0,
    )  # fmt: skip
    assert lines(found) == [
        "batch       image uint8 [8, 3, 256, 256], weight float32 [8]",
        "parameters  3,238,506 (network 3,238,506)",
        "peak memory 1.52 GB, 335.8 MB of it decoded items",
        "step        461.3 ms, the mean of 11; 3% of it waiting for data",
        "validation  8.6 s",
        "checkpoint  51.9 MB, written in 200.0 ms and read back",
        "epoch       12.4 s of 26 steps and their share of the validations; the first 20.0 s",
        "total       20.7 minutes at most: 2,600 steps and 5 validations",
    ]
    processes = replace(found, data_processes=2, data_memory=400_000_000, killed_data_processes=1)
    assert lines(processes)[2].endswith("335.8 MB of decoded items; 1 was killed and replaced, as when memory runs out")
