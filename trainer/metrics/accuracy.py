"""Accuracy and top-k accuracy."""

from __future__ import annotations

from collections.abc import Mapping

from trainer import engine
from trainer.engine import Tensor, float32, float64
from trainer.metrics.classes import Examples, examples, refuse_outside
from trainer.metrics.metric import State
from trainer.metrics.predictions import Predictions
from trainer.metrics.ratio import Ratio


class Accuracy(Ratio):
    """The fraction of examples (pixels) whose predicted class is the target: scikit-learn's `accuracy_score`.

    Among equal scores, the first class is predicted. Multi-label examples need all classes correct.

    Args:
        threshold: minimum probability of a predicted class, for binary and multi-label examples.
        ignore_index: ignored label, in addition to -1; None: 255 for pixels.
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
        """Whether each example is correct, bool [B, P]."""
        if found.labels is not None and not found.is_binary:
            return found.best() == found.labels
        chosen = found.over(self.threshold).astype(float32)
        return engine.all(chosen == found.right(), axis=1)

    def values(self, state: State) -> Mapping[str, float]:
        refuse_outside(float(state["outside"]))
        return super().values(state)


class TopK(Accuracy):
    """The fraction of examples whose target class is among the `k` highest scores: `top_k_accuracy_score`.

    Among equal scores, the lower class index ranks higher, so the value equals `Accuracy` for k = 1.
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
