"""What every optimizer's section has, parameter groups, and optimizers of the user's own."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from trainer.configs.own import PATTERN, names_own_class
from trainer.configs.schedules import ScheduleConfig
from trainer.configs.section import Section

_Pattern = Annotated[str, Field(min_length=1)]


class ParameterGroup(Section):
    """Parameters by the pattern of their names, with settings of their own; of several that match the first holds."""

    match: _Pattern | tuple[_Pattern, ...] = Field(
        description="A pattern of the parameters' names, such as backbone.* or *.bias, or several."
    )
    learning_rate: float | None = Field(None, gt=0, le=1e6, description="Null: the optimizer's.")
    weight_decay: float | None = Field(None, ge=0, description="Null: the optimizer's.")
    schedule: ScheduleConfig | None = Field(None, description="Null: the optimizer's.")
    frozen: bool = Field(False, description="Leave the parameters as they are.")
    unfreeze_at_step: int = Field(0, ge=0, description="Leave them as they are until so many steps are done.")


class Optimizing(Section):
    """What every optimizer has."""

    code: ClassVar[str] = ""
    """Where the optimizer is: file:Class in learner/optimizers."""
    is_own: ClassVar[bool] = False

    name: str
    learning_rate: float = Field(gt=0, le=1e6)
    weight_decay: float = Field(0.0, ge=0)
    decay_norms_and_biases: bool = Field(
        True, description="Whether weight decay also concerns parameters of one axis: biases, scales of norms."
    )
    schedule: ScheduleConfig | None = Field(None, description="This optimizer's own schedule; null: the run's.")
    groups: tuple[ParameterGroup, ...] = Field((), description="Parameters with settings of their own.")

    def settings(self) -> dict[str, Any]:
        """What the optimizer's class is given beside the learning rate, the groups and the clipping."""
        common = set(Optimizing.model_fields) - {"weight_decay"}
        return {name: getattr(self, name) for name in type(self).model_fields if name not in common}


class OwnOptimizer(Optimizing):
    """A class derived from trainer.learner.Optimizer, named as ./file.py:Class."""

    is_own: ClassVar[bool] = True

    name: str = Field(pattern=PATTERN, description="The class, as ./file.py:Class.")
    options: dict[str, Any] = Field(default_factory=dict, description="Its own settings.")

    @staticmethod
    def is_meant_by(value: dict[str, Any]) -> bool:
        """Whether a mapping names a class of the user's own."""
        return names_own_class(value.get("name"))

    def settings(self) -> dict[str, Any]:
        return {**self.options, "weight_decay": self.weight_decay}
