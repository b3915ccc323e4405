"""The learner: runs a task with optimisers, schedules, validation and checkpoints."""

from trainer.learner.failures import TrainingFailure
from trainer.learner.loop import Learner
from trainer.learner.optimizers import SGD, Adam, AdamW, Optimizer
from trainer.learner.outcome import Outcome
from trainer.learner.samples import Sample
from trainer.learner.schedules import LearningRate
from trainer.learner.task import Batch, DataSplits, Plan, Task

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Batch",
    "DataSplits",
    "Learner",
    "LearningRate",
    "Optimizer",
    "Outcome",
    "Plan",
    "Sample",
    "Task",
    "TrainingFailure",
]
