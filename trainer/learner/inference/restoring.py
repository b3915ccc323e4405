"""Restores a task with the modules and weights of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.learner.checkpoints import Checkpoint, read_group, restore
from trainer.learner.plan import Plan
from trainer.learner.task import Task, model_states, parts_of, take_facts
from trainer.learner.weights.files import selects_averages

if TYPE_CHECKING:
    from trainer.configs import RunConfig


def uses_averages(config: RunConfig) -> bool:
    """Whether a model of this config has averaged weights; see `selects_averages`."""
    return selects_averages(config.model_dump(mode="json", include={"train": {"ema"}, "checkpoint": {"best"}}))


def built(task: Task, state: Mapping[str, Any]) -> Task:
    """Builds the task's modules as in the training that saved `state`, and returns the task."""
    take_facts(task, state["facts"])
    task.plan = Plan(int(state["steps_per_epoch"]), int(state["total_steps"]))
    task.build()
    return task


def load_weights(task: Task, folder: Path, *, is_averaged: bool) -> None:
    """Loads the weights of a checkpoint into the task's modules.

    Raises:
        TrainerError: they are damaged, missing or belong to another model.
    """
    stem = "ema" if is_averaged else "model"
    arrays = read_group(folder, stem)
    restore(Checkpoint({stem: arrays}, {}), {stem: model_states(parts_of(task))}, where=str(folder))
