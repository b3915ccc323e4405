"""The share of examples whose most likely class is the right one."""

from __future__ import annotations

from collections.abc import Mapping

from trainer import engine
from trainer.engine import Tensor, float32, float64
from trainer.metrics.classes import Examples, examples, refuse_outside
from trainer.metrics.metric import State
from trainer.metrics.predictions import Predictions
from trainer.metrics.ratio import Ratio


class Accuracy(Ratio):
    """The share of examples (pixels) whose class is the right one: scikit-learn's `accuracy_score`.

    Of equal scores the first class counts. Of multi-label examples all classes must be right.

    Args:
        threshold: from which probability on a class counts as chosen, of binary and multi-label ones.
        ignore_index: labels that count for nothing, beside -1; None: 255 of pixels.
    """

    needs = ("logits|scores", "labels|labels_hot")

    def __init__(self, threshold: float = 0.5, ignore_index: int | None = None) -> None:
        self.threshold, self.ignore_index = threshold, ignore_index

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        found = examples(given, self.ignore_index)
        counts = found.counts()
        correct = engine.where(self.is_right(found), counts, engine.zeros_like(counts))
        return {
            "numerator": engine.sum(correct, dtype=float64),
            "denominator": engine.sum(counts, dtype=float64),
            "outside": found.outside(),
        }

    def is_right(self, found: Examples) -> Tensor:
        """Whether each example counts as right, bool [B, P]."""
        if found.labels is not None and not found.is_binary:
            return found.best() == found.labels
        chosen = found.over(self.threshold).astype(float32)
        return engine.all(chosen == found.right(), axis=1)

    def values(self, state: State) -> Mapping[str, float]:
        refuse_outside(float(state["outside"]))
        return super().values(state)


class TopK(Accuracy):
    """The share of examples whose right class is among the `k` of greatest score: `top_k_accuracy_score`.

    Of equal scores those of lower number are greater, so the value is one with `Accuracy` at k = 1.
    """

    needs = ("logits|scores", "labels")

    def __init__(self, k: int = 5, ignore_index: int | None = None) -> None:
        super().__init__(ignore_index=ignore_index)
        self.k = k

    def is_right(self, found: Examples) -> Tensor:
        assert found.labels is not None
        label = engine.expand_dims(found.labels, axis=1)
        own = engine.take_along_axis(found.scores, label, axis=1)
        numbers = engine.reshape(engine.arange(found.classes, dtype=label.dtype), (1, found.classes, 1))
        before = (found.scores > own) | ((found.scores == own) & (numbers < label))
        return engine.sum(before.astype(float32), axis=1) < self.k
