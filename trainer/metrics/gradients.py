"""The gradient norm, which the training loop provides."""

from __future__ import annotations

from collections.abc import Mapping

from trainer import engine
from trainer.engine import Tensor, float64
from trainer.metrics.predictions import Predictions
from trainer.metrics.ratio import Ratio


class GradientNorm(Ratio):
    """The L2 norm of all gradients of a step before clipping, averaged over steps."""

    needs = ("gradient_norm",)

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        weight = given.weight.astype(float64)
        return {
            "numerator": engine.sum(given["gradient_norm"].astype(float64) * weight),
            "denominator": engine.sum(weight),
        }
