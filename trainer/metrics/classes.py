"""Predicted and target classes of binary, multi-class and multi-label classification.

labels                 scores or logits  kind
`labels` [B] of 0, 1   [B] or [B, 1]     binary: the positive class, if its probability is at least `threshold`
`labels` [B, ...]      [B, C, ...]       multi-class: the (first) highest score; each pixel is an example
`labels_hot` [B, C]    [B, C]            multi-label: every class with a probability of at least `threshold`
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainer import TrainerError, engine
from trainer.engine import Tensor, float32, float64, int32, nn
from trainer.metrics.predictions import Predictions

IGNORED_PIXEL = 255
"""The default ignored label of pixels, unless it is a class."""


@dataclass(frozen=True)
class Examples:
    """Scores and labels of a batch; pixels and other positions are further examples of a row.

    scores: float32 [B, C, P]; C is 1 for binary tasks.
    labels: int32 [B, P], -1 if ignored; None for multi-label tasks.
    hot: float32 [B, C], for multi-label tasks only.
    are_logits: whether the scores are unnormalized.
    """

    scores: Tensor
    labels: Tensor | None
    hot: Tensor | None
    are_logits: bool
    given: Predictions

    @property
    def classes(self) -> int:
        """C: the number of classes with scores."""
        return self.scores.shape[1]

    @property
    def is_binary(self) -> bool:
        """Whether there is a single score, of the positive class."""
        return self.classes == 1 and self.hot is None

    @property
    def numbers(self) -> int:
        """The number of classes of the labels."""
        return 2 if self.is_binary else self.classes

    def probabilities(self) -> Tensor:
        """The scores as probabilities [B, C, P]: softmax over classes; logistic for binary and multi-label."""
        if not self.are_logits:
            return self.scores
        if self.is_binary or self.hot is not None:
            return engine.logistic(self.scores)
        return nn.functional.softmax(self.scores, axis=1)

    def over(self, threshold: float) -> Tensor:
        """Whether each class's probability is at least `threshold`, bool [B, C, P]."""
        if not self.are_logits:
            return self.scores >= threshold
        return self.scores >= math.log(threshold / (1 - threshold))

    def best(self) -> Tensor:
        """The predicted class of each example, int64 [B, P], without a threshold; the first of equal scores."""
        return engine.argmax(self.scores, axis=1)

    def right(self) -> Tensor:
        """Whether a class is a target, float32 [B, C, P]; for binary tasks the positive class."""
        if self.hot is not None:
            return engine.reshape(self.hot, (*self.hot.shape, 1))
        assert self.labels is not None
        if self.is_binary:
            return engine.reshape((self.labels == 1).astype(float32), self.scores.shape)
        numbers = engine.reshape(engine.arange(self.classes, dtype=int32), (1, self.classes, 1))
        return (engine.expand_dims(self.labels, axis=1) == numbers).astype(float32)

    def counts(self) -> Tensor:
        """The weight of each example, float32 [B, P]: its row's weight, 0 for an ignored label."""
        weight = engine.reshape(self.given.weight, (-1, 1))
        if self.labels is None:
            return weight
        return engine.where(self.labels >= 0, weight, engine.zeros_like(weight))

    def outside(self) -> Tensor:
        """Number of labels with weight that are not a class, float64 scalar; `refuse_outside` raises the error."""
        if self.labels is None:
            return engine.zeros((), dtype=float64)
        is_outside = (self.labels >= self.numbers).astype(float64)
        return engine.sum(is_outside * self.counts().astype(float64))


def examples(given: Predictions, ignore_index: int | None = None) -> Examples:
    """The scores and labels of a step's predictions.

    Args:
        ignore_index: ignored label, in addition to -1; None: 255 for pixels, unless that is a class.

    Raises:
        TrainerError: their shapes don't match.
    """
    are_logits = "logits" in given
    name = "logits" if are_logits else "scores"
    scores = given[name].astype(float32)
    if "labels_hot" in given and "labels" not in given:
        hot = given["labels_hot"].astype(float32)
        if scores.ndim != 2 or hot.shape != scores.shape:
            raise _misfit(name, scores, "labels_hot", hot, "both [B, C]")
        return Examples(engine.reshape(scores, (*scores.shape, 1)), None, hot, are_logits, given)
    labels = given["labels"].astype(int32)
    if labels.shape == scores.shape:
        scores = engine.expand_dims(scores, axis=1)
    elif scores.ndim != labels.ndim + 1 or scores.shape[:1] + scores.shape[2:] != labels.shape:
        raise _misfit(name, scores, "labels", labels, f"{name} [B, C, ...] and labels [B, ...]")
    rows, classes, positions = scores.shape[0], scores.shape[1], math.prod(labels.shape[1:])
    if ignore_index is None and labels.ndim > 1 and max(2, classes) <= IGNORED_PIXEL:
        ignore_index = IGNORED_PIXEL
    if ignore_index is not None:
        labels = engine.where(labels == ignore_index, engine.full_like(labels, -1), labels)
    return Examples(
        engine.reshape(scores, (rows, classes, positions)),
        engine.reshape(labels, (rows, positions)),
        None,
        are_logits,
        given,
    )


def refuse_outside(count: float) -> None:
    """Raises the error for labels that are not a class, if `count` is above 0."""
    if count > 0:
        raise TrainerError(
            "some labels are not a class",
            found=f"{count:g} of them at or above the number of scores",
            expected="0 to C - 1; ignored labels are -1 or `ignore_index`",
        )


def _misfit(name: str, scores: Tensor, other: str, labels: Tensor, expected: str) -> TrainerError:
    return TrainerError(
        f"the shape of the {other} doesn't match the {name}",
        found=f"{other} {list(labels.shape)} for {name} {list(scores.shape)}",
        expected=expected,
    )
