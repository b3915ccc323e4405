"""Optimizers with a separate step size for each weight."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainer.configs.optimizers.optimizing import (
    BETAS,
    DECOUPLED_DECAY,
    EPSILON,
    L2_PENALTY,
    LEARNING_RATE,
    MOMENTUM,
    Optimizing,
)

_Beta = Annotated[float, Field(ge=0, lt=1)]


class AdamConfig(Optimizing):
    """Adam (Kingma and Ba 2015)."""

    code: ClassVar[str] = "adam:Adam"

    name: Literal["adam"]
    learning_rate: float = Field(1e-3, gt=0, le=1e6, description=LEARNING_RATE)
    betas: tuple[_Beta, _Beta] = Field((0.9, 0.999), description=BETAS)
    epsilon: float = Field(1e-8, gt=0, description=EPSILON)
    weight_decay: float = Field(0.0, ge=0, description=L2_PENALTY)


class AdamWConfig(Optimizing):
    """AdamW: Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""

    code: ClassVar[str] = "adam:AdamW"

    name: Literal["adamw"]
    learning_rate: float = Field(1e-3, gt=0, le=1e6, description=LEARNING_RATE)
    betas: tuple[_Beta, _Beta] = Field((0.9, 0.999), description=BETAS)
    epsilon: float = Field(1e-8, gt=0, description=EPSILON)
    weight_decay: float = Field(0.01, ge=0, description=DECOUPLED_DECAY)


class RmsPropConfig(Optimizing):
    """RMSProp (Tieleman and Hinton 2012)."""

    code: ClassVar[str] = "rmsprop:RMSProp"

    name: Literal["rmsprop"]
    learning_rate: float = Field(0.01, gt=0, le=1e6, description=LEARNING_RATE)
    alpha: float = Field(
        0.99, ge=0, lt=1, description="Decay rate of the moving average of squared gradients, from 0 to below 1."
    )
    epsilon: float = Field(1e-8, gt=0, description=EPSILON)
    momentum: float = Field(0.0, ge=0, lt=1, description=MOMENTUM)
    centered: bool = Field(
        False, description="Normalize by the standard deviation of the gradient instead of its root mean square."
    )
    weight_decay: float = Field(0.0, ge=0, description=L2_PENALTY)


class AdaGradConfig(Optimizing):
    """AdaGrad (Duchi et al. 2011)."""

    code: ClassVar[str] = "adagrad:AdaGrad"

    name: Literal["adagrad"]
    learning_rate: float = Field(0.01, gt=0, le=1e6, description=LEARNING_RATE)
    learning_rate_decay: float = Field(
        0.0,
        ge=0,
        description="Learning-rate decay: the learning rate is divided by 1 + this factor times the step; 0: none.",
    )
    initial_sum: float = Field(0.0, ge=0, description="Initial value of the sum of squared gradients.")
    epsilon: float = Field(1e-10, gt=0, description=EPSILON)
    weight_decay: float = Field(0.0, ge=0, description=L2_PENALTY)


class AdanConfig(Optimizing):
    """Adan: adaptive Nesterov momentum (Xie et al. 2022)."""

    code: ClassVar[str] = "adan:Adan"

    name: Literal["adan"]
    learning_rate: float = Field(1e-3, gt=0, le=1e6, description=LEARNING_RATE)
    betas: tuple[_Beta, _Beta, _Beta] = Field(
        (0.98, 0.92, 0.99),
        description="Decay rates of the moving averages of the gradient, of its change and of its square, each from "
        "0 to below 1.",
    )
    epsilon: float = Field(1e-8, gt=0, description=EPSILON)
    weight_decay: float = Field(0.0, ge=0, description=DECOUPLED_DECAY)


class LambConfig(Optimizing):
    """LAMB: Adam with a layer-wise learning rate, for large batches (You et al. 2020)."""

    code: ClassVar[str] = "lamb:LAMB"

    name: Literal["lamb"]
    learning_rate: float = Field(1e-3, gt=0, le=1e6, description=LEARNING_RATE)
    betas: tuple[_Beta, _Beta] = Field((0.9, 0.999), description=BETAS)
    epsilon: float = Field(1e-6, gt=0, description=EPSILON)
    weight_decay: float = Field(
        0.01,
        ge=0,
        description="Weight decay: this factor times the weights is added to the update before it is scaled by "
        "layer; 0: none.",
    )
