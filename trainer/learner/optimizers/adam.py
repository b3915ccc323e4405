"""Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019), in PyTorch's formulation."""

from __future__ import annotations

import math
from typing import Unpack

from trainer import engine
from trainer.engine import Tensor
from trainer.learner.optimizers.optimizer import Common, Moments, Optimizer, Settings, Target
from trainer.learner.schedules import LearningRate


class Adam(Optimizer):
    """g ← g + weight_decay·p;  m ← β₁m + (1 − β₁)g;  v ← β₂v + (1 − β₂)g²;

    p ← p − learning_rate / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + epsilon)
    """

    moment_names = ("exp_avg", "exp_avg_sq")
    decay_is_decoupled = False

    def __init__(
        self,
        target: Target,
        learning_rate: float | LearningRate = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        **common: Unpack[Common],
    ) -> None:
        self.betas, self.epsilon = (betas[0], betas[1]), epsilon
        super().__init__(target, learning_rate, weight_decay=weight_decay, **common)

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Moments, settings: Settings
    ) -> tuple[Tensor, dict[str, Tensor]]:
        if settings.weight_decay and self.decay_is_decoupled:
            decay = 1 - settings.learning_rate * settings.weight_decay
            parameter = parameter * decay.astype(parameter.dtype)
        elif settings.weight_decay:
            gradient = gradient + parameter * settings.weight_decay
        return adam_step(parameter, gradient, moments, settings, self.betas, self.epsilon)


class AdamW(Adam):
    """Adam with decoupled weight decay: first p ← p·(1 − learning_rate·weight_decay), then Adam's update."""

    decay_is_decoupled = True

    def __init__(
        self,
        target: Target,
        learning_rate: float | LearningRate = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 1e-2,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(target, learning_rate, betas=betas, epsilon=epsilon, weight_decay=weight_decay, **common)


def adam_step(
    parameter: Tensor,
    gradient: Tensor,
    moments: Moments,
    settings: Settings,
    betas: tuple[float, float],
    epsilon: float,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Adam's update without decay."""
    dtype = parameter.dtype
    mean = moments["exp_avg"] * betas[0] + gradient * (1 - betas[0])
    square = moments["exp_avg_sq"] * betas[1] + gradient * gradient * (1 - betas[1])
    step_size = settings.learning_rate / bias_correction(betas[0], settings.step)
    root_correction = 1 / engine.sqrt(bias_correction(betas[1], settings.step))
    denominator = engine.sqrt(square) * root_correction.astype(dtype) + epsilon
    return parameter - step_size.astype(dtype) * mean / denominator, {"exp_avg": mean, "exp_avg_sq": square}


def bias_correction(beta: float, step: Tensor) -> Tensor:
    """1 − betaᵗ in float64, as −expm1(t·log(beta))."""
    return -engine.expm1(step * math.log(beta)) if beta > 0 else step * 0 + 1
