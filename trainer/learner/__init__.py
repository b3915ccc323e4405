"""The learner: runs a task with optimisers, schedules, validation and checkpoints."""

from trainer.learner.failures import TrainingFailure
from trainer.learner.hooks import Hook, Moment, TrainingHandle
from trainer.learner.loop import Learner
from trainer.learner.optimizers import (
    LAMB,
    SGD,
    AdaGrad,
    Adam,
    AdamW,
    Adan,
    Group,
    Lion,
    Moments,
    Muon,
    Optimizer,
    RMSProp,
    Settings,
)
from trainer.learner.outcome import Outcome
from trainer.learner.plan import DataSplits, Plan
from trainer.learner.samples import Sample
from trainer.learner.schedules import LearningRate
from trainer.learner.task import Batch, Task
from trainer.learner.training import Training
from trainer.learner.verdict import Verdict

__all__ = [
    "LAMB",
    "SGD",
    "AdaGrad",
    "Adam",
    "AdamW",
    "Adan",
    "Batch",
    "DataSplits",
    "Group",
    "Hook",
    "Learner",
    "LearningRate",
    "Lion",
    "Moment",
    "Moments",
    "Muon",
    "Optimizer",
    "Outcome",
    "Plan",
    "RMSProp",
    "Sample",
    "Settings",
    "Task",
    "Training",
    "TrainingFailure",
    "TrainingHandle",
    "Verdict",
]
