"""ROC and precision-recall curves, each as a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trainer.metrics.metric import Report, State
from trainer.metrics.ranking import Ranked, Steps


class RocCurve(Ranked):
    """True positive rate over false positive rate at every threshold, by class: scikit-learn's `roc_curve`.

    Args:
        points: maximum number of points; longer curves are thinned out evenly.
        ignore_index: ignored label, in addition to -1; None: 255 for pixels.
    """

    def __init__(self, points: int = 1000, ignore_index: int | None = None) -> None:
        super().__init__(ignore_index)
        self.points = points

    def values(self, state: State) -> Mapping[str, float]:
        return {}

    def reports(self, state: State) -> Mapping[str, Report]:
        axes = {"x": "false positive rate", "y": "true positive rate"}
        curves = [thinned(roc_curve(steps), self.points) for steps in self.steps(state)]
        return {"": Report("curve", {"axes": axes, "curves": curves})}


class PrecisionRecallCurve(RocCurve):
    """Precision over recall at every threshold, by class: scikit-learn's `precision_recall_curve`."""

    def reports(self, state: State) -> Mapping[str, Report]:
        axes = {"x": "recall", "y": "precision"}
        curves = [thinned(precision_recall_curve(steps), self.points) for steps in self.steps(state)]
        return {"": Report("curve", {"axes": axes, "curves": curves})}


def roc_curve(steps: Steps) -> dict[str, np.ndarray]:
    """x, y and thresholds, starting at (0, 0) with an infinite threshold, without collinear points."""
    with np.errstate(invalid="ignore"):
        x = np.append(0, steps.false) / np.float64(steps.negatives)
        y = np.append(0, steps.true) / np.float64(steps.positives)
    thresholds = np.append(np.inf, steps.thresholds.astype(np.float64))
    kept = np.ones(len(x), bool)
    kept[2:-1] = (np.diff(steps.false, 2) != 0) | (np.diff(steps.true, 2) != 0)
    return {"x": x[kept], "y": y[kept], "thresholds": thresholds[kept]}


def precision_recall_curve(steps: Steps) -> dict[str, np.ndarray]:
    """x (recall), y (precision) and thresholds, from the highest threshold on, up to a recall of 1."""
    with np.errstate(invalid="ignore"):
        recall = steps.true / np.float64(steps.positives)
    last = int(np.searchsorted(steps.true, steps.positives)) + 1
    precision = steps.true / (steps.true + steps.false)
    return {"x": recall[:last], "y": precision[:last], "thresholds": steps.thresholds[:last].astype(np.float64)}


def thinned(curve: Mapping[str, np.ndarray], points: int) -> dict[str, Any]:
    """At most `points` points, including the first and the last."""
    length = len(curve["x"])
    kept = np.arange(length) if length <= points else np.round(np.linspace(0, length - 1, points)).astype(np.int64)
    return {name: values[kept] for name, values in curve.items()}
