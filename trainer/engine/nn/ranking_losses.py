"""Losses on distances, angles and margins, with the names, arguments and results of `torch.nn.functional`."""

from __future__ import annotations

import math

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.autocast import widened
from trainer.engine.nn.functional import relu
from trainer.engine.nn.losses import check_labels, check_same, reduced
from trainer.engine.tensor import Tensor

_EPSILON = 1e-12
"""Torch adds this to the squared lengths in `cosine_embedding_loss`."""


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 − x2 + eps along the last axis; x1 and x2 broadcast. `p` is positive, or infinite."""
    if not p > 0:
        raise TrainerError("pairwise_distance: the order of the norm must be positive", found=f"p={p}")
    difference = widened(x1) - widened(x2) + eps
    magnitudes = functions.abs(difference)
    if p == math.inf:
        return functions.max(magnitudes, axis=-1, keepdims=keepdim)
    if p == 1:
        return functions.sum(magnitudes, axis=-1, keepdims=keepdim)
    if p == 2:
        return functions.sqrt(functions.sum(difference * difference, axis=-1, keepdims=keepdim))
    return functions.pow(functions.sum(functions.pow(magnitudes, p), axis=-1, keepdims=keepdim), 1 / p)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1·x2 / (max(|x1|, eps)·max(|x2|, eps)) along `dim`; x1 and x2 broadcast."""
    x1, x2 = functions.broadcast_arrays(widened(x1), widened(x2))
    lengths = [functions.sqrt(functions.maximum(functions.sum(x * x, axis=dim), eps * eps)) for x in (x1, x2)]
    return functions.sum(x1 * x2, axis=dim) / (lengths[0] * lengths[1])


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6,
    swap: bool = False, reduction: str = "mean", sample_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """max(0, d(anchor, positive) − d(anchor, negative) + margin), where d is `pairwise_distance`; all are [N, D].

    `swap` takes the smaller of the negative's distances from anchor and positive (Balntas et al. 2016).
    """
    check_same("triplet_margin_loss", anchor, positive)
    check_same("triplet_margin_loss", anchor, negative)
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = functions.minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduced(relu(near - far + margin), None, reduction, sample_weight)


def cosine_embedding_loss(
    x1: Tensor, x2: Tensor, target: Tensor, *, margin: float = 0.0, reduction: str = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """1 − cos(x1, x2) where the target is 1, max(0, cos(x1, x2) − margin) where it is −1; x1, x2 [N, D], target [N]."""
    check_same("cosine_embedding_loss", x1, x2)
    x1, x2 = widened(x1), widened(x2)
    squares = [functions.sum(x * x, axis=-1) + _EPSILON for x in (x1, x2)]
    cosine = functions.sum(x1 * x2, axis=-1) / functions.sqrt(squares[0] * squares[1])
    return _by_sign("cosine_embedding_loss", 1 - cosine, relu(cosine - margin), target, reduction, sample_weight)


def hinge_embedding_loss(
    x: Tensor, target: Tensor, *, margin: float = 1.0, reduction: str = "mean", sample_weight: Tensor | None = None
) -> Tensor:
    """x where the target is 1, max(0, margin − x) where it is −1; shapes are equal."""
    x = widened(x)
    return _by_sign("hinge_embedding_loss", x, relu(margin - x), target, reduction, sample_weight)


def margin_ranking_loss(
    x1: Tensor, x2: Tensor, target: Tensor, *, margin: float = 0.0, reduction: str = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """max(0, −target·(x1 − x2) + margin): target is 1 if x1 should be greater, −1 if x2; shapes are equal."""
    check_same("margin_ranking_loss", x1, x2)
    check_same("margin_ranking_loss", x1, target)
    x1, x2 = widened(x1), widened(x2)
    return reduced(relu(-target.astype(x1.dtype) * (x1 - x2) + margin), None, reduction, sample_weight)


def multi_margin_loss(
    logits: Tensor, labels: Tensor, *, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    reduction: str = "mean", sample_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Multi-class hinge loss: the sum over all other classes of max(0, margin − x[label] + x[class])^p, divided by C.

    Args:
        logits: [N, C]; labels: [N], integer in [0, C).
        p: 1 or 2.
        weight: [C], a factor for each label.
    """
    check_labels("multi_margin_loss", logits, labels)
    if logits.ndim != 2 or p not in (1, 2):
        raise TrainerError("multi_margin_loss takes logits [N, C] and p of 1 or 2", found=f"{logits.shape}, p={p}")
    logits = widened(logits)
    is_label = functions.expand_dims(labels, axis=1) == functions.arange(logits.shape[1], dtype=labels.dtype)
    right = functions.sum(functions.where(is_label, logits, 0), axis=1, keepdims=True)
    excess = functions.where(is_label, 0, relu(margin - right + logits))
    loss = functions.sum(excess if p == 1 else excess * excess, axis=1) * (1 / logits.shape[1])
    if weight is not None:
        loss = loss * functions.sum(functions.where(is_label, weight, 0), axis=1)
    return reduced(loss, None, reduction, sample_weight)


def _by_sign(
    name: str, alike: Tensor, different: Tensor, target: Tensor, reduction: str, sample_weight: Tensor | None
) -> Tensor:
    """`alike` where the target is 1, `different` where it is -1, and 0 elsewhere, as in torch."""
    check_same(name, alike, target)
    loss = functions.where(target == 1, alike, functions.where(target == -1, different, 0))
    return reduced(loss, None, reduction, sample_weight)
