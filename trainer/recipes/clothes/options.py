"""What can be set under `options:` of the clothes recipe, and what the task needs and gives."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainer.configs import Declaration, Returns, Section


class Options(Section):
    """Options of the task."""

    blocks: tuple[int, ...] = Field((2, 2, 2, 2), min_length=1, description="Residual blocks of each stage.")
    width: int = Field(32, gt=0, description="Channels of the first stage; each further one has twice as many.")
    dropout: float = Field(0.2, ge=0, lt=1, description="Share of pooled features left out in training.")
    stem: Literal["standard", "small"] = Field(
        "standard", description="standard: a quarter of the size before the first stage; small: a half."
    )
    cutmix: float = Field(0.5, ge=0, le=1, description="Share of training pictures that get a piece of another.")


DECLARATION = Declaration(
    fields=("image", "label"),
    train=Returns(("loss",)),
    valid=Returns(("loss",), {"classes": ("logits", "labels")}),
)
