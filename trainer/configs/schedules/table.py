"""The table of schedules, and the two that are made of others."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from trainer.configs.own import OWN_TAG, which
from trainer.configs.schedules.decay import (
    ConstantSchedule,
    ExponentialSchedule,
    LinearSchedule,
    PolynomialSchedule,
    StepSchedule,
    Time,
)
from trainer.configs.schedules.own import OwnSchedule
from trainer.configs.schedules.plateau import PlateauSchedule
from trainer.configs.schedules.schedule import Schedule, Stretch
from trainer.configs.schedules.waves import CosineSchedule, NoamSchedule, OneCycleSchedule, TriangularSchedule


class SequenceSchedule(Schedule):
    """One schedule after the other: the next begins, counting from 0, at each of the `milestones`."""

    name: Literal["sequence"] = "sequence"
    parts: tuple[ScheduleConfig, ...] = Field(min_length=2, description="The schedules in order.")
    milestones: tuple[Time, ...] = Field(
        min_length=1, description="Increasing times in `by`, one fewer than parts, at which the next part begins."
    )

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        step = time * stretch.unit
        starts = [0, *(milestone * stretch.unit for milestone in self.milestones)]
        ends = [*starts[1:], stretch.span.total_steps]
        factor = time * 0
        for part, start, end in zip(self.parts, starts, ends, strict=True):
            span = dataclasses.replace(stretch.span, total_steps=max(0, end - start))
            factor = xp.where(step >= start, part.factor(xp.maximum(step - start, step * 0), span, xp), factor)
        return factor

    def parts_within(self) -> tuple[Schedule, ...]:
        return self.parts


class ProductSchedule(Schedule):
    """The product of several schedules."""

    name: Literal["product"] = "product"
    parts: tuple[ScheduleConfig, ...] = Field(min_length=2, description="The schedules to multiply.")

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        factor = time * 0 + 1
        for part in self.parts:
            factor = factor * part.factor(time * stretch.unit, stretch.span, xp)
        return factor

    def parts_within(self) -> tuple[Schedule, ...]:
        return self.parts


def every_schedule(schedule: Schedule) -> tuple[Schedule, ...]:
    """The schedule and all that it is made of."""
    return (schedule, *(inner for part in schedule.parts_within() for inner in every_schedule(part)))


ScheduleConfig = Annotated[
    Annotated[ConstantSchedule, Tag("constant")]
    | Annotated[StepSchedule, Tag("step")]
    | Annotated[ExponentialSchedule, Tag("exponential")]
    | Annotated[LinearSchedule, Tag("linear")]
    | Annotated[PolynomialSchedule, Tag("polynomial")]
    | Annotated[CosineSchedule, Tag("cosine")]
    | Annotated[OneCycleSchedule, Tag("one_cycle")]
    | Annotated[TriangularSchedule, Tag("triangular")]
    | Annotated[NoamSchedule, Tag("noam")]
    | Annotated[PlateauSchedule, Tag("plateau")]
    | Annotated[SequenceSchedule, Tag("sequence")]
    | Annotated[ProductSchedule, Tag("product")]
    | Annotated[OwnSchedule, Tag(OWN_TAG)],
    Discriminator(which),
]
