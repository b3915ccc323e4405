"""The learner: runs a task with optimizers, schedules, validation and checkpoints.

Names are imported on first use: code that only predicts needs few of the modules.
"""

from typing import TYPE_CHECKING

from trainer import on_demand

if TYPE_CHECKING:
    from trainer.learner.failures import TrainingFailure as TrainingFailure
    from trainer.learner.hooks import Hook as Hook
    from trainer.learner.hooks import Moment as Moment
    from trainer.learner.hooks import TrainingHandle as TrainingHandle
    from trainer.learner.loop import Learner as Learner
    from trainer.learner.optimizers.adagrad import AdaGrad as AdaGrad
    from trainer.learner.optimizers.adam import Adam as Adam
    from trainer.learner.optimizers.adam import AdamW as AdamW
    from trainer.learner.optimizers.adan import Adan as Adan
    from trainer.learner.optimizers.groups import Group as Group
    from trainer.learner.optimizers.lamb import LAMB as LAMB
    from trainer.learner.optimizers.lion import Lion as Lion
    from trainer.learner.optimizers.muon import Muon as Muon
    from trainer.learner.optimizers.optimizer import Moments as Moments
    from trainer.learner.optimizers.optimizer import Optimizer as Optimizer
    from trainer.learner.optimizers.optimizer import Settings as Settings
    from trainer.learner.optimizers.rmsprop import RMSProp as RMSProp
    from trainer.learner.optimizers.sgd import SGD as SGD
    from trainer.learner.outcome import Outcome as Outcome
    from trainer.learner.plan import DataSplits as DataSplits
    from trainer.learner.plan import Plan as Plan
    from trainer.learner.samples import Sample as Sample
    from trainer.learner.schedules import LearningRate as LearningRate
    from trainer.learner.task import Batch as Batch
    from trainer.learner.task import Task as Task
    from trainer.learner.training import Training as Training
    from trainer.learner.verdict import Verdict as Verdict

__getattr__ = on_demand(__name__)
