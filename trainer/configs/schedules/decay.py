"""Schedules that only go down: in steps, exponentially, along a line or a power."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from trainer.configs.schedules.schedule import Schedule, Stretch, power
from trainer.configs.section import Contradiction

Time = Annotated[int, Field(gt=0)]


def not_increasing(milestones: Sequence[int]) -> Iterator[Contradiction]:
    """Each of a section's `milestones` that does not lie after the one before."""
    for index, (before, after) in enumerate(pairwise(milestones), 1):
        if after <= before:
            yield ("milestones", index), f"milestones must increase, but {after} follows {before}", ("milestones",)


class ConstantSchedule(Schedule):
    """The same learning rate throughout."""

    name: Literal["constant"] = "constant"

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        return time * 0 + 1


class StepSchedule(Schedule):
    """The learning rate times `gamma` every `step_size`, or at each of the `milestones`, counted in `by`."""

    exactly_one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("step_size", "milestones"),)

    name: Literal["step"] = "step"
    by: Literal["step", "epoch"] = Field("epoch", description="The unit of step_size and milestones.")
    step_size: int | None = Field(None, gt=0, description="Distance between two reductions.")
    milestones: tuple[Time, ...] | None = Field(None, min_length=1, description="Increasing times of the reductions.")
    gamma: float = Field(0.1, gt=0, description="Factor of each reduction.")

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
    """The learning rate times `gamma` at every step or epoch."""

    name: Literal["exponential"] = "exponential"
    gamma: float = Field(gt=0, le=1, description="Factor at each step, or each epoch with `by: epoch`.")

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        return power(self.gamma, time, xp)


class LinearSchedule(Schedule):
    """From `start_factor` after the warm-up in a straight line to `final_factor`."""

    needs_the_end: ClassVar[bool] = True

    name: Literal["linear"] = "linear"
    start_factor: float = Field(1.0, ge=0, description="The factor at the beginning.")
    final_factor: float = Field(0.0, ge=0, description="The factor at the end.")
    duration: int | None = Field(None, gt=0, description="Length of the line in `by`; null: to the end of the run.")

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        progress = stretch.progress(time, xp, self.duration)
        return self.start_factor + (self.final_factor - self.start_factor) * progress


class PolynomialSchedule(Schedule):
    """From 1 after the warm-up to `final_factor` as (1 - progress) ** power (Liu et al. 2015, and DeepLab)."""

    needs_the_end: ClassVar[bool] = True

    name: Literal["polynomial"] = "polynomial"
    power: float = Field(0.9, gt=0, description="1 is a straight line; below 1 falls late, above 1 early.")
    final_factor: float = Field(0.0, ge=0, le=1, description="The factor at the end.")
    duration: int | None = Field(None, gt=0, description="Length in `by`; null: to the end of the run.")

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        rest = 1 - stretch.progress(time, xp, self.duration)
        return self.final_factor + (1 - self.final_factor) * rest**self.power
