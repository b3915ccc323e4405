"""Stochastic gradient descent with momentum (Polyak 1964; Nesterov 1983), in PyTorch's formulation."""

from __future__ import annotations

from typing import Unpack

from trainer import TrainerError
from trainer.engine import Tensor
from trainer.learner.optimizers.optimizer import Common, Moments, Optimizer, Settings, Target
from trainer.learner.schedules import LearningRate


class SGD(Optimizer):
    """g ← g + weight_decay·p;  b ← momentum·b + g;  p ← p − learning_rate·(g + momentum·b if nesterov else b)."""

    def __init__(
        self,
        target: Target,
        learning_rate: float | LearningRate,
        *,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        **common: Unpack[Common],
    ) -> None:
        if nesterov and momentum <= 0:
            raise TrainerError("nesterov needs a momentum above 0", found=momentum)
        self.momentum, self.nesterov = momentum, nesterov
        self.moment_names = ("momentum",) if momentum else ()
        super().__init__(target, learning_rate, weight_decay=weight_decay, **common)

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Moments, settings: Settings
    ) -> tuple[Tensor, dict[str, Tensor]]:
        updated = {}
        if settings.weight_decay:
            gradient = gradient + parameter * settings.weight_decay
        if self.momentum:
            velocity = updated["momentum"] = moments["momentum"] * self.momentum + gradient
            gradient = gradient + velocity * self.momentum if self.nesterov else velocity
        return parameter - gradient * settings.learning_rate.astype(parameter.dtype), updated
