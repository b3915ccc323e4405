"""`optimizer:` one optimizer, or `optimizers:` several by name. A further one is a file in `learner/optimizers` and its
section here, which says in `code` where that is; no other place knows of it.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag

from trainer.configs.own import OWN_TAG, PATTERN, names_own_class, which
from trainer.configs.schedules import ScheduleConfig
from trainer.configs.section import Section

_Beta = Annotated[float, Field(ge=0, lt=1)]
_Pattern = Annotated[str, Field(min_length=1)]


class ParameterGroup(Section):
    """Parameters by the pattern of their names, with settings of their own; of several that match the first holds."""

    match: _Pattern | tuple[_Pattern, ...] = Field(
        description="A pattern of the parameters' names, such as backbone.* or *.bias, or several."
    )
    learning_rate: float | None = Field(None, gt=0, description="Null: the optimizer's.")
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
    learning_rate: float = Field(gt=0)
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


class SgdConfig(Optimizing):
    """Stochastic gradient descent with momentum (Sutskever et al. 2013, as PyTorch writes it)."""

    code: ClassVar[str] = "sgd:SGD"

    name: Literal["sgd"]
    learning_rate: float = Field(0.01, gt=0)
    momentum: float = Field(0.0, ge=0, lt=1)
    nesterov: bool = Field(False, description="Look ahead along the momentum; needs a momentum above 0.")
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty, added to the gradient.")


class AdamConfig(Optimizing):
    """Adam (Kingma and Ba 2015)."""

    code: ClassVar[str] = "adam:Adam"

    name: Literal["adam"]
    learning_rate: float = Field(1e-3, gt=0)
    betas: tuple[_Beta, _Beta] = Field((0.9, 0.999), description="Decay of the two moments.")
    epsilon: float = Field(1e-8, gt=0)
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty, added to the gradient.")


class AdamWConfig(Optimizing):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""

    code: ClassVar[str] = "adam:AdamW"

    name: Literal["adamw"]
    learning_rate: float = Field(1e-3, gt=0)
    betas: tuple[_Beta, _Beta] = Field((0.9, 0.999), description="Decay of the two moments.")
    epsilon: float = Field(1e-8, gt=0)
    weight_decay: float = Field(0.01, ge=0, description="Share of the weights taken off, times the learning rate.")


class RmsPropConfig(Optimizing):
    """RMSProp (Tieleman and Hinton 2012)."""

    code: ClassVar[str] = "rmsprop:RMSProp"

    name: Literal["rmsprop"]
    learning_rate: float = Field(0.01, gt=0)
    alpha: float = Field(0.99, ge=0, lt=1, description="Decay of the average of squares.")
    epsilon: float = Field(1e-8, gt=0)
    momentum: float = Field(0.0, ge=0, lt=1)
    centered: bool = Field(False, description="Divide by the deviation from the gradient's own average.")
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty, added to the gradient.")


class AdaGradConfig(Optimizing):
    """AdaGrad (Duchi et al. 2011)."""

    code: ClassVar[str] = "adagrad:AdaGrad"

    name: Literal["adagrad"]
    learning_rate: float = Field(0.01, gt=0)
    learning_rate_decay: float = Field(0.0, ge=0, description="The rate is divided by 1 + this times the step.")
    initial_sum: float = Field(0.0, ge=0, description="What the sum of squares begins with.")
    epsilon: float = Field(1e-10, gt=0)
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty, added to the gradient.")


class AdanConfig(Optimizing):
    """Adan, adaptive Nesterov momentum (Xie et al. 2022)."""

    code: ClassVar[str] = "adan:Adan"

    name: Literal["adan"]
    learning_rate: float = Field(1e-3, gt=0)
    betas: tuple[_Beta, _Beta, _Beta] = Field((0.98, 0.92, 0.99), description="Decay of the three moments.")
    epsilon: float = Field(1e-8, gt=0)
    weight_decay: float = Field(0.0, ge=0, description="Share of the weights taken off, times the learning rate.")


class LionConfig(Optimizing):
    """Lion, the sign of a momentum (Chen et al. 2023); wants a third to a tenth of AdamW's learning rate."""

    code: ClassVar[str] = "lion:Lion"

    name: Literal["lion"]
    learning_rate: float = Field(1e-4, gt=0)
    betas: tuple[_Beta, _Beta] = Field((0.9, 0.99), description="Weight of the momentum in the step, and its decay.")
    weight_decay: float = Field(0.0, ge=0, description="Share of the weights taken off, times the learning rate.")


class LambConfig(Optimizing):
    """LAMB, Adam with a learning rate by layer, for large batches (You et al. 2020)."""

    code: ClassVar[str] = "lamb:LAMB"

    name: Literal["lamb"]
    learning_rate: float = Field(1e-3, gt=0)
    betas: tuple[_Beta, _Beta] = Field((0.9, 0.999), description="Decay of the two moments.")
    epsilon: float = Field(1e-6, gt=0)
    weight_decay: float = Field(0.01, ge=0, description="Share of the weights in the direction of the step.")


class MuonConfig(Optimizing):
    """Muon, momentum made orthogonal, for weights of two axes and more; AdamW for the others (Jordan et al. 2024)."""

    code: ClassVar[str] = "muon:Muon"

    name: Literal["muon"]
    learning_rate: float = Field(1e-3, gt=0)
    momentum: float = Field(0.95, ge=0, lt=1)
    nesterov: bool = Field(True, description="Look ahead along the momentum.")
    iterations: int = Field(5, gt=0, description="Newton-Schulz iterations that make the momentum orthogonal.")
    match_adamw: bool = Field(True, description="Steps of AdamW's size, so that one learning rate serves both.")
    betas: tuple[_Beta, _Beta] = Field((0.9, 0.999), description="Decay of AdamW's two moments.")
    epsilon: float = Field(1e-8, gt=0)
    weight_decay: float = Field(0.1, ge=0, description="Share of the weights taken off, times the learning rate.")


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


OptimizerConfig = Annotated[
    Annotated[SgdConfig, Tag("sgd")]
    | Annotated[AdamConfig, Tag("adam")]
    | Annotated[AdamWConfig, Tag("adamw")]
    | Annotated[RmsPropConfig, Tag("rmsprop")]
    | Annotated[AdaGradConfig, Tag("adagrad")]
    | Annotated[AdanConfig, Tag("adan")]
    | Annotated[LionConfig, Tag("lion")]
    | Annotated[LambConfig, Tag("lamb")]
    | Annotated[MuonConfig, Tag("muon")]
    | Annotated[OwnOptimizer, Tag(OWN_TAG)],
    Discriminator(which),
]
