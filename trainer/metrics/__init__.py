"""What is measured: accumulated states that live in the traced step, and what is counted on the host."""

from trainer.metrics.accuracy import Accuracy
from trainer.metrics.mean import Mean
from trainer.metrics.state import Metric, Ratio, weighted
from trainer.metrics.throughput import Throughput

__all__ = ["Accuracy", "Mean", "Metric", "Ratio", "Throughput", "weighted"]
