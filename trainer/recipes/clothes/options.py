"""The `options:` of the clothes recipe, and what the task requires and returns."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainer.configs import Declaration, Returns, Section
from trainer.recipes.parts.backbone_options import BackboneName, around_zero, backbone_field, imagenet


class Options(Section):
    """Options of the task."""

    backbone: BackboneName | None = backbone_field("`blocks`, `width` and `stem`")
    blocks: tuple[int, ...] = Field((2, 2, 2, 2), min_length=1, description="Number of residual blocks in each stage.")
    width: int = Field(
        32, gt=0, description="Number of channels in the first stage; each following stage has twice as many."
    )
    dropout: float = Field(
        0.2, ge=0, lt=1, description="Dropout: fraction of pooled features that are dropped during training; 0: none."
    )
    stem: Literal["standard", "small"] = Field(
        "standard",
        description="Reduction before the first stage. standard: to a quarter of the size (7x7 convolution and "
        "max pooling); small: to half.",
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
    normalization=lambda options: imagenet() if options.backbone else around_zero(128 / 255, 64 / 255),
)
