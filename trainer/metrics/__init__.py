"""Metrics: states that are accumulated in the traced step or in a separate process, and functions from states to
values.
"""

from trainer.metrics.accuracy import Accuracy, TopK
from trainer.metrics.metric import Measured, Metric, Report, State
from trainer.metrics.predictions import Predictions
from trainer.metrics.ratio import Mean, Ratio, weighted
from trainer.metrics.registry import metric_from
from trainer.metrics.rows import Rows

__all__ = [
    "Accuracy",
    "Mean",
    "Measured",
    "Metric",
    "Predictions",
    "Ratio",
    "Report",
    "Rows",
    "State",
    "TopK",
    "metric_from",
    "weighted",
]
