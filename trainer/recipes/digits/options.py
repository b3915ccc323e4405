"""The `options:` of the digits recipe, and what the task requires and returns."""

from __future__ import annotations

from pydantic import Field

from trainer.configs import Declaration, Returns, Section


class Options(Section):
    """Options of the task."""

    size: int = Field(
        28, gt=0, description="Height and width in pixels to which images from separate files are resized."
    )
    shift: int = Field(2, ge=0, le=256, description="Maximum shift of training images in pixels, in every direction.")
    dropout: float = Field(
        0.3, ge=0, lt=1, description="Dropout: fraction of features that are dropped during training; 0: none."
    )


DECLARATION = Declaration(
    fields=("image", "label"),
    train=Returns(("loss",), {"classes": ("logits", "labels")}),
    valid=Returns(("loss",), {"classes": ("logits", "labels")}),
)
