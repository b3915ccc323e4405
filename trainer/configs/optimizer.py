"""`optimizer:` one optimizer, or `optimizers:` several by name."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainer.configs.schedules import ScheduleConfig
from trainer.configs.section import Section

_Beta = Annotated[float, Field(ge=0, lt=1)]


class _Optimizer(Section):
    """What every optimizer has."""

    name: str
    learning_rate: float = Field(gt=0)
    weight_decay: float = Field(0.0, ge=0)
    schedule: ScheduleConfig | None = Field(None, description="This optimizer's own schedule; null: the run's.")


class SgdConfig(_Optimizer):
    """Stochastic gradient descent with momentum (Sutskever et al. 2013, as PyTorch writes it)."""

    name: Literal["sgd"]
    learning_rate: float = Field(0.01, gt=0)
    momentum: float = Field(0.0, ge=0, lt=1)
    nesterov: bool = Field(False, description="Look ahead along the momentum; needs a momentum above 0.")
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty, added to the gradient.")


class AdamConfig(_Optimizer):
    """Adam (Kingma and Ba 2015)."""

    name: Literal["adam"]
    learning_rate: float = Field(1e-3, gt=0)
    betas: tuple[_Beta, _Beta] = Field((0.9, 0.999), description="Decay of the two moments.")
    epsilon: float = Field(1e-8, gt=0)
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty, added to the gradient.")


class AdamWConfig(_Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""

    name: Literal["adamw"]
    learning_rate: float = Field(1e-3, gt=0)
    betas: tuple[_Beta, _Beta] = Field((0.9, 0.999), description="Decay of the two moments.")
    epsilon: float = Field(1e-8, gt=0)
    weight_decay: float = Field(0.01, ge=0, description="Share of the weights taken off, times the learning rate.")


OptimizerConfig = Annotated[SgdConfig | AdamConfig | AdamWConfig, Field(discriminator="name")]
