"""A task with the modules and weights of a checkpoint, made from what the checkpoint says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.learner.checkpoints import Checkpoint, read_group, restore
from trainer.learner.measuring import AVERAGED
from trainer.learner.task import Plan, Task, model_states, parts_of, take_facts

if TYPE_CHECKING:
    from trainer.configs import RunConfig


def uses_averages(config: RunConfig) -> bool:
    """Whether a model of this config's runs has the averaged weights: where the metric that chooses is of these, or
    where there is none."""
    if config.train.ema is None:
        return False
    best = config.checkpoint.best
    return best is None or best.metric.partition("/")[2].startswith(AVERAGED)


def built(task: Task, state: Mapping[str, Any]) -> Task:
    """The task with its modules, as the training that the state is of has built it."""
    take_facts(task, state["facts"])
    task.plan = Plan(int(state["steps_per_epoch"]), int(state["total_steps"]))
    task.build()
    return task


def load_weights(task: Task, folder: Path, *, is_averaged: bool) -> None:
    """Give the task's modules the weights of a checkpoint.

    Raises:
        TrainerError: they are damaged, missing or of another model.
    """
    stem = "ema" if is_averaged else "model"
    arrays = read_group(folder, stem)
    restore(Checkpoint({stem: arrays}, {}), {stem: model_states(parts_of(task))}, where=str(folder))
