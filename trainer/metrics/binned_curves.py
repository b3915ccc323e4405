"""Approximate areas and curves from histograms of probabilities on the device, for any number of examples."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from trainer import engine
from trainer.engine import Tensor, float64, int32
from trainer.metrics.classes import examples, refuse_outside
from trainer.metrics.metric import Metric, State
from trainer.metrics.predictions import Predictions
from trainer.metrics.ranking import Average, Steps, area_of_all, average_precision, roc_area


class Binned(Metric):
    """Counts positive and all examples in `bins` equal bins of probability from 0 to 1.

    Examples of one bin are ties, as in the exact area of probabilities rounded down to bins.
    """

    needs = ("logits|scores", "labels|labels_hot")

    def __init__(self, bins: int = 1000, ignore_index: int | None = None) -> None:
        self.bins, self.ignore_index = bins, ignore_index

    def state_key(self) -> Hashable:
        return Binned, self.bins, self.ignore_index

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        found = examples(given, self.ignore_index)
        scores = found.probabilities()
        places = engine.clip(engine.floor(scores * self.bins), 0, self.bins - 1).astype(int32)
        counts = engine.broadcast_to(engine.expand_dims(found.counts(), axis=1), places.shape)
        positive = counts * found.right()

        def by_class(values: Tensor) -> Tensor:
            return engine.reshape(engine.moveaxis(values, 1, 0), (values.shape[1], -1))

        def histogram(weights: Tensor) -> Tensor:
            return engine.bincount(by_class(places), length=self.bins, weights=by_class(weights.astype(float64)))

        return {"true": histogram(positive), "all": histogram(counts), "outside": found.outside()}

    def steps(self, state: State) -> list[Steps]:
        """One-vs-rest for each class; for a binary task, the positive class only."""
        refuse_outside(float(state["outside"]))
        return [self._steps(true, every) for true, every in zip(state["true"], state["all"], strict=True)]

    def steps_together(self, state: State) -> Steps:
        """All (example, class) pairs pooled."""
        refuse_outside(float(state["outside"]))
        return self._steps(np.sum(state["true"], axis=0), np.sum(state["all"], axis=0))

    def _steps(self, true: np.ndarray, every: np.ndarray) -> Steps:
        downwards = np.flatnonzero(every)[::-1]
        found = np.cumsum(true[downwards])
        return Steps(found, np.cumsum(every[downwards]) - found, downwards / self.bins)


class RocAuc(Binned):
    """The area under the ROC curve of binned probabilities."""

    def __init__(self, average: Average = "macro", bins: int = 1000, ignore_index: int | None = None) -> None:
        super().__init__(bins, ignore_index)
        self.average = average

    def values(self, state: State) -> Mapping[str, float]:
        return {"": area_of_all(self, state, roc_area, self.average)}


class AveragePrecision(Binned):
    """The area under the precision-recall curve of binned probabilities."""

    def __init__(self, average: Average = "macro", bins: int = 1000, ignore_index: int | None = None) -> None:
        super().__init__(bins, ignore_index)
        self.average = average

    def values(self, state: State) -> Mapping[str, float]:
        return {"": area_of_all(self, state, average_precision, self.average)}
