"""The `options:` of the forecast recipe, and what the task requires and returns."""

from __future__ import annotations

from pydantic import Field

from trainer.configs import Declaration, Returns, Section


class Options(Section):
    """Options of the task."""

    units: int = Field(64, gt=0, description="Number of units of each recurrent layer.")
    layers: int = Field(1, gt=0, description="Number of recurrent layers.")
    dropout: float = Field(
        0.2, ge=0, lt=1, description="Dropout: fraction of features that are dropped during training; 0: none."
    )


DECLARATION = Declaration(
    fields=("history", "future"),
    train=Returns(("loss",)),
    valid=Returns(("loss",), {"values": ("predicted", "target")}),
)
