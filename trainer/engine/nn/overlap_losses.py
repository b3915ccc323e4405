"""Overlap losses for segmentation: Dice, Tversky and Lovász."""

from __future__ import annotations

import math

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.autocast import widened
from trainer.engine.nn.functional import relu, sigmoid, softmax
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

    p are the predicted probabilities and g is the one-hot ground truth. A rare class counts as much as a frequent one.

    Args:
        logits: [N, C, ...], floating; softmax over C. With C = 1, sigmoid: the probability of class 1.
        labels: [N, ...], integer, in [0, C) (with C = 1: 0 or 1), or equal to `ignore_index`, which excludes the
            position from p and g.
        weight: [C], a factor for each class; the mean divides by their sum.
        smooth: s; it makes the loss of an absent class that is not predicted 0.
        over: "batch" sums over all samples, so a class need not occur in each; "sample" sums per sample.
        reduction: mean over classes (and samples), sum, or none: [C], or [N, C] with "sample".
        sample_weight: [N], the weight of each sample's positions; 0 for padding rows of a batch.

    Raises:
        TrainerError: shapes or dtypes are incompatible, or an option is unknown.
    """
    chosen, right, kept, axes = _regions("dice_loss", logits, labels, ignore_index, over, sample_weight)
    both = _summed(chosen * right, axes)
    extent = _summed(chosen * chosen * kept, axes) + _summed(right, axes)
    loss = 1 - (2 * both + smooth) / (extent + smooth)
    return _over_classes(loss, weight, over, reduction, sample_weight)


def tversky_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    alpha: float = 0.3,
    beta: float = 0.7,
    gamma: float = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    smooth: float = 1.0,
    over: str = "batch",
    reduction: str = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """(1 − (TP + s) / (TP + alpha·FP + beta·FN + s))^gamma of each class (Salehi, Erdogmus and Gholipour 2017).

    TP = Σ p·g, FP = Σ p·(1 − g) and FN = Σ (1 − p)·g with probabilities p and ground truth g. A larger `beta` raises
    the recall of a rare class at the cost of precision. alpha = beta = 0.5 gives soft Dice without squares, and alpha =
    beta = 1 the Jaccard index.

    Args:
        gamma: exponent; other values than 1 give the focal Tversky loss (Abraham and Khan 2019, whose exponent is 1 /
            gamma).
        others: as in `dice_loss`.

    Raises:
        TrainerError: shapes or dtypes are incompatible, or an option is unknown.
    """
    chosen, right, kept, axes = _regions("tversky_loss", logits, labels, ignore_index, over, sample_weight)
    both = _summed(chosen * right, axes)
    false = _summed(chosen * kept, axes) - both
    missed = _summed(right, axes) - both
    loss = 1 - (both + smooth) / (both + alpha * false + beta * missed + smooth)
    loss = loss if gamma == 1 else functions.pow(loss, gamma)
    return _over_classes(loss, weight, over, reduction, sample_weight)


def lovasz_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    classes: str = "present",
    ignore_index: int = -100,
    over: str = "batch",
    reduction: str = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """The Lovász extension of 1 − IoU of each class (Berman, Triki and Blaschko 2018): a convex surrogate of the IoU.

    Errors are |g − softmax(x)|, or with C = 1 the hinge loss max(0, 1 − x·(2·g − 1)).

    Args:
        logits: [N, C, ...], floating; labels: [N, ...], integer, as in `dice_loss`.
        classes: "present" leaves out classes that are absent from the labels; "all" keeps them.
        over: "batch" treats all samples as one image; "sample" treats each separately.
        reduction: mean over classes (and samples), sum, or none: [C], or [N, C] with "sample".
        sample_weight: [N]; with "sample", a factor for each sample; with "batch", samples of weight 0 are left out, and
            other weights count as 1.

    Raises:
        TrainerError: shapes or dtypes are incompatible, or an option is unknown.
    """
    if classes not in ("present", "all"):
        raise TrainerError("lovasz_loss: unknown classes", found=repr(classes), expected="present, all")
    chosen, right, kept, _ = _regions("lovasz_loss", logits, labels, ignore_index, over, sample_weight)
    right = (right > 0).astype(chosen.dtype)
    if logits.shape[1] == 1:
        errors = relu(1 - widened(logits) * (2 * right - 1))
    else:
        errors = functions.abs(right - chosen)
    lines = [_lines(each, over) for each in (errors, right, functions.broadcast_to(kept, right.shape))]
    errors, right, kept = lines[0], lines[1], lines[2] > 0
    order = functions.argsort(functions.where(kept, functions.stop_gradient(errors), -1), descending=True)
    errors, right = (functions.take_along_axis(functions.where(kept, each, 0), order) for each in (errors, right))
    total = functions.sum(right, axis=-1, keepdims=True)
    union = total + functions.cumulative_sum(1 - right, axis=-1)
    jaccard = 1 - (total - functions.cumulative_sum(right, axis=-1)) / union
    before = functions.concat([functions.zeros_like(jaccard[..., :1]), jaccard[..., :-1]], axis=-1)
    loss = functions.sum(errors * functions.stop_gradient(jaccard - before), axis=-1)
    is_counted = total[..., 0] > 0
    is_counted = is_counted | ~functions.any(is_counted)  # if nothing is labeled, all count: their losses are 0
    if classes == "all" or logits.shape[1] == 1:
        is_counted = functions.ones_like(is_counted)
    return _over_classes(loss, is_counted, over, reduction, sample_weight)


def _lines(x: Tensor, over: str) -> Tensor:
    """Reshapes [N, C, ...] to [C, N · positions], or to [N, C, positions] if `over` is "sample"."""
    flat = functions.reshape(x, (*x.shape[:2], math.prod(x.shape[2:])))
    return flat if over == "sample" else functions.reshape(functions.permute_dims(flat, (1, 0, 2)), (x.shape[1], -1))


def _regions(
    name: str, logits: Tensor, labels: Tensor, ignore_index: int, over: str, sample_weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, tuple[int, ...]]:
    """Returns probabilities, ground truth and position weights, each [N, C or 1, ...], and the axes to sum over."""
    check_labels(name, logits, labels)
    if over not in ("batch", "sample"):
        raise TrainerError(f"{name}: unknown `over`", found=repr(over), expected="batch or sample")
    logits = widened(logits)
    classes, inner = logits.shape[1], (1,) * (logits.ndim - 2)
    kept = functions.expand_dims((labels != ignore_index).astype(logits.dtype), axis=1)
    if sample_weight is not None and over == "batch":
        kept = kept * functions.reshape(sample_weight.astype(logits.dtype), (-1, 1, *inner))
    first = 1 if classes == 1 else 0
    numbers = functions.reshape(functions.arange(first, first + classes, dtype=labels.dtype), (1, classes, *inner))
    right = (functions.expand_dims(labels, axis=1) == numbers).astype(logits.dtype) * kept
    chosen = sigmoid(logits) if classes == 1 else softmax(logits, axis=1)
    axes = tuple(axis for axis in range(logits.ndim) if axis != 1 and not (over == "sample" and axis == 0))
    return chosen, right, kept, axes


def _summed(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Returns the sum along `axes`, over all shards if the batch axis is among them."""
    total = functions.sum(x, axis=axes)
    return functions.shard_sum(total) if 0 in axes else total


def _over_classes(
    loss: Tensor, weight: Tensor | None, over: str, reduction: str, sample_weight: Tensor | None
) -> Tensor:
    """Reduces the loss of each class (and sample): mean weighted by both weights, sum, or none."""
    check_reduction(reduction)
    counts = functions.ones_like(loss)
    if weight is not None:
        counts = counts * weight.astype(loss.dtype)
    if sample_weight is not None and over == "sample":
        counts = counts * functions.reshape(sample_weight.astype(loss.dtype), (-1, 1))
    if reduction == "none":
        return loss * counts
    total = functions.sum(loss * counts)
    return total if reduction == "sum" else total / functions.sum(counts)
