"""The facts of a task that a checkpoint keeps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from trainer.learner import Task
from trainer.learner.task import facts_of


class Predicting(Task):
    """A task whose model predicts."""

    def pipeline(self) -> Any:
        return None


def test_a_checkpoint_says_whether_its_task_predicts() -> None:
    splits: Any = SimpleNamespace(train=SimpleNamespace(dataset=SimpleNamespace(class_names=())))
    assert [facts_of(kind.__new__(kind), splits)["predicts"] for kind in (Task, Predicting)] == [False, True]
