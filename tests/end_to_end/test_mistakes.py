"""Likely mistakes from the real command: each message says where, and what to change; what they leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainer.cli.projects import write_project
from trainer.rundir import open_run

pytestmark = pytest.mark.full

TRAINER = [sys.executable, "-P", "-m", "trainer.cli"]
SHORT = ("train.epochs=null", "train.steps=2", "schedule={name: constant}", "device=reference", "data.workers=0",
         "options.width=2", "data.reader.fractions={valid: 0.01, test: 0.98}", "data.batch_size=4")  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_project(tmp_path / "mine")
    return tmp_path / "mine"


def run(folder: Path, repository: Path, *words: str, verb: str = "run") -> tuple[int, str]:
    """The exit code and standard error of `trainer run`, or of another verb."""
    done = subprocess.run(
        [*TRAINER, verb, *words], cwd=folder, env={**os.environ, "PYTHONPATH": str(repository)},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stderr


def changed(project: Path, line: str, other: str) -> int:
    """Replace a line of the project's task; its number."""
    lines = (project / "task.py").read_text(encoding="utf-8").splitlines()
    (number,) = (number for number, text in enumerate(lines, 1) if text.strip() == line)
    lines[number - 1] = lines[number - 1].replace(line, other)
    (project / "task.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return number


STEP = 'logits = self.network(floats(batch["image"]))'


@pytest.mark.parametrize(
    ("line", "other", "error", "function"),
    [
        (STEP, 'logits = self.network(floats(batch["imge"]))', "KeyError: 'imge'", "measure"),
        ("nn.Flatten(),", "nn.Flattn(),", "AttributeError: module 'trainer.engine.nn' has no attribute", "build"),
        ("splits = self.read_splits()", "splits = self.read_splits()['trian']", "KeyError: 'trian'", "data"),
        ("from .options import Options", "from .option import Options", "ModuleNotFoundError: No module", "<module>"),
        (STEP, 'logits = self.network(floats(batch["label"]))', "got a tensor of another shape", "measure"),
    ],
)  # fmt: skip
def test_an_error_in_the_users_task_is_shown_with_its_lines_and_leaves_no_run(
    project: Path, repository: Path, line: str, other: str, error: str, function: str
) -> None:
    number = changed(project, line, other)
    code, said = run(project, repository, "config.yaml", *SHORT)
    assert code == 2 and said.startswith("error: ") and error in said
    assert f"  {project / 'task.py'}:{number} in {function}\n    {other}\n" in said
    assert "Traceback" not in said and f"{repository / 'trainer'}/" not in said
    assert not list((project / "runs").glob("*"))


def test_a_syntax_error_is_shown_with_its_line(project: Path, repository: Path) -> None:
    number = changed(project, "return DataSplits(**made)", "return return DataSplits(**made)")
    code, said = run(project, repository, "config.yaml", *SHORT)
    assert (
        code == 2
        and f"{project / 'task.py'}:{number}\n    return return DataSplits(**made)\n" in said
        and "SyntaxError: " in said
    )


@pytest.mark.parametrize("verb", ["profile", "autotune"])
def test_other_verbs_show_the_users_lines_too(project: Path, repository: Path, verb: str) -> None:
    number = changed(project, "nn.Flatten(),", "nn.Flattn(),")
    code, said = run(project, repository, "config.yaml", verb=verb)
    assert code == 2 and "Traceback" not in said
    assert f"  {project / 'task.py'}:{number} in build\n    nn.Flattn(),\n" in said


def test_debug_shows_the_traceback_of_an_error_in_the_users_task(project: Path, repository: Path) -> None:
    changed(project, "nn.Flatten(),", "nn.Flattn(),")
    code, said = run(project, repository, "config.yaml", *SHORT, "--debug")
    assert code == 2 and "Traceback (most recent call last)" in said


def test_an_error_in_the_users_task_after_a_step_keeps_the_run(project: Path, repository: Path) -> None:
    line = 'images, labels = batch["image"].numpy(), batch["label"].numpy()'
    changed(project, line, "raise RuntimeError('no pictures today')")
    code, said = run(project, repository, "config.yaml", *SHORT, "validate.every_steps=1")
    assert code == 2 and "RuntimeError: no pictures today" in said and "in samples" in said
    end = open_run(project / "runs" / "classifier").end
    assert end is not None and (end.exit_code, end.traceback) == (2, "traceback-1.txt")


def test_a_failure_keeps_its_run_with_the_traceback(project: Path, repository: Path) -> None:
    code, said = run(project, repository, "config.yaml", *SHORT, "optimizer.learning_rate=1e6", "train.steps=40")
    assert code == 1 and "is not finite" in said
    assert (project / "runs" / "classifier" / "events.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("digits", "data.root=dta"),
         "<cli> data.root: no such data folder: {folder}/dta\n  found:    in {folder}: "),
        (("wrong.yaml",), "wrong.yaml:3:9 data.root: no such data folder: {folder}/elsewhere"),
        (("tab.yaml",), "tab.yaml:3:1: not YAML: found a tab; indent lines with spaces"),
        (("later_tab.yaml",), "later_tab.yaml:4:3: not YAML: found a tab; indent lines with spaces"),
        (("own_warmup.yaml", "train.steps=2", "train.epochs=null"),
         "<cli> train.steps: schedule.warmup_steps at own_warmup.yaml:2:27"),
        (("config.yaml", "train.epochs=0"), "<cli> train.epochs: expected a number above 0, found 0"),
    ],
)  # fmt: skip
def test_a_message_names_the_place_of_the_mistake(
    project: Path, repository: Path, words: tuple[str, ...], told: str
) -> None:
    (project / "wrong.yaml").write_text("extends: digits\ndata:\n  root: elsewhere\n")
    (project / "own_warmup.yaml").write_text("extends: digits\nschedule: {warmup_steps:  100}\n")
    (project / "tab.yaml").write_text("extends: digits\ntrain:\n\tepochs: 3\n")
    (project / "later_tab.yaml").write_text("extends: digits\ntrain:\n  epochs: 3\n  \tsteps: 4\n")
    code, said = run(project, repository, *words)
    assert code == 2 and told.format(folder=project) in said
    assert not list((project / "runs").glob("*"))
