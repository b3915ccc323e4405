"""Folds metrics off the device: rows pass through shared memory to a separate process, values come back."""

from trainer.metrics.folding.fold import NotANumber, Slot
from trainer.metrics.folding.form import Form
from trainer.metrics.folding.process import Answer, FoldingProcess, MetricFailure

__all__ = ["Answer", "FoldingProcess", "Form", "MetricFailure", "NotANumber", "Slot"]
