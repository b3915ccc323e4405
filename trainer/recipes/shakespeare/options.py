"""The `options:` of the shakespeare recipe, and what the task requires and returns."""

from __future__ import annotations

from pydantic import Field

from trainer.configs import Declaration, Returns, Section


class Options(Section):
    """Options of the task."""

    embedding: int = Field(64, gt=0, description="Number of features of each token.")
    units: int = Field(384, gt=0, description="Number of units of each recurrent layer.")
    layers: int = Field(2, gt=0, description="Number of recurrent layers.")
    dropout: float = Field(
        0.3, ge=0, lt=1, description="Dropout: fraction of features that are dropped during training; 0: none."
    )
    prompt: str = Field("ROMEO:\n", min_length=1, description="Beginning of the texts that are shown.")
    shown: int = Field(400, gt=0, description="Number of tokens of each text that is shown.")


DECLARATION = Declaration(
    fields=("tokens",),
    train=Returns(("loss",)),
    valid=Returns(("loss",), {"next": ("logits", "labels", "characters")}),
)
