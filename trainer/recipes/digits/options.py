"""What can be set under `options:` of the digits recipe, and what the task needs and gives."""

from __future__ import annotations

from pydantic import Field

from trainer.configs import Declaration, Returns, Section


class Options(Section):
    """Options of the task."""

    size: int = Field(
        28, gt=0, description="Height and width in pixels to which images in files of their own are resized."
    )
    shift: int = Field(2, ge=0, le=256, description="Maximum shift of training images in pixels, in every direction.")
    dropout: float = Field(0.3, ge=0, lt=1, description="Share of features left out in training.")


DECLARATION = Declaration(
    fields=("image", "label"),
    train=Returns(("loss",), {"classes": ("logits", "labels")}),
    valid=Returns(("loss",), {"classes": ("logits", "labels")}),
)
