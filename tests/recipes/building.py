"""Recipes' tasks for tests."""

from __future__ import annotations

from typing import Any

from trainer.configs import load
from trainer.learner import Plan
from trainer.learner.programs import set_mode


def built(recipe: str, *overrides: str) -> Any:
    """A recipe's task as a run has it when it is about to validate, its networks in inference mode."""
    loaded = load(recipe, overrides)
    task = getattr(loaded.task.import_module(), loaded.task.class_name)(loaded.config, loaded.options)
    task.data()
    task.plan = Plan(1, 10)
    task.build()
    set_mode(task, is_training=False)
    return task
