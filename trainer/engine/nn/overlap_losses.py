"""Losses of how far predicted and right regions overlap, for segmentation."""

from __future__ import annotations

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.autocast import widened
from trainer.engine.nn.functional import sigmoid, softmax
from trainer.engine.nn.losses import check_labels, check_reduction
from trainer.engine.tensor import Tensor


def dice_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    smooth: float = 1.0,
    over: str = "batch",
    reduction: str = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """1 − (2 Σ p·g + s) / (Σ p² + Σ g² + s) of each class (Milletari, Navab and Ahmadi 2016, "V-Net"; soft Dice).

    p are the classes' probabilities and g is 1 where a class is right. A rare class counts as much as a frequent one.

    Args:
        logits: [N, C, ...], floating; softmax over C; of one class (C = 1) logistic, which is then class 1.
        labels: [N, ...], integer, in [0, C) (of one class 0 or 1) or equal to `ignore_index`: such places count for
            nothing, neither in p nor in g.
        weight: [C], a factor for each class; the mean divides by their sum.
        smooth: s; it makes the loss of a class that is nowhere, and nowhere predicted, 0.
        over: "batch" sums over all samples, so a class need not occur in each; "sample" over each by itself.
        reduction: mean over classes (and samples), sum, or none: [C], or [N, C] over samples.
        sample_weight: [N], how much each sample's places count; 0 for rows that only fill a batch.

    Raises:
        TrainerError: shapes, dtypes or words do not go together.
    """
    check_labels("dice_loss", logits, labels)
    check_reduction(reduction)
    if over not in ("batch", "sample"):
        raise TrainerError("dice_loss sums over a batch or a sample", found=repr(over), expected="batch or sample")
    logits = widened(logits)
    classes, inner = logits.shape[1], (1,) * (logits.ndim - 2)
    kept = functions.expand_dims((labels != ignore_index).astype(logits.dtype), axis=1)
    if sample_weight is not None:
        per_sample = functions.reshape(sample_weight.astype(logits.dtype), (-1, 1, *inner))
        if over == "batch":
            kept = kept * per_sample
    first = 1 if classes == 1 else 0
    numbers = functions.reshape(functions.arange(first, first + classes, dtype=labels.dtype), (1, classes, *inner))
    right = (functions.expand_dims(labels, axis=1) == numbers).astype(logits.dtype) * kept
    chosen = sigmoid(logits) if classes == 1 else softmax(logits, axis=1)
    axes = tuple(axis for axis in range(logits.ndim) if axis != 1 and not (over == "sample" and axis == 0))
    both = functions.sum(chosen * right, axis=axes)
    extent = functions.sum(chosen * chosen * kept, axis=axes) + functions.sum(right, axis=axes)
    loss = 1 - (2 * both + smooth) / (extent + smooth)
    counts = functions.ones_like(loss)
    if weight is not None:
        counts = counts * weight.astype(loss.dtype)
    if sample_weight is not None and over == "sample":
        counts = counts * functions.reshape(sample_weight.astype(loss.dtype), (-1, 1))
    if reduction == "none":
        return loss * counts
    total = functions.sum(loss * counts)
    return total if reduction == "sum" else total / functions.sum(counts)
