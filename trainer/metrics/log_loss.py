"""Log loss and perplexity: the probability assigned to the target class."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

import numpy as np

from trainer import engine
from trainer.engine import Tensor, float64, nn
from trainer.metrics.classes import Examples, examples, refuse_outside
from trainer.metrics.metric import State
from trainer.metrics.predictions import Predictions
from trainer.metrics.ratio import Ratio, divided

SMALLEST = float(np.finfo(np.float32).eps)
"""Probabilities are clipped to this distance from 0 and 1, as scikit-learn does for float32."""


class LogLoss(Ratio):
    """The mean of -log p of the target class, in nats: scikit-learn's `log_loss`.

    Computed from logits without rounding p. For multi-label tasks averaged over examples and classes.

    Args:
        ignore_index: ignored label, in addition to -1; None: 255 for pixels.
    """

    needs = ("logits|scores", "labels|labels_hot")

    def __init__(self, ignore_index: int | None = None) -> None:
        self.ignore_index = ignore_index

    def state_key(self) -> Hashable:
        return LogLoss, self.ignore_index

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        found = examples(given, self.ignore_index)
        counts = found.counts().astype(float64)
        losses = log_losses(found)
        counted = engine.where(counts > 0, losses * counts, engine.zeros_like(losses))
        return {
            "numerator": engine.sum(counted),
            "denominator": engine.sum(counts),
            "outside": found.outside(),
        }

    def values(self, state: State) -> Mapping[str, float]:
        refuse_outside(float(state["outside"]))
        return super().values(state)


class Perplexity(LogLoss):
    """exp(log loss) of next tokens, over all that are not ignored (Jelinek et al. 1977)."""

    def values(self, state: State) -> Mapping[str, float]:
        refuse_outside(float(state["outside"]))
        return {"": math.exp(divided(state["numerator"], state["denominator"]))}


class BitsPerCharacter(LogLoss):
    """The log loss of a text in bits per character: the sum of -log2 p of its tokens divided by its characters.

    The optional role `characters` [B, L] has the number of characters of each target token (`Vocabulary.characters`);
    without it every token is a character. Independent of the vocabulary, unlike perplexity.
    """

    needs = ("logits|scores", "labels")

    def state_key(self) -> Hashable:
        return BitsPerCharacter, self.ignore_index

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        parts = dict(super().partial(given))
        if "characters" in given:
            found = examples(given, self.ignore_index)
            counts = engine.reshape(given["characters"].astype(float64), found.counts().shape)
            parts["denominator"] = engine.sum(found.counts().astype(float64) * counts)
        return parts

    def values(self, state: State) -> Mapping[str, float]:
        refuse_outside(float(state["outside"]))
        return {"": divided(state["numerator"], state["denominator"]) / math.log(2)}


def log_losses(found: Examples) -> Tensor:
    """-log p of the target of each example, float64 [B, P]; undefined for ignored labels."""
    return _two_way(found) if found.labels is None or found.is_binary else _many_way(found)


def _many_way(found: Examples) -> Tensor:
    """-log p of each example's label, float64 [B, P]."""
    assert found.labels is not None
    label = engine.expand_dims(found.labels, axis=1)
    if found.are_logits:
        logarithms = nn.functional.log_softmax(found.scores, axis=1)
        own = engine.take_along_axis(logarithms, label, axis=1).astype(float64)
    else:
        own = engine.log(_inside(engine.take_along_axis(found.scores, label, axis=1).astype(float64)))
    return -engine.squeeze(own, axis=1)


def _two_way(found: Examples) -> Tensor:
    """The binary log loss, averaged over classes, float64 [B, P]."""
    right, scores = found.right().astype(float64), found.scores.astype(float64)
    if found.are_logits:
        losses = engine.maximum(scores, 0) - scores * right + engine.log1p(engine.exp(-engine.abs(scores)))
    else:
        scores = _inside(scores)
        losses = -(right * engine.log(scores) + (1 - right) * engine.log(1 - scores))
    return engine.mean(losses, axis=1)


def _inside(probabilities: Tensor) -> Tensor:
    return engine.clip(probabilities, SMALLEST, 1 - SMALLEST)
