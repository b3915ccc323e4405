"""Stochastic gradient descent with momentum (Polyak 1964; Nesterov 1983), by PyTorch's formula."""

from __future__ import annotations

from collections.abc import Mapping

from trainer import TrainerError
from trainer.engine import State, Tensor
from trainer.engine.nn import Parameter
from trainer.learner.optimizers.optimizer import Optimizer, Target
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
        gradient_clip_norm: float | None = None,
    ) -> None:
        if nesterov and momentum <= 0:
            raise TrainerError("Nesterov's method needs a momentum", found=momentum)
        self.momentum, self.nesterov, self.weight_decay = momentum, nesterov, weight_decay
        self.moment_names = ("momentum",) if momentum else ()
        super().__init__(target, learning_rate, gradient_clip_norm=gradient_clip_norm)

    def update(
        self, parameter: Parameter, gradient: Tensor, moments: Mapping[str, State], learning_rate: Tensor, step: Tensor
    ) -> None:
        if self.weight_decay:
            gradient = gradient + parameter * self.weight_decay
        if self.momentum:
            velocity = moments["momentum"] * self.momentum + gradient
            moments["momentum"].assign(velocity)
            gradient = gradient + velocity * self.momentum if self.nesterov else velocity
        parameter.assign(parameter - gradient * learning_rate.astype(parameter.dtype))
