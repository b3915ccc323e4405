"""The base of all optimizer sections, parameter groups, and custom optimizers."""

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar

from pydantic import Field

from trainer.configs.custom_class import PATTERN, names_own_class
from trainer.configs.schedules import ScheduleConfig
from trainer.configs.section import Contradiction, Section

LEARNING_RATE = "Learning rate at full height; the schedule multiplies it."
MOMENTUM = "Momentum, from 0 (none) to below 1; 0.9 is common."
EPSILON = "Small number added to the denominator, against division by zero."
BETAS = "Decay rates of the moving averages of the gradient and of its square, each from 0 to below 1."
L2_PENALTY = "L2 penalty: this factor times the weights is added to the gradient; 0: none."
DECOUPLED_DECAY = (
    "Decoupled weight decay: each step subtracts this factor times the learning rate times the weights; 0: none."
)

_Pattern = Annotated[str, Field(min_length=1)]


class ParameterGroup(Section):
    """Settings for the parameters whose names match a pattern. If several groups match, the first one applies."""

    match: _Pattern | tuple[_Pattern, ...] = Field(
        description="Shell pattern of parameter names, such as backbone.* or *.bias, or a list of patterns."
    )
    learning_rate: float | None = Field(
        None, gt=0, le=1e6, description="Learning rate of these parameters; null: the optimizer's learning rate."
    )
    weight_decay: float | None = Field(
        None, ge=0, description="Weight decay of these parameters; null: the optimizer's weight decay."
    )
    schedule: ScheduleConfig | None = Field(
        None, description="Learning-rate schedule of these parameters; null: the optimizer's schedule."
    )
    frozen: bool = Field(
        False,
        description="Freeze these parameters for the whole run: they are not trained, and batch norms among them keep "
        "their running statistics.",
    )
    unfreeze_at_step: int = Field(
        0,
        ge=0,
        description="Number of optimizer steps for which these parameters are frozen; 0: trained from the beginning.",
    )
    unfreeze_at_epoch: int = Field(
        0, ge=0, description="Number of epochs for which these parameters are frozen; 0: trained from the beginning."
    )

    def contradictions(self) -> Iterable[Contradiction]:
        keys = {"frozen": self.frozen, "unfreeze_at_step": self.unfreeze_at_step > 0}
        keys["unfreeze_at_epoch"] = self.unfreeze_at_epoch > 0
        given = [key for key, is_set in keys.items() if is_set]
        if len(given) > 1:
            yield (given[-1],), f"set together with {given[0]!r}; expected only one of them", tuple(given)


class Optimizing(Section):
    """Settings of every optimizer."""

    code: ClassVar[str] = ""
    """The class of the optimizer: file:Class in learner/optimizers."""
    is_own: ClassVar[bool] = False

    name: str
    learning_rate: float = Field(gt=0, le=1e6, description=LEARNING_RATE)
    weight_decay: float = Field(0.0, ge=0, description="Weight decay, as the optimizer applies it; 0: none.")
    decay_norms_and_biases: bool = Field(
        True,
        description="Apply weight decay to parameters with one axis, too: biases, and scales and shifts of "
        "normalization layers.",
    )
    schedule: ScheduleConfig | None = Field(
        None, description="Learning-rate schedule of this optimizer; null: the top-level `schedule`."
    )
    groups: tuple[ParameterGroup, ...] = Field(
        (),
        description="Parameter groups with different settings; empty: all parameters have the settings of this "
        "section.",
    )

    def settings(self) -> dict[str, Any]:
        """The keyword arguments of the optimizer's class, without learning rate, groups and clipping."""
        common = set(Optimizing.model_fields) - {"weight_decay"}
        return {name: getattr(self, name) for name in type(self).model_fields if name not in common}


class OwnOptimizer(Optimizing):
    """A custom optimizer: a class derived from trainer.learner.Optimizer."""

    is_own: ClassVar[bool] = True

    name: str = Field(
        pattern=PATTERN, description="Optimizer class, as ./file.py:Class, relative to the YAML file that sets it."
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="Keyword arguments of the optimizer's constructor."
    )

    @staticmethod
    def matches(value: dict[str, Any]) -> bool:
        """Whether a mapping names a custom class."""
        return names_own_class(value.get("name"))

    def settings(self) -> dict[str, Any]:
        return {**self.options, "weight_decay": self.weight_decay}
