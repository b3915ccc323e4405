"""Optimisers, and the table from the names of the config to their classes."""

from __future__ import annotations

from typing import Any

from trainer import TrainerError
from trainer.learner.optimizers.adam import Adam, AdamW
from trainer.learner.optimizers.optimizer import Optimizer, Target, clipped
from trainer.learner.optimizers.sgd import SGD
from trainer.learner.schedules import LearningRate

__all__ = ["OPTIMIZERS", "SGD", "Adam", "AdamW", "Optimizer", "clipped", "optimizer_from"]

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
