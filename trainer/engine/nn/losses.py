"""Losses, with the names, arguments and results of `torch.nn.functional`, and an additional `sample_weight`.

`sample_weight` [N] multiplies each sample's terms, and the mean divides by the sum of the weights. Padding rows of the
last batch have weight 0 and do not affect loss and gradient.
"""

from __future__ import annotations

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.autocast import widened
from trainer.engine.nn.functional import largest, relu, sigmoid
from trainer.engine.tensor import Tensor


def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """−log softmax(logits) at the labels.

    The label's term is selected by a comparison with the class numbers, which fuses with the adjacent sums, unlike a
    gather.

    Args:
        logits: [N, C] or [N, C, ...], floating.
        labels: [N] or [N, ...], integer, in [0, C) or equal to `ignore_index`; or floating class probabilities in the
            logits' shape: the loss is −sum of probability · log softmax; its mean divides by the number of positions.
        weight: [C], a factor for each class; the mean divides by the sum of the labels' factors.
        label_smoothing: the share of each target that is spread evenly over all classes, in [0, 1].
        reduction: mean, sum or none.

    Raises:
        TrainerError: shapes or dtypes don't match.
    """
    if logits.ndim >= 2 and labels.shape == logits.shape and labels.dtype.is_float:
        return _soft_cross_entropy(widened(logits), labels, weight, label_smoothing, reduction, sample_weight)
    check_labels("cross_entropy", logits, labels, ", or floating shares [N, C, ...]")
    logits = widened(logits)
    classes = logits.shape[1]
    one_class = (1, classes, *(1,) * (logits.ndim - 2))
    is_label = functions.expand_dims(labels, axis=1) == functions.reshape(
        functions.arange(classes, dtype=labels.dtype), one_class
    )
    shifted = logits - largest(logits, 1)
    log_total = functions.log(functions.sum(functions.exp(shifted), axis=1))
    picked = functions.sum(functions.where(is_label, shifted, 0), axis=1)
    loss = log_total - picked
    normalizer = (labels != ignore_index).astype(logits.dtype)
    if weight is not None:
        factors = functions.reshape(weight, one_class)
        normalizer = normalizer * functions.sum(functions.where(is_label, factors, 0), axis=1)
    target_loss = loss * normalizer
    if label_smoothing:
        kept = (labels != ignore_index).astype(logits.dtype)
        if weight is None:
            spread = log_total * classes - functions.sum(shifted, axis=1)
        else:
            spread = log_total * functions.sum(weight) - functions.sum(shifted * factors, axis=1)
        target_loss = target_loss * (1 - label_smoothing) + spread * kept * (label_smoothing / classes)
    return reduced(target_loss, normalizer, reduction, sample_weight)


def _soft_cross_entropy(
    logits: Tensor, shares: Tensor, weight: Tensor | None, label_smoothing: float, reduction: str,
    sample_weight: Tensor | None,
) -> Tensor:  # fmt: skip
    classes = logits.shape[1]
    if label_smoothing:
        shares = shares * (1 - label_smoothing) + label_smoothing / classes
    if weight is not None:
        shares = shares * functions.reshape(weight, (1, classes, *(1,) * (logits.ndim - 2)))
    shifted = logits - largest(logits, 1)
    log_total = functions.log(functions.sum(functions.exp(shifted), axis=1, keepdims=True))
    return reduced(functions.sum((log_total - shifted) * shares, axis=1), None, reduction, sample_weight)


def binary_cross_entropy_with_logits(
    logits: Tensor,
    targets: Tensor,
    *,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: str = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """−t·log σ(x) − (1 − t)·log(1 − σ(x)), as max(x, 0) − x·t + log1p(exp(−|x|)); both have equal shapes.

    `weight` multiplies each element, `pos_weight` the positive part; both broadcast.
    """
    check_same("binary_cross_entropy_with_logits", logits, targets)
    logits, targets = widened(logits), widened(targets)
    softplus_of_negative_abs = functions.log1p(functions.exp(-functions.abs(logits)))
    if pos_weight is None:
        loss = relu(logits) - logits * targets + softplus_of_negative_abs
    else:
        factor = 1 + (pos_weight - 1) * targets
        loss = (1 - targets) * logits + factor * (softplus_of_negative_abs + relu(-logits))
    return reduced(loss if weight is None else loss * weight, None, reduction, sample_weight)


def l1_loss(x: Tensor, y: Tensor, *, reduction: str = "mean", sample_weight: Tensor | None = None) -> Tensor:
    """|x − y|; shapes are equal."""
    check_same("l1_loss", x, y)
    return reduced(functions.abs(widened(x) - widened(y)), None, reduction, sample_weight)


def mse_loss(x: Tensor, y: Tensor, *, reduction: str = "mean", sample_weight: Tensor | None = None) -> Tensor:
    """(x − y)²; shapes are equal."""
    check_same("mse_loss", x, y)
    difference = widened(x) - widened(y)
    return reduced(difference * difference, None, reduction, sample_weight)


def smooth_l1_loss(
    x: Tensor, y: Tensor, *, reduction: str = "mean", beta: float = 1.0, sample_weight: Tensor | None = None
) -> Tensor:
    """(x − y)² / (2·beta) where |x − y| < beta, |x − y| − beta / 2 elsewhere; shapes are equal.

    It equals the Huber loss with delta = beta, divided by beta (Girshick 2015); with beta = 0, `l1_loss`.
    """
    if beta == 0:
        return l1_loss(x, y, reduction=reduction, sample_weight=sample_weight)
    return reduced(_huber("smooth_l1_loss", x, y, "beta", beta) / beta, None, reduction, sample_weight)


def huber_loss(
    x: Tensor, y: Tensor, *, reduction: str = "mean", delta: float = 1.0, sample_weight: Tensor | None = None
) -> Tensor:
    """(x − y)² / 2 where |x − y| < delta, delta·(|x − y| − delta / 2) elsewhere; shapes are equal (Huber 1964)."""
    return reduced(_huber("huber_loss", x, y, "delta", delta), None, reduction, sample_weight)


def _huber(name: str, x: Tensor, y: Tensor, word: str, bound: float) -> Tensor:
    check_same(name, x, y)
    if bound <= 0:
        raise TrainerError(f"{name}: {word} must be positive", found=bound)
    distance = functions.abs(widened(x) - widened(y))
    return functions.where(distance < bound, distance * distance * 0.5, (distance - 0.5 * bound) * bound)


def kl_div(
    x: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False,
    sample_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """target·(log target − x), the terms of the Kullback–Leibler divergence; 0 where the target is 0.

    Args:
        x: log-probabilities; target: probabilities of the same shape, or their logarithms with `log_target`.
        reduction: "batchmean" divides the sum by the extent of the first axis, which gives the divergence; "mean" (the
            default, as in torch) divides by the number of elements; sum; none.
    """
    check_same("kl_div", x, target)
    x, target = widened(x), widened(target)
    if log_target:
        loss = functions.exp(target) * (target - x)
    else:
        is_positive = target > 0
        safe = functions.where(is_positive, target, 1)
        loss = functions.where(is_positive, target * functions.log(safe), 0) - target * x
    if reduction != "batchmean":
        return reduced(loss, None, reduction, sample_weight)
    total = functions.sum(reduced(loss, None, "none", sample_weight))
    return total / (loss.shape[0] if sample_weight is None else functions.sum(sample_weight).astype(total.dtype))


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

    As in torchvision, targets between 0 and 1 blend both; `alpha` weights positives, 1 − `alpha` negatives; a negative
    `alpha` weights neither.

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
    """|y − p|^β times the cross entropy of p = σ(logits) with y (Li et al. 2020, generalized focal loss).

    The target is the localization quality of a positive (such as the IoU of its box) and 0 for negatives, so the score
    combines class and localization quality. With targets 0 and 1 it is the focal loss with γ = β and no α.

    Args:
        logits, targets: floats of one shape [N, ...], targets from 0 to 1.
    """
    logits, targets = widened(logits), widened(targets)
    loss = binary_cross_entropy_with_logits(logits, targets, reduction="none")
    return reduced(loss * _power(functions.abs(targets - sigmoid(logits)), beta), None, reduction, sample_weight)


def _power(x: Tensor, exponent: float) -> Tensor:
    """Returns x to a power; 1 and 2 use products, which cost nothing compared with the exponentials."""
    if exponent in (1.0, 2.0):
        return x if exponent == 1 else x * x
    return functions.ones_like(x) if exponent == 0 else functions.pow(x, exponent)


def check_labels(name: str, logits: Tensor, labels: Tensor, alternative: str = "") -> None:
    """Raises an error unless `labels` has one class number for each position of `logits`."""
    if logits.ndim < 2 or labels.shape != (logits.shape[0], *logits.shape[2:]) or not labels.dtype.is_integer:
        raise TrainerError(
            f"{name}: labels don't match the logits",
            found=f"logits {logits.shape} {logits.dtype}, labels {labels.shape} {labels.dtype}",
            expected=f"logits [N, C, ...] and integer labels [N, ...]{alternative}",
        )


def check_reduction(reduction: str) -> None:
    """Raises an error if the reduction is unknown."""
    if reduction not in ("mean", "sum", "none"):
        raise TrainerError("unknown reduction", found=repr(reduction), expected="mean, sum or none")


def check_same(name: str, x: Tensor, y: Tensor) -> None:
    if x.shape != y.shape:
        raise TrainerError(f"{name}: shapes differ", found=f"{x.shape} and {y.shape}")


def reduced(loss: Tensor, normalizer: Tensor | None, reduction: str, sample_weight: Tensor | None) -> Tensor:
    """Reduces `loss` [N, ...]: mean (over the sum of `normalizer`, or the number of elements), sum, or none."""
    check_reduction(reduction)
    if sample_weight is not None:
        if sample_weight.shape != loss.shape[:1]:
            raise TrainerError(
                "sample_weight must have one number per sample", found=sample_weight.shape, expected=loss.shape[:1]
            )
        per_sample = functions.reshape(sample_weight.astype(loss.dtype), (*loss.shape[:1], *(1,) * (loss.ndim - 1)))
        loss = loss * per_sample
        elsewhere = functions.broadcast_to(per_sample, loss.shape)
        normalizer = elsewhere if normalizer is None else normalizer * elsewhere
    if reduction == "none":
        return loss
    total = functions.sum(loss)
    if reduction == "sum":
        return total
    return total * (1.0 / max(1, loss.size)) if normalizer is None else total / functions.sum(normalizer)
