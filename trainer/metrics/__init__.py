"""What is measured: accumulated states that live in the traced step."""

from trainer.metrics.accuracy import Accuracy
from trainer.metrics.mean import Mean
from trainer.metrics.state import Metric, Ratio, weighted

__all__ = ["Accuracy", "Mean", "Metric", "Ratio", "weighted"]
