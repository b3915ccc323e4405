"""The `options:` of the vit recipe, and what the task requires and returns."""

from __future__ import annotations

from pydantic import Field

from trainer.configs import Declaration, Returns, Section
from trainer.recipes.parts.backbone_options import around_zero


class Options(Section):
    """Options of the task."""

    size: int = Field(80, gt=0, description="Height and width of the photos in pixels, as in `data.transforms`.")
    patch: int = Field(8, gt=0, description="Height and width of a patch in pixels; they divide `size`.")
    width: int = Field(128, gt=0, description="Number of features of each patch; a multiple of `heads`.")
    depth: int = Field(6, gt=0, description="Number of transformer blocks.")
    heads: int = Field(4, gt=0, description="Number of attention heads.")
    dropout: float = Field(
        0.1, ge=0, lt=1, description="Dropout: fraction of features that are dropped during training; 0: none."
    )
    cutmix: float = Field(
        0.5,
        ge=0,
        le=1,
        description="Probability that a training image gets a rectangle of another image (CutMix); 0: never.",
    )


DECLARATION = Declaration(
    fields=("image", "label"),
    train=Returns(("loss",)),
    valid=Returns(("loss",), {"classes": ("logits", "labels")}),
    normalization=lambda options: around_zero(128 / 255, 64 / 255),
)
