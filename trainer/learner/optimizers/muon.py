"""Muon: orthogonalized momentum for weights of two or more axes, AdamW for vectors (Jordan et al. 2024)."""

from __future__ import annotations

import math
from typing import Unpack

from trainer import engine
from trainer.engine import Tensor
from trainer.learner.optimizers.adam import adam_step
from trainer.learner.optimizers.optimizer import Common, Moments, Optimizer, Settings, Target
from trainer.learner.schedules import LearningRate

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Coefficients of the authors' quintic polynomial that drives singular values towards 1."""


class Muon(Optimizer):
    """b ← momentum·b + (1 − momentum)·g;  p ← p·(1 − learning_rate·weight_decay) − learning_rate·s·orthogonal(b).

    orthogonal: `iterations` Newton-Schulz iterations on the weight as a matrix [first axis, all others]; with nesterov
    on (1 − momentum)·g + momentum·b. The scale s = 0.2·√(larger side) gives steps of AdamW's size (Liu et al. 2025), so
    that one learning rate works for both; with `match_adamw=False` it is √max(1, rows / columns).
    """

    moment_names = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        target: Target,
        learning_rate: float | LearningRate = 1e-3,
        *,
        momentum: float = 0.95,
        nesterov: bool = True,
        iterations: int = 5,
        match_adamw: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.1,
        **common: Unpack[Common],
    ) -> None:
        self.momentum, self.nesterov, self.iterations, self.match_adamw = momentum, nesterov, iterations, match_adamw
        self.betas, self.epsilon = (betas[0], betas[1]), epsilon
        super().__init__(target, learning_rate, weight_decay=weight_decay, **common)

    def moments_of(self, parameter: Tensor) -> tuple[str, ...]:
        """Only the first moment for matrices; both for vectors."""
        return self.moment_names[:1] if len(parameter.shape) > 1 else self.moment_names

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Moments, settings: Settings
    ) -> tuple[Tensor, dict[str, Tensor]]:
        dtype = parameter.dtype
        if settings.weight_decay:
            parameter = parameter * (1 - settings.learning_rate * settings.weight_decay).astype(dtype)
        if len(parameter.shape) < 2:
            return adam_step(parameter, gradient, moments, settings, self.betas, self.epsilon)
        mean = moments["exp_avg"] * self.momentum + gradient * (1 - self.momentum)
        ahead = gradient * (1 - self.momentum) + mean * self.momentum if self.nesterov else mean
        rows, columns = parameter.shape[0], math.prod(parameter.shape[1:])
        scale = 0.2 * math.sqrt(max(rows, columns)) if self.match_adamw else math.sqrt(max(1.0, rows / columns))
        direction = engine.reshape(orthogonal(engine.reshape(ahead, (rows, columns)), self.iterations), parameter.shape)
        return parameter - direction * (settings.learning_rate * scale).astype(dtype), {"exp_avg": mean}


def orthogonal(matrix: Tensor, iterations: int) -> Tensor:
    """A matrix with the singular vectors of `matrix` and singular values near 1 (about 0.7 to 1.2)."""
    a, b, c = COEFFICIENTS
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = engine.permute_dims(matrix, (1, 0)) if is_tall else matrix
    x = x / engine.maximum(engine.sqrt(engine.sum(x * x)), 1e-7)
    for _ in range(iterations):
        product = x @ engine.permute_dims(x, (1, 0))
        x = x * a + (product * b + product @ product * c) @ x
    return engine.permute_dims(x, (1, 0)) if is_tall else x
