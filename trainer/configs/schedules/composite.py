"""Schedules made of other schedules."""

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from trainer.configs.schedules.decay import Time, not_increasing
from trainer.configs.schedules.schedule import Schedule, Stretch
from trainer.configs.schedules.table import ScheduleConfig
from trainer.configs.section import Contradiction


class SequenceSchedule(Schedule):
    """Runs schedules one after the other. Each starts counting from 0 at its milestone."""

    name: Literal["sequence"] = "sequence"
    parts: tuple[ScheduleConfig, ...] = Field(min_length=2, description="Schedules, in order.")
    milestones: tuple[Time, ...] = Field(
        min_length=1,
        description="Start of each schedule after the first, in the unit of `by`; increasing, one fewer than parts.",
    )

    def contradictions(self) -> Iterator[Contradiction]:
        yield from not_increasing(self.milestones)
        if len(self.milestones) != len(self.parts) - 1:
            message = f"{len(self.parts)} parts need {len(self.parts) - 1} milestones, found {len(self.milestones)}"
            yield ("milestones",), message, ("milestones", "parts")

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
    """Multiplies the factors of several schedules."""

    name: Literal["product"] = "product"
    parts: tuple[ScheduleConfig, ...] = Field(min_length=2, description="Schedules whose factors are multiplied.")

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        factor = time * 0 + 1
        for part in self.parts:
            factor = factor * part.factor(time * stretch.unit, stretch.span, xp)
        return factor

    def parts_within(self) -> tuple[Schedule, ...]:
        return self.parts
