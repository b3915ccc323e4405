"""Constant schedules, and schedules that change in steps, exponentially, linearly or polynomially."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from trainer.configs.schedules.schedule import Schedule, Stretch, power
from trainer.configs.section import Contradiction

Time = Annotated[int, Field(gt=0)]


def not_increasing(milestones: Sequence[int]) -> Iterator[Contradiction]:
    """Yields a contradiction for every milestone that is not larger than the previous one."""
    for index, (before, after) in enumerate(pairwise(milestones), 1):
        if after <= before:
            yield ("milestones", index), f"milestones must increase, but {after} follows {before}", ("milestones",)


class ConstantSchedule(Schedule):
    """Keeps the learning rate constant."""

    name: Literal["constant"] = "constant"

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        return time * 0 + 1


class StepSchedule(Schedule):
    """Multiplies the learning rate by `gamma` every `step_size`, or at each of the `milestones`."""

    exactly_one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("step_size", "milestones"),)

    name: Literal["step"] = "step"
    by: Literal["step", "epoch"] = Field(
        "epoch", description="Unit of step_size and milestones: optimizer steps or epochs."
    )
    step_size: int | None = Field(
        None,
        gt=0,
        description="Steps or epochs (see `by`) between two reductions of the learning rate; null: `milestones` is "
        "used.",
    )
    milestones: tuple[Time, ...] | None = Field(
        None,
        min_length=1,
        description="Steps or epochs (see `by`) at which the learning rate is reduced, increasing; null: `step_size` "
        "is used.",
    )
    gamma: float = Field(0.1, gt=0, description="Factor that multiplies the learning rate at each reduction.")

    def contradictions(self) -> Iterator[Contradiction]:
        yield from not_increasing(self.milestones or ())

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        if self.step_size is not None:
            return power(self.gamma, xp.floor(time / self.step_size), xp)
        factor = time * 0 + 1
        for count, milestone in enumerate(self.milestones or (), start=1):
            factor = xp.where(time >= milestone, time * 0 + self.gamma**count, factor)
        return factor


class ExponentialSchedule(Schedule):
    """Multiplies the learning rate by `gamma` at every step or epoch."""

    name: Literal["exponential"] = "exponential"
    gamma: float = Field(
        gt=0,
        le=1,
        description="Factor that multiplies the learning rate at every step, or every epoch with `by: epoch`; 1: "
        "constant.",
    )

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        return power(self.gamma, time, xp)


class LinearSchedule(Schedule):
    """Changes the learning rate linearly from `start_factor` after the warm-up to `final_factor`."""

    needs_the_end: ClassVar[bool] = True

    name: Literal["linear"] = "linear"
    start_factor: float = Field(
        1.0, ge=0, description="Learning-rate factor at the start, after the warm-up; 1: the optimizer's learning rate."
    )
    final_factor: float = Field(
        0.0, ge=0, description="Learning-rate factor at the end; 0: the learning rate ends at 0."
    )
    duration: int | None = Field(
        None,
        gt=0,
        description="Length of the change in steps or epochs (see `by`), after the warm-up; null: until the end of "
        "the run.",
    )

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        progress = stretch.progress(time, xp, self.duration)
        return self.start_factor + (self.final_factor - self.start_factor) * progress


class PolynomialSchedule(Schedule):
    """Decreases the learning rate as (1 - progress) ** power to `final_factor` (Liu et al. 2015, DeepLab)."""

    needs_the_end: ClassVar[bool] = True

    name: Literal["polynomial"] = "polynomial"
    power: float = Field(
        0.9,
        gt=0,
        description="Exponent of the decay. 1: linear; below 1: falls mostly at the end; above 1: falls mostly at "
        "the start.",
    )
    final_factor: float = Field(
        0.0, ge=0, le=1, description="Learning-rate factor at the end; 0: the learning rate ends at 0."
    )
    duration: int | None = Field(
        None,
        gt=0,
        description="Length of the decay in steps or epochs (see `by`), after the warm-up; null: until the end of "
        "the run.",
    )

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        rest = 1 - stretch.progress(time, xp, self.duration)
        return self.final_factor + (1 - self.final_factor) * rest**self.power
