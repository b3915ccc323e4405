"""The learner: runs a task with optimizers, schedules, validation and checkpoints."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_LAZY = {
    "failures": ("TrainingFailure",),
    "hooks": ("Hook", "Moment", "TrainingHandle"),
    "loop": ("Learner",),
    "optimizers": (
        "LAMB",
        "SGD",
        "AdaGrad",
        "Adam",
        "AdamW",
        "Adan",
        "Group",
        "Lion",
        "Moments",
        "Muon",
        "Optimizer",
        "RMSProp",
        "Settings",
    ),
    "outcome": ("Outcome",),
    "plan": ("DataSplits", "Plan"),
    "samples": ("Sample",),
    "schedules": ("LearningRate",),
    "task": ("Batch", "Task"),
    "training": ("Training",),
    "verdict": ("Verdict",),
}
"""Modules that are imported on first use of these names: prediction needs only a few of them."""


def __getattr__(name: str) -> Any:
    for module, names in _LAZY.items():
        if name in names:
            return getattr(importlib.import_module(f"trainer.learner.{module}"), name)
    raise AttributeError(f"module 'trainer.learner' has no attribute {name!r}")
