"""What a task declares in its options.py against the configuration: found without the task's code."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer.configs import ConfigError, load

OPTIONS = """\
from trainer.configs import Declaration, Returns
DECLARATION = Declaration(
    optimizers=("one", "two"),
    train=Returns(("loss",)),
    valid=Returns(("loss",), {"left": ("logits", "labels"), "right": ("predicted", "target")}),
)
"""
CONFIG = """\
task: ./task.py:Mine
optimizers: {one: {name: sgd}, two: {name: sgd}}
train: {steps: 1}
"""


@pytest.fixture
def problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The problems of CONFIG with overrides, for a task whose code can't even be imported."""
    (tmp_path / "task.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.chdir(tmp_path)

    def found(*overrides: str, options: str = OPTIONS, config: str = CONFIG) -> list[str]:
        (tmp_path / "options.py").write_text(options)
        (tmp_path / "config.yaml").write_text(config)
        try:
            load("config.yaml", overrides)
        except ConfigError as error:
            return [str(problem) for problem in error.problems]
        return []

    return found


def test_what_fits_the_declaration_is_good(problems) -> None:
    assert problems("metrics.valid=[accuracy, {name: ssim, of: right}]", "metrics.train=[gradient_norm]",
                    "checkpoint.best={metric: valid/accuracy, mode: max}") == []  # fmt: skip


def test_optimizers_are_those_that_the_task_looks_up(problems) -> None:
    (line,) = problems(config=CONFIG.replace("two", "three"))
    assert line.startswith("config.yaml:2:13 optimizers: the task Mine uses other optimizers")
    assert "found:    `optimizers:` with one and three" in line and "expected: `optimizers:` with one and two" in line


def test_predictions_must_have_the_roles_of_a_metric_and_the_name_that_is_asked_for(problems) -> None:
    line, other = problems("metrics.valid=[{name: accuracy, of: right}, coco]")
    assert line.startswith(
        "<cli> metrics.valid[0]: the metric 'accuracy' can't be computed from the predictions of the task Mine"
    )
    assert "expected: predictions named right with logits or scores, labels or labels_hot" in line
    assert "found:    left (logits, labels); right (predicted, target)" in other and "choose from: accuracy, " in other


def test_two_metrics_have_two_names(problems) -> None:
    lines = problems("metrics.valid=[accuracy, accuracy, {name: ssim, as: loss}]")
    assert ["another metric already has" in lines[0], "the task's own metric already has" in lines[1], len(lines)] == [
        True,
        True,
        2,
    ]


@pytest.mark.parametrize(
    "override",
    ["checkpoint.best={metric: valid/f1, mode: max}", "early_stopping={metric: valid/f1, mode: max}",
     "train.spike={metric: train/f1}", "schedule={name: plateau, metric: valid/f1}",
     "optimizers.one.schedule={name: plateau, metric: valid/f1}"],
)  # fmt: skip
def test_what_is_waited_for_is_measured(problems, override: str) -> None:
    (line,) = problems(override)
    split = "train" if "spike" in override else "valid"
    assert f"monitors a metric that is never computed\n  found:    {split}/f1\n  expected: {split}/loss" in line
    assert f"Add f1 to metrics.{split}" in line
    assert problems(override.replace("f1", "loss")) == []


def test_nothing_is_concluded_from_what_is_wrong_itself(problems) -> None:
    lines = problems("metrics.valid=[acuracy]", "checkpoint.best={metric: valid/accuracy, mode: max}")
    assert len(lines) == 1 and "did you mean 'accuracy'?" in lines[0]


def test_a_declaration_is_one(problems) -> None:
    (line,) = problems(options="DECLARATION = {'optimizers': []}\n")
    assert line.endswith("options.py: expected a trainer.configs.Declaration as DECLARATION, found dict")


def test_a_reader_that_the_task_would_ignore_is_refused(problems) -> None:
    options = OPTIONS.replace("optimizers=", "reads=False, optimizers=")
    (line,) = problems("data.root=.", "data.reader={name: image_folder}", options=options)
    assert line.startswith("<cli> data.reader: the task Mine creates its data itself and would ignore the reader")
