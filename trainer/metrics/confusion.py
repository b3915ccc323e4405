"""The confusion matrix: how often each target class was predicted as each class."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from trainer import TrainerError, engine
from trainer.engine import Tensor, float64
from trainer.metrics.classes import examples, refuse_outside
from trainer.metrics.metric import Metric, Report, State
from trainer.metrics.predictions import Predictions


class Confusion(Metric):
    """Accumulates counts [C, C], target classes in rows and predicted ones in columns: scikit-learn's
    `confusion_matrix`.

    Metrics computed from them derive from this class. Binary tasks have the classes 0 and 1.

    Args:
        threshold: minimum probability of the positive class of a binary task.
        ignore_index: ignored label, in addition to -1; None: 255 for pixels.
    """

    needs = ("logits|scores", "labels")

    def __init__(self, threshold: float = 0.5, ignore_index: int | None = None) -> None:
        self.threshold, self.ignore_index = threshold, ignore_index

    def state_key(self) -> Hashable:
        return Confusion, self.threshold, self.ignore_index

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        found = examples(given, self.ignore_index)
        labels, classes = found.labels, found.numbers
        assert labels is not None
        chosen = engine.squeeze(found.over(self.threshold), axis=1) if found.is_binary else found.best()
        is_class = (labels >= 0) & (labels < classes)
        cells = engine.where(is_class, labels * classes + chosen.astype(labels.dtype), engine.full_like(labels, -1))
        weight = engine.reshape(found.counts().astype(float64), (-1,))
        counts = engine.bincount(engine.reshape(cells, (-1,)), length=classes**2, weights=weight)
        return {"counts": engine.reshape(counts, (classes, classes)), "outside": found.outside()}

    def values(self, state: State) -> Mapping[str, float]:
        return self.of(self._counts(state))

    def of(self, counts: np.ndarray) -> Mapping[str, float]:
        """The values from counts, float64 [C, C]."""
        raise TrainerError(f"{type(self).__name__} has no `of` method")

    def _counts(self, state: State) -> np.ndarray:
        refuse_outside(float(state["outside"]))
        return np.asarray(state["counts"], np.float64)


class ConfusionMatrix(Confusion):
    """The counts as a report; no value."""

    def of(self, counts: np.ndarray) -> Mapping[str, float]:
        return {}

    def reports(self, state: State) -> Mapping[str, Report]:
        counts = self._counts(state)
        whole = counts.astype(np.int64) if np.all(counts == np.round(counts)) else counts
        return {"": Report("confusion_matrix", {"counts": whole})}
