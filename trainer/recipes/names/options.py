"""The `options:` of the names recipe, and what the task requires and returns."""

from __future__ import annotations

from pydantic import Field

from trainer.configs import Declaration, Returns, Section


class Options(Section):
    """Options of the task."""

    embedding: int = Field(64, gt=0, description="Number of features of each letter.")
    units: int = Field(192, gt=0, description="Number of units of the recurrent network, in each direction.")
    layers: int = Field(1, gt=0, description="Number of recurrent layers.")
    dropout: float = Field(
        0.4, ge=0, lt=1, description="Dropout: fraction of features that are dropped during training; 0: none."
    )
    smoothing: float = Field(
        0.1, ge=0, lt=1, description="Label smoothing: probability that is spread over all classes; 0: none."
    )


DECLARATION = Declaration(
    fields=("tokens", "label"),
    train=Returns(("loss",)),
    valid=Returns(("loss",), {"classes": ("logits", "labels")}),
)
