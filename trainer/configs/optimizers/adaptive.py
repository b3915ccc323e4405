"""Optimizers with a step size for each weight."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainer.configs.optimizers.optimizing import Optimizing

_Beta = Annotated[float, Field(ge=0, lt=1)]


class AdamConfig(Optimizing):
    """Adam (Kingma and Ba 2015)."""

    code: ClassVar[str] = "adam:Adam"

    name: Literal["adam"]
    learning_rate: float = Field(1e-3, gt=0, le=1e6)
    betas: tuple[_Beta, _Beta] = Field((0.9, 0.999), description="Decay of the two moments.")
    epsilon: float = Field(1e-8, gt=0)
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty, added to the gradient.")


class AdamWConfig(Optimizing):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""

    code: ClassVar[str] = "adam:AdamW"

    name: Literal["adamw"]
    learning_rate: float = Field(1e-3, gt=0, le=1e6)
    betas: tuple[_Beta, _Beta] = Field((0.9, 0.999), description="Decay of the two moments.")
    epsilon: float = Field(1e-8, gt=0)
    weight_decay: float = Field(0.01, ge=0, description="Share of the weights taken off, times the learning rate.")


class RmsPropConfig(Optimizing):
    """RMSProp (Tieleman and Hinton 2012)."""

    code: ClassVar[str] = "rmsprop:RMSProp"

    name: Literal["rmsprop"]
    learning_rate: float = Field(0.01, gt=0, le=1e6)
    alpha: float = Field(0.99, ge=0, lt=1, description="Decay of the average of squares.")
    epsilon: float = Field(1e-8, gt=0)
    momentum: float = Field(0.0, ge=0, lt=1)
    centered: bool = Field(False, description="Divide by the deviation from the gradient's own average.")
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty, added to the gradient.")


class AdaGradConfig(Optimizing):
    """AdaGrad (Duchi et al. 2011)."""

    code: ClassVar[str] = "adagrad:AdaGrad"

    name: Literal["adagrad"]
    learning_rate: float = Field(0.01, gt=0, le=1e6)
    learning_rate_decay: float = Field(0.0, ge=0, description="The rate is divided by 1 + this times the step.")
    initial_sum: float = Field(0.0, ge=0, description="What the sum of squares begins with.")
    epsilon: float = Field(1e-10, gt=0)
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty, added to the gradient.")


class AdanConfig(Optimizing):
    """Adan, adaptive Nesterov momentum (Xie et al. 2022)."""

    code: ClassVar[str] = "adan:Adan"

    name: Literal["adan"]
    learning_rate: float = Field(1e-3, gt=0, le=1e6)
    betas: tuple[_Beta, _Beta, _Beta] = Field((0.98, 0.92, 0.99), description="Decay of the three moments.")
    epsilon: float = Field(1e-8, gt=0)
    weight_decay: float = Field(0.0, ge=0, description="Share of the weights taken off, times the learning rate.")


class LambConfig(Optimizing):
    """LAMB, Adam with a learning rate by layer, for large batches (You et al. 2020)."""

    code: ClassVar[str] = "lamb:LAMB"

    name: Literal["lamb"]
    learning_rate: float = Field(1e-3, gt=0, le=1e6)
    betas: tuple[_Beta, _Beta] = Field((0.9, 0.999), description="Decay of the two moments.")
    epsilon: float = Field(1e-6, gt=0)
    weight_decay: float = Field(0.01, ge=0, description="Share of the weights in the direction of the step.")
