"""The share of examples whose most likely class is the right one."""

from __future__ import annotations

from trainer import TrainerError
from trainer.engine import Tensor, argmax, astype, equal, float32
from trainer.metrics.state import Ratio, weighted


class Accuracy(Ratio):
    """Top-1 accuracy from `logits` [B, C, ...] (floats, classes on axis 1) and `labels` [B, ...] (integers).

    Of equal logits the first class counts. `weight` is [B], 0 for padded rows. It is scikit-learn's `accuracy_score`.
    """

    def __init__(self, logits: Tensor, labels: Tensor, weight: Tensor | None = None) -> None:
        if logits.ndim < 2 or labels.shape != logits.shape[:1] + logits.shape[2:]:
            raise TrainerError(
                "the labels of Accuracy don't fit its logits",
                found=f"labels {list(labels.shape)} for logits {list(logits.shape)}",
                expected="logits [B, C, ...] and labels [B, ...]",
            )
        predicted = argmax(logits, axis=1)
        correct = astype(equal(predicted, astype(labels, predicted.dtype)), float32)
        super().__init__(*weighted(correct, weight, what="Accuracy"))
