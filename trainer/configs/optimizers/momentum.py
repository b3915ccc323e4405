"""Optimizers with momentum."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainer.configs.optimizers.optimizing import (
    DECOUPLED_DECAY,
    EPSILON,
    L2_PENALTY,
    LEARNING_RATE,
    MOMENTUM,
    Optimizing,
)
from trainer.configs.section import Contradiction

_Beta = Annotated[float, Field(ge=0, lt=1)]


class SgdConfig(Optimizing):
    """Stochastic gradient descent with momentum (Sutskever et al. 2013, in PyTorch's formulation)."""

    code: ClassVar[str] = "sgd:SGD"

    name: Literal["sgd"]
    learning_rate: float = Field(0.01, gt=0, le=1e6, description=LEARNING_RATE)
    momentum: float = Field(0.0, ge=0, lt=1, description=MOMENTUM)
    nesterov: bool = Field(False, description="Use Nesterov momentum; needs a momentum above 0.")
    weight_decay: float = Field(0.0, ge=0, description=L2_PENALTY)

    def contradictions(self) -> Iterator[Contradiction]:
        if self.nesterov and self.momentum == 0:
            yield ("nesterov",), "needs a momentum above 0", ("nesterov", "momentum")


class LionConfig(Optimizing):
    """Lion: the sign of the momentum (Chen et al. 2023). Use a third to a tenth of AdamW's learning rate."""

    code: ClassVar[str] = "lion:Lion"

    name: Literal["lion"]
    learning_rate: float = Field(1e-4, gt=0, le=1e6, description=LEARNING_RATE)
    betas: tuple[_Beta, _Beta] = Field(
        (0.9, 0.99),
        description="Weight of the momentum in the update, and decay rate of the momentum, each from 0 to below 1.",
    )
    weight_decay: float = Field(0.0, ge=0, description=DECOUPLED_DECAY)


class MuonConfig(Optimizing):
    """Muon: orthogonalized momentum for weights of two and more axes, AdamW for all others (Jordan et al. 2024)."""

    code: ClassVar[str] = "muon:Muon"

    name: Literal["muon"]
    learning_rate: float = Field(1e-3, gt=0, le=1e6, description=LEARNING_RATE)
    momentum: float = Field(0.95, ge=0, lt=1, description=MOMENTUM)
    nesterov: bool = Field(True, description="Use Nesterov momentum.")
    iterations: int = Field(5, gt=0, description="Number of Newton-Schulz iterations that orthogonalize the momentum.")
    match_adamw: bool = Field(
        True, description="Scale updates to the size of AdamW's, so that one learning rate works for all parameters."
    )
    betas: tuple[_Beta, _Beta] = Field(
        (0.9, 0.999),
        description="Decay rates of AdamW's moving averages of the gradient and of its square, each from 0 to below 1.",
    )
    epsilon: float = Field(1e-8, gt=0, description=EPSILON)
    weight_decay: float = Field(0.1, ge=0, description=DECOUPLED_DECAY)
