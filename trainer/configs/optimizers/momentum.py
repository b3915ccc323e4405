"""Optimizers that go along a momentum."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainer.configs.optimizers.optimizing import Optimizing
from trainer.configs.section import Contradiction

_Beta = Annotated[float, Field(ge=0, lt=1)]


class SgdConfig(Optimizing):
    """Stochastic gradient descent with momentum (Sutskever et al. 2013, as PyTorch writes it)."""

    code: ClassVar[str] = "sgd:SGD"

    name: Literal["sgd"]
    learning_rate: float = Field(0.01, gt=0, le=1e6)
    momentum: float = Field(0.0, ge=0, lt=1)
    nesterov: bool = Field(False, description="Look ahead along the momentum; needs a momentum above 0.")
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty, added to the gradient.")

    def contradictions(self) -> Iterator[Contradiction]:
        if self.nesterov and self.momentum == 0:
            yield ("nesterov",), "needs a momentum above 0", ("nesterov", "momentum")


class LionConfig(Optimizing):
    """Lion, the sign of a momentum (Chen et al. 2023); wants a third to a tenth of AdamW's learning rate."""

    code: ClassVar[str] = "lion:Lion"

    name: Literal["lion"]
    learning_rate: float = Field(1e-4, gt=0, le=1e6)
    betas: tuple[_Beta, _Beta] = Field((0.9, 0.99), description="Weight of the momentum in the step, and its decay.")
    weight_decay: float = Field(0.0, ge=0, description="Share of the weights taken off, times the learning rate.")


class MuonConfig(Optimizing):
    """Muon, momentum made orthogonal, for weights of two axes and more; AdamW for the others (Jordan et al. 2024)."""

    code: ClassVar[str] = "muon:Muon"

    name: Literal["muon"]
    learning_rate: float = Field(1e-3, gt=0, le=1e6)
    momentum: float = Field(0.95, ge=0, lt=1)
    nesterov: bool = Field(True, description="Look ahead along the momentum.")
    iterations: int = Field(5, gt=0, description="Newton-Schulz iterations that make the momentum orthogonal.")
    match_adamw: bool = Field(True, description="Steps of AdamW's size, so that one learning rate serves both.")
    betas: tuple[_Beta, _Beta] = Field((0.9, 0.999), description="Decay of AdamW's two moments.")
    epsilon: float = Field(1e-8, gt=0)
    weight_decay: float = Field(0.1, ge=0, description="Share of the weights taken off, times the learning rate.")
