"""`schedule:` the learning rate over the run, as a factor of the optimizer's."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainer.configs.section import Section


class _Schedule(Section):
    """What every schedule has: its unit of time, and a linear warm-up in front."""

    at_most_one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("warmup_steps", "warmup_epochs"),)

    name: str
    by: Literal["step", "epoch"] = Field("step", description="Whether the factor changes at every step or every epoch.")
    warmup_steps: int | None = Field(None, ge=0, description="Steps over which the factor grows linearly to 1.")
    warmup_epochs: float | None = Field(None, ge=0, description="The same in epochs.")


class ConstantSchedule(_Schedule):
    """The same learning rate throughout."""

    name: Literal["constant"]


class StepSchedule(_Schedule):
    """The learning rate times `gamma` every `step_size`, or at each of the `milestones`, counted in `by`."""

    exactly_one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("step_size", "milestones"),)

    name: Literal["step"]
    by: Literal["step", "epoch"] = Field("epoch", description="The unit of step_size and milestones.")
    step_size: int | None = Field(None, gt=0, description="Distance between two reductions.")
    milestones: tuple[Annotated[int, Field(gt=0)], ...] | None = Field(
        None, min_length=1, description="Increasing times of the reductions."
    )
    gamma: float = Field(0.1, gt=0, description="Factor of each reduction.")


class CosineSchedule(_Schedule):
    """Half a cosine from 1 at the end of the warm-up to `final_factor` at the end of the run."""

    name: Literal["cosine"]
    final_factor: float = Field(0.0, ge=0, le=1, description="The factor at the end of the run.")


ScheduleConfig = Annotated[ConstantSchedule | StepSchedule | CosineSchedule, Field(discriminator="name")]
