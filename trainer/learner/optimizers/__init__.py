"""Optimizers, one file each, imported when a config names them: their sections in `trainer.configs` name the files."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trainer import TrainerError
from trainer.configs.custom_class import own_subclass
from trainer.learner.optimizers.groups import Group
from trainer.learner.optimizers.optimizer import Optimizer, Target
from trainer.learner.schedules import learning_rate_for

if TYPE_CHECKING:
    from trainer.configs import OptimizerConfig, ScheduleConfig
    from trainer.learner.plan import Plan

__all__ = ["Group", "Optimizer", "Target", "learning_rates", "optimizer_from"]


def optimizer_from(
    section: OptimizerConfig, target: Target, schedule: ScheduleConfig, plan: Plan, **clipping: Any
) -> Optimizer:
    """Creates the optimizer of an `optimizer:` section for `target`; `schedule` is the run's default."""
    schedule = section.schedule or schedule
    groups = [
        Group(
            group.match,
            None
            if group.learning_rate is None and group.schedule is None
            else learning_rate_for(group.learning_rate or section.learning_rate, group.schedule or schedule, plan),
            group.weight_decay,
            group.frozen,
            group.unfreeze_at_step or group.unfreeze_at_epoch * plan.steps_per_epoch,
        )
        for group in section.groups
    ]
    kind = _class_of(section)
    rate = learning_rate_for(section.learning_rate, schedule, plan)
    common = {"groups": groups, "decay_norms_and_biases": section.decay_norms_and_biases, **clipping}
    try:
        return kind(target, rate, **section.settings(), **common)
    except TypeError as error:
        if not section.is_own:
            raise
        raise TrainerError(
            f"{section.name} can't be created", found=str(error), expected="options that it supports"
        ) from error


def _class_of(section: OptimizerConfig) -> type[Optimizer]:
    if section.is_own:
        return own_subclass(section.name, Optimizer, "trainer.learner.Optimizer")
    module, _, name = section.code.partition(":")
    kind: type[Optimizer] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    return kind


def learning_rates(optimizers: Mapping[str, Optimizer], step: int) -> dict[str, float]:
    """The learning rates of step number `step` (from 1), for a metric event; by name if there are several."""
    used = {
        "/".join(filter(None, ("learning_rate", name if len(optimizers) > 1 else "", group))): rate.at(max(0, step - 1))
        for name, optimizer in optimizers.items()
        for group, rate in optimizer.learning_rates().items()
    }
    return used
