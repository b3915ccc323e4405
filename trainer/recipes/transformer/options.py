"""The `options:` of the transformer recipe, and what the task requires and returns."""

from __future__ import annotations

from pydantic import Field

from trainer.configs import Declaration, Returns, Section


class Options(Section):
    """Options of the task."""

    width: int = Field(192, gt=0, description="Number of features of each token; a multiple of twice the `heads`.")
    depth: int = Field(4, gt=0, description="Number of transformer blocks.")
    heads: int = Field(6, gt=0, description="Number of attention heads.")
    context: int = Field(
        1024, gt=0, description="Maximum number of tokens that the model sees, with those that it generates."
    )
    dropout: float = Field(
        0.1, ge=0, lt=1, description="Dropout: fraction of features that are dropped during training; 0: none."
    )
    prompt: str = Field("ROMEO:\n", min_length=1, description="Beginning of the texts that are shown.")
    shown: int = Field(400, gt=0, description="Number of tokens of each text that is shown.")


DECLARATION = Declaration(
    fields=("tokens",),
    train=Returns(("loss",)),
    valid=Returns(("loss",), {"next": ("logits", "labels", "characters")}),
)
