"""The schedules by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from trainer.configs.choice import OWN_TAG, Choice
from trainer.configs.schedules.schedule import Schedule

SCHEDULES: Mapping[str, str] = {
    "constant": "decay:ConstantSchedule",
    "step": "decay:StepSchedule",
    "exponential": "decay:ExponentialSchedule",
    "linear": "decay:LinearSchedule",
    "polynomial": "decay:PolynomialSchedule",
    "cosine": "waves:CosineSchedule",
    "one_cycle": "waves:OneCycleSchedule",
    "triangular": "waves:TriangularSchedule",
    "noam": "waves:NoamSchedule",
    "plateau": "plateau:PlateauSchedule",
    "sequence": "composite:SequenceSchedule",
    "product": "composite:ProductSchedule",
    OWN_TAG: "custom:OwnSchedule",
}
"""Maps each schedule's name to its section, as file:Class in this folder."""

if TYPE_CHECKING:
    ScheduleConfig = Schedule
else:
    ScheduleConfig = Annotated[Schedule, Choice(Schedule, SCHEDULES)]
