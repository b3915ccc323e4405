"""Optimisers, and the table from the names of the config to their classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer import TrainerError
from trainer.learner.optimizers.adam import Adam, AdamW
from trainer.learner.optimizers.optimizer import Optimizer, Target, clipped
from trainer.learner.optimizers.sgd import SGD
from trainer.learner.schedules import LearningRate

__all__ = ["OPTIMIZERS", "SGD", "Adam", "AdamW", "Optimizer", "clipped", "learning_rates", "optimizer_from"]

OPTIMIZERS: dict[str, tuple[type[Optimizer], tuple[str, ...]]] = {
    "sgd": (SGD, ("momentum", "nesterov", "weight_decay")),
    "adam": (Adam, ("betas", "epsilon", "weight_decay")),
    "adamw": (AdamW, ("betas", "epsilon", "weight_decay")),
}
"""By name in the config: the class, and the settings that it takes from its section."""


def optimizer_from(
    config: Any, target: Target, learning_rate: LearningRate, *, gradient_clip_norm: float | None = None
) -> Optimizer:
    """The optimiser that an `optimizer:` section describes, on `target`."""
    if config.name not in OPTIMIZERS:
        raise TrainerError("unknown optimizer", found=repr(config.name), expected=", ".join(OPTIMIZERS))
    kind, settings = OPTIMIZERS[config.name]
    values: dict[str, Any] = {name: getattr(config, name) for name in settings}
    return kind(target, learning_rate, gradient_clip_norm=gradient_clip_norm, **values)


def learning_rates(optimizers: Mapping[str, Optimizer], step: int) -> dict[str, float]:
    """The learning rates that step number `step` (from 1) used, for a metric event: by name where there are several."""
    used = {name: optimizer.learning_rate.at(max(0, step - 1)) for name, optimizer in optimizers.items()}
    return {"learning_rate" if len(used) == 1 else f"learning_rate/{name}": rate for name, rate in used.items()}
