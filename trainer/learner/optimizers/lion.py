"""Lion: the sign of the momentum (Chen et al. 2023, algorithm 2)."""

from __future__ import annotations

from typing import Unpack

from trainer import engine
from trainer.engine import Tensor
from trainer.learner.optimizers.optimizer import Common, Moments, Optimizer, Settings, Target
from trainer.learner.schedules import LearningRate


class Lion(Optimizer):
    """p ← p − learning_rate·(sign(β₁m + (1 − β₁)g) + weight_decay·p);  m ← β₂m + (1 − β₂)g."""

    moment_names = ("exp_avg",)

    def __init__(
        self,
        target: Target,
        learning_rate: float | LearningRate = 1e-4,
        *,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        **common: Unpack[Common],
    ) -> None:
        self.betas = (betas[0], betas[1])
        super().__init__(target, learning_rate, weight_decay=weight_decay, **common)

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Moments, settings: Settings
    ) -> tuple[Tensor, dict[str, Tensor]]:
        mean = moments["exp_avg"]
        direction = engine.sign(mean * self.betas[0] + gradient * (1 - self.betas[0]))
        if settings.weight_decay:
            direction = direction + parameter * settings.weight_decay
        updated = mean * self.betas[1] + gradient * (1 - self.betas[1])
        return parameter - direction * settings.learning_rate.astype(parameter.dtype), {"exp_avg": updated}
