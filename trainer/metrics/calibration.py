"""Calibration: whether the confidence of predictions matches their accuracy."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

import numpy as np

from trainer import TrainerError, engine
from trainer.engine import Tensor, float64
from trainer.metrics.classes import examples, refuse_outside
from trainer.metrics.metric import Metric, Report, State
from trainer.metrics.predictions import Predictions


class CalibrationError(Metric):
    """The expected calibration error (Guo et al. 2017): the mean difference between confidence and accuracy over `bins`
    equal bins of confidence, weighted by their number of examples.

    An example's confidence is the probability of its predicted class. Bins include their upper end. `max` is the
    maximum difference of a bin.
    """

    needs = ("logits|scores", "labels")

    def __init__(self, bins: int = 15, ignore_index: int | None = None) -> None:
        self.bins, self.ignore_index = bins, ignore_index

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        found = examples(given, self.ignore_index)
        if found.labels is None:
            raise TrainerError("the calibration error needs one class per example", expected="labels, not labels_hot")
        probability = found.probabilities()
        if found.is_binary:
            positive = engine.squeeze(probability, axis=1)
            confidence = engine.maximum(positive, 1 - positive)
            right = (positive >= 0.5) == (found.labels == 1)
        else:
            confidence = engine.max(probability, axis=1)
            right = found.best() == found.labels
        confidence = engine.expand_dims(confidence.astype(float64), axis=2)
        edges = np.arange(self.bins + 1) / self.bins
        lower, upper = (engine.asarray(side.reshape(1, 1, -1)) for side in (edges[:-1], edges[1:]))
        counts = engine.expand_dims(found.counts().astype(float64), axis=2)
        within = ((confidence > lower) & (confidence <= upper)).astype(float64) * counts
        return {
            "counts": engine.sum(within, axis=(0, 1)),
            "confidence": engine.sum(within * confidence, axis=(0, 1)),
            "right": engine.sum(within * engine.expand_dims(right.astype(float64), axis=2), axis=(0, 1)),
            "outside": found.outside(),
        }

    def values(self, state: State) -> Mapping[str, float]:
        refuse_outside(float(state["outside"]))
        counts = state["counts"]
        if not counts.any():
            return {"": math.nan, "max": math.nan}
        gaps = np.abs(state["confidence"] - state["right"])
        filled = counts > 0
        return {"": float(gaps.sum() / counts.sum()), "max": float((gaps[filled] / counts[filled]).max())}

    def reports(self, state: State) -> Mapping[str, Report]:
        """The reliability diagram: mean confidence and accuracy of each nonempty bin."""
        filled = state["counts"] > 0
        counts = state["counts"][filled]
        curve = {"x": state["confidence"][filled] / counts, "y": state["right"][filled] / counts, "weight": counts}
        return {"": Report("curve", {"axes": {"x": "confidence", "y": "accuracy"}, "curves": [curve]})}

    def state_key(self) -> Hashable:
        return CalibrationError, self.bins, self.ignore_index
