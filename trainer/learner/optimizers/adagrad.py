"""AdaGrad (Duchi et al. 2011), in PyTorch's formulation."""

from __future__ import annotations

from typing import Unpack

from trainer import engine
from trainer.engine import Tensor
from trainer.learner.optimizers.optimizer import Common, Moments, Optimizer, Settings, Target
from trainer.learner.schedules import LearningRate


class AdaGrad(Optimizer):
    """g ← g + weight_decay·p;  s ← s + g²;  p ← p − learning_rate / (1 + (t − 1)·decay) · g / (√s + epsilon)."""

    moment_names = ("sum",)

    def __init__(
        self,
        target: Target,
        learning_rate: float | LearningRate = 1e-2,
        *,
        learning_rate_decay: float = 0.0,
        initial_sum: float = 0.0,
        epsilon: float = 1e-10,
        weight_decay: float = 0.0,
        **common: Unpack[Common],
    ) -> None:
        self.learning_rate_decay, self.initial_sum, self.epsilon = learning_rate_decay, initial_sum, epsilon
        super().__init__(target, learning_rate, weight_decay=weight_decay, **common)

    def first_moment(self, name: str) -> float:
        return self.initial_sum

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Moments, settings: Settings
    ) -> tuple[Tensor, dict[str, Tensor]]:
        if settings.weight_decay:
            gradient = gradient + parameter * settings.weight_decay
        total = moments["sum"] + gradient * gradient
        rate = settings.learning_rate / (1 + (settings.step - 1) * self.learning_rate_decay)
        direction = gradient / (engine.sqrt(total) + self.epsilon)
        return parameter - direction * rate.astype(parameter.dtype), {"sum": total}
