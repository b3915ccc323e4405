"""`schedule:` the learning rate over the run, as a factor of the optimizer's: a section and its formula a class.

A further one is a class in a file here, and its row in table.py.
"""

from __future__ import annotations

from trainer.configs.schedules.decay import (
    ConstantSchedule,
    ExponentialSchedule,
    LinearSchedule,
    PolynomialSchedule,
    StepSchedule,
)
from trainer.configs.schedules.own import OwnSchedule
from trainer.configs.schedules.plateau import PlateauSchedule
from trainer.configs.schedules.schedule import Schedule, Span, Stretch
from trainer.configs.schedules.table import ProductSchedule, ScheduleConfig, SequenceSchedule, every_schedule
from trainer.configs.schedules.waves import CosineSchedule, NoamSchedule, OneCycleSchedule, TriangularSchedule

__all__ = [
    "ConstantSchedule",
    "CosineSchedule",
    "ExponentialSchedule",
    "LinearSchedule",
    "NoamSchedule",
    "OneCycleSchedule",
    "OwnSchedule",
    "PlateauSchedule",
    "PolynomialSchedule",
    "ProductSchedule",
    "Schedule",
    "ScheduleConfig",
    "SequenceSchedule",
    "Span",
    "StepSchedule",
    "Stretch",
    "TriangularSchedule",
    "every_schedule",
]
