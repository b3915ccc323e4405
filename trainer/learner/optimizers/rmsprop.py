"""RMSProp (Tieleman and Hinton 2012; centered: Graves 2013), in PyTorch's formulation."""

from __future__ import annotations

from typing import Unpack

from trainer import engine
from trainer.engine import Tensor
from trainer.learner.optimizers.optimizer import Common, Moments, Optimizer, Settings, Target
from trainer.learner.schedules import LearningRate


class RMSProp(Optimizer):
    """g ← g + weight_decay·p;  v ← αv + (1 − α)g²;  b ← momentum·b + g / (√v + epsilon);  p ← p − learning_rate·b.

    If centered, the square of the average gradient is subtracted from v under the root.
    """

    def __init__(
        self,
        target: Target,
        learning_rate: float | LearningRate = 1e-2,
        *,
        alpha: float = 0.99,
        epsilon: float = 1e-8,
        momentum: float = 0.0,
        centered: bool = False,
        weight_decay: float = 0.0,
        **common: Unpack[Common],
    ) -> None:
        self.alpha, self.epsilon, self.momentum, self.centered = alpha, epsilon, momentum, centered
        self.moment_names = (
            "square_avg", *(("grad_avg",) if centered else ()), *(("momentum_buffer",) if momentum else ())
        )  # fmt: skip
        super().__init__(target, learning_rate, weight_decay=weight_decay, **common)

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Moments, settings: Settings
    ) -> tuple[Tensor, dict[str, Tensor]]:
        if settings.weight_decay:
            gradient = gradient + parameter * settings.weight_decay
        square = moments["square_avg"] * self.alpha + gradient * gradient * (1 - self.alpha)
        updated, spread = {"square_avg": square}, square
        if self.centered:
            mean = updated["grad_avg"] = moments["grad_avg"] * self.alpha + gradient * (1 - self.alpha)
            spread = square - mean * mean
        direction = gradient / (engine.sqrt(spread) + self.epsilon)
        if self.momentum:
            direction = updated["momentum_buffer"] = moments["momentum_buffer"] * self.momentum + direction
        return parameter - direction * settings.learning_rate.astype(parameter.dtype), updated
