"""Losses of dense detectors, in which a few positives stand among thousands of easy negatives."""

from __future__ import annotations

from trainer.engine import functions
from trainer.engine.autocast import widened
from trainer.engine.nn.functional import sigmoid
from trainer.engine.nn.losses import binary_cross_entropy_with_logits, reduced
from trainer.engine.tensor import Tensor


def sigmoid_focal_loss(
    logits: Tensor,
    targets: Tensor,
    *,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: str = "none",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """−α_t·(1 − p_t)^γ·log p_t (Lin et al. 2017), with p_t = p where the target is 1 and 1 − p where it is 0.

    As in torchvision, targets between 0 and 1 blend both; `alpha` weighs positives, 1 − `alpha` negatives, and a
    negative `alpha` neither.

    Args:
        logits, targets: floats of one shape [N, ...].
        gamma: 0 is the cross entropy.
    """
    logits, targets = widened(logits), widened(targets)
    loss = binary_cross_entropy_with_logits(logits, targets, reduction="none")
    probability = sigmoid(logits)
    missing = probability * (1 - targets) + (1 - probability) * targets
    loss = loss * _power(missing, gamma)
    if alpha >= 0:
        loss = loss * (alpha * targets + (1 - alpha) * (1 - targets))
    return reduced(loss, None, reduction, sample_weight)


def quality_focal_loss(
    logits: Tensor, targets: Tensor, *, beta: float = 2.0, reduction: str = "none", sample_weight: Tensor | None = None
) -> Tensor:
    """|y − p|^β times the cross entropy of p = σ(logits) with y (Li et al. 2020, generalised focal loss).

    The target is how well a positive is localised (the IoU of its box, say) and 0 for negatives, so that a score ranks
    by both. With targets 0 and 1 it is the focal loss with γ = β and no α.

    Args:
        logits, targets: floats of one shape [N, ...], targets from 0 to 1.
    """
    logits, targets = widened(logits), widened(targets)
    loss = binary_cross_entropy_with_logits(logits, targets, reduction="none")
    return reduced(loss * _power(functions.abs(targets - sigmoid(logits)), beta), None, reduction, sample_weight)


def _power(x: Tensor, exponent: float) -> Tensor:
    """x to a power; of 1 and 2 by products, which cost nothing beside the exponentials."""
    if exponent in (1.0, 2.0):
        return x if exponent == 1 else x * x
    return functions.ones_like(x) if exponent == 0 else functions.pow(x, exponent)
