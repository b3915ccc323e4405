"""The learner: runs a task with optimisers, schedules, validation and checkpoints."""

from trainer.learner.failures import TrainingFailure
from trainer.learner.loop import Learner
from trainer.learner.optimizers import SGD, Adam, AdamW, Optimizer
from trainer.learner.outcome import Outcome
from trainer.learner.samples import Sample
from trainer.learner.schedules import (
    ByEpoch,
    Constant,
    Cosine,
    LearningRate,
    MultiStep,
    Schedule,
    StepDecay,
    WarmUp,
)
from trainer.learner.task import Batch, DataSplits, Plan, Task

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Batch",
    "ByEpoch",
    "Constant",
    "Cosine",
    "DataSplits",
    "Learner",
    "LearningRate",
    "MultiStep",
    "Optimizer",
    "Outcome",
    "Plan",
    "Sample",
    "Schedule",
    "StepDecay",
    "Task",
    "TrainingFailure",
    "WarmUp",
]
