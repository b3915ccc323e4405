"""LAMB: Adam with layer-wise learning rates, for large batches (You et al. 2020, algorithm 2)."""

from __future__ import annotations

from typing import Unpack

from trainer import engine
from trainer.engine import Tensor
from trainer.learner.optimizers.adam import bias_correction
from trainer.learner.optimizers.optimizer import Common, Moments, Optimizer, Settings, Target
from trainer.learner.schedules import LearningRate


class LAMB(Optimizer):
    """r = m̂ / (√v̂ + epsilon) + weight_decay·p;  p ← p − learning_rate·(‖p‖ / ‖r‖)·r, with ratio 1 if a norm is 0.

    m and v as in Adam.
    """

    moment_names = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        target: Target,
        learning_rate: float | LearningRate = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-6,
        weight_decay: float = 0.01,
        **common: Unpack[Common],
    ) -> None:
        self.betas, self.epsilon = (betas[0], betas[1]), epsilon
        super().__init__(target, learning_rate, weight_decay=weight_decay, **common)

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Moments, settings: Settings
    ) -> tuple[Tensor, dict[str, Tensor]]:
        beta1, beta2 = self.betas
        dtype = parameter.dtype
        mean = moments["exp_avg"] * beta1 + gradient * (1 - beta1)
        square = moments["exp_avg_sq"] * beta2 + gradient * gradient * (1 - beta2)
        correction = (1 / bias_correction(beta1, settings.step)).astype(dtype)
        root_correction = (1 / engine.sqrt(bias_correction(beta2, settings.step))).astype(dtype)
        direction = mean * correction / (engine.sqrt(square) * root_correction + self.epsilon)
        if settings.weight_decay:
            direction = direction + parameter * settings.weight_decay
        weights, length = _norm(parameter), _norm(direction)
        is_usable = engine.logical_and(weights > 0, length > 0)
        one = engine.ones_like(length)
        trust = engine.where(is_usable, weights / engine.where(is_usable, length, one), one)
        rate = settings.learning_rate.astype(dtype) * trust
        return parameter - direction * rate, {"exp_avg": mean, "exp_avg_sq": square}


def _norm(values: Tensor) -> Tensor:
    return engine.sqrt(engine.sum(values * values))
