"""Adam (Kingma & Ba 2015) and AdamW (Loshchilov & Hutter 2019), by PyTorch's formulas."""

from __future__ import annotations

import math
from collections.abc import Mapping

from trainer import engine
from trainer.engine import State, Tensor
from trainer.engine.nn import Parameter
from trainer.learner.optimizers.optimizer import Optimizer, Target
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
        gradient_clip_norm: float | None = None,
    ) -> None:
        self.betas, self.epsilon, self.weight_decay = (betas[0], betas[1]), epsilon, weight_decay
        super().__init__(target, learning_rate, gradient_clip_norm=gradient_clip_norm)

    def update(
        self, parameter: Parameter, gradient: Tensor, moments: Mapping[str, State], learning_rate: Tensor, step: Tensor
    ) -> None:
        dtype = parameter.dtype
        beta1, beta2 = self.betas
        current: Tensor = parameter
        if self.weight_decay and self.decay_is_decoupled:
            current = parameter * (1 - learning_rate * self.weight_decay).astype(dtype)
        elif self.weight_decay:
            gradient = gradient + parameter * self.weight_decay
        mean = moments["exp_avg"] * beta1 + gradient * (1 - beta1)
        square = moments["exp_avg_sq"] * beta2 + gradient * gradient * (1 - beta2)
        moments["exp_avg"].assign(mean)
        moments["exp_avg_sq"].assign(square)
        step_size = learning_rate / bias_correction(beta1, step)
        root_correction = 1 / engine.sqrt(bias_correction(beta2, step))
        denominator = engine.sqrt(square) * root_correction.astype(dtype) + self.epsilon
        parameter.assign(current - step_size.astype(dtype) * mean / denominator)


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
        gradient_clip_norm: float | None = None,
    ) -> None:
        super().__init__(
            target,
            learning_rate,
            betas=betas,
            epsilon=epsilon,
            weight_decay=weight_decay,
            gradient_clip_norm=gradient_clip_norm,
        )


def bias_correction(beta: float, step: Tensor) -> Tensor:
    """1 − betaᵗ in float64, as −expm1(t·log(beta))."""
    return -engine.expm1(step * math.log(beta)) if beta > 0 else step * 0 + 1
