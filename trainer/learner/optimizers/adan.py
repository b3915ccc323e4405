"""Adan, adaptive Nesterov momentum (Xie et al. 2022, algorithm 1 with decoupled decay; betas are 1 − the paper's)."""

from __future__ import annotations

from typing import Unpack

from trainer import engine
from trainer.engine import Tensor
from trainer.learner.optimizers.adam import bias_correction
from trainer.learner.optimizers.optimizer import Common, Moments, Optimizer, Settings, Target
from trainer.learner.schedules import LearningRate


class Adan(Optimizer):
    """d ← g − g of the previous step (0 at first);  m ← β₁m + (1 − β₁)g;  v ← β₂v + (1 − β₂)d;

    n ← β₃n + (1 − β₃)(g + β₂d)²;  p ← (p − learning_rate·(m̂ + β₂v̂) / (√n̂ + epsilon)) / (1 + learning_rate·decay)
    """

    moment_names = ("exp_avg", "exp_avg_diff", "exp_avg_sq", "previous_gradient")

    def __init__(
        self,
        target: Target,
        learning_rate: float | LearningRate = 1e-3,
        *,
        betas: tuple[float, float, float] = (0.98, 0.92, 0.99),
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        **common: Unpack[Common],
    ) -> None:
        self.betas, self.epsilon = (betas[0], betas[1], betas[2]), epsilon
        super().__init__(target, learning_rate, weight_decay=weight_decay, **common)

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Moments, settings: Settings
    ) -> tuple[Tensor, dict[str, Tensor]]:
        beta1, beta2, beta3 = self.betas
        dtype = parameter.dtype
        change = engine.where(settings.step > 1, gradient - moments["previous_gradient"], engine.zeros_like(gradient))
        ahead = gradient + change * beta2
        mean = moments["exp_avg"] * beta1 + gradient * (1 - beta1)
        difference = moments["exp_avg_diff"] * beta2 + change * (1 - beta2)
        square = moments["exp_avg_sq"] * beta3 + ahead * ahead * (1 - beta3)
        rate = settings.learning_rate
        mean_rate = (rate / bias_correction(beta1, settings.step)).astype(dtype)
        difference_rate = (rate * beta2 / bias_correction(beta2, settings.step)).astype(dtype)
        root_correction = (1 / engine.sqrt(bias_correction(beta3, settings.step))).astype(dtype)
        step = (mean * mean_rate + difference * difference_rate) / (
            engine.sqrt(square) * root_correction + self.epsilon
        )
        parameter = parameter - step
        if settings.weight_decay:
            parameter = parameter / (1 + rate * settings.weight_decay).astype(dtype)
        return parameter, {
            "exp_avg": mean, "exp_avg_diff": difference, "exp_avg_sq": square, "previous_gradient": gradient
        }  # fmt: skip
